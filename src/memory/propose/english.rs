//! English.
use super::Finding;
use crate::memory::schema::KeySchema;
use crate::memory::segment::Sentence;

pub(super) fn is_request(text: &str) -> bool {
    let _ = text;
    false
}

pub(super) fn find<'a>(sentence: Sentence<'a>, _schema: &KeySchema, out: &mut Vec<(Finding, &'a str)>) {
    for (lead, key) in [
        ("I live in ", "location.home"),
        ("My name is ", "identity.name"),
        ("I'm allergic to ", "diet.allergy"),
        ("I am allergic to ", "diet.allergy"),
    ] {
        if let Some(value) = sentence.text.strip_prefix(lead) {
            out.push((Finding::new(key, value), sentence.text));
        }
    }
}
