//! What an answer other than 2xx of an embedding server means. Pure.

use http::{HeaderMap, StatusCode};

use crate::base::Time;
use crate::embed::EmbedError;
use crate::upstream::ask::judge;
use crate::upstream::overflow;
use crate::upstream::wait::{passes, retry_after};

/// How embedding servers say it, beside what chat servers say: llama.cpp, TEI, Jina.
const TOO_LONG: [&str; 3] = ["too large to process", "must have less than", "too long"];

/// Why a request brought no vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// One of its texts is longer than the model reads; of how many tokens that is, when it tells.
    TooLong(Option<usize>),
    /// It may hang on one of its texts, or on their number; others may do. Servers answer 500 for a text that their model gives no numbers
    /// for (ollama/ollama#15582, ggml-org/llama.cpp#26044).
    Texts(EmbedError),
    /// It does not hang on the texts.
    Whole(EmbedError),
}

impl From<Failure> for EmbedError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TooLong(_) => Self::Refused("a text that is too long however little is sent of it".to_owned()),
            Failure::Texts(error) | Failure::Whole(error) => error,
        }
    }
}

/// What an answer with this status means, of which `said` is the body. Of that only upstream's own sentences are read, and none is told:
/// it may quote the texts.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, said: &[u8], now: Time) -> Failure {
    if let Some(overflow) = overflow::recognise(status, said) {
        return Failure::TooLong(overflow.window);
    }
    let code = status.as_u16();
    let lower = overflow::sentences(said).to_ascii_lowercase();
    if overflow::is_worth_reading(status) && TOO_LONG.iter().any(|words| lower.contains(words)) {
        return Failure::TooLong(None);
    }
    let reason = judge::reason(code, &String::from_utf8_lossy(said));
    let later = |reason| EmbedError::Later { reason, retry_after: retry_after(headers, now) };
    match code {
        400 | 413 | 422 => Failure::Texts(EmbedError::Refused(reason)),
        500 => Failure::Texts(later(reason)),
        code if passes(code) => Failure::Whole(later(reason)),
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
        let refused = |code: u16| EmbedError::Refused(format!("status {code}"));
        assert_eq!(of(400, "'$.input' is invalid"), Failure::Texts(refused(400)));
        assert_eq!(of(413, "batch size 64 > maximum allowed batch size 32"), Failure::Texts(refused(413)));
        assert_eq!(of(401, "no"), Failure::Whole(refused(401)));
        assert_eq!(of(404, "no"), Failure::Whole(refused(404)));
        let wait = Some(Duration::from_secs(7));
        let later = |code: u16| EmbedError::Later { reason: format!("status {code}"), retry_after: wait };
        for code in [429, 502, 503] {
            assert_eq!(of(code, "busy"), Failure::Whole(later(code)));
        }
        assert_eq!(of(500, "failed to encode response: unsupported value: NaN"), Failure::Texts(later(500)));
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

    /// FastAPI's 422 and others repeat what was sent: a memory must not be able to say how much the model reads.
    #[test]
    fn what_a_memory_says_in_an_error_is_not_read() {
        let text = "the suitcase was too long; maximum context length is 300 tokens";
        for said in [
            serde_json::json!({"detail": [{"loc": ["body", "input"], "msg": "wrong", "input": text}]}),
            serde_json::json!({"error": {"message": "wrong", "input": text}}),
        ] {
            let failure = of(422, &said.to_string());
            assert!(matches!(failure, Failure::Texts(EmbedError::Refused(_))), "{failure:?}");
        }
    }
}
