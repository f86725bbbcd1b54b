//! What the keys of facts are called when they are shown.

use std::borrow::Cow;

/// Keys that read better under another name. `*` stands for what comes behind.
const LABELS: [(&str, &str); 24] = [
    ("identity.name", "name"),
    ("identity.birthday", "birthday"),
    ("identity.pronouns", "pronouns"),
    ("contact.email", "e-mail"),
    ("contact.phone", "phone"),
    ("location.home", "lives in"),
    ("location.work", "works in"),
    ("language.preferred", "preferred language"),
    ("time.zone", "time zone"),
    ("work.employer", "works for"),
    ("work.role", "job"),
    ("diet.allergy", "allergy"),
    ("diet.restriction", "diet"),
    ("health.condition", "health condition"),
    ("health.medication", "medication"),
    ("instruction.standing", "asked of every answer"),
    ("preference", "preference"),
    ("family", "family"),
    ("project", "project"),
    ("device", "device"),
    ("order.id", "order"),
    ("schedule", "schedule"),
    ("note", "asked to remember"),
    ("order", "order"),
];

/// Returns what a key is called: by the longest known beginning, the rest behind it in brackets; an unknown key with spaces
/// for dots.
pub(super) fn label(key: &str) -> Cow<'_, str> {
    let known = LABELS
        .iter()
        .filter_map(|(begin, label)| Some((begin.len(), *label, key.strip_prefix(begin)?)))
        .filter(|(_, _, rest)| rest.is_empty() || rest.starts_with('.'))
        .max_by_key(|(length, ..)| *length);
    match known {
        Some((_, label, "")) => Cow::Borrowed(label),
        // A note's own name is made by us from its words, and says nothing that they do not.
        Some((_, "asked to remember", _)) => Cow::Borrowed("asked to remember"),
        Some((_, label, rest)) => Cow::Owned(format!("{label} ({})", words(&rest[1..]))),
        None => Cow::Owned(words(key)),
    }
}

fn words(key: &str) -> String {
    key.replace(['.', '_'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_words() {
        assert_eq!(label("identity.name"), "name");
        assert_eq!(label("diet.allergy"), "allergy");
        assert_eq!(label("preference.hot_drink"), "preference (hot drink)");
        assert_eq!(label("note.8f3a"), "asked to remember");
        assert_eq!(label("pet.name"), "pet name");
        assert_eq!(label("preferences"), "preferences");
    }
}
