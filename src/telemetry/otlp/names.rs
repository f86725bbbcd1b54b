//! What the numbers are called there: as in `/metrics`, without `_total`; those of the GenAI conventions by their own names.

/// Name in the registry, and in the conventions.
const METRICS: [(&str, &str); 2] = [
    ("backstory_gen_ai_client_operation_duration_seconds", "gen_ai.client.operation.duration"),
    ("backstory_gen_ai_client_token_usage_tokens", "gen_ai.client.token.usage"),
];

/// Label in the registry, and attribute in the conventions.
const ATTRIBUTES: [(&str, &str); 5] = [
    ("gen_ai_operation_name", "gen_ai.operation.name"),
    ("gen_ai_provider_name", "gen_ai.provider.name"),
    ("gen_ai_request_model", "gen_ai.request.model"),
    ("gen_ai_token_type", "gen_ai.token.type"),
    ("error_type", "error.type"),
];

/// Endings that name a unit, and the unit as UCUM has it.
const UNITS: [(&str, &str); 4] = [("_seconds", "s"), ("_bytes", "By"), ("_tokens", "{token}"), ("_ratio", "1")];

/// The name of a metric.
pub(super) fn metric(name: &str) -> &str {
    other(&METRICS, name)
}

/// The name of an attribute.
pub(super) fn attribute(label: &str) -> &str {
    other(&ATTRIBUTES, label)
}

/// The unit that the name of a metric tells; empty where it tells none.
pub(super) fn unit(name: &str) -> &'static str {
    UNITS.iter().find(|(ending, _)| name.ends_with(ending)).map_or("", |(_, unit)| unit)
}

fn other<'n>(table: &[(&str, &'static str)], name: &'n str) -> &'n str {
    table.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, theirs)| theirs)
}
