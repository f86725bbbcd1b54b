//! Names of spans. Fields stand where they are set, under OpenTelemetry's names where it has one (HTTP, GenAI and database conventions),
//! else `backstory.*`; the subject is never a field.

/// One HTTP request, to the end of its reply body.
pub const REQUEST: &str = "request";
/// What memory has to say about one request.
pub const RECALL: &str = "recall";
/// One question to an index of memories outside of the process.
pub const INDEX_SEARCH: &str = "index_search";
/// One try to get a reply from one target, to the end of that.
pub const ATTEMPT: &str = "attempt";
/// What is learned from one exchange.
pub const EXTRACT: &str = "extract";
/// One question of our own to a model.
pub const ASK: &str = "ask";
/// One call of the store; its operation is in [`DB_OPERATION`], which is what it is called where it is exported.
pub const STORE: &str = "store";
/// A batch of the outbox, learned from.
pub const LEARN: &str = "learn";
/// A window of a conversation that the extraction model is asked about.
pub const WINDOW: &str = "window";
/// A summary of what was cut.
pub const SUMMARY: &str = "summary";
/// A group of exchanges on its way into the outbox, learned from at once where that is possible.
pub const COMMIT: &str = "commit";

/// The field that says what is done in the store.
pub const DB_OPERATION: &str = "db.operation.name";
