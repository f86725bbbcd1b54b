//! What an answer of a model that we asked means. Pure.

use http::{HeaderMap, StatusCode};

use crate::ask::{Answer, AskError, Question, estimate_tokens};
use crate::base::Time;
use crate::upstream::wait::{passes, retry_after};
use crate::wire::{Reply, Seen, upstream_error};

/// Words with which servers say that they do not take a `response_format`: its own name, and what they make of it
/// (llama.cpp compiles a grammar, vLLM calls it guided decoding, Anthropic has another member).
const FORMAT_WORDS: [&str; 9] = [
    "output_config",
    "response_format",
    "response format",
    "json_schema",
    "json schema",
    "json_object",
    "structured output",
    "guided",
    "grammar",
];

/// What a status other than 2xx means. `formatted` = the question asked for a format.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, said: &str, formatted: bool, now: Time) -> AskError {
    let code = status.as_u16();
    if formatted && matches!(code, 400 | 415 | 422 | 501) {
        let said = said.to_ascii_lowercase();
        if FORMAT_WORDS.iter().any(|word| said.contains(word)) {
            return AskError::Format;
        }
    }
    let reason = reason(code, said);
    if passes(code) {
        AskError::Later { reason, retry_after: retry_after(headers, now) }
    } else {
        AskError::Refused(reason)
    }
}

/// Reads the body of a 2xx.
pub(super) fn answer(seen: Seen, reply: Reply, question: &Question) -> Result<Answer, AskError> {
    let later = |reason: &str| Err(AskError::Later { reason: reason.to_owned(), retry_after: None });
    if seen.error {
        return later("an error inside a 200");
    }
    let usage = reply.usage.unwrap_or_default();
    let Some(choice) = reply.choices.into_iter().next() else {
        return later("an answer that broke off, or is no chat completion");
    };
    let finish = choice.finish_reason.as_deref().unwrap_or("stop");
    if choice.text.is_empty() && (!choice.refusal.is_empty() || finish == "content_filter") {
        return Err(AskError::Refused("the model declined to answer".to_owned()));
    }
    let text = without_thoughts(&choice.text).to_owned();
    let or_else = |counted: u64, text: &[&str]| {
        if counted > 0 { counted } else { text.iter().map(|t| estimate_tokens(t)).sum() }
    };
    Ok(Answer {
        input_tokens: or_else(usage.prompt_tokens, &[&question.system, &question.user]),
        output_tokens: or_else(usage.completion_tokens, &[&choice.text]),
        finished: !matches!(finish, "length" | "content_filter") && !reply.truncated,
        text,
    })
}

/// Why, without upstream's sentence: it may quote the prompt, or a key.
pub(in crate::upstream) fn reason(status: u16, said: &str) -> String {
    let is_word =
        |word: &String| word.len() <= 60 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    let error = upstream_error(said).unwrap_or_default();
    match error.code.filter(is_word).or(error.kind.filter(is_word)) {
        Some(word) => format!("status {status}, {word}"),
        None => format!("status {status}"),
    }
}

/// What stands behind a leading `<think>…</think>`, as open reasoning models write it into the content.
fn without_thoughts(text: &str) -> &str {
    let text = text.trim_start();
    match text.strip_prefix("<think>") {
        Some(thoughts) => thoughts.find("</think>").map_or("", |end| thoughts[end + "</think>".len()..].trim_start()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_is_refused_is_known_by_what_servers_say() {
        let refused = |status: u16, said: &str, formatted| {
            refusal(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), said, formatted, Time(0))
        };
        for (status, said) in [
            (400, r#"{"error":{"message":"This response_format type is unavailable now"}}"#),
            (400, r#"{"error":{"message":"This model does not support response format `json_schema`"}}"#),
            (422, r#"{"detail":[{"loc":["body","response_format"]}]}"#),
            (400, "Failed to initialize samplers: failed to parse grammar"),
            (501, "Structured Outputs are not implemented"),
        ] {
            assert_eq!(refused(status, said, true), AskError::Format, "{said}");
            assert!(!matches!(refused(status, said, false), AskError::Format), "{said}");
        }
        assert!(matches!(refused(429, "response_format", true), AskError::Later { .. }));
    }

    #[test]
    fn why_there_is_no_answer_never_quotes_upstream() {
        let said = r#"{"error":{"message":"bad key sk-secret, in: I live in Oslo","code":"invalid_api_key"}}"#;
        let refused = refusal(StatusCode::UNAUTHORIZED, &HeaderMap::new(), said, true, Time(0));
        assert_eq!(refused, AskError::Refused("status 401, invalid_api_key".to_owned()));
        let said = r#"{"error":{"message":"x","code":"I live in Oslo"}}"#;
        let busy = refusal(StatusCode::BAD_GATEWAY, &HeaderMap::new(), said, true, Time(0));
        assert_eq!(busy, AskError::Later { reason: "status 502".to_owned(), retry_after: None });
    }

    #[test]
    fn thoughts_in_the_content_are_no_answer() {
        assert_eq!(without_thoughts("<think>hm {}</think>\n{\"memories\":[]}"), "{\"memories\":[]}");
        assert_eq!(without_thoughts("<think>on and on"), "");
        assert_eq!(without_thoughts(" plain <think>"), "plain <think>");
    }
}
