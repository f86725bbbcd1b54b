//! An answer on its way back to the client, in pieces as they come.

use bytes::{Bytes, BytesMut};

use super::{from_chat, from_messages};
use crate::wire::scan;

/// An answer that is no stream is collected up to here, in bytes; a longer one passes as it is.
const MAX_WHOLE_BYTES: usize = 32 * 1024 * 1024;

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// Server-sent events.
    Stream,
    /// One JSON object.
    Reply,
    /// What comes with a status of 400 and above.
    Error,
}

/// The way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// From Anthropic's messages to chat completions.
    ToChat {
        /// When the reply was made, in seconds since 1970.
        created: u64,
        /// A stream is to tell its usage.
        include_usage: bool,
    },
    /// From chat completions to Anthropic's messages.
    ToMessages,
}

impl Back {
    fn error(self, text: &str) -> Option<String> {
        match self {
            Self::ToChat { .. } => from_messages::error(text),
            Self::ToMessages => from_chat::error(text),
        }
    }

    fn reply(self, text: &str) -> Option<String> {
        match self {
            Self::ToChat { created, .. } => from_messages::reply(text, created),
            Self::ToMessages => from_chat::reply(text),
        }
    }
}

/// Turns the bytes of an answer into the client's dialect.
#[derive(Debug)]
pub struct Translator(State);

#[derive(Debug)]
enum State {
    ToChat(Box<from_messages::Stream>),
    ToMessages(Box<from_chat::Stream>),
    Whole {
        collected: BytesMut,
        form: AnswerForm,
        back: Back,
    },
    /// It is too long, or at its end.
    Passing,
}

impl Translator {
    /// A translator of one answer.
    #[must_use]
    pub fn new(form: AnswerForm, back: Back) -> Self {
        Self(match (form, back) {
            (AnswerForm::Stream, Back::ToChat { created, include_usage }) => {
                State::ToChat(Box::new(from_messages::Stream::new(created, include_usage)))
            }
            (AnswerForm::Stream, Back::ToMessages) => State::ToMessages(Box::default()),
            (form @ (AnswerForm::Reply | AnswerForm::Error), back) => {
                State::Whole { collected: BytesMut::new(), form, back }
            }
        })
    }

    /// What the next bytes come to; often nothing.
    pub fn push(&mut self, bytes: Bytes) -> Bytes {
        match &mut self.0 {
            State::Passing => bytes,
            State::ToChat(stream) => stream.push(&bytes).into(),
            State::ToMessages(stream) => stream.push(&bytes).into(),
            State::Whole { collected, .. } => {
                collected.extend_from_slice(&bytes);
                if collected.len() <= MAX_WHOLE_BYTES {
                    return Bytes::new();
                }
                let passed = std::mem::take(collected).freeze();
                self.0 = State::Passing;
                passed
            }
        }
    }

    /// What is left at the end of the answer.
    pub fn end(&mut self) -> Bytes {
        match std::mem::replace(&mut self.0, State::Passing) {
            // What is unfinished stays so: the client is to see that it was cut.
            State::ToChat(_) | State::Passing => Bytes::new(),
            State::ToMessages(mut stream) => stream.end().into(),
            State::Whole { collected, form, back } => {
                let text = std::str::from_utf8(&collected).ok().filter(|text| scan::validate(text).is_ok());
                let translated = text.and_then(|text| match form {
                    AnswerForm::Error => back.error(text),
                    AnswerForm::Stream | AnswerForm::Reply => back.error(text).or_else(|| back.reply(text)),
                });
                // What is not in the dialect that it should be in, as a page of a machine between, is told as it is.
                translated.map_or_else(|| collected.freeze(), Bytes::from)
            }
        }
    }
}
