//! The stack's layers, one a file: thin adapters without SQL, HTTP client or policy of their own.
//!
//! Two kinds, and no third. A *stage* ([`Stage`]) is an `async fn` from one request type to the next, or a refusal. A *wrapper* is a real
//! Layer/Service pair, for what must see the reply's body: [`Respond`], [`Admit`], [`Record`]. The order is decided
//! in `server/stack.rs` and nowhere else.

mod admit;
mod authenticate;
mod body;
mod books;
mod continued;
mod decode;
mod estimate;
mod identify;
mod recall;
mod record;
mod reserve;
mod respond;
mod span;
mod stage;
mod tee;
mod turn;
mod upload;

pub use admit::Admit;
pub use authenticate::Authenticate;
pub use body::{ReplyBody, full};
pub use continued::Continued;
pub use decode::Decode;
pub use identify::Identify;
pub use recall::Recall;
pub use record::{Record, RecordSettings, context_header, memory_header};
pub use reserve::{Booking, Reservation, Reserve};
pub use respond::{Arrived, Respond, name_request, respond, respond_in};
pub use span::{SpanBody, request_span, spanned};
pub use stage::{Stage, StageLayer, Then};
pub use upload::{Paced, Patience, TooSlow, read_body};
