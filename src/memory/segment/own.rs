//! Which parts of a message are the user's own words.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::talk::starts_with_payload_task;
use crate::base::fence::spans_loosely;

/// The parts of a text that are its author's own words, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnWords<'a> {
    text: &'a str,
    parts: Vec<Range<usize>>,
}

impl<'a> OwnWords<'a> {
    /// The parts, in order, with no white space around them.
    pub fn parts(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.parts.iter().map(|r| self.text[r.clone()].trim()).filter(|p| !p.is_empty())
    }

    /// Whether something was left out.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.parts.len() != 1 || self.parts[0] != (0..self.text.len())
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts().next().is_none()
    }
}

/// Finds the user's own words: without our fence, code, quotations, tagged blocks, `Context:`-like sections, few-shot
/// pairs, transcripts, and pasted mail or documents.
#[must_use]
pub fn own_words(text: &str) -> OwnWords<'_> {
    let mut masks = Vec::new();
    // Most messages are one plain line: nothing below can apply to them.
    let suspicious = text.chars().any(|c| {
        matches!(
            c,
            '\n' | '<'
                | '>'
                | '`'
                | '"'
                | '“'
                | '”'
                | '‘'
                | '「'
                | '『'
                | '«'
                | ':'
                | '\u{ff1a}'
                | '〈'
                | '【'
                | '['
                | '\u{ff1c}'
        )
    });
    if suspicious || text.contains("&lt;") {
        masks.extend(spans_loosely(text));
        mask_lines(text, &mut masks);
        if text.contains('<') {
            mask_tags(text, &mut masks);
        }
        mask_inline(text, &mut masks);
    }
    OwnWords { text, parts: invert(masks, text.len()) }
}

fn invert(mut masks: Vec<Range<usize>>, len: usize) -> Vec<Range<usize>> {
    masks.sort_unstable_by_key(|r| r.start);
    let mut parts = Vec::new();
    let mut at = 0;
    for mask in masks {
        if mask.start > at {
            parts.push(at..mask.start);
        }
        at = at.max(mask.end);
    }
    if at < len {
        parts.push(at..len);
    }
    parts
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Own,
    Code,
    /// Under a heading like `Context:`, until one like `Question:`.
    Section,
    /// Pasted: all that follows is someone else's.
    Pasted,
}

fn mask_lines(text: &str, masks: &mut Vec<Range<usize>>) {
    let lines: Vec<(usize, &str)> = lines(text).collect();
    let transcript = transcript_start(&lines);
    let mut mode = Mode::Own;
    let mut before_code = Mode::Own;
    for (index, &(start, line)) in lines.iter().enumerate() {
        let whole = start..start + line.len();
        let trimmed = line.trim();
        let fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        if mode == Mode::Code {
            masks.push(whole);
            if fence {
                mode = before_code;
            }
            continue;
        }
        if fence {
            masks.push(whole);
            // ```one line```
            if trimmed.len() < 6 || !trimmed[3..].contains("```") {
                before_code = mode;
                mode = Mode::Code;
            }
            continue;
        }
        if transcript.is_some_and(|first| index >= first) {
            masks.push(whole);
            continue;
        }
        if mode != Mode::Pasted && starts_mail(&lines, index) {
            mode = Mode::Pasted;
        }
        if mode != Mode::Pasted
            && let Some((heading, after)) = heading(line)
        {
            match heading {
                Heading::Question => {
                    mode = Mode::Own;
                    masks.push(start..start + after);
                    continue;
                }
                Heading::Foreign => mode = Mode::Section,
            }
        }
        let quoted = trimmed.starts_with('>')
            || trimmed.starts_with('|')
            || trimmed.starts_with('{')
            || trimmed.starts_with("[{");
        if mode != Mode::Own || quoted {
            masks.push(whole);
            continue;
        }
        if let Some(colon) = announces_paste(line) {
            masks.push(start + colon..start + line.len());
            mode = Mode::Pasted;
        }
    }
}

/// Lines with their byte offsets, line ends left out.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line.trim_end_matches(['\n', '\r'])))
    })
}

enum Heading {
    /// What follows is the user's own.
    Question,
    /// What follows is not.
    Foreign,
}

const QUESTION_LABELS: [&str; 21] = [
    "question",
    "user question",
    "my question",
    "query",
    "user query",
    "request",
    "user request",
    "user input",
    "user message",
    "message",
    "问题",
    "用户问题",
    "我的问题",
    "提问",
    "用户提问",
    "请求",
    "用户输入",
    "about me",
    "关于我",
    "user's question",
    "the question",
];

const FOREIGN_LABELS: [&str; 76] = [
    "context",
    "document",
    "documents",
    "doc",
    "docs",
    "article",
    "passage",
    "passages",
    "text",
    "source",
    "sources",
    "reference",
    "references",
    "background",
    "background information",
    "email",
    "e-mail",
    "mail",
    "letter",
    "transcript",
    "conversation",
    "chat history",
    "history",
    "chat log",
    "example",
    "examples",
    "few-shot examples",
    "sample",
    "knowledge",
    "knowledge base",
    "search results",
    "results",
    "retrieved",
    "retrieved documents",
    "retrieved context",
    "retrieved passages",
    "excerpt",
    "snippet",
    "snippets",
    "content",
    "page content",
    "web page",
    "quote",
    "review",
    "reviews",
    "story",
    "profile",
    "bio",
    "resume",
    "cv",
    "output",
    "tool output",
    "observation",
    "system",
    "instructions",
    "rules",
    "guidelines",
    "data",
    "memory",
    "memories",
    "previous conversation",
    "资料",
    "参考资料",
    "文档",
    "上下文",
    "背景",
    "背景资料",
    "参考",
    "原文",
    "文章",
    "邮件",
    "示例",
    "例子",
    "内容",
    "对话记录",
    "聊天记录",
];

/// Reads a line as a heading; with the offset behind it.
fn heading(line: &str) -> Option<(Heading, usize)> {
    let trimmed = line.trim_start();
    let lead = line.len() - trimmed.len();
    let marked =
        trimmed.starts_with('#') || trimmed.starts_with("**") || trimmed.starts_with('[') || trimmed.starts_with('【');
    let (label, after) = match trimmed.char_indices().take(60).find(|(_, c)| matches!(c, ':' | '\u{ff1a}' | ']' | '】'))
    {
        Some((at, c)) => (&trimmed[..at], lead + at + c.len_utf8()),
        None if marked => (trimmed, line.len()),
        None => return None,
    };
    let label = label.trim_matches(|c: char| {
        c.is_whitespace() || matches!(c, '#' | '*' | '[' | ']' | '【' | '】' | '-' | '=' | '(' | ')' | '_')
    });
    if label.is_empty() || label.len() > 48 {
        return None;
    }
    let label = label.to_lowercase();
    if QUESTION_LABELS.contains(&label.as_str()) {
        return Some((Heading::Question, after));
    }
    let bare = label.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ' || c == '#' || c == '.');
    let foreign = FOREIGN_LABELS.contains(&bare) || FOREIGN_LABELS.contains(&label.as_str());
    // "[1] …" and "Doc 3: …" are retrieved passages.
    let numbered = marked && !label.is_empty() && label.chars().all(|c| c.is_ascii_digit());
    (foreign || numbered).then_some((Heading::Foreign, after))
}

const SPEAKERS: [&str; 30] = [
    "q",
    "a",
    "user",
    "assistant",
    "human",
    "ai",
    "bot",
    "system",
    "customer",
    "agent",
    "input",
    "output",
    "speaker 1",
    "speaker 2",
    "interviewer",
    "interviewee",
    "client",
    "support",
    "question",
    "answer",
    "问",
    "答",
    "用户",
    "助手",
    "客服",
    "顾客",
    "客户",
    "甲",
    "乙",
    "me",
];

/// The line at which few-shot pairs or a transcript begin, when there are some: two labelled lines.
fn transcript_start(lines: &[(usize, &str)]) -> Option<usize> {
    let mut first = None;
    let mut count = 0;
    for (index, (_, line)) in lines.iter().enumerate() {
        let line = line.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '[' | '-' | '<'));
        let Some((at, colon)) = line.char_indices().take(32).find(|(_, c)| matches!(c, ':' | '\u{ff1a}')) else {
            continue;
        };
        let label = line[..at].trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | ']' | '>' | '_'));
        let follows = line[at + colon.len_utf8()..].trim();
        let known = SPEAKERS
            .contains(&label.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ').to_lowercase().as_str())
            || SPEAKERS.contains(&label.to_lowercase().as_str());
        let named = is_name(label) && !follows.is_empty();
        if known || named {
            first.get_or_insert(index);
            count += 1;
        }
    }
    // "Question: …" alone is how an app wraps what a user typed; two and more labels are a dialogue or a form.
    (count >= 2).then_some(first).flatten()
}

/// "Tom" or "Mary Ann": a label that may be a speaker's name.
fn is_name(label: &str) -> bool {
    const REMARKS: [&str; 12] = [
        "Note",
        "Notes",
        "Also",
        "Update",
        "Edit",
        "Remember",
        "Please",
        "Important",
        "Reminder",
        "Ps",
        "Fyi",
        "Correction",
    ];
    let mut words = label.split(' ');
    if REMARKS.contains(&label) {
        return false;
    }
    label.len() <= 24
        && words.clone().count() <= 2
        && words.all(|w| w.chars().next().is_some_and(char::is_uppercase) && w.chars().skip(1).all(char::is_lowercase))
}

static MAIL_HEADER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^\s*(?:\*\*)?(?:from|to|cc|bcc|subject|sent|date|reply-to|发件人|收件人|主题|抄送|发送时间|日期)(?:\*\*)?\s*[:\x{FF1A}]").expect("tested")
});
static MAIL_START: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^\s*(?:-{2,}\s*(?:original message|forwarded message|forwarded by)|begin forwarded message|on .{6,80} wrote:\s*$|-{2,}\s*(?:原始邮件|转发的邮件|转发邮件)|在.{4,60}写道[:\x{FF1A}])",
    )
    .expect("tested")
});
static GREETING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^\s*(?:dear [^,\n]{1,40}[,:]|hi(?: all| team| [A-Z][a-z]+),\s*$|hello(?: all| team| [A-Z][a-z]+),\s*$|尊敬的.{1,20}[:,\x{FF1A}\x{FF0C}])").expect("tested")
});
static CLOSING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^\s*(?:(?:best|kind|warm)(?: regards| wishes)?|regards|sincerely|yours (?:truly|sincerely|faithfully)|cheers|thanks|many thanks|此致|敬礼|祝好)\s*[,!,!.]?\s*$")
        .expect("tested")
});

/// Whether a pasted mail begins at this line: two header lines together, a forwarding mark, or a salutation with a closing below it.
fn starts_mail(lines: &[(usize, &str)], index: usize) -> bool {
    let line = lines[index].1;
    if MAIL_START.is_match(line) {
        return true;
    }
    if MAIL_HEADER.is_match(line) {
        return lines[index + 1..].iter().take(3).any(|(_, next)| MAIL_HEADER.is_match(next));
    }
    lines.len() > 2 && GREETING.is_match(line) && lines[index + 1..].iter().any(|(_, l)| CLOSING.is_match(l))
}

static POINTS_BELOW: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?-u:\b)(?:this|the following|following|below|here(?:'s| is| are)|these)(?-u:\b).{0,60}$|(?:以下|下面|如下|下列|这段|这封|这篇|这条|这个)[^:\x{FF1A}]{0,30}$",
    )
    .expect("tested")
});
static IS_REQUEST_TO_REMEMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?-u:\b)(?:remember|note|keep in mind|about me|know about|my)(?-u:\b)|记住|记得|记下|关于我|我的")
        .expect("tested")
});

/// The offset behind the colon of a line that announces something pasted ("Summarise this article:", "请翻译:").
fn announces_paste(line: &str) -> Option<usize> {
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

static OPEN_TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"<\s*([A-Za-z_][A-Za-z0-9_:.-]{0,60})(?:\s[^<>]{0,300})?>").expect("tested"));

/// Leaves out `<tag>…</tag>`; one that stands alone on its line and is never closed goes to the end.
fn mask_tags(text: &str, masks: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(open) = OPEN_TAG.captures_at(text, at) {
        let (whole, name) = (open.get(0).expect("group 0 is the match"), open.get(1).expect("group 1 is not optional"));
        let close = format!("</{}", name.as_str());
        let end = match find_ignore_case(&text[whole.end()..], &close) {
            Some(found) => text[whole.end() + found..].find('>').map_or(text.len(), |gt| whole.end() + found + gt + 1),
            None if whole.as_str().ends_with("/>") => whole.end(),
            None => {
                let alone = text[..whole.start()].rsplit('\n').next().is_none_or(|l| l.trim().is_empty());
                let ends_line = text[whole.end()..].split('\n').next().is_none_or(|l| l.trim().is_empty());
                if alone && ends_line { text.len() } else { whole.end() }
            }
        };
        masks.push(whole.start()..end);
        at = end;
        if at >= text.len() {
            break;
        }
    }
}

fn find_ignore_case(text: &str, needle: &str) -> Option<usize> {
    memchr::memchr_iter(b'<', text.as_bytes()).find(|&at| {
        text.as_bytes().get(at..at + needle.len()).is_some_and(|w| w.eq_ignore_ascii_case(needle.as_bytes()))
    })
}

/// Leaves out `inline code` and quotations that are more than a title.
fn mask_inline(text: &str, masks: &mut Vec<Range<usize>>) {
    let pairs = [('`', '`'), ('"', '"'), ('“', '”'), ('「', '」'), ('『', '』'), ('«', '»')];
    for (open, close) in pairs {
        let mut from = 0;
        while let Some(start) = text[from..].find(open).map(|at| from + at) {
            let inside = start + open.len_utf8();
            // A quotation stays within its paragraph: an unpaired mark (5" of rain) hides nothing.
            let limit = text[inside..].find("\n\n").map_or(text.len(), |at| inside + at);
            let Some(length) = text[inside..limit].find(close) else {
                from = inside;
                continue;
            };
            let quoted = &text[inside..inside + length];
            let end = inside + length + close.len_utf8();
            if open == '`' || is_speech(quoted) {
                masks.push(start..end);
            }
            from = end;
        }
    }
}

/// Whether a quotation is someone's speech, and not a title or a name.
fn is_speech(quoted: &str) -> bool {
    let lower = quoted.to_lowercase();
    let words = lower.split_whitespace().count();
    let first_person = lower
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .any(|w| matches!(w, "i" | "i'm" | "my" | "me" | "we" | "our" | "i've"));
    let han = quoted.chars().filter(|c| crate::memory::language::is_han(*c)).count();
    words > 5 || (first_person && words > 1) || han > 10 || (han > 2 && quoted.contains('我'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> String {
        own_words(text).parts().collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_plain_message_is_all_its_own() {
        for text in ["I live in Oslo.", "我住在上海。", "Meet me at 5:30", "My favourite book is \"Dune\""] {
            assert_eq!(own(text), text);
            assert!(!own_words(text).is_cut());
        }
    }

    #[test]
    fn code_quotes_and_tags_are_left_out() {
        assert_eq!(own("see\n```\nI live in Oslo\n```\nI like it"), "see | I like it");
        assert_eq!(own("see\n> I live in Oslo\nok"), "see | ok");
        assert_eq!(own("He wrote \"I am allergic to nuts\" to me"), "He wrote | to me");
        assert_eq!(own("他说“我对花生过敏”,怎么回"), "他说 | ,怎么回");
        assert_eq!(own("<context>I am vegan</context> what to eat?"), "what to eat?");
        assert_eq!(own("<doc id=\"1\">\nI am vegan\n"), "");
        assert_eq!(own("2 < 3 and I like it > all"), "2 < 3 and I like it > all");
    }

    #[test]
    fn sections_end_at_the_question() {
        assert_eq!(own("Context:\nMy name is Bob.\n\nI live in Rome.\n\nQuestion: I need a hotel"), "I need a hotel");
        assert_eq!(own("### Documents\nI am a nurse.\n### Question\nWho is it?"), "Who is it?");
        assert_eq!(own("参考资料:我住在北京。\n问题:天气如何"), "天气如何");
        assert_eq!(own("[1] My name is Bob\n[2] I am vegan"), "");
    }

    #[test]
    fn dialogues_mail_and_pasted_text_are_left_out() {
        assert_eq!(own("Q: Where do I live?\nA: I live in Oslo\nQ: And you?"), "");
        assert_eq!(own("Look:\nTom: I am vegan\nAnna: I hate meat"), "Look:");
        assert_eq!(own("Please answer this\nFrom: bob@x.org\nSubject: hi\n\nI live in Rome."), "Please answer this");
        assert_eq!(own("Fix the tone\n\nDear Ms Lee,\nI am allergic to nuts.\nBest regards,\nBob"), "Fix the tone");
        assert_eq!(own("Summarise this article:\nI was born in Oslo."), "Summarise this article:");
        assert_eq!(own("请总结下面的文章:我住在北京"), "请总结下面的文章:");
        assert_eq!(own("Please remember this: I live in Oslo"), "Please remember this: I live in Oslo");
    }
}
