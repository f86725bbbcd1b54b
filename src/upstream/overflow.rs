//! Recognises that upstream refused a request because it is larger than the model's window, and reads the numbers.
//!
//! Every provider says it in words of its own, and few with a code. The wordings stand in the tests, with where they were
//! seen. Only what upstream itself says is read (`message` and its like), never the rest of the body: some servers repeat
//! the client's text in an error, and a user must not be able to teach us a window.

use std::sync::LazyLock;

use http::StatusCode;
use regex::Regex;

use crate::wire::{Span, decode_lossy, scan};

/// A sentence of an error is read up to here, in bytes.
const MAX_SENTENCE_BYTES: usize = 2_000;
/// A body that is no JSON is taken for a sentence up to this size, in bytes.
const MAX_PLAIN_BYTES: usize = 1_000;
/// Windows outside of this are no windows.
const WINDOWS: std::ops::RangeInclusive<usize> = 256..=100_000_000;
/// Errors inside errors (a proxy's, with the provider's own as text) are read so deep.
const MAX_DEPTH: usize = 6;

/// A request was larger than the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overflow {
    /// The window, when the error tells it, in tokens.
    pub(super) window: Option<usize>,
    /// What upstream counted of the prompt, when the error tells it, in tokens.
    pub(super) sent: Option<usize>,
}

/// Whether an error with this status can be about the window at all: then its body is worth reading.
pub(super) fn is_worth_reading(status: StatusCode) -> bool {
    // 500 and 503: llama.cpp before late 2025, proxies that wrap a provider's 400.
    matches!(status.as_u16(), 400 | 413 | 422 | 500 | 503)
}

/// Recognises a window overflow; `None` for every other error.
pub(super) fn recognise(status: StatusCode, body: &[u8]) -> Option<Overflow> {
    if !is_worth_reading(status) {
        return None;
    }
    Said::of(body)?.overflow()
}

/// What upstream itself says in an error, a sentence a line: nothing that it may repeat of a request.
pub(super) fn sentences(body: &[u8]) -> String {
    Said::of(body).map(|said| said.sentences).unwrap_or_default()
}

/// What upstream says, gathered from the places where it says it.
#[derive(Debug, Default)]
struct Said {
    sentences: String,
    /// llama.cpp gives the numbers as members.
    numbers: Overflow,
}

impl Said {
    fn of(body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        let mut said = Self::default();
        if scan::validate(text).is_ok() {
            said.read(text, Span::new(0, text.len()), 0);
        } else {
            said.sentence(text.get(..MAX_PLAIN_BYTES).unwrap_or(text));
        }
        Some(said)
    }

    fn read(&mut self, text: &str, span: Span, depth: usize) {
        for member in scan::members(text, span) {
            let value = member.value.of(text);
            match member.key.of(text) {
                "error" if value.starts_with('{') && depth < MAX_DEPTH => self.read(text, member.value, depth + 1),
                "metadata" if depth < MAX_DEPTH => self.read(text, member.value, depth + 1),
                "error" | "message" | "detail" | "code" | "type" | "raw" | "internal_code"
                    if value.starts_with('"') =>
                {
                    let sentence = decode_lossy(value);
                    // A proxy may give the provider's own body as a text.
                    if sentence.starts_with('{') && depth < MAX_DEPTH && scan::validate(&sentence).is_ok() {
                        self.read(&sentence, Span::new(0, sentence.len()), depth + 1);
                    } else {
                        self.sentence(&sentence);
                    }
                }
                "n_ctx" => self.numbers.window = value.parse().ok(),
                "n_prompt_tokens" => self.numbers.sent = value.parse().ok(),
                _ => {}
            }
        }
    }

    fn sentence(&mut self, sentence: &str) {
        let room = MAX_SENTENCE_BYTES.saturating_sub(self.sentences.len());
        let end = (0..=room.min(sentence.len())).rev().find(|&at| sentence.is_char_boundary(at)).unwrap_or(0);
        self.sentences.push_str(&sentence[..end]);
        self.sentences.push('\n');
    }

    fn overflow(&self) -> Option<Overflow> {
        let said = self.sentences.as_str();
        if PATTERNS.other.is_match(said) {
            return None;
        }
        let window = first_number(&PATTERNS.windows, said);
        if window.is_none() && !PATTERNS.marks.is_match(said) {
            return None;
        }
        Some(Overflow {
            window: self.numbers.window.or(window).filter(|window| WINDOWS.contains(window)),
            sent: self.numbers.sent.or_else(|| first_number(&PATTERNS.sent, said)).filter(|&sent| sent > 0),
        })
    }
}

/// The first group of the first pattern that matches, as a number.
fn first_number(patterns: &[Regex], said: &str) -> Option<usize> {
    let found = patterns.iter().find_map(|pattern| pattern.captures(said)?.get(1))?;
    found.as_str().replace([',', '_'], "").parse().ok()
}

struct Patterns {
    /// Other errors that speak of tokens and limits.
    other: Regex,
    /// What only an overflow says.
    marks: Regex,
    /// Where the window stands.
    windows: Vec<Regex>,
    /// Where the prompt's tokens stand; the more exact ones first.
    sent: Vec<Regex>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    // `N` stands for a number, which some write with commas.
    let regex = |pattern: &str| {
        let pattern = format!("(?i){}", pattern.replace('N', "([0-9][0-9,_]*)"));
        Regex::new(&pattern).expect("a test reads all patterns")
    };
    let all = |patterns: &[&str]| patterns.iter().map(|pattern| regex(pattern)).collect();
    Patterns {
        other: regex(r"rate.?limit|too many requests|tokens per (min|day|hour)|\btp[md]\b|quota|throttl|billing"),
        marks: regex(
            r"context_length_exceeded|context length exceeded|exceed_context_size_error|model_context_window_exceeded|model_max_prompt_tokens_exceeded|exceeds the available context size|context size has been exceeded|exceeds? (the )?(model'?s? )?(maximum )?context (window|length|limit)|context window exceeds limit|exceeded (max(imum)? )?context length|prompt (is )?too long|input is too long for (the )?requested model|greater than the context length|reduce the length of (the )?(messages|input|prompt)",
        ),
        windows: all(&[
            r"maximum (?:allowed )?(?:context|prompt|model|sequence|input) (?:length|window)(?: is| of|:)? (?:only )?\(?N",
            r"context (?:length|size|window) (?:is|of) (?:only )?N",
            r"tokens > N maximum",
            r"exceed context limit: [0-9]+ \+ [0-9]+ > N",
            r"maximum number of tokens allowed \(N\)",
            r"input token count.{0,60}supports up to N",
            r"too large for model with N maximum context length",
            r"current length is [0-9]+ while limit is N",
            r"available context size \(N",
            r"tokens`? \+ `?max_new_tokens`? must be <= N",
            r"inputs` must have less than N tokens",
            r"(?:longer than|exceeds) the model's (?:maximum )?context length \(N",
            r"number of tokens in the prompt cannot exceed N",
            r"number of tokens \(prompt and prediction\) cannot exceed N",
            r"exceeded model token limit: N",
            r"token count of [0-9]+ exceeds the limit of N",
            r"exceed context window of N",
            r"range of input length should be \[[0-9]+, ?N\]",
            r"\(context length N\)",
            r"configured context size is N",
        ]),
        sent: all(&[
            r"\(N (?:tokens )?(?:in the messages|in your prompt|in the prompt|of text input)",
            r"N tokens from the input messages",
            r"(?:has|contains?|passed|includes?) (?:at least )?N (?:input )?tokens",
            r"prompt is too long: N",
            r"exceed context limit: N",
            r"token count (?:is |of )?\(?N",
            r"resulted in N tokens",
            r"request \(N tokens\)",
            r"input \(N tokens\)",
            r"tokens? \(N\) exceed",
            r"Given: N `?inputs",
            r"received N",
            r"requested: N",
            r"current length is N",
            r"\((?:total )?length N\)",
            r"keep the first N tokens",
        ]),
    }
});

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(status: u16, body: &str) -> Option<(Option<usize>, Option<usize>)> {
        recognise(StatusCode::from_u16(status).unwrap(), body.as_bytes()).map(|found| (found.window, found.sent))
    }

    fn openai(message: &str) -> String {
        json!({"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": null}})
            .to_string()
    }

    /// Wordings as users reported them; the source stands before each.
    #[test]
    fn wordings_of_providers_are_recognised_with_their_numbers() {
        let cases: &[(u16, &str, Option<usize>, Option<usize>)] = &[
            // OpenAI and Azure: ChatGPTNextWeb/NextChat#625.
            (
                400,
                "This model's maximum context length is 4097 tokens. However, your messages resulted in 4619 tokens. Please reduce the length of the messages.",
                Some(4097),
                Some(4619),
            ),
            // OpenAI with a reply asked for: conghaonet/hao_chatgpt#4.
            (
                400,
                "This model's maximum context length is 4097 tokens. However, you requested 4268 tokens (4012 in the messages, 256 in the completion). Please reduce the length of the messages or completion.",
                Some(4097),
                Some(4012),
            ),
            // Azure with functions: FoundationAgents/OpenManus#62.
            (
                400,
                "This model's maximum context length is 8192 tokens. However, you requested 8213 tokens (6683 in the messages, 730 in the functions, and 800 in the completion). Please reduce the length of the messages, functions, or completion.",
                Some(8192),
                Some(6683),
            ),
            // OpenAI, older: AstrBotDevs/AstrBot#1.
            (
                400,
                "This model's maximum context length is 4097 tokens, however you requested 4569 tokens (3545 in your prompt; 1024 for the completion). Please reduce your prompt; or completion length.",
                Some(4097),
                Some(3545),
            ),
            // OpenAI, newer, without numbers: named in earendil-works/pi's list of overflows.
            (
                400,
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
                None,
                None,
            ),
            // Anthropic: entropy-research/Devon#88, stackblitz/bolt.new#1748.
            (400, "prompt is too long: 209353 tokens > 199999 maximum", Some(199_999), Some(209_353)),
            // Anthropic with a reply asked for: anthropics/claude-code#4951.
            (
                400,
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
                Some(200_000),
                Some(188_240),
            ),
            // Google: google-gemini/gemini-cli#6678.
            (
                400,
                "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
                Some(1_200_293),
            ),
            // Mistral: named in earendil-works/pi's list of overflows.
            (
                400,
                "Prompt contains 300000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
                Some(131_072),
                Some(300_000),
            ),
            // Groq: letta-ai/letta#1963.
            (400, "Please reduce the length of the messages or completion.", None, None),
            // Cerebras: cline/cline#5140.
            (
                400,
                "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
                Some(40_000),
                Some(42_328),
            ),
            // Together, as of 2023 (also TGI): stanford-crfm/helm#2079.
            (
                422,
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2019 `inputs` tokens and 30 `max_new_tokens`",
                Some(2048),
                Some(2019),
            ),
            // Together, newer, and SGLang.
            (
                400,
                "The input (265330 tokens) is longer than the model's context length (262144 tokens).",
                Some(262_144),
                Some(265_330),
            ),
            (
                400,
                "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 40000 tokens: 30000 tokens from the input messages and 10000 tokens for the completion.",
                Some(32_768),
                Some(30_000),
            ),
            // OpenRouter: Aider-AI/aider#3721.
            (
                400,
                "This endpoint's maximum context length is 131072 tokens. However, you requested about 141607 tokens (10535 of text input, 131072 in the output). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.",
                Some(131_072),
                Some(10_535),
            ),
            // DeepSeek: evalstate/fast-agent#621.
            (
                400,
                "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
                Some(131_072),
                Some(122_942),
            ),
            // Cohere: cohere-ai/sandbox-topically#4, and its page of errors.
            (
                400,
                "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354. Try using a shorter prompt or a smaller max_tokens value.",
                Some(2048),
                Some(6354),
            ),
            (
                400,
                "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt, or enabling prompt truncating.",
                Some(4081),
                Some(4292),
            ),
            // vLLM: vllm-project/vllm#20409 and xorbitsai/inference#3785.
            (
                400,
                "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion. None",
                Some(16_384),
                Some(112_946),
            ),
            (
                500,
                "The decoder prompt (length 21535) is longer than the maximum model length of 16384. Make sure that `max_model_len` is no smaller than the number of text tokens.",
                Some(16_384),
                Some(21_535),
            ),
            (
                400,
                "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
                Some(4096),
                Some(2104),
            ),
            // vLLM, multimodal: vllm-project/vllm#12165.
            (
                400,
                "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
                Some(4096),
                Some(25_938),
            ),
            // llama.cpp, newer: the numbers stand in the text as well.
            (
                400,
                "request (8243 tokens) exceeds the available context size (8192 tokens), try increasing it",
                Some(8192),
                Some(8243),
            ),
            // llama.cpp without numbers: continuedev/continue#9797.
            (400, "the request exceeds the available context size, try increasing it", None, None),
            // llama-cpp-python: rllm-team/rllm#55.
            (500, "Requested tokens (2285) exceed context window of 2048", Some(2048), Some(2285)),
            // Ollama: named in earendil-works/pi's list of overflows.
            (400, "prompt too long; exceeded max context length by 100918 tokens", None, None),
            (400, "the input length exceeds the context length", None, None),
            // LM Studio: lmstudio-ai/lmstudio-bug-tracker#546.
            (
                400,
                "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input.",
                Some(32_768),
                Some(111_490),
            ),
            // xAI: cline/cline#3120.
            (
                400,
                "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
                Some(131_072),
                Some(136_973),
            ),
            // Bedrock: aws-samples/bedrock-chat#95, aaif-goose/goose#7504.
            (400, "Input is too long for requested model.", None, None),
            (
                400,
                "The model returned the following errors: prompt is too long: 227255 tokens > 200000 maximum",
                Some(200_000),
                Some(227_255),
            ),
            // Moonshot (Kimi).
            (
                400,
                "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
                Some(262_144),
                Some(291_351),
            ),
            // Alibaba (DashScope).
            (400, "Range of input length should be [1, 129024]", Some(129_024), None),
            // GitHub Copilot.
            (400, "prompt token count of 145000 exceeds the limit of 128000", Some(128_000), Some(145_000)),
        ];
        for &(status, message, window, sent) in cases {
            assert_eq!(of(status, &openai(message)), Some((window, sent)), "{message}");
        }
    }

    #[test]
    fn shapes_of_bodies_are_read() {
        // llama.cpp: oobabooga/textgen#7257.
        let llama = r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}"#;
        assert_eq!(of(400, llama), Some((Some(8192), Some(14_429))));
        assert_eq!(of(500, llama), Some((Some(8192), Some(14_429))));
        // A code alone: thepersonalaicompany/amurex-backend#51.
        assert_eq!(of(400, r#"{"error":{"message":"Too big.","code":"context_length_exceeded"}}"#), Some((None, None)));
        // An error inside an error: google-gemini/gemini-cli#4231; OpenRouter gives the provider's as `metadata.raw`.
        let message = "The input token count (3475108) exceeds the maximum number of tokens allowed (1048576).";
        let inner = json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}).to_string();
        let nested = json!({"error": {"message": inner, "code": 400, "status": "Bad Request"}}).to_string();
        assert_eq!(of(400, &nested), Some((Some(1_048_576), Some(3_475_108))));
        let raw = json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": inner}}})
            .to_string();
        assert_eq!(of(400, &raw), Some((Some(1_048_576), Some(3_475_108))));
        // TGI and Ollama give a text; FastAPI gives `detail`; some servers give no JSON at all.
        assert_eq!(of(400, r#"{"error":"prompt is too long: 9 tokens > 8192 maximum"}"#), Some((Some(8192), Some(9))));
        assert_eq!(of(422, r#"{"detail":"maximum context length is 8,192 tokens"}"#), Some((Some(8192), None)));
        assert_eq!(of(413, "the request exceeds the available context size"), Some((None, None)));
    }

    #[test]
    fn other_errors_are_not_taken_for_an_overflow() {
        for (status, message) in [
            // Groq's limit a minute: ITSpecialist111/ai_automation_suggester#61.
            (
                413,
                "Request too large for model `llama-3.3-70b-versatile` in organization `org` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your message size and try again.",
            ),
            (400, "Rate limit reached: the maximum context length is 8192 tokens"),
            (
                400,
                "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000.",
            ),
            (
                400,
                "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 8192.",
            ),
            (400, "Invalid 'temperature': 3000 is greater than 2"),
            (400, "messages[3] has 9000 characters; at most 8192 are allowed in a name"),
            (413, "Request Entity Too Large"),
            (500, "The server had an error while processing your request"),
            (400, "We could not parse the JSON body of your request."),
            (400, ""),
        ] {
            assert_eq!(of(status, &openai(message)), None, "{message}");
        }
        let overflow = openai("This model's maximum context length is 4097 tokens.");
        for status in [200, 401, 403, 404, 429] {
            assert_eq!(of(status, &overflow), None, "{status}");
        }
    }

    /// Some servers repeat the client's text in an error: it must not teach us anything.
    #[test]
    fn what_the_client_said_is_not_read() {
        let echo = json!({"detail": [{"loc": ["body", "messages"], "msg": "field required", "input": "maximum context length is 300 tokens"}]});
        assert_eq!(of(422, &echo.to_string()), None);
        let echo =
            json!({"error": {"message": "bad request", "input": {"message": "maximum context length is 300 tokens"}}});
        assert_eq!(of(400, &echo.to_string()), None);
        let long = "x".repeat(3_000) + " maximum context length is 300 tokens";
        assert_eq!(of(400, &openai(&long)), None);
    }

    #[test]
    fn windows_that_cannot_be_are_left_out() {
        assert_eq!(of(400, &openai("maximum context length is 5 tokens")), Some((None, None)));
        assert_eq!(of(400, &openai("maximum context length is 99999999999999999999 tokens")), None);
        assert_eq!(of(400, "\u{fffd}\0 not json {"), None);
    }
}
