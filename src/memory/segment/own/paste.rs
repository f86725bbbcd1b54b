//! Lines that announce a text: "Summarise this article:".

use std::sync::LazyLock;

use regex::Regex;

use crate::memory::segment::talk::starts_with_payload_task;

static POINTS_BELOW: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?-u:\b)(?:this|the following|following|below|here(?:'s| is| are)|these)(?-u:\b).{0,60}$|(?:以下|下面|如下|下列|这段|这封|这篇|这条|这个)[^:\x{FF1A}]{0,30}$",
    )
    .expect("tested")
});
static IS_REQUEST_TO_REMEMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?-u:\b)(?:remember|note|keep in mind|about me(?:self)?|know about|my (?:info|information|details|data|facts|preferences|situation|stats|setup|set-up|background|allergies|address|needs|constraints|requirements|order|goals?|schedule|stack|wishes))(?-u:\b)|记住|记得|记下|关于我|我的(?:情况|信息|资料|地址|需求|要求|偏好)")
        .expect("tested")
});

static REFERS_BELOW: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?-u:\b)(?:following|below|given|provided)(?-u:\b).{0,30}(?-u:\b)(?:context|documents?|passages?|text|information|excerpts?|articles?|transcript|conversation|sources?|snippets?|content|paragraphs?|reviews?)(?-u:\b)|(?:context|documents?|passages?|text|information|transcript|conversation)(?-u:\b).{0,12}(?-u:\b)below(?-u:\b)|(?:以下|下面|下列|给定)的?.{0,10}(?:内容|资料|上下文|文档|信息|文本|材料|片段|对话|段落)",
    )
    .expect("tested")
});

/// Whether a line says that a text stands below it, as the prompts of apps do: "Use the following context to answer".
pub(super) fn refers_below(line: &str) -> bool {
    REFERS_BELOW.is_match(line) && !IS_REQUEST_TO_REMEMBER.is_match(line)
}

/// What is announced stands between quotation marks: it ends with them.
fn is_quoted(rest: &str) -> bool {
    [('"', '"'), ('“', '”'), ('「', '」'), ('«', '»'), ('`', '`')]
        .iter()
        .any(|(open, close)| rest.strip_prefix(*open).is_some_and(|inside| inside.contains(*close)))
}

/// The offset behind the colon of a line that announces something pasted ("Summarise this article:", "请翻译:").
pub(super) fn announces_paste(line: &str) -> Option<usize> {
    let (at, colon) = line.char_indices().find(|(at, c)| {
        *c == '\u{ff1a}'
            || (*c == ':' && line[at + 1..].chars().next().is_none_or(|next| next.is_whitespace() || !next.is_ascii()))
    })?;
    let head = &line[..at];
    if IS_REQUEST_TO_REMEMBER.is_match(head) || is_quoted(line[at + colon.len_utf8()..].trim_start()) {
        return None;
    }
    (starts_with_payload_task(head) || POINTS_BELOW.is_match(head)).then_some(at + colon.len_utf8())
}
