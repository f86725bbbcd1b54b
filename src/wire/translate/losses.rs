//! What a translation cannot carry over.

use bytes::Bytes;

/// So many names are told; more would fill a header.
const MAX_NAMES: usize = 20;
/// A name is told up to here, in characters.
const MAX_NAME_CHARS: usize = 64;

/// What is done with a member of a request that steers the answer and that the target's dialect has no word for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Untranslatable {
    /// The request is refused, with the member's name.
    Refuse,
    /// It is left out, and the reply says so.
    #[default]
    Drop,
}

/// Why a request cannot be translated. The text may be shown to the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{param}` {problem}")]
pub struct Refusal {
    /// The member at fault, as in `messages[3].content[0]`.
    pub param: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A request in another dialect.
#[derive(Clone, Debug)]
pub struct Translated {
    /// Its body.
    pub body: Bytes,
    /// The members that were left out, by name: short, plain, without commas.
    pub dropped: Vec<String>,
}

/// Collects what is lost while a request is written.
#[derive(Debug)]
pub(super) struct Losses {
    policy: Untranslatable,
    dropped: Vec<String>,
    refusal: Option<Refusal>,
    /// The dialect that has no word for it, as people call it.
    towards: &'static str,
}

impl Losses {
    pub(super) fn new(policy: Untranslatable, towards: &'static str) -> Self {
        Self { policy, dropped: Vec::new(), refusal: None, towards }
    }

    /// A member that only steers the answer: refused or left out, as configured.
    pub(super) fn lose(&mut self, name: &str) {
        match self.policy {
            Untranslatable::Drop => self.mention(name),
            Untranslatable::Refuse => self.refuse(
                name,
                format!(
                    "cannot be carried over to {}; leave it out, or set `untranslatable = \"drop\"` for this provider",
                    self.towards
                ),
            ),
        }
    }

    /// Something whose loss changes no answer: left out whatever is configured, and told.
    pub(super) fn mention(&mut self, name: &str) {
        let plain = |c: &char| c.is_ascii_graphic() && !matches!(c, ',' | ';' | '"' | '\\');
        let name: String = name.chars().filter(plain).take(MAX_NAME_CHARS).collect();
        if self.dropped.len() < MAX_NAMES && !self.dropped.contains(&name) {
            self.dropped.push(name);
        }
    }

    /// Something without which the answer would be one to another question. The first one is told.
    pub(super) fn refuse(&mut self, param: impl Into<String>, problem: impl Into<String>) {
        self.refusal.get_or_insert_with(|| Refusal { param: param.into(), problem: problem.into() });
    }

    /// The body that was written, unless something of it was refused.
    pub(super) fn settle(self, body: String) -> Result<Translated, Refusal> {
        match self.refusal {
            Some(refusal) => Err(refusal),
            None => Ok(Translated { body: Bytes::from(body), dropped: self.dropped }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_once_and_made_fit_for_a_header() {
        let mut losses = Losses::new(Untranslatable::Drop, "x");
        for name in ["seed", "seed", "we,ird\n\u{e9}"] {
            losses.lose(name);
        }
        (0..50).for_each(|n| losses.lose(&format!("n{n}")));
        let dropped = losses.settle(String::new()).unwrap().dropped;
        assert_eq!((&*dropped[0], &*dropped[1], dropped.len()), ("seed", "weird", MAX_NAMES));
    }

    #[test]
    fn the_first_refusal_is_told() {
        let mut losses = Losses::new(Untranslatable::Refuse, "x");
        losses.mention("thinking");
        losses.lose("seed");
        losses.refuse("n", "is more than 1");
        assert_eq!(losses.settle(String::new()).unwrap_err().param, "seed");
    }
}
