//! The blocks of a document: headings, paragraphs, and what is better kept whole.
//!
//! Reads the Markdown that people write, not all of the specification: what it does not know is a paragraph, so that no word is lost.

/// One block, as it stands in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block<'a> {
    /// A heading and its level, 1 the highest.
    Heading { level: usize, title: &'a str },
    /// A paragraph.
    Prose(&'a str),
    /// Code with its fences, or a list: kept whole where it fits.
    Whole(&'a str),
    /// A table; its first two lines say what the columns are.
    Table(&'a str),
}

/// The paragraphs of a plain text.
pub(super) fn of_text(text: &str) -> Vec<Block<'_>> {
    let mut reader = Reader::new(text);
    let mut blocks = Vec::new();
    while let Some(line) = reader.peek() {
        let start = reader.at;
        reader.next();
        if is_blank(line) {
            continue;
        }
        while reader.peek().is_some_and(|line| !is_blank(line)) {
            reader.next();
        }
        blocks.push(Block::Prose(reader.since(start)));
    }
    blocks
}

/// The blocks of a Markdown text.
pub(super) fn of_markdown(text: &str) -> Vec<Block<'_>> {
    let mut reader = Reader::new(text);
    let mut blocks = Vec::new();
    if let Some(block) = front_matter(&mut reader) {
        blocks.push(block);
    }
    while let Some(line) = reader.peek() {
        if is_blank(line) || is_rule(line) {
            reader.next();
        } else if let Some((level, title)) = heading(line) {
            reader.next();
            blocks.push(Block::Heading { level, title });
        } else {
            blocks.push(
                code(&mut reader)
                    .or_else(|| table(&mut reader))
                    .or_else(|| list(&mut reader))
                    .unwrap_or_else(|| paragraph(&mut reader)),
            );
        }
    }
    blocks
}

/// Lines of a text, with where they stand.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines().next()
    }

    /// The lines from here on, without their ends.
    fn lines(&self) -> std::str::Lines<'a> {
        self.text[self.at..].lines()
    }

    fn next(&mut self) {
        self.at += self.text[self.at..].find('\n').map_or(self.text.len() - self.at, |end| end + 1);
    }

    fn since(&self, start: usize) -> &'a str {
        self.text[start..self.at].trim_end()
    }
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// A line across the page: no words in it.
fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !c.is_whitespace());
    let Some(first @ ('-' | '*' | '_')) = marks.next() else { return false };
    let rest: Vec<char> = marks.collect();
    rest.len() >= 2 && rest.iter().all(|&c| c == first)
}

/// `## Title ##`.
fn heading(line: &str) -> Option<(usize, &str)> {
    let line = line.strip_prefix("   ").or_else(|| line.strip_prefix(' ')).unwrap_or(line);
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    if !(1..=6).contains(&level) || !rest.starts_with([' ', '\t']) {
        return None;
    }
    let title = rest.trim();
    let bare = title.trim_end_matches('#');
    let title = if bare.is_empty() || bare.ends_with(' ') { bare.trim_end() } else { title };
    (!title.is_empty()).then_some((level, title))
}

/// What the underline of a heading of one line says of its level.
fn underline(line: &str) -> Option<usize> {
    let line = line.trim_end();
    if line.len() < 2 {
        return None;
    }
    match () {
        () if line.bytes().all(|byte| byte == b'=') => Some(1),
        () if line.bytes().all(|byte| byte == b'-') => Some(2),
        () => None,
    }
}

/// Settings at the head of a file, between two lines of `---`.
fn front_matter<'a>(reader: &mut Reader<'a>) -> Option<Block<'a>> {
    let mut lines = reader.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let n = lines.take(100).position(|line| line.trim_end() == "---")?;
    let start = reader.at;
    for _ in 0..n + 2 {
        reader.next();
    }
    (n > 0).then(|| Block::Whole(reader.since(start)))
}

/// From a fence to its like; to the end, when it is never closed.
fn code<'a>(reader: &mut Reader<'a>) -> Option<Block<'a>> {
    let first = reader.peek()?.trim_start();
    let mark = first.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = first.chars().take_while(|&c| c == mark).count();
    if length < 3 {
        return None;
    }
    let start = reader.at;
    reader.next();
    while let Some(line) = reader.peek() {
        reader.next();
        let line = line.trim();
        if line.chars().count() >= length && line.chars().all(|c| c == mark) {
            break;
        }
    }
    Some(Block::Whole(reader.since(start)))
}

/// A row of cells over a row of dashes, and all rows that follow.
fn table<'a>(reader: &mut Reader<'a>) -> Option<Block<'a>> {
    let mut lines = reader.lines();
    let (head, dashes) = (lines.next()?, lines.next()?);
    let is_dashes = dashes.contains('-') && dashes.trim().chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'));
    if !head.contains('|') || !dashes.contains('|') || !is_dashes {
        return None;
    }
    let start = reader.at;
    while reader.peek().is_some_and(|line| line.contains('|')) {
        reader.next();
    }
    Some(Block::Table(reader.since(start)))
}

/// Items, with what is indented below them; an empty line ends it unless an item or something indented follows.
fn list<'a>(reader: &mut Reader<'a>) -> Option<Block<'a>> {
    if !is_item(reader.peek()?) {
        return None;
    }
    let start = reader.at;
    reader.next();
    while let Some(line) = reader.peek() {
        if is_blank(line) {
            let next = reader.lines().find(|line| !is_blank(line));
            if !next.is_some_and(|line| is_item(line) || is_indented(line)) {
                break;
            }
            // All of them at once: there may be very many.
            while reader.peek().is_some_and(is_blank) {
                reader.next();
            }
        } else if is_item(line) || is_indented(line) || !(starts_block(line) || is_rule(line)) {
            reader.next();
        } else {
            break;
        }
    }
    Some(Block::Whole(reader.since(start)))
}

fn is_indented(line: &str) -> bool {
    line.starts_with("  ") || line.starts_with('\t')
}

/// `- `, `* `, `+ `, `1. `, `1) `, as deep as may be.
fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = if digits > 0 { line[digits..].strip_prefix(['.', ')']) } else { line.strip_prefix(['-', '*', '+']) };
    rest.is_some_and(|rest| rest.starts_with([' ', '\t'])) && !is_rule(line)
}

/// Whether a line ends the paragraph before it.
fn starts_block(line: &str) -> bool {
    let trimmed = line.trim_start();
    heading(line).is_some() || trimmed.starts_with("```") || trimmed.starts_with("~~~")
}

/// All lines up to an empty one or another block; of one underlined line, a heading.
fn paragraph<'a>(reader: &mut Reader<'a>) -> Block<'a> {
    let start = reader.at;
    reader.next();
    if let Some(level) = reader.peek().and_then(underline) {
        let title = reader.since(start).trim();
        reader.next();
        return Block::Heading { level, title };
    }
    while reader.peek().is_some_and(|line| !is_blank(line) && !is_rule(line) && !starts_block(line) && !is_item(line)) {
        reader.next();
    }
    Block::Prose(reader.since(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_markdown_are_told_apart() {
        let text = "---\nlang: en\n---\nIntro line\nwraps here.\n\n# Title #\nText\n- one\n  more of it\n\n- two\n\nUnder\n=====\n\n| a | b |\n|---|---|\n| 1 | 2 |\nAfter\n```rust\n# no heading\n```\n***\n1) x\n";
        let expected = [
            Block::Whole("---\nlang: en\n---"),
            Block::Prose("Intro line\nwraps here."),
            Block::Heading { level: 1, title: "Title" },
            Block::Prose("Text"),
            Block::Whole("- one\n  more of it\n\n- two"),
            Block::Heading { level: 1, title: "Under" },
            Block::Table("| a | b |\n|---|---|\n| 1 | 2 |"),
            Block::Prose("After"),
            Block::Whole("```rust\n# no heading\n```"),
            Block::Whole("1) x"),
        ];
        assert_eq!(of_markdown(text), expected);
    }

    #[test]
    fn what_only_looks_like_markdown_is_a_paragraph() {
        for text in ["#hashtag is no heading", "a | b without a table", "-5 degrees", "#", "####### seven"] {
            assert_eq!(of_markdown(text), [Block::Prose(text)], "{text}");
        }
        assert_eq!(of_markdown("```\nnever closed"), [Block::Whole("```\nnever closed")]);
        assert_eq!(of_markdown("C# #"), [Block::Prose("C# #")]);
        assert_eq!(of_markdown("# About C#"), [Block::Heading { level: 1, title: "About C#" }]);
    }

    #[test]
    fn plain_text_has_paragraphs_only() {
        assert_eq!(of_text("# one\ntwo\n\n \n- three\r\n"), [Block::Prose("# one\ntwo"), Block::Prose("- three")]);
        assert_eq!(of_text(" \n\n"), []);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "[-#*|`~=_ 1.)a\\n\\t你]{0,120}") {
            let words = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
            let read: String = of_markdown(&text).iter().map(|block| match block {
                Block::Heading { title, .. } => words(title),
                Block::Prose(text) | Block::Whole(text) | Block::Table(text) => words(text),
            }).collect();
            proptest::prop_assert_eq!(read, words(&text));
        }
    }
}
