//! The text of an episode: what is kept of one side of an exchange.

use super::{is_one_off_task, is_small_talk, said_words, sentences};
use crate::base::fence;
use crate::memory::language::is_han;
use crate::memory::turn::Speaker;

/// At most so many tokens, by the rough rule of four Latin letters or 0.7 Chinese characters a token.
const MAX_TOKENS: f64 = 500.0;

fn tokens(text: &str) -> f64 {
    if text.is_ascii() {
        return text.len() as f64 * 0.25;
    }
    text.chars()
        .map(|c| {
            if is_han(c) || ('\u{3040}'..='\u{30ff}').contains(&c) || ('\u{ac00}'..='\u{d7af}').contains(&c) {
                1.0 / 1.4
            } else {
                0.25
            }
        })
        .sum()
}

/// Returns what to keep of a side as an episode: no code blocks, no pasted documents, at most 500 tokens with key data kept. A quotation within
/// a line is part of what was said.
/// `None` for small talk, one-off tasks and sides with nothing of their own.
#[must_use]
pub fn episode_side(text: &str, role: Speaker) -> Option<String> {
    let text = fence::strip_loosely(text);
    let kept = if role == Speaker::User {
        if is_small_talk(&text) || is_one_off_task(&text) {
            return None;
        }
        let said = said_words(&text);
        said.parts().collect::<Vec<_>>().join("\n")
    } else {
        without_code(&text)
    };
    let kept = kept.trim();
    if kept.chars().filter(|c| c.is_alphanumeric()).count() < 2 || is_small_talk(kept) {
        return None;
    }
    Some(shorten(kept))
}

fn without_code(text: &str) -> String {
    let mut in_code = false;
    let mut out = String::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        if fence {
            in_code = !in_code;
        } else if !in_code {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Cuts a text to the limit: its beginning, then of the rest the sentences with key data (numbers, dates, addresses, URLs, names in quotes).
fn shorten(text: &str) -> String {
    if tokens(text) <= MAX_TOKENS {
        return text.to_owned();
    }
    let all: Vec<&str> = sentences(text).map(|s| s.text).collect();
    let mut chosen = vec![false; all.len()];
    let mut left = MAX_TOKENS;
    // The first words say what it is about, but more than half of the room is not theirs; then key data, then the rest.
    for pass in ["opening", "key data", "rest"] {
        for (index, (sentence, chosen)) in all.iter().zip(&mut chosen).enumerate() {
            let wanted = match pass {
                "opening" => index < 8 && left > MAX_TOKENS * 0.6,
                "key data" => has_key_data(sentence),
                _ => true,
            };
            let cost = tokens(sentence) + 1.0;
            if wanted && !*chosen && cost <= left {
                *chosen = true;
                left -= cost;
            }
        }
    }
    let kept: Vec<&str> = all.iter().zip(&chosen).filter(|(_, c)| **c).map(|(s, _)| *s).collect();
    if kept.is_empty() {
        // One endless sentence.
        let mut spent = 0.0;
        return text
            .chars()
            .take_while(|c| {
                spent += if is_han(*c) { 1.0 / 1.4 } else { 0.25 };
                spent <= MAX_TOKENS
            })
            .collect();
    }
    kept.join(". ")
}

fn has_key_data(sentence: &str) -> bool {
    sentence.contains(|c: char| c.is_ascii_digit())
        || sentence.contains("://")
        || sentence.contains('@')
        || sentence.contains(['“', '「', '『'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_talk_and_utility_tasks_make_no_episode() {
        for text in [
            "Hi there!",
            "Translate to German: I live in Oslo",
            "你好",
            "```\ncode\n```",
            "<context>all of it</context>",
        ] {
            assert_eq!(episode_side(text, Speaker::User), None, "{text}");
        }
    }

    #[test]
    fn a_side_keeps_its_own_words() {
        let text = "My build fails with this\n```\nerror E0382\n```\nIt is version 1.2.3";
        assert_eq!(episode_side(text, Speaker::User).as_deref(), Some("My build fails with this\nIt is version 1.2.3"));
        assert_eq!(
            episode_side("Use this:\n```\nx\n```\nDone.", Speaker::Assistant).as_deref(),
            Some("Use this:\n\nDone.".replace("\n\n", "\n").as_str())
        );
    }

    #[test]
    fn a_title_or_a_quotation_within_a_line_is_kept() {
        for text in [
            "Yeah, \"The Hound of the Baskervilles and other Tales\" is what I read to my brother.",
            "My aunt used to say “I can't pour from an empty cup” on Sundays",
            "I start it with `cargo run --release` on the old laptop",
        ] {
            assert_eq!(episode_side(text, Speaker::User).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_long_side_is_cut_and_keeps_its_numbers() {
        let filler = "This sentence goes on and on without saying anything that matters to anyone at all. ";
        let text = format!(
            "We talked about the move. {}The order number is 48-1516. {}",
            filler.repeat(60),
            filler.repeat(60)
        );
        let side = episode_side(&text, Speaker::Assistant).expect("kept");
        assert!(side.contains("48-1516") && side.starts_with("We talked about the move"));
        assert!(tokens(&side) <= MAX_TOKENS + 20.0, "{}", tokens(&side));
        let endless = "好".repeat(5000);
        assert!(tokens(&episode_side(&endless, Speaker::Assistant).expect("kept")) <= MAX_TOKENS + 1.0);
    }
}
