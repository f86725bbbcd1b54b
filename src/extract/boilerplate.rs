//! Sentences that apps put into the user role: what is seen under three subjects of a tenant, in three different messages.
//!
//! Kept in the process, as salted hashes, and bounded: with more sentences than that the oldest are forgotten, and after a restart counting
//! begins anew. Nothing of a subject can be read from it, so an erasure leaves it as it is. A message that is the same as a whole counts
//! once: many people say "I'm vegan", and few say it within the same other words.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::base::Random;
use crate::memory::language::is_han;
use crate::memory::normalise::fold;
use crate::memory::segment::{is_small_talk, own_words, sentences};
use crate::memory::{Speaker, Turn};

/// So many subjects make a sentence boilerplate.
const SUBJECTS: usize = 3;
/// A shorter sentence is common to many people by itself; it counts together with its neighbour.
const MIN_CHARS: usize = 40;
/// One character of Chinese says about as much as so many letters.
const HAN_CHARS: usize = 3;
/// So many sentences are kept: about 6 MB.
const MAX_SENTENCES: usize = 50_000;

/// The sentences that were seen, over all tenants.
pub struct Boilerplate {
    salt: [u8; 32],
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    sightings: HashMap<u64, Vec<(u64, u64)>>,
    oldest: VecDeque<u64>,
}

impl fmt::Debug for Boilerplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boilerplate").finish_non_exhaustive()
    }
}

impl Boilerplate {
    /// Makes an empty one, with a salt of its own.
    #[must_use]
    pub fn new(random: &dyn Random) -> Self {
        let mut salt = [0; 32];
        for part in salt.chunks_exact_mut(8) {
            part.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        Self { salt, seen: Mutex::default() }
    }

    /// Notes that the sentence of a quote was seen under the turn's subject; whether it is boilerplate.
    #[must_use]
    pub fn is_seen(&self, turn: &Turn, quote: &str) -> bool {
        let Some(said) = turn.user.iter().find(|s| s.role == Speaker::User && s.text.contains(quote)) else {
            return false;
        };
        let subject = self.hash(&[&turn.scope.namespace, &turn.scope.subject]);
        let message = self.hash(&[&said.text]);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let units = units(&said.text, quote);
        // Each is noted; one is enough.
        units
            .iter()
            .map(|unit| seen.note(self.hash(&[&turn.scope.tenant, unit]), (subject, message)))
            .filter(|many| *many)
            .count()
            > 0
    }

    fn hash(&self, parts: &[&str]) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.salt);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let hash = hasher.finalize();
        u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("8 of 32 bytes"))
    }
}

impl Seen {
    /// Notes one sighting; whether there are enough.
    fn note(&mut self, sentence: u64, sighting: (u64, u64)) -> bool {
        if !self.sightings.contains_key(&sentence) {
            if self.oldest.len() >= MAX_SENTENCES
                && let Some(oldest) = self.oldest.pop_front()
            {
                self.sightings.remove(&oldest);
            }
            self.oldest.push_back(sentence);
        }
        let sightings = self.sightings.entry(sentence).or_default();
        let new = !sightings.iter().any(|(subject, message)| *subject == sighting.0 || *message == sighting.1);
        if new && sightings.len() < SUBJECTS {
            sightings.push(sighting);
        }
        sightings.len() >= SUBJECTS
    }
}

/// What of a message is counted for a quote: its sentence when it is long, and the sentence with each of its neighbours.
fn units(text: &str, quote: &str) -> Vec<String> {
    let own = own_words(text);
    let all: Vec<String> = own.parts().flat_map(sentences).map(|s| fold(s.text).to_lowercase()).collect();
    let wanted = fold(quote).to_lowercase();
    let Some(at) = all.iter().position(|s| s.contains(&wanted)) else { return Vec::new() };
    let neighbours = [at.checked_sub(1).map(|before| (before, at)), (at + 1 < all.len()).then_some((at, at + 1))];
    let pairs = neighbours.into_iter().flatten().filter(|&(a, b)| !is_small_talk(&all[a]) && !is_small_talk(&all[b]));
    let pairs = pairs.map(|(a, b)| format!("{}\n{}", all[a], all[b]));
    std::iter::once(all[at].clone()).chain(pairs).filter(|unit| says_enough(unit)).collect()
}

fn says_enough(text: &str) -> bool {
    text.chars().map(|c| if is_han(c) { HAN_CHARS } else { 1 }).sum::<usize>() >= MIN_CHARS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{ExchangeId, SeededRandom, Time};
    use crate::memory::{Said, Scope};

    fn turn(tenant: &str, subject: &str, text: &str) -> Turn {
        Turn {
            exchange: ExchangeId(1),
            scope: Scope::new(tenant, "n", subject),
            epoch: 0,
            session: String::new(),
            turn_key: String::new(),
            turn_index: 0,
            said_at: Time(0),
            before: None,
            user: vec![Said { role: Speaker::User, text: text.to_owned(), hash: String::new() }],
            repeated: false,
            reply: None,
            complete: true,
            shown: Vec::new(),
            trace: None,
        }
    }

    #[test]
    fn a_sentence_under_three_subjects_of_a_tenant_is_boilerplate() {
        let known = Boilerplate::new(&SeededRandom::new(1));
        let template = "I prefer answers that follow the Acme house style guide.";
        let seen = |tenant, subject, ask| {
            known.is_seen(&turn(tenant, subject, &format!("{template} {ask}")), template.trim_end_matches('.'))
        };
        assert!(!seen("t", "ann", "Where is my parcel?"));
        assert!(!seen("t", "ann", "And the other one?") && !seen("t", "bob", "Can I return it?"));
        assert!(!seen("other", "cat", "Is it in stock?"), "each tenant counts for itself");
        assert!(seen("t", "cat", "Is it in stock?"));
        assert!(seen("t", "ann", "Thanks, and now?"));
    }

    #[test]
    fn what_many_people_say_is_no_boilerplate() {
        let known = Boilerplate::new(&SeededRandom::new(1));
        for subject in ["a", "b", "c", "d"] {
            // The same message as a whole, and a short sentence among others.
            assert!(!known.is_seen(
                &turn("t", subject, "I'm allergic to peanuts and I live in the old town of Oslo."),
                "I'm allergic to peanuts"
            ));
            assert!(!known.is_seen(&turn("t", subject, &format!("I'm vegan. What can {subject} eat?")), "I'm vegan"));
            assert!(!known.is_seen(&turn("t", subject, &format!("我吃素。{subject}推荐什么?")), "我吃素"));
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut seen = Seen::default();
        for n in 0..(MAX_SENTENCES as u64 + 10) {
            seen.note(n, (n, n));
        }
        assert_eq!((seen.sightings.len(), seen.oldest.len()), (MAX_SENTENCES, MAX_SENTENCES));
    }
}
