//! Which parts of a message are the user's own words. Each file knows one form in which other people's words come.
//!
//! By form alone: nothing here reads what a sentence means, and nothing is changed, only left out. Start with [`own_words`].

mod heading;
mod lines;
mod mail;
mod paste;
mod quote;
mod tags;
mod transcript;

use std::borrow::Cow;
use std::ops::Range;

use lines::mask_lines;
use quote::{mask_inline, mask_inline_speakers};
use tags::mask_tags;

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
    cut(text, true)
}

/// The same with quotations and code within a line, as far as they are the author's to tell: somebody else's words, but told by the author.
#[must_use]
pub fn said_words(text: &str) -> OwnWords<'_> {
    cut(text, false)
}

fn cut(text: &str, leave_out_inline: bool) -> OwnWords<'_> {
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
        if text.contains('<') {
            mask_tags(text, &mut masks);
        }
        // What begins in a block ends with it: a heading in one says nothing of what stands behind.
        let lines = without_blocks(text, &masks);
        masks.extend(spans_loosely(text));
        mask_lines(&lines, &mut masks);
        if leave_out_inline {
            mask_inline(text, &mut masks);
        }
        if text.contains(": ") {
            mask_inline_speakers(text, &mut masks);
        }
    }
    OwnWords { text, parts: invert(masks, text.len()) }
}

/// The text with spaces in place of blocks of several lines: every other byte stays where it is.
fn without_blocks<'a>(text: &'a str, blocks: &[Range<usize>]) -> Cow<'a, str> {
    let mut lines = Cow::Borrowed(text);
    for block in blocks.iter().filter(|block| text[(*block).clone()].contains('\n')) {
        let blank: String = text[block.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
        lines.to_mut().replace_range(block.clone(), &blank);
    }
    lines
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

    // As Claude Code writes: what it says of the place where it runs stands before the user's words.
    #[test]
    fn what_begins_in_a_tagged_block_ends_with_it() {
        let reminder =
            "<system-reminder>\nYou can use the following context:\n# gitStatus\nMy name is Bob.\n</system-reminder>";
        assert_eq!(own(&format!("{reminder}\n\nHi, I'm Ada. I live in Oslo.")), "Hi, I'm Ada. I live in Oslo.");
        assert_eq!(own("Context:\n<doc>\nI am vegan.\n</doc>\nI am a nurse."), "");
        assert_eq!(own("<doc>\nContext: é\n</doc>\nContext:\nI am a nurse."), "");
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
