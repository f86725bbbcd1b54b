//! From one dialect to another: where a client speaks OpenAI's chat completions and its target Anthropic's Messages, or the
//! other way round.
//!
//! [`to_messages()`] and [`to_chat()`] translate a request whole, [`Translator`] an answer as it comes: event by event, never held back.
//! Strings, numbers and schemas are carried over as they are written. What has no counterpart is refused by name or left out, as
//! [`Untranslatable`] says, and the names of what was left out are handed back. Nothing here decides which target speaks what.

mod answer;
mod from_chat;
mod from_messages;
mod json;
mod losses;
mod reasons;
#[cfg(test)]
mod tests;
mod to_chat;
mod to_messages;
mod value;

pub use answer::{AnswerForm, Back, Translator};
pub use losses::{Refusal, Translated, Untranslatable};
pub use to_chat::{ToChat, to_chat};
pub use to_messages::{ToMessages, to_messages};
