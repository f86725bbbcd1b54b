//! Finds the notes that a gateway put into a message.

const OPEN: &str = "<backstory-notes";
const CLOSE: &str = "</backstory-notes>";

/// Takes the fenced blocks out of a text: returns their lines, and the text without them.
pub(super) fn take_notes(text: &str) -> (Vec<String>, String) {
    let mut notes = Vec::new();
    let mut outside = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        let Some((block, after)) = rest[at..].split_once(CLOSE) else { break };
        let inside = block.split_once('>').map_or("", |(_, inside)| inside);
        notes.extend(inside.lines().map(plain).filter(|line| !line.is_empty()));
        outside.push_str(&rest[..at]);
        rest = after;
    }
    outside.push_str(rest);
    (notes, outside.trim().to_owned())
}

/// A line without its bullet and its full stop.
fn plain(line: &str) -> String {
    line.trim().trim_start_matches(['-', '*', '•']).trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fenced_lines_are_notes_and_the_rest_is_the_text() {
        let text = "<backstory-notes>\n- diet.allergy: peanuts.\n\n* home: Rome\n</backstory-notes>\nWhat may I eat?";
        let (notes, rest) = take_notes(text);
        assert_eq!(notes, ["diet.allergy: peanuts", "home: Rome"]);
        assert_eq!(rest, "What may I eat?");
    }

    #[test]
    fn a_fence_that_does_not_close_is_text() {
        let (notes, rest) = take_notes("<backstory-notes> hello");
        assert!(notes.is_empty());
        assert_eq!(rest, "<backstory-notes> hello");
    }
}
