//! A scripted upstream inside the binary: it speaks enough of OpenAI's API to see the whole loop without a key.
//!
//! `backstory mock` runs it for users, the integration tests run it on port 0. Asked for the model `mock` it answers with
//! what it was told about the user, so that memory can be seen at work. How it behaves is chosen by the *name of
//! the model*, which reaches it through any gateway; [`HELP`] lists the words. A test may also give a [`Script`].
//!
//! It is deterministic: no clock, no random numbers, the same request gives the same bytes (apart from the id). It
//! keeps the last requests ([`MockHandle::requests`]) and counts the clients that left early. It never judges a request as
//! strictly as a real upstream does, and it is no part of the request path. Start with [`start`]; `behaviour` reads the
//! names, `chat` makes the replies, `serve` sends them.

mod ask;
mod behaviour;
mod chat;
mod embed;
mod messages;
mod notes;
mod record;
mod replies;
mod reply;
mod rerank;
mod responses;
mod script;
mod serve;
mod socket;
mod sse;
#[cfg(test)]
mod tests;
mod write;

use std::net::SocketAddr;

pub use record::Recorded;
pub use replies::from_replies;
pub use reply::{Afterwards, End, Raw};
pub use script::Script;
pub use serve::{MockHandle, start};

/// What `backstory mock` is started with.
#[derive(Clone, Debug)]
pub struct MockConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// What to answer.
    pub script: Script,
}

/// The names of models and what the mock does for them.
pub const HELP: &str = "\
The mock behaves as the name of the model says. Words may be joined: mock-echo-slow-20-crlf.

  mock                  tells what it was shown about you, then repeats your last message
  mock-echo             repeats your last message
  mock-fixed            always the same sentence
  mock-long-N           N words
  mock-parallel-tools   two tool calls at once, their pieces interleaved when streamed

  mock-slow-N           N milliseconds between the pieces of a stream
  mock-late-header      the header comes after 2 seconds; mock-late-header-N: after N milliseconds
  mock-stall            three words, then silence; not streamed: half the body, then silence
  mock-stall-header     silence from the start
  mock-role-only-stall  the role, then silence
  mock-cut              three words, then the connection is reset; not streamed: half the body
  mock-cut-polite       three words, then a clean end without finish_reason and [DONE]
  mock-cut-line         as mock-cut, in the middle of a line

  mock-jitter-N         each piece of a reply up to N milliseconds later, each by another time
  mock-bandwidth-N      N bytes a second
  mock-reset-N          N bytes of the body, then the connection is reset
  mock-slow-close-N     the reply ends N milliseconds after its last byte
  mock-close            the connection is closed after the reply, unannounced
  mock-hang-up          the connection is closed when the next request comes on it
  mock-half-open        the connection takes the next request and is silent for ever

  mock-split-N          N bytes a write (mock-split-1: every byte alone)
  mock-one-write        the whole stream in one write
  mock-crlf, mock-cr    lines end in CRLF, or in CR alone
  mock-no-space         `data:` without a space behind it
  mock-comments         a comment line before every event
  mock-malformed        one broken event in the middle
  mock-gzip             compressed, whatever was asked for
  mock-json-to-stream   a JSON body where a stream was asked for

  mock-tokens-N         counts prompts with o200k_base, times N percent
  mock-window-N         refuses prompts of more than N tokens, as OpenAI does
  mock-no-usage         reports no usage
  mock-usage-split      the usage event is cut within a number
  mock-no-done          a stream ends without [DONE]

  mock-error-N          answers with status N in OpenAI's error shape (mock-error-429 has Retry-After)
  mock-error-200        an error inside a 200

  mock-few-vectors      embeddings: one vector too few
  mock-nan, mock-null   embeddings: a number that is none, as NaN or as null
  mock-zeros            embeddings: zeros only
  mock-other-dimension  embeddings: one number fewer than there should be
  mock-html             embeddings: a web page
  mock-reversed         embeddings: the last text first, with the right index

A request that offers tools gets a call of the first tool when its newest message is the user's, and text after the
result. With response_format it gets a JSON object. Endpoints: POST /v1/chat/completions, POST /v1/messages, POST /v1/responses (its last 256
answers may be gone on from, read and deleted), POST /v1/embeddings (vectors made of the words; texts that share words are near), POST /v1/rerank (by shared words, as Cohere or TEI), GET /v1/models;
any other path under /v1/ is echoed as JSON.

With --replies FILE it also plays the extraction model. A line is a JSON object: {\"contains\": TEXT, \"reply\": REPLY}, or
{\"contains\": TEXT, \"status\": 429}. A question about exchanges that hold TEXT gets REPLY: as it is when it is a text, else as
JSON. Of several lines that apply the first is played, then the next; the last one stays. Where none applies there is
nothing to remember.
";
