//! Cuts a document into passages: by heading, then by sentence, each beginning with the end of the one before it.
//!
//! A passage never reaches over a heading. Inside a section sentences are put together up to [`TARGET`]; lists, tables and code are kept
//! whole up to [`MAX_PASSAGE`]. What is too long for that is parted between lines, then between words: nothing is lost.

use super::blocks::{self, Block};
use super::document::{Format, Passage};
use super::size::{JOINT, char_size, is_wide, size};
use crate::memory::segment::is_abbreviation;

/// The size that passages are filled up to, in quarters of a token: 160 tokens, so that three stand in a small budget.
const TARGET: usize = 4 * 160;
/// No passage is larger than this, in quarters of a token: 320 tokens.
pub const MAX_PASSAGE: usize = 4 * 320;
/// A passage repeats up to this of the one before it: a fifth.
const OVERLAP: usize = TARGET / 5;
/// What is left of a section and smaller than this goes with the passage before it, where that has room.
const SMALL: usize = TARGET / 4;
/// A heading longer than this, in characters, is a sentence that was set in large type.
const MAX_HEADING_CHARS: usize = 120;

/// Cuts a text into passages, in its order. An empty text has none.
#[must_use]
pub fn cut(text: &str, format: Format) -> Vec<Passage> {
    let blocks = match format {
        Format::Text => blocks::of_text(text),
        Format::Markdown => blocks::of_markdown(text),
    };
    let mut cutter = Cutter::default();
    for block in blocks {
        match block {
            Block::Heading { level, title } => cutter.heading(level, title),
            Block::Prose(text) => cutter.units.extend(prose(text)),
            Block::Whole(text) => cutter.units.extend(whole(text, 0)),
            Block::Table(text) => cutter.units.extend(whole(text, 2)),
        }
    }
    cutter.finish()
}

/// What stands together: a sentence, or a block that is kept whole.
#[derive(Clone, Debug)]
struct Unit {
    text: String,
    size: usize,
    /// What parts it from the unit before it; at most one character.
    joint: &'static str,
    is_prose: bool,
}

impl Unit {
    fn new(text: String, joint: &'static str, is_prose: bool) -> Self {
        Self { size: size(&text), text, joint, is_prose }
    }
}

#[derive(Default)]
struct Cutter {
    /// The headings that stand over what comes now, with their levels.
    path: Vec<(usize, String)>,
    /// Whether nothing stood under the last heading yet.
    is_bare: bool,
    units: Vec<Unit>,
    passages: Vec<Passage>,
}

impl Cutter {
    fn heading(&mut self, level: usize, title: &str) {
        self.close(Some(level));
        self.path.retain(|&(above, _)| above < level);
        let title = one_line(title);
        if title.chars().count() > MAX_HEADING_CHARS {
            self.units.extend(prose(&title));
        }
        self.path.push((level, title.chars().take(MAX_HEADING_CHARS).collect()));
        self.is_bare = true;
    }

    /// Ends the section, before a heading of `level`. A heading over nothing at all is a passage of its own.
    fn close(&mut self, level: Option<usize>) {
        let units = std::mem::take(&mut self.units);
        let is_over_nothing = self.is_bare && level.is_none_or(|level| self.path.last().is_some_and(|l| level <= l.0));
        if units.is_empty() && is_over_nothing {
            let (_, title) = self.path.pop().unwrap_or_default();
            self.push(title);
        }
        for draft in pack(&units) {
            self.push(draft.text());
        }
        self.is_bare = false;
    }

    fn push(&mut self, text: String) {
        let number = u32::try_from(self.passages.len()).unwrap_or(u32::MAX);
        let headings = self.path.iter().map(|(_, title)| title.clone()).collect();
        self.passages.push(Passage { number, headings, text });
    }

    fn finish(mut self) -> Vec<Passage> {
        self.close(None);
        self.passages
    }
}

/// A passage that is being filled.
#[derive(Debug, Default)]
struct Draft<'a> {
    /// The end of the passage before it.
    lead: String,
    units: Vec<&'a Unit>,
    size: usize,
}

impl<'a> Draft<'a> {
    /// The size with one unit more.
    fn with(&self, unit: &Unit) -> usize {
        self.size + JOINT + unit.size
    }

    fn add(&mut self, unit: &'a Unit) {
        self.size = self.with(unit);
        self.units.push(unit);
    }

    /// Whether a unit is to begin the next passage. What is so short that all of it would be repeated there is not left behind.
    fn is_full_for(&self, unit: &Unit) -> bool {
        let with = self.with(unit);
        !self.units.is_empty() && with > TARGET && !(self.size <= OVERLAP && with <= MAX_PASSAGE)
    }

    fn text(&self) -> String {
        let mut text = self.lead.clone();
        for unit in &self.units {
            if !text.is_empty() {
                text.push_str(unit.joint);
            }
            text.push_str(&unit.text);
        }
        text
    }

    /// What the next passage begins with: the last sentences, or the end of the last one when it is long.
    fn end(&self) -> String {
        let mut taken = 0;
        let sentences = self.units.iter().rev().take_while(|unit| {
            taken += unit.size + JOINT;
            unit.is_prose && taken <= OVERLAP
        });
        let n = sentences.count();
        match self.units.last() {
            Some(last) if n == 0 && last.is_prose => format!("…{}", tail(&last.text, OVERLAP - 1)),
            _ => {
                let units = self.units[self.units.len() - n..].to_vec();
                Draft { units, ..Draft::default() }.text()
            }
        }
    }
}

/// Puts the units of one section together.
fn pack(units: &[Unit]) -> Vec<Draft<'_>> {
    let mut done: Vec<Draft<'_>> = Vec::new();
    let mut draft = Draft::default();
    for unit in units {
        if draft.is_full_for(unit) {
            let lead = draft.end();
            let next = Draft { size: size(&lead), lead, units: Vec::new() };
            let fits = next.with(unit) <= MAX_PASSAGE;
            done.push(std::mem::replace(&mut draft, if fits { next } else { Draft::default() }));
        }
        draft.add(unit);
    }
    let rest: usize = draft.units.iter().map(|unit| unit.size + JOINT).sum();
    match done.last_mut() {
        Some(last) if rest < SMALL && last.size + rest <= MAX_PASSAGE => {
            draft.units.iter().for_each(|unit| last.add(unit));
        }
        _ if draft.units.is_empty() => {}
        _ => done.push(draft),
    }
    done
}

/// The sentences of a paragraph.
fn prose(text: &str) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for sentence in sentences(text) {
        let joint = match units.last() {
            None => "\n",
            Some(before) if before.text.ends_with(is_wide) => "",
            Some(_) => " ",
        };
        units.extend(pieces(&one_line(sentence), joint));
    }
    units
}

/// A block that is kept whole where it fits, else parted between its lines; the first `n_head` lines stand over each part.
fn whole(text: &str, n_head: usize) -> Vec<Unit> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let unit = Unit::new(lines.join("\n"), "\n", false);
    if unit.size <= MAX_PASSAGE {
        return vec![unit];
    }
    let head = lines[..n_head.min(lines.len())].join("\n");
    // A head that is itself large is a line like any other.
    let head = if size(&head) <= OVERLAP { head } else { String::new() };
    let skipped = if head.is_empty() { 0 } else { n_head };
    let mut units = Vec::new();
    let mut part = head.clone();
    for line in lines.iter().skip(skipped) {
        if part.len() > head.len() && size(&part) + JOINT + size(line) > TARGET {
            units.push(Unit::new(std::mem::replace(&mut part, head.clone()), "\n", false));
        }
        if size(line) > TARGET - OVERLAP - JOINT {
            if part.len() > head.len() {
                units.push(Unit::new(std::mem::replace(&mut part, head.clone()), "\n", false));
            }
            units.extend(pieces(&one_line(line), "\n"));
            continue;
        }
        if !part.is_empty() {
            part.push('\n');
        }
        part.push_str(line);
    }
    if part.len() > head.len() {
        units.push(Unit::new(part, "\n", false));
    }
    units
}

/// A sentence as one unit; what is longer than a passage, parted between words.
fn pieces(text: &str, joint: &'static str) -> Vec<Unit> {
    let mut units = Vec::new();
    let (mut rest, mut joint) = (text, joint);
    while is_larger(rest, TARGET) {
        let at = cut_at(rest, TARGET);
        let (head, tail) = rest.split_at(at);
        units.push(Unit::new(head.trim_end().to_owned(), joint, true));
        joint = if head.ends_with(' ') { " " } else { "" };
        rest = tail;
    }
    if !rest.is_empty() {
        units.push(Unit::new(rest.to_owned(), joint, true));
    }
    units
}

/// The same as `size(text) > max`, of a text that may be a whole document.
fn is_larger(text: &str, max: usize) -> bool {
    let mut taken = 0;
    text.chars().any(|c| {
        taken += char_size(c);
        taken > max
    })
}

/// Where to part a text so that the head has at most `max`: behind a space or a wide character, if there is one in its second half.
fn cut_at(text: &str, max: usize) -> usize {
    let (mut taken, mut end, mut good) = (0, 0, 0);
    for (at, c) in text.char_indices() {
        taken += char_size(c);
        if taken > max {
            break;
        }
        end = at + c.len_utf8();
        if c == ' ' || is_wide(c) {
            good = end;
        }
    }
    if good > end / 2 { good } else { end }
}

/// The end of a text, at most `max`, from the beginning of a word.
fn tail(text: &str, max: usize) -> &str {
    let mut taken = 0;
    let start = text.char_indices().rev().find(|&(_, c)| {
        taken += char_size(c);
        taken > max
    });
    let start = start.map_or(0, |(at, c)| at + c.len_utf8());
    let rest = &text[start..];
    let word = rest.find(|c: char| c == ' ' || is_wide(c)).filter(|&at| at < rest.len() / 2);
    rest[word.unwrap_or(0)..].trim_start()
}

/// Cuts a paragraph into sentences, all of it: closing marks stay with theirs. A line feed ends none, since texts are wrapped.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let (head, tail) = rest.split_at(sentence_end(rest));
        rest = tail;
        Some(head.trim_end())
    })
}

fn sentence_end(text: &str) -> usize {
    let is_closing = |c: char| matches!(c, '"' | '\'' | ')' | ']' | '”' | '’' | '」' | '』' | '\u{ff09}' | '》' | '.');
    let is_mark = |c: char| matches!(c, '.' | '!' | '?' | '。' | '\u{ff01}' | '\u{ff1f}' | '\u{ff1b}' | '…');
    // Marks side by side have one end.
    let mut end = 0;
    for (at, c) in text.char_indices().filter(|&(_, c)| is_mark(c)) {
        let from = end.max(at + c.len_utf8());
        end = text[from..].find(|c: char| !is_closing(c) && !is_mark(c)).map_or(text.len(), |at| from + at);
        let parted = text[end..].chars().next().is_none_or(char::is_whitespace);
        let ends = match c {
            '.' => parted && !is_abbreviation(&text[..at]),
            '!' | '?' | '…' => parted,
            _ => true,
        };
        if ends {
            return end;
        }
    }
    text.len()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
