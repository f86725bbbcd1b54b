//! What an answer other than 2xx of an embedding server means. Pure.

use http::{HeaderMap, StatusCode};

use crate::base::Time;
use crate::embed::EmbedError;
use crate::upstream::ask::judge;
use crate::upstream::overflow;
use crate::upstream::wait::retry_after;

/// How embedding servers say it, beside what chat servers say: llama.cpp, TEI, Jina.
const TOO_LONG: [&str; 3] = ["too large to process", "must have less than", "too long"];

/// Why a request brought no vectors.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// One of its texts is longer than the model reads; of how many tokens that is, when it tells.
    TooLong(Option<usize>),
    /// One of its texts, or their number, is refused; others may not be.
    Text(String),
    /// It does not hang on the texts.
    Whole(EmbedError),
}

/// What an answer with this status means, of which `said` is the body. Its sentence is read, and never told: it may quote the texts.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, said: &[u8], now: Time) -> Failure {
    if let Some(overflow) = overflow::recognise(status, said) {
        return Failure::TooLong(overflow.window);
    }
    let code = status.as_u16();
    let said = String::from_utf8_lossy(said);
    let lower = said.to_ascii_lowercase();
    if overflow::is_worth_reading(status) && TOO_LONG.iter().any(|words| lower.contains(words)) {
        return Failure::TooLong(None);
    }
    let reason = judge::reason(code, &said);
    match code {
        400 | 413 | 422 => Failure::Text(reason),
        408 | 409 | 425 | 429 | 500..=599 => {
            Failure::Whole(EmbedError::Later { reason, retry_after: retry_after(headers, now) })
        }
        _ => Failure::Whole(EmbedError::Refused(reason)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(code: u16, said: &str) -> Failure {
        let headers = [("retry-after".parse().unwrap(), "7".parse().unwrap())].into_iter().collect();
        refusal(StatusCode::from_u16(code).unwrap(), &headers, said.as_bytes(), Time(0))
    }

    #[test]
    fn a_refusal_is_about_a_text_about_all_of_them_or_passes() {
        assert_eq!(of(400, "'$.input' is invalid"), Failure::Text("status 400".to_owned()));
        assert_eq!(of(413, "batch size 64 > maximum allowed batch size 32"), Failure::Text("status 413".to_owned()));
        assert_eq!(of(401, "no"), Failure::Whole(EmbedError::Refused("status 401".to_owned())));
        assert_eq!(of(404, "no"), Failure::Whole(EmbedError::Refused("status 404".to_owned())));
        let wait = Some(Duration::from_secs(7));
        for code in [429, 500, 503] {
            let later = EmbedError::Later { reason: format!("status {code}"), retry_after: wait };
            assert_eq!(of(code, "busy"), Failure::Whole(later));
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_known_by_what_servers_say() {
        for (code, said) in [
            // OpenAI; vLLM and llama.cpp say the same as for chat.
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens, however you requested 8200 tokens (8200 in your prompt; 0 for the completion). Please reduce your prompt; or completion length."}}"#,
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"input is too large to process. increase the physical batch size"}}"#,
            ),
            (
                413,
                r#"{"error":"Input validation error: `inputs` must have less than 512 tokens. Given: 1000","error_type":"Validation"}"#,
            ),
        ] {
            let failure = of(code, said);
            assert!(matches!(failure, Failure::TooLong(_)), "{said}: {failure:?}");
        }
        assert!(matches!(
            of(
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens, however you requested 8200 tokens"}}"#
            ),
            Failure::TooLong(Some(8192))
        ));
    }
}
