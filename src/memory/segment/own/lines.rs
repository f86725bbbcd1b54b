//! Line by line: code blocks, sections, transcripts, mail, quotations.

use std::ops::Range;

use super::heading::{Heading, heading};
use super::mail::starts_mail;
use super::paste::{announces_paste, refers_below};
use super::transcript::transcript_start;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Own,
    Code,
    /// Under a heading like `Context:`, until one like `Question:`.
    Section,
    /// Pasted: all that follows is someone else's.
    Pasted,
}

pub(super) fn mask_lines(text: &str, masks: &mut Vec<Range<usize>>) {
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
        } else if lines[index + 1..].iter().any(|(_, l)| !l.trim().is_empty()) && refers_below(line) {
            mode = Mode::Section;
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
