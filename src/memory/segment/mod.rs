//! Cutting what was said into what can be learned from: the user's own words, sentence by sentence.
//!
//! Real apps put RAG context, few-shot pairs, pasted mail and documents in the user role. [`own_words`] leaves them out,
//! by form alone; it never decides what a sentence means. `talk` tells small talk and one-off tasks; `side` makes
//! the text of an episode.

mod own;
mod sentence;
mod side;
mod talk;

pub use own::{OwnWords, own_words, said_words};
pub(in crate::memory) use sentence::is_abbreviation;
pub use sentence::{Sentence, sentences};
pub use side::episode_side;
pub(crate) use talk::{fiction_at, is_fiction, is_pretence};
pub use talk::{is_one_off_task, is_payload_task, is_small_talk};
