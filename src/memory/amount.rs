//! Amounts of money: `€1,200`, "1.2k dollars", 500块.

use std::sync::LazyLock;

use regex::Regex;

static FORM: LazyLock<Regex> = LazyLock::new(|| {
    let units = r"us\$|[$€£¥₹]|￥|usd|eur|gbp|cny|rmb|jpy|inr|chf|cad|aud|dollars?|bucks|euros?|pounds?|yuan|yen|rupees?|francs?|美元|欧元|英镑|日元|人民币|元|块钱?|刀";
    Regex::new(&format!(
        r"(?i)(?P<before>{units})?\s?(?P<number>\d{{1,3}}(?:[,\x{{2019}}' ]\d{{3}})+(?:\.\d{{1,2}})?|\d+(?:\.\d{{1,2}})?)\s?(?P<times>k|m|million|thousand|千|万|亿)?\s?(?P<after>{units})?(?:$|[^\p{{L}}\d])"
    ))
    .expect("tested")
});

/// The first amount with a currency in a text, as `1200 EUR`; `None` where no currency is named.
#[must_use]
pub fn amount(text: &str) -> Option<String> {
    FORM.captures_iter(text).find_map(|found| {
        let unit = found.name("before").or_else(|| found.name("after"))?.as_str();
        let digits: String = found["number"].chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
        let (whole, cents) = digits.split_once('.').unwrap_or((&digits, ""));
        let zeros = match found.name("times").map(|m| m.as_str().to_lowercase()).as_deref() {
            None => 0,
            Some("k" | "thousand" | "千") => 3,
            Some("万") => 4,
            Some("亿") => 8,
            Some(_) => 6,
        };
        // Decimal places move into the whole part digit by digit: no float takes part.
        let moved: String = cents.chars().chain(std::iter::repeat('0')).take(zeros).collect();
        let left: String = cents.chars().skip(zeros).collect();
        let whole = format!("{whole}{moved}");
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let left = left.trim_end_matches('0');
        let number = if left.is_empty() { whole.to_owned() } else { format!("{whole}.{left}") };
        Some(format!("{number} {}", code(unit)))
    })
}

/// ISO 4217, as far as the sign tells.
fn code(unit: &str) -> &'static str {
    match unit.to_lowercase().trim_end_matches('s') {
        "€" | "eur" | "euro" | "欧元" => "EUR",
        "£" | "gbp" | "pound" | "英镑" => "GBP",
        "¥" | "\u{ffe5}" | "cny" | "rmb" | "yuan" | "人民币" | "元" | "块" | "块钱" => "CNY",
        "jpy" | "yen" | "日元" => "JPY",
        "₹" | "inr" | "rupee" => "INR",
        "chf" | "franc" => "CHF",
        "cad" => "CAD",
        "aud" => "AUD",
        _ => "USD",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_a_number_and_a_currency() {
        for (text, kept) in [
            ("€1,200", "1200 EUR"),
            ("about 1.2k dollars a month", "1200 USD"),
            ("$15", "15 USD"),
            ("15.50 GBP", "15.5 GBP"),
            ("1 000 000 euros", "1000000 EUR"),
            ("2.5 million yen", "2500000 JPY"),
            ("500块", "500 CNY"),
            ("3万元", "30000 CNY"),
            ("￥88", "88 CNY"),
        ] {
            assert_eq!(amount(text).as_deref(), Some(kept), "{text}");
        }
        for text in ["500", "5 kilos", "version 3", "a lot of money"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}") {
            let _ = amount(&text);
        }
    }
}
