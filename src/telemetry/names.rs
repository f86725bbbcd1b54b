//! Names of spans and fields. OpenTelemetry's where it has one (HTTP, GenAI and database conventions), else `backstory.*`.

/// Span: one HTTP request, to the end of its reply body.
pub const REQUEST: &str = "request";
/// Span: one try to get a reply from one target.
pub const ATTEMPT: &str = "attempt";
/// Span: one recall.
pub const RECALL: &str = "recall";
/// Span: one call of a store method.
pub const STORE: &str = "store";
/// Span: what is learned from one exchange.
pub const EXTRACT: &str = "extract";
/// Span: one question of our own to a model.
pub const ASK: &str = "ask";
/// Span: one run of the sweep.
pub const SWEEP: &str = "sweep";

/// Field: the request's method.
pub const HTTP_METHOD: &str = "http.request.method";
/// Field: the route's template, never the path.
pub const HTTP_ROUTE: &str = "http.route";
/// Field: the reply's status.
pub const HTTP_STATUS: &str = "http.response.status_code";
/// Field: the host that is called.
pub const SERVER_ADDRESS: &str = "server.address";
/// Field: the class of an error.
pub const ERROR_TYPE: &str = "error.type";

/// Field: `chat`, `embeddings`.
pub const GEN_AI_OPERATION: &str = "gen_ai.operation.name";
/// Field: the provider, by its name in the configuration.
pub const GEN_AI_PROVIDER: &str = "gen_ai.provider.name";
/// Field: the model that was asked for.
pub const GEN_AI_REQUEST_MODEL: &str = "gen_ai.request.model";
/// Field: the model that answered.
pub const GEN_AI_RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Field: tokens of the prompt, as upstream counted them.
pub const GEN_AI_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Field: tokens of the reply, as upstream counted them.
pub const GEN_AI_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Field: why the reply ended.
pub const GEN_AI_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// Field: the kind of database, `sqlite` or `postgresql`.
pub const DB_SYSTEM: &str = "db.system.name";
/// Field: the store method.
pub const DB_OPERATION: &str = "db.operation.name";

/// Field: the request id.
pub const REQUEST_ID: &str = "backstory.request.id";
/// Field: the exchange id.
pub const EXCHANGE_ID: &str = "backstory.exchange.id";
/// Field: the tenant. The subject is never a field.
pub const TENANT: &str = "backstory.tenant";
/// Field: the namespace.
pub const NAMESPACE: &str = "backstory.namespace";
/// Field: the memory outcome, as in the response header.
pub const MEMORY: &str = "backstory.memory";
/// Field: which try of a target this is, from 1.
pub const ATTEMPT_NUMBER: &str = "backstory.attempt";
/// Field: how many facts were shown or changed.
pub const N_FACTS: &str = "backstory.facts";
/// Field: how many episodes were shown or stored.
pub const N_EPISODES: &str = "backstory.episodes";
/// Field: how many messages were cut.
pub const N_CUT: &str = "backstory.context.cut";
