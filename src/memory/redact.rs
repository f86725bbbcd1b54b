//! Secrets masked before anything is stored, the outbox included.
//!
//! Two steps, since nearly every text holds none: a cheap look for marks that every secret of its kind has, and only then the exact patterns and checksums.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use super::turn::Turn;

/// Keys and tokens by their form: kind, pattern. The first group, where there is one, is what is masked.
const PATTERNS: [(&str, &str); 16] = [
    (
        "private_key",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
    ("certificate", r"-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|\z)"),
    ("jwt", r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    ("anthropic_key", r"(?-u:\b)sk-ant-[A-Za-z0-9_-]{8,}"),
    ("openai_key", r"(?-u:\b)sk-(?:proj-|svcacct-|admin-|or-v1-|live-|test-)?[A-Za-z0-9_-]{16,}"),
    ("stripe_key", r"(?-u:\b)(?:sk|rk|pk|whsec)_(?:live_|test_)?[A-Za-z0-9]{12,}"),
    ("aws_key", r"(?-u:\b)(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}(?-u:\b)"),
    ("aws_secret", r"(?i)aws_?(?:secret)?_?(?:access)?_?key(?:_id)?\s*[=:]\s*[\x22']?([A-Za-z0-9/+=]{20,})"),
    ("github_token", r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})"),
    ("google_key", r"(?-u:\b)(?:AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})"),
    (
        "slack_token",
        r"(?-u:\b)(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})|hooks\.slack\.com/services/[A-Za-z0-9/]+",
    ),
    (
        "api_key",
        r"(?-u:\b)(?:hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}|dop_v1_[a-f0-9]{20,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|r8_[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{13,})",
    ),
    ("bearer_token", r"(?i)(?-u:\b)(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{12,})"),
    ("url_password", r"(?-u:\b)[a-z][a-z0-9+.-]*://[^\s/:@]*:([^\s/:@]+)@"),
    (
        "password",
        r#"(?ix)(?-u:\b)(?:pass\s?word|pass\s?code|pass\s?phrase|passwd|pwd|pin(?:\s(?:code|number))?|api[_\s-]?key|secret(?:[_\s-]?key)?|access[_\s-]?(?:token|key)|auth[_\s-]?token|private[_\s-]?key|client[_\s-]?secret|cvv|cvc|ssn|social\ssecurity\snumber|one[\s-]time\scode|otp|seed\sphrase|token)
        (?:\s(?:for|to|of|on)\s[^\s,.:;]{1,40}(?:\s[^\s,.:;]{1,20}){0,2})?
        (?:\s*(?:is|was|are|=|:|\x{FF1A}|->)\s*(?:still\s|now\s|set\sto\s|changed\sto\s)?)
        (["'“‘`]?[^\s"'”’`,;。\x{FF0C}\x{FF1B}]{3,}["'”’`]?)"#,
    ),
    (
        "password",
        r#"(?xi)(?:密码|口令|密钥|私钥|令牌|验证码|支付密码|动态码|安全码|身份证号?码?)(?:是|为|:|\x{FF1A}|=|就是|改成了?|改为|设为|设成)\s*([^\s,。;!?、\x{FF0C}\x{FF1B}\x{FF01}\x{FF1F}]{3,})"#,
    ),
];

static SET: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(PATTERNS.iter().map(|(_, p)| p)).expect("the patterns are tested"));
static EACH: LazyLock<Vec<Regex>> =
    LazyLock::new(|| PATTERNS.iter().map(|(_, p)| Regex::new(p).expect("the patterns are tested")).collect());

/// Marks, one of which every text with a secret of the patterns above has, in lower case.
const MARKS: [&str; 43] = [
    "-----begin",
    "eyj",
    "sk-",
    "sk_",
    "rk_",
    "pk_",
    "whsec",
    "akia",
    "asia",
    "agpa",
    "aida",
    "aroa",
    "anpa",
    "aws",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat",
    "glpat",
    "aiza",
    "ya29",
    "gocspx",
    "xox",
    "xapp",
    "hooks.",
    "hf_",
    "gsk_",
    "xai-",
    "npm_",
    "pypi-",
    "dop_v1",
    "sg.",
    "r8_",
    "pplx-",
    "ltai",
    "akid",
    "bearer",
    "basic ",
    "://",
    "pass",
    "pin",
];
const MARKS_MORE: [&str; 16] = [
    "pwd",
    "key",
    "secret",
    "token",
    "cvv",
    "cvc",
    "ssn",
    "social",
    "code",
    "otp",
    "seed",
    "密码",
    "口令",
    "密钥",
    "验证码",
    "码",
];
static MARK: LazyLock<Regex> = LazyLock::new(|| {
    let all: Vec<String> =
        MARKS.iter().chain(&MARKS_MORE).chain(&["私钥", "令牌", "身份证"]).map(|m| regex::escape(m)).collect();
    Regex::new(&format!("(?i-u:{})", all.join("|"))).expect("literals")
});

/// Masks secrets with `[redacted:kind]`: keys of the common vendors, PEM blocks, JWTs, bearer tokens, passwords in English and
/// Chinese text, card numbers (by Luhn's rule) and IBANs (by checksum).
#[must_use]
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut found: Vec<(Range<usize>, &'static str)> = Vec::new();
    if MARK.is_match(text) {
        for index in SET.matches(text) {
            find(index, text, &mut found);
        }
    }
    find_numbers(text, &mut found);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|(r, _)| (r.start, std::cmp::Reverse(r.end)));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, kind) in found {
        if range.end <= at {
            continue;
        }
        if range.start >= at {
            out.push_str(&text[at..range.start]);
            out.push_str("[redacted:");
            out.push_str(kind);
            out.push(']');
        }
        at = range.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// Masks the secrets in everything that a turn keeps.
pub fn redact_turn(turn: &mut Turn) {
    let said = turn.before.iter_mut().chain(&mut turn.user).chain(&mut turn.reply).map(|s| &mut s.text);
    for text in said.chain(&mut turn.shown) {
        if let Cow::Owned(masked) = redact(text) {
            *text = masked;
        }
    }
}

fn find(index: usize, text: &str, found: &mut Vec<(Range<usize>, &'static str)>) {
    let kind = PATTERNS[index].0;
    for captures in EACH[index].captures_iter(text) {
        let Some(secret) = captures.get(1).or_else(|| captures.get(0)) else { continue };
        if kind == "password" && !may_be_password(secret.as_str()) {
            continue;
        }
        // "The secret is patience": only a password may be a plain word.
        let whole = captures.get(0).map_or("", |m| m.as_str());
        let plain = secret.as_str().bytes().all(|b| b.is_ascii_lowercase());
        if kind == "password" && plain && !["pass", "pwd"].iter().any(|w| whole.to_ascii_lowercase().starts_with(w)) {
            continue;
        }
        // The full stop ends the sentence, not the password.
        let end = secret.start() + secret.as_str().trim_end_matches(['.', '!', '?']).len();
        found.push((secret.start()..end, kind));
    }
}

/// "The password is wrong" tells no password.
fn may_be_password(word: &str) -> bool {
    const NO_PASSWORD: [&str; 40] = [
        "wrong",
        "incorrect",
        "correct",
        "required",
        "too",
        "not",
        "invalid",
        "expired",
        "weak",
        "strong",
        "the",
        "a",
        "an",
        "same",
        "missing",
        "empty",
        "for",
        "what",
        "where",
        "how",
        "my",
        "your",
        "stored",
        "hashed",
        "encrypted",
        "reset",
        "null",
        "none",
        "in",
        "on",
        "being",
        "never",
        "always",
        "also",
        "case",
        "important",
        "that",
        "this",
        "to",
        "no",
    ];
    let bare = word.trim_matches(|c: char| matches!(c, '"' | '\'' | '“' | '”' | '‘' | '’' | '`' | '.' | '!' | '?'));
    let chinese = bare.starts_with(['什', '多', '错', '否', '不', '对', '怎', '哪', '我', '你']);
    bare.chars().count() >= 3
        && !chinese
        && !bare.starts_with("[redacted")
        && !NO_PASSWORD.iter().any(|w| bare.eq_ignore_ascii_case(w))
}

/// Card numbers and IBANs: runs of digits and letters, blanks and hyphens between groups, that pass their checksum.
fn find_numbers(text: &str, found: &mut Vec<(Range<usize>, &'static str)>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|n| at + n) {
        // An IBAN begins with two letters before its first digit.
        if start >= 2
            && bytes[start - 2..start].iter().all(u8::is_ascii_alphabetic)
            && (start == 2 || !bytes[start - 3].is_ascii_alphanumeric())
            && let Some(end) = iban_end(bytes, start - 2)
        {
            found.push((start - 2..end, "iban"));
            at = end;
            continue;
        }
        let mut end = start;
        let mut digits: Vec<u8> = Vec::new();
        let mut last = start;
        while let Some(&byte) = bytes.get(end) {
            if byte.is_ascii_digit() {
                digits.push(byte - b'0');
                last = end + 1;
            } else if !(matches!(byte, b' ' | b'-') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit)) {
                break;
            }
            end += 1;
            if digits.len() > 19 {
                break;
            }
        }
        let alone = start == 0 || !bytes[start - 1].is_ascii_alphanumeric();
        if alone && (13..=19).contains(&digits.len()) && is_card(&digits) {
            found.push((start..last, "card"));
        }
        at = end.max(start + 1);
    }
}

fn is_card(digits: &[u8]) -> bool {
    // 0, 1, 7, 8 and 9 begin no payment card in common use; order numbers and time stamps often begin with them.
    if !matches!(digits[0], 2..=6) || digits.iter().all(|d| *d == digits[0]) {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, &d)| {
            let d = u32::from(d);
            if i % 2 == 0 {
                d
            } else if d > 4 {
                d * 2 - 9
            } else {
                d * 2
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// The end of an IBAN that begins at `start`, when its checksum holds (ISO 13616, mod 97).
fn iban_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut compact: Vec<u8> = Vec::with_capacity(34);
    let mut ends: Vec<usize> = Vec::with_capacity(34);
    let mut at = start;
    while compact.len() < 34 {
        match bytes.get(at) {
            Some(byte) if byte.is_ascii_alphanumeric() => {
                compact.push(byte.to_ascii_uppercase());
                ends.push(at + 1);
            }
            Some(b' ' | b'-') if bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric) => {}
            _ => break,
        }
        at += 1;
    }
    if compact.len() < 15 || !compact[2..4].iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Words may follow without a mark between: the longest prefix that checks out is taken.
    (15..=compact.len()).rev().find(|&n| mod97(&compact[..n]) == 1).map(|n| ends[n - 1])
}

fn mod97(iban: &[u8]) -> u32 {
    iban[4..].iter().chain(&iban[..4]).fold(0, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte - b'A') + 10) % 97,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against mem0ai/mem0#6817, n8n PR#34622, hermes-agent#113901. Keys are put together here, so that no scanner takes them for real.
    #[test]
    fn secrets_are_masked() {
        let a = |n| "a1B2c3D4e5".repeat(n);
        for (text, kind) in [
            (format!("use sk-{} please", a(4)), "openai_key"),
            (format!("sk-proj-{}", a(4)), "openai_key"),
            (format!("key: sk-ant-api03-{}", a(4)), "anthropic_key"),
            (format!("AKIA{}", "IOSFODNN7EXAMPLE"), "aws_key"),
            (format!("ghp_{}", a(4)), "github_token"),
            (format!("AIza{}", a(4)), "google_key"),
            (format!("xoxb-{}", a(2)), "slack_token"),
            (format!("sk_live_{}", a(3)), "stripe_key"),
            (format!("Authorization: Bearer {}", a(3)), "bearer_token"),
            (format!("eyJhbGciOiJIUzI1NiJ9.{}.{}", a(2), a(2)), "jwt"),
            ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----".to_owned(), "private_key"),
            ("card 4111 1111 1111 1111 exp 12/30".to_owned(), "card"),
            ("5500-0055-5555-5559".to_owned(), "card"),
            ("IBAN DE89 3704 0044 0532 0130 00 thanks".to_owned(), "iban"),
            ("GB82WEST12345698765432".to_owned(), "iban"),
            ("my password is hunter2. Bye".to_owned(), "password"),
            ("The wifi password: 'correct-horse'".to_owned(), "password"),
            ("我的密码是abc12345。".to_owned(), "password"),
            ("银行卡密码:886644".to_owned(), "password"),
            ("postgres://bob:s3cr3t@db/x".to_owned(), "url_password"),
        ] {
            let masked = redact(&text);
            assert!(masked.contains(&format!("[redacted:{kind}]")), "{kind}: {masked}");
        }
        assert_eq!(redact("card 4111 1111 1111 1111 exp"), "card [redacted:card] exp");
        assert_eq!(redact("我的密码是abc12345。谢谢"), "我的密码是[redacted:password]。谢谢");
        assert_eq!(redact("IBAN DE89 3704 0044 0532 0130 00 thanks"), "IBAN [redacted:iban] thanks");
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "the password is wrong",
            "the secret is patience",
            "I live at 221B Baker Street",
            "order 4111111111111112",
            "call +44 20 7946 0958",
            "1700000000000000",
            "密码是什么",
            "my token is not valid",
            "task-oriented",
            "the API key is required",
            "a risk-averse plan",
            "2024-01-01 12:00:00 2024-01-02",
        ] {
            assert_eq!(redact(text), text);
            assert!(matches!(redact(text), Cow::Borrowed(_)));
        }
    }
}
