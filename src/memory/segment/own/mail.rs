//! Pasted mail.

use std::sync::LazyLock;

use regex::Regex;

static MAIL_HEADER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^\s*(?:\*\*)?(?:from|to|cc|bcc|subject|sent|date|reply-to|发件人|收件人|主题|抄送|发送时间|日期)(?:\*\*)?\s*[:\x{FF1A}]").expect("tested")
});
static MAIL_START: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^\s*(?:-{2,}\s*(?:original message|forwarded message|forwarded by)|begin forwarded message|on .{6,80} wrote:\s*$|-{2,}\s*(?:原始邮件|转发的邮件|转发邮件)|在.{4,60}写道[:\x{FF1A}])",
    )
    .expect("tested")
});
static GREETING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^\s*(?:dear [^,\n]{1,40}[,:]|hi(?: all| team| [A-Z][a-z]+),\s*$|hello(?: all| team| [A-Z][a-z]+),\s*$|尊敬的.{1,20}[:,\x{FF1A}\x{FF0C}])").expect("tested")
});
static CLOSING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^\s*(?:(?:best|kind|warm)(?: regards| wishes)?|regards|sincerely|yours (?:truly|sincerely|faithfully)|cheers|thanks|many thanks|此致|敬礼|祝好)\s*[,!,!.]?\s*$")
        .expect("tested")
});

/// Whether a pasted mail begins at this line: two header lines together, a forwarding mark, or a salutation with a closing below it.
pub(super) fn starts_mail(lines: &[(usize, &str)], index: usize) -> bool {
    let line = lines[index].1;
    if MAIL_START.is_match(line) {
        return true;
    }
    if MAIL_HEADER.is_match(line) {
        return lines[index + 1..].iter().take(3).any(|(_, next)| MAIL_HEADER.is_match(next));
    }
    lines.len() > 2 && GREETING.is_match(line) && lines[index + 1..].iter().any(|(_, l)| CLOSING.is_match(l))
}
