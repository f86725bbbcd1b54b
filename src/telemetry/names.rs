//! Names of spans. Fields stand where they are set, under OpenTelemetry's names where it has one (HTTP, GenAI and database conventions),
//! else `backstory.*`; the subject is never a field.

/// One HTTP request, to the end of its reply body.
pub const REQUEST: &str = "request";
/// One try to get a reply from one target.
pub const ATTEMPT: &str = "attempt";
/// What is learned from one exchange.
pub const EXTRACT: &str = "extract";
/// One question of our own to a model.
pub const ASK: &str = "ask";
