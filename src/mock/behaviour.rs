//! Reads how to behave from the name of a model.

use std::time::Duration;

use super::reply::Afterwards;

/// How lines of a stream end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LineEnd {
    #[default]
    Lf,
    CrLf,
    Cr,
}

impl LineEnd {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// What to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Saying {
    /// What it was told, then the last message.
    #[default]
    Notes,
    Echo,
    Fixed,
    /// So many words.
    Words(u64),
}

/// Where a reply stops short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Silence, after so many pieces with content.
    Stall(usize),
    /// Silence before the header.
    StallHeader,
    /// A reset after three pieces.
    Reset,
    /// A reset in the middle of the fourth piece.
    ResetInLine,
    /// A clean end after three pieces.
    Polite,
}

/// What is wrong with an answer to a request for embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Odd {
    /// One vector too few.
    Few,
    /// A number that is none, as some servers write it: no JSON.
    NaN,
    /// The same as JSON has it: `null`.
    Null,
    /// Zeros only.
    Zeros,
    /// One number fewer than there should be.
    OtherDimension,
    /// A web page.
    Html,
    /// The last text first; that is right, as long as `index` is right.
    Reversed,
}

/// Everything that a name can ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Behaviour {
    pub(super) saying: Saying,
    pub(super) stop: Option<Stop>,
    pub(super) split: Option<usize>,
    pub(super) line_end: LineEnd,
    pub(super) header_delay: Duration,
    pub(super) piece_delay: Duration,
    pub(super) jitter: Duration,
    /// Bytes a second.
    pub(super) bandwidth: Option<u64>,
    /// Bytes of the body before a reset.
    pub(super) reset_after: Option<usize>,
    /// How long after the last byte the reply ends.
    pub(super) slow_close: Duration,
    pub(super) afterwards: Afterwards,
    /// A status, or 200 for an error inside a 200.
    pub(super) error: Option<u16>,
    pub(super) no_usage: bool,
    pub(super) usage_split: bool,
    pub(super) no_done: bool,
    pub(super) no_space: bool,
    pub(super) one_write: bool,
    pub(super) comments: bool,
    pub(super) malformed: bool,
    pub(super) gzip: bool,
    pub(super) json_to_stream: bool,
    pub(super) parallel_tools: bool,
    /// Counts prompts with `o200k_base`, times so many percent.
    pub(super) tokens_percent: Option<u64>,
    /// Refuses prompts that are larger, as OpenAI does.
    pub(super) window: Option<u64>,
    /// For embeddings only.
    pub(super) odd: Option<Odd>,
}

impl Behaviour {
    /// Reads the name; words that mean nothing are skipped, and a name that does not begin with `mock` means nothing.
    pub(super) fn of(model: &str) -> Self {
        let mut it = Self::default();
        let name = model.rsplit('/').next().unwrap_or(model);
        let Some(mut rest) = name.strip_prefix("mock") else {
            return it;
        };
        while let Some(tail) = rest.strip_prefix('-') {
            rest = it.word(tail);
        }
        it
    }

    /// Reads one word, with its number if it takes one, and returns what follows.
    fn word<'a>(&mut self, tail: &'a str) -> &'a str {
        // Longer words first: `cut-polite` before `cut`.
        if let Some(rest) = after(tail, "role-only-stall") {
            self.stop = Some(Stop::Stall(0));
            return rest;
        }
        for (word, stop) in [
            ("stall-header", Stop::StallHeader),
            ("stall", Stop::Stall(3)),
            ("cut-polite", Stop::Polite),
            ("cut-line", Stop::ResetInLine),
            ("cut", Stop::Reset),
        ] {
            if let Some(rest) = after(tail, word) {
                self.stop = Some(stop);
                return rest;
            }
        }
        for (word, afterwards) in
            [("close", Afterwards::Close), ("hang-up", Afterwards::HangUp), ("half-open", Afterwards::Dead)]
        {
            if let Some(rest) = after(tail, word) {
                self.afterwards = afterwards;
                return rest;
            }
        }
        for (word, odd) in [
            ("few-vectors", Odd::Few),
            ("nan", Odd::NaN),
            ("null", Odd::Null),
            ("zeros", Odd::Zeros),
            ("other-dimension", Odd::OtherDimension),
            ("html", Odd::Html),
            ("reversed", Odd::Reversed),
        ] {
            if let Some(rest) = after(tail, word) {
                self.odd = Some(odd);
                return rest;
            }
        }
        for (word, flag) in [
            ("no-usage", &mut self.no_usage),
            ("usage-split", &mut self.usage_split),
            ("no-done", &mut self.no_done),
            ("no-space", &mut self.no_space),
            ("one-write", &mut self.one_write),
            ("comments", &mut self.comments),
            ("malformed", &mut self.malformed),
            ("gzip", &mut self.gzip),
            ("json-to-stream", &mut self.json_to_stream),
            ("parallel-tools", &mut self.parallel_tools),
        ] {
            if let Some(rest) = after(tail, word) {
                *flag = true;
                return rest;
            }
        }
        self.valued(tail).unwrap_or_else(|| tail.find('-').map_or("", |at| &tail[at..]))
    }

    fn valued<'a>(&mut self, tail: &'a str) -> Option<&'a str> {
        if let Some(rest) = after(tail, "crlf") {
            self.line_end = LineEnd::CrLf;
            return Some(rest);
        }
        if let Some(rest) = after(tail, "cr") {
            self.line_end = LineEnd::Cr;
            return Some(rest);
        }
        if let Some(rest) = after(tail, "echo") {
            self.saying = Saying::Echo;
            return Some(rest);
        }
        if let Some(rest) = after(tail, "fixed") {
            self.saying = Saying::Fixed;
            return Some(rest);
        }
        let (word, rest) = NUMBERED.into_iter().find_map(|word| after(tail, word).map(|rest| (word, rest)))?;
        let (number, rest) = number(rest);
        match word {
            "long" => self.saying = Saying::Words(number.unwrap_or(100).min(100_000)),
            "tokens" => self.tokens_percent = Some(number.unwrap_or(100).min(10_000)),
            "window" => self.window = Some(number.unwrap_or(1_000)),
            "jitter" => self.jitter = Duration::from_millis(number.unwrap_or(20)),
            "bandwidth" => self.bandwidth = Some(number.unwrap_or(10_000).max(50)),
            "reset" => self.reset_after = Some(number.and_then(|n| usize::try_from(n).ok()).unwrap_or(100)),
            "slow-close" => self.slow_close = Duration::from_millis(number.unwrap_or(1_000)),
            "slow" => self.piece_delay = Duration::from_millis(number.unwrap_or(50)),
            "late-header" => self.header_delay = Duration::from_millis(number.unwrap_or(2_000)),
            "split" => self.split = Some(number.and_then(|n| usize::try_from(n).ok()).unwrap_or(1).max(1)),
            _ => {
                let status = number.and_then(|n| u16::try_from(n).ok()).filter(|s| (200..600).contains(s));
                self.error = Some(status.unwrap_or(500));
            }
        }
        Some(rest)
    }
}

/// Words with a number; a longer one before the one that it begins with.
const NUMBERED: [&str; 11] =
    ["long", "slow-close", "slow", "late-header", "split", "error", "tokens", "window", "jitter", "bandwidth", "reset"];

/// What follows `word`, when `text` begins with it as a whole word.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn number(rest: &str) -> (Option<u64>, &str) {
    let Some(digits) = rest.strip_prefix('-') else {
        return (None, rest);
    };
    let len = digits.find('-').unwrap_or(digits.len());
    match digits[..len].parse() {
        Ok(number) => (Some(number), &digits[len..]),
        Err(_) => (None, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_means_the_helpful_mock() {
        for name in ["mock", "gpt-4o", "mock-", "mock-new", "mockingbird"] {
            assert_eq!(Behaviour::of(name), Behaviour::default(), "{name}");
        }
    }

    #[test]
    fn words_and_numbers_are_read_and_can_be_joined() {
        let it = Behaviour::of("provider/mock-echo-slow-20-crlf-cut-polite-split-3");
        assert_eq!(it.saying, Saying::Echo);
        assert_eq!(it.piece_delay, Duration::from_millis(20));
        assert_eq!((it.line_end, it.stop, it.split), (LineEnd::CrLf, Some(Stop::Polite), Some(3)));
        assert_eq!(Behaviour::of("mock-error-429").error, Some(429));
        assert_eq!(Behaviour::of("mock-late-header").header_delay, Duration::from_secs(2));
        assert_eq!(Behaviour::of("mock-role-only-stall").stop, Some(Stop::Stall(0)));
        assert_eq!(Behaviour::of("mock-cut").stop, Some(Stop::Reset));
        assert!(Behaviour::of("mock-parallel-tools-no-usage").no_usage);
        let it = Behaviour::of("mock-jitter-5-bandwidth-900-reset-70-slow-close-9-half-open");
        assert_eq!((it.jitter, it.bandwidth, it.reset_after), (Duration::from_millis(5), Some(900), Some(70)));
        assert_eq!((it.slow_close, it.afterwards), (Duration::from_millis(9), Afterwards::Dead));
        assert_eq!(it.piece_delay, Duration::ZERO, "a slow close is no slow stream");
    }

    /// The help and the parser must not part ways.
    #[test]
    fn every_name_of_the_help_means_something() {
        let lines = super::super::HELP.lines().filter(|line| line.starts_with("  mock"));
        let names = lines.flat_map(str::split_whitespace).filter(|word| word.starts_with("mock-"));
        for name in names {
            let name = name.trim_end_matches([',', ':', ')']);
            let name = name.replace("-N", "-501");
            assert_ne!(Behaviour::of(&name), Behaviour::default(), "{name}");
        }
    }
}
