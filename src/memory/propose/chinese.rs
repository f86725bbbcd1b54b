//! Chinese.
use super::Finding;
use crate::memory::schema::KeySchema;
use crate::memory::segment::Sentence;

pub(super) fn is_request(text: &str) -> bool {
    let _ = text;
    false
}

pub(super) fn find<'a>(sentence: Sentence<'a>, _schema: &KeySchema, out: &mut Vec<(Finding, &'a str)>) {
    for (lead, key) in [("我住在", "location.home"), ("我叫", "identity.name")] {
        if let Some(value) = sentence.text.strip_prefix(lead) {
            out.push((Finding::new(key, value), sentence.text));
        }
    }
}
