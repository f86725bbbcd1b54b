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

/// The offset behind the colon of a line that announces something pasted ("Summarise this article:", "请翻译:").
pub(super) fn announces_paste(line: &str) -> Option<usize> {
    let (at, colon) = line.char_indices().find(|(at, c)| {
        *c == '\u{ff1a}'
            || (*c == ':' && line[at + 1..].chars().next().is_none_or(|next| next.is_whitespace() || !next.is_ascii()))
    })?;
    let head = &line[..at];
    if IS_REQUEST_TO_REMEMBER.is_match(head) {
        return None;
    }
    (starts_with_payload_task(head) || POINTS_BELOW.is_match(head)).then_some(at + colon.len_utf8())
}
