//! Finds key data in text: what must survive word for word when the rest is left out.
//!
//! Order, ticket and invoice numbers, amounts, dates, phone numbers, e-mail and postal addresses, URLs, versions, file paths
//! and quoted names; English and Chinese. Rules only, so that a digest has them whatever a model makes of the rest.

use std::sync::LazyLock;

use regex::Regex;

/// Longer finds are no data but text.
const MAX_BYTES: usize = 160;

/// The alternatives, the more telling first: of two that begin at one place, the first one wins.
/// Word boundaries are ASCII, since the regex engine is slow on the others, and CJK text has none.
static KEY_DATA: LazyLock<Regex> = LazyLock::new(|| {
    let alternatives = [
        // URLs and e-mail addresses.
        r#"https?://[^\s<>"'，。；、）」》]+"#,
        r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
        // Numbers with the word that says what they are.
        r"(?i-u:\b(?:order|ticket|invoice|case|reference|ref|booking|confirmation|tracking|account|contract|customer|serial|issue|flight|room|policy)(?: (?:number|no\.?|id|code))?(?: is|:| #|#)? ?#?[a-z]{0,6}-?[0-9][a-z0-9/_-]*)",
        r"(?:订单|工单|发票|快递|运单|合同|客户|会员|航班|房间|参考|编|单)(?:编?号码?|号)?(?:是|为|：|:)? ?#?[A-Za-z]{0,6}-?[0-9][A-Za-z0-9/_-]*",
        // Dates and times of day.
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?Z?)?",
        r"(?:[0-9]{2,4} ?年 ?)?[0-9]{1,2} ?月 ?[0-9]{1,2} ?[日号]",
        r"(?i-u:\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.? [0-9]{1,2}(?:st|nd|rd|th)?\b(?:,? [0-9]{4})?)",
        r"(?i-u:\b[0-9]{1,2}(?:st|nd|rd|th)?\.? (?:of )?(?:january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)\b\.?(?: [0-9]{4})?)",
        r"(?-u:\b)[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{2,4}(?-u:\b)",
        r"(?-u:\b)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?: ?[AaPp]\.?[Mm]\.?)?",
        // Amounts.
        r"(?:[$€£¥￥₹₩]|(?-u:\b)(?:USD|EUR|GBP|CNY|RMB|JPY|CHF|INR) ?) ?[0-9][0-9.,]*[0-9](?: ?(?:million|billion|thousand|[kKmM](?-u:\b)|万|亿))?|[$€£¥￥₹₩] ?[0-9]",
        r"[0-9][0-9.,]* ?(?:(?i-u:(?:USD|EUR|GBP|CNY|RMB|JPY|CHF|dollars?|euros?|pounds?|yuan|percent)\b)|[€£¥]|万元|亿元|元|块钱|美元|欧元|日元|%)",
        // Postal addresses.
        r"[0-9]{1,5}[A-Za-z]? (?:[A-Z][A-Za-z'.-]* ){1,4}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Way|Court|Ct|Place|Square)(?-u:\b)\.?(?:, [A-Z][A-Za-z .'-]*[A-Za-z])?(?:,? [A-Z]{2} [0-9]{5})?",
        r"\p{Han}{2,8}(?:省|市|区|县)\p{Han}{0,12}(?:路|街|道|巷|弄) ?[0-9]{1,5} ?(?:号|弄)?(?:[0-9]{1,4}(?:室|楼|层))?",
        // Phone numbers.
        r"\+[0-9][0-9 ().-]{6,}[0-9]|\([0-9]{2,5}\) ?[0-9][0-9 -]{4,}[0-9]|(?-u:\b)1[3-9][0-9]{9}(?-u:\b)|(?-u:\b)[0-9]{3}-[0-9]{3,4}-[0-9]{4}(?-u:\b)",
        // File paths.
        r#"(?:~|\.{1,2})?(?:/[A-Za-z0-9_.@+-]+){2,}|[A-Za-z]:\\[^\s"'<>|]+|(?-u:\b)[A-Za-z0-9_-]+\.(?:rs|py|js|tsx?|toml|ya?ml|json|md|txt|csv|pdf|docx?|xlsx?|sql|sh|go|java|cpp|html|css|png|jpe?g)(?-u:\b)"#,
        // Versions.
        r"(?-u:\b)[vV]?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][A-Za-z0-9.]+)?(?-u:\b)|(?-u:\b)v[0-9]+(?:\.[0-9]+)*(?-u:\b)|(?i-u:\bversion [0-9][0-9a-z.]*)",
        // Numbers that look like names of things.
        r"(?-u:\b)[A-Z]{1,8}[-_]?[0-9]{2,}[A-Za-z0-9_-]*|#[0-9]{2,}|(?-u:\b)[0-9]{6,}(?-u:\b)",
        // Quoted names.
        "\"[^\"\n]{2,60}\"|“[^”\n]{2,60}”|「[^」\n]{1,40}」|『[^』\n]{1,40}』|《[^》\n]{1,40}》|`[^`\n]{2,60}`",
    ];
    Regex::new(&alternatives.map(|a| format!("(?:{a})")).join("|")).expect("a test compiles the rules")
});

/// Returns the key data of a text, word for word, in order.
pub(super) fn key_data(text: &str) -> impl Iterator<Item = &str> {
    KEY_DATA
        .find_iter(text)
        .map(|found| found.as_str().trim_end_matches(['.', ',', ';', ':', ' ']))
        .filter(|found| found.len() <= MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        key_data(text).collect()
    }

    #[test]
    fn english_key_data_is_found_word_for_word() {
        let text = "My order number is A-2291, ticket #4711; I paid $1,299.00 (or 20 EUR) on 2026-03-04, see https://x.test/a?b=1. \
            Call +49 30 1234-567 or mail ada@mail.test. We run v2.3.1 of \"Blue Heron\" in /srv/app/main.rs since March 5th, 2025.";
        assert_eq!(
            found(text),
            [
                "order number is A-2291",
                "ticket #4711",
                "$1,299.00",
                "20 EUR",
                "2026-03-04",
                "https://x.test/a?b=1",
                "+49 30 1234-567",
                "ada@mail.test",
                "v2.3.1",
                "\"Blue Heron\"",
                "/srv/app/main.rs",
                "March 5th, 2025",
            ]
        );
    }

    #[test]
    fn chinese_key_data_is_found_word_for_word() {
        let text = "我的订单号是SH-88213，付了1299元，也就是¥1,299.00，3月5日送到上海市浦东新区世纪大道100号，电话13812345678，书名《三体》，版本v3.2";
        assert_eq!(
            found(text),
            [
                "订单号是SH-88213",
                "1299元",
                "¥1,299.00",
                "3月5日",
                // Where an address begins in a run of characters no rule can say: a little more does no harm.
                "送到上海市浦东新区世纪大道100号",
                "13812345678",
                "《三体》",
                "v3.2"
            ]
        );
    }

    #[test]
    fn more_forms_are_found() {
        for (text, want) in [
            ("she lives at 221 Baker Street, London now", "221 Baker Street, London now"),
            ("invoice INV-2024-001 is late", "invoice INV-2024-001"),
            ("meet at 14:30", "14:30"),
            ("due on 12/31/2026", "12/31/2026"),
            ("on 5 May 2024 we met", "5 May 2024"),
            ("it is JIRA-1234", "JIRA-1234"),
            ("open C:\\temp\\a.txt", "C:\\temp\\a.txt"),
            ("edit config.toml", "config.toml"),
            ("up 12.5%", "12.5%"),
            ("version 4 is out", "version 4"),
        ] {
            assert_eq!(found(text), [want], "{text}");
        }
    }

    #[test]
    fn plain_talk_has_none() {
        assert!(found("I like tea and long walks, the 3 of us went in May or so.").is_empty());
        assert!(found("今天天气很好，我们去公园走走吧。").is_empty());
    }
}
