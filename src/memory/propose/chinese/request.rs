//! Explicit requests in Chinese: "记住…", "别忘了…", "忘掉我的…".

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{Finding, clauses, standing_facet, statements};
use crate::memory::candidate::Intent;
use crate::memory::normalise::{slug, tidy};
use crate::memory::schema::{KeySchema, ValueType};

/// A request and what it is about.
#[derive(Debug)]
pub(super) struct Request<'a> {
    forget: bool,
    inner: &'a str,
}

static REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^(?:请|麻烦|你|帮我|帮忙|一定|要|务必|给我|好好|可以|能不能|能否|以后|另外|对了|还有|那|好的?|并|也|请你|拜托|顺便|先)*[,\x{FF0C}]?(?:记住|记得|记下来?|记一下|记好|别忘了|别忘记|不要忘记|不要忘了|牢记|备注一下|帮我记|存一下)(?:了|一下|这一点|这个|这件事|这点|哦|啊|以下内容|以下信息|以下)*[,:\x{FF0C}\x{FF1A}\s]*(?P<inner>.+)$",
    )
    .expect("tested")
});
static FORGET: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^(?:请|麻烦|你|帮我|可以|给我|把|那就|就|以后|请你|现在)*(?:忘掉|忘记|忘了|删除|删掉|抹掉|清除|别再记|不要再记住?|不用再?记住?)(?:关于)?(?P<inner>我.+?)(?:吧|了|好吗|的信息|这件事|的事|这一点)*$|^(?:请|麻烦|你|帮我|可以|给我)*把(?P<inner2>我的?.+?)(?:忘掉|忘记|忘了|删除|删掉|删了|抹掉|清除)(?:吧|了|好吗)*$",
    )
    .expect("tested")
});
static QUESTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"吗[?\x{FF1F}]?$|^(?:我(?:叫|住|喜欢|对)?(?:什么|哪|谁)|我们上次|上次|昨天聊)|什么|哪里")
        .expect("tested")
});

/// Whether a text begins with such a request.
pub(in crate::memory::propose) fn is_request(text: &str) -> bool {
    request(text).is_some()
}

pub(super) fn request(sentence: &str) -> Option<Request<'_>> {
    if !sentence.contains(['记', '忘', '删', '存', '备', '抹', '清']) {
        return None;
    }
    if let Some(found) = FORGET.captures(sentence) {
        let inner = found.name("inner").or_else(|| found.name("inner2"))?.as_str();
        return Some(Request { forget: true, inner });
    }
    let inner = REQUEST.captures(sentence)?.name("inner")?.as_str();
    (!QUESTION.is_match(inner)).then_some(Request { forget: false, inner })
}

/// Finds what a request asks to remember or to forget.
pub(super) fn find<'a>(
    request: &Request<'_>,
    sentence: &'a str,
    schema: &KeySchema,
    out: &mut Vec<(Finding, &'a str)>,
) {
    if request.forget {
        out.extend(forget(request.inner, schema).into_iter().map(|finding| (finding, sentence)));
        return;
    }
    let before = out.len();
    if let Some(facet) = standing_facet(request.inner) {
        out.push((Finding::new("instruction.standing", request.inner).tag(facet), sentence));
        return;
    }
    for clause in clauses(request.inner) {
        if !clause.question {
            out.extend(statements(&clause.text, clause.change).into_iter().map(|finding| (finding, sentence)));
        }
    }
    if out.len() == before
        && let Some(finding) = note(request.inner)
    {
        out.push((finding, sentence));
    }
}

static IS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:我们的?|我的?|这个)?(?P<what>[\p{Han}A-Za-z0-9]{2,14}?)(?:是|为|在|叫)(?P<value>.+)$")
        .expect("tested")
});

fn note(inner: &str) -> Option<Finding> {
    let text = tidy(inner, ValueType::Name)?;
    if text.chars().count() < 2 {
        return None;
    }
    let end = match IS.captures(&text) {
        Some(found) => slug(&found["what"], 2)?,
        None => slug(&text, 1).map(|s| s.chars().take(12).collect::<String>())?,
    };
    Some(Finding::new(format!("note.{end}"), text))
}

/// What to forget: a key by its name, or the values that a statement names.
fn forget(inner: &str, schema: &KeySchema) -> Vec<Finding> {
    let named = inner
        .trim_start_matches("我们的")
        .trim_start_matches("我的")
        .trim_start_matches('我')
        .trim_start_matches("之前的");
    if let Some(key) = schema.called(named) {
        return vec![Finding::new(key, Value::Null).intent(Intent::Forget)];
    }
    let mut found = statements(inner, false);
    if found.is_empty() {
        let key = slug(named, 2).map(|s| format!("note.{s}"));
        return key.into_iter().map(|key| Finding::new(key, Value::Null).intent(Intent::Forget)).collect();
    }
    for finding in &mut found {
        finding.intent = Intent::Forget;
    }
    found
}
