//! Cuts folded text into pieces: words, numbers, codes with their parts, pairs of characters.

use super::words;

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A word of letters.
    Word,
    /// A number, thousands separators taken out.
    Number,
    /// A code, version, address or date as it was written, without a leading `v`.
    Code,
    /// A part of a code.
    Part,
    /// A currency, by its three letters.
    Currency,
    /// Two neighbouring characters of a script that is written without spaces.
    Pair,
    /// One character of such a script, beside its pairs.
    Single,
    /// The one character of a run of one.
    LoneSingle,
}

/// A piece of text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) shape: Shape,
}

/// Calls `emit` for every piece of `text`, from left to right.
pub(super) fn scan(text: &str, emit: &mut impl FnMut(Piece<'_>)) {
    let mut rest = text;
    // The number that has just been read, for what may follow it: a unit, or a word that makes more of it.
    let mut number: Option<String> = None;
    while let Some(c) = rest.chars().next() {
        let length = if is_unspaced(c) {
            let length = span(rest, is_unspaced);
            let known = number.take().map_or(0, |number| behind_number(&number, &rest[..length], emit));
            unspaced(&rest[known..length], emit);
            length
        } else if c.is_alphanumeric() {
            let length = chunk_length(rest);
            let before = number.take();
            number = chunk(&rest[..length], before.as_deref(), emit);
            length
        } else {
            match (words::currency_sign(c), &number) {
                (Some(name), _) => emit(Piece { text: name, shape: Shape::Currency }),
                (None, Some(number)) if c == '%' => measure(number, "%", emit),
                (None, Some(number)) if c == '°' => measure(number, "deg", emit),
                _ => {}
            }
            // Only a space may stand between a number and its unit.
            if !matches!(c, ' ' | '\u{a0}') {
                number = None;
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
}

/// A number and its unit as one thing, beside both.
fn measure(number: &str, unit: &str, emit: &mut impl FnMut(Piece<'_>)) {
    emit(Piece { text: &format!("{number}{unit}"), shape: Shape::Code });
}

/// What a run without spaces says of the number before it: 万, 公里; how much of the run that was.
fn behind_number(number: &str, run: &str, emit: &mut impl FnMut(Piece<'_>)) -> usize {
    if let Some((times, length)) = words::multiplier_prefix(run)
        && let Some(number) = scaled(number, times)
    {
        emit(Piece { text: &number, shape: Shape::Number });
        return length;
    }
    let Some((unit, length)) = words::unit_prefix(run) else { return 0 };
    measure(number, unit, emit);
    length
}

/// `1.5` times 10,000 as `15000`; nothing for what is no whole number then, or too large.
fn scaled(number: &str, times: u64) -> Option<String> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let scale = 10_u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let digits: u64 = format!("{whole}{decimals}").parse().ok()?;
    let product = digits.checked_mul(times)?;
    (product % scale == 0).then(|| (product / scale).to_string())
}

/// Scripts without spaces between words: Han, kana, Thai, Lao, Myanmar, Khmer. (Hangul has spaces, but glues particles on: pairs serve it better.)
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
        && !matches!(c, '\u{0e50}'..='\u{0e59}' | '\u{30fb}')
}

fn span(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.char_indices().find(|&(_, c)| !belongs(c)).map_or(text.len(), |(at, _)| at)
}

/// A run of letters and digits with single connectors inside: `don't`, `5,999`, `v1.2.3`, `abc-12345`, `ann@site.org`.
fn chunk_length(text: &str) -> usize {
    // Most end where their plain letters do.
    let plain = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    if matches!(text.as_bytes().get(plain), None | Some(b' ')) {
        return plain;
    }
    let mut end = 0;
    let mut before = ' ';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or(' ', |&(_, next)| next);
        let inside = is_plain(c) || is_mark(c) || (is_plain(before) && is_plain(next) && connects(before, c, next));
        if !inside {
            break;
        }
        end = at + c.len_utf8();
        before = c;
    }
    end
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() && !is_unspaced(c)
}

/// Combining marks of Arabic, Hebrew and the Indic scripts stay with their letter.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{036f}' | '\u{0591}'..='\u{05c7}' | '\u{064b}'..='\u{065f}' | '\u{0900}'..='\u{0903}'
        | '\u{093a}'..='\u{094f}' | '\u{0962}'..='\u{0963}')
}

fn connects(before: char, c: char, next: char) -> bool {
    match c {
        '\'' => before.is_alphabetic() && next.is_alphabetic(),
        ',' => before.is_ascii_digit() && next.is_ascii_digit(),
        '-' | '_' | '.' | '@' | '/' | ':' | '#' | '+' => true,
        _ => false,
    }
}

/// `number` is the one before it. Returns the number that it is itself.
fn chunk(text: &str, number: Option<&str>, emit: &mut impl FnMut(Piece<'_>)) -> Option<String> {
    if text.chars().all(|c| c.is_alphabetic() || is_mark(c) || c == '\'') {
        if let Some(number) = number {
            follow(number, text, emit);
        }
        word(text, emit);
        return None;
    }
    if let Some(number) = as_number(text) {
        emit(Piece { text: &number, shape: Shape::Number });
        return Some(number.into_owned());
    }
    if amount(text, emit) {
        return None;
    }
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    if has_digit || is_address(text) {
        let has_letter = text.chars().any(char::is_alphabetic);
        let glued = has_digit && has_letter && !text.contains(['.', '@', '/', ':', '#', '+', ',', '\'']);
        // "ABC-12345" and "ABC12345" are one code; of digits alone a hyphen makes a range or a date.
        let code = if glued { text.replace(['-', '_'], "") } else { text.to_owned() };
        emit(Piece { text: without_v(&code), shape: Shape::Code });
        parts(text, emit);
    } else {
        // "well-known", "and/or", "end.Next": words that stand together.
        for part in text.split(|c: char| !c.is_alphabetic() && !is_mark(c) && c != '\'').filter(|part| !part.is_empty())
        {
            word(part, emit);
        }
    }
    None
}

/// What a word says of the number before it.
fn follow(number: &str, word: &str, emit: &mut impl FnMut(Piece<'_>)) {
    if let Some(unit) = words::unit_word(word) {
        measure(number, unit, emit);
    } else if word == "per" {
        // "per cent"
        measure(number, "%", emit);
    } else if let Some(number) = words::multiplier(word).and_then(|times| scaled(number, times)) {
        emit(Piece { text: &number, shape: Shape::Number });
    }
}

/// `10km`, `15k`, `5999cny`, `rmb5,999`: a number with its unit, currency or multiplier written to it. Whether it was one.
fn amount(text: &str, emit: &mut impl FnMut(Piece<'_>)) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let (head, tail) = text.split_at(span(text, char::is_alphabetic));
    let (number, name) = if head.is_empty() { text.split_at(span(text, is_digit)) } else { (tail, head) };
    let Some(number) = as_number(number).filter(|_| !name.is_empty() && name.chars().all(char::is_alphabetic)) else {
        return false;
    };
    if let Some(currency) = words::currency_word(name) {
        emit(Piece { text: currency, shape: Shape::Currency });
        emit(Piece { text: &number, shape: Shape::Number });
        return true;
    }
    if !head.is_empty() {
        return false;
    }
    if let Some(unit) = words::unit_word(name) {
        measure(&number, unit, emit);
        emit(Piece { text: &number, shape: Shape::Part });
        emit(Piece { text: unit, shape: Shape::Part });
        return true;
    }
    match words::multiplier(name).and_then(|times| scaled(&number, times)) {
        Some(number) => {
            emit(Piece { text: &number, shape: Shape::Number });
            true
        }
        None => false,
    }
}

fn word(text: &str, emit: &mut impl FnMut(Piece<'_>)) {
    let parted = if text.bytes().any(|byte| byte == b'\'') { text.rsplit_once('\'') } else { None };
    let text = match parted {
        Some((head, "s" | "m" | "re" | "ve" | "ll" | "d")) => head,
        Some((_, "t")) => return, // "don't", "isn't"
        Some((head, tail)) => {
            word(head, emit);
            tail
        }
        None => text,
    };
    if let Some(currency) = words::currency_word(text) {
        return emit(Piece { text: currency, shape: Shape::Currency });
    }
    if !text.is_empty() {
        emit(Piece { text, shape: Shape::Word });
    }
}

/// `5,999` and `5,999.00` as `5999`; `2.5` as it is; nothing for versions and dates.
fn as_number(text: &str) -> Option<std::borrow::Cow<'_, str>> {
    if let Some(number) = continental(text) {
        return Some(number.into());
    }
    let plain = text.strip_suffix(".00").or_else(|| text.strip_suffix(".0")).unwrap_or(text);
    if plain.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(plain.into());
    }
    let mut groups = plain.split(',');
    let head = groups.next()?;
    let grouped = plain.contains(',')
        && (1..=3).contains(&head.len())
        && groups.all(|group| group.len() >= 3 && group.bytes().take(3).all(|byte| byte.is_ascii_digit()));
    let dots = plain.bytes().filter(|&byte| byte == b'.').count();
    let digits = plain.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'.'));
    if !digits || dots > 1 {
        return None;
    }
    if grouped {
        return Some(plain.replace(',', "").into());
    }
    (!plain.contains(',')).then(|| plain.into())
}

/// `5.999,00` as `5999`: points between groups of three, and a comma before the decimals.
fn continental(text: &str) -> Option<String> {
    let (whole, decimals) = text.rsplit_once(',')?;
    let mut groups = whole.split('.');
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let head = groups.next().filter(|head| (1..=3).contains(&head.len()) && is_number(head))?;
    let fits = whole.contains('.') && groups.all(|group| group.len() == 3 && is_number(group));
    if !fits || head.is_empty() || !(1..=2).contains(&decimals.len()) || !is_number(decimals) {
        return None;
    }
    let whole = whole.replace('.', "");
    Some(if decimals.bytes().all(|byte| byte == b'0') { whole } else { format!("{whole}.{decimals}") })
}

/// `ann@site.org`, `docs.site.org/start`, `snake_case`: one thing, though made of letters only.
fn is_address(text: &str) -> bool {
    text.contains(['@', '_']) || text.contains(['.', ':', '#', '+']) && !text.contains('\'')
}

/// `v1.2.3` and `1.2.3` are the same version.
fn without_v(text: &str) -> &str {
    match text.strip_prefix('v') {
        Some(version) if version.starts_with(|c: char| c.is_ascii_digit()) => version,
        _ => text,
    }
}

/// The runs of letters and of digits in a code.
fn parts(text: &str, emit: &mut impl FnMut(Piece<'_>)) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if c.is_ascii_digit() {
            span(rest, |c| c.is_ascii_digit())
        } else if c.is_alphabetic() {
            span(rest, char::is_alphabetic)
        } else {
            rest = &rest[c.len_utf8()..];
            continue;
        };
        // A part that is the whole would count twice; single digits of a version tell nothing.
        if length < text.len() && length > 1 {
            emit(Piece { text: &rest[..length], shape: Shape::Part });
        }
        rest = &rest[length..];
    }
}

/// Pairs and single characters of a run, parted at function words.
fn unspaced(run: &str, emit: &mut impl FnMut(Piece<'_>)) {
    let mut start = 0;
    let mut at = 0;
    while at < run.len() {
        let rest = &run[at..];
        let stop = words::function_prefix(rest);
        if stop > 0 {
            pairs(&run[start..at], emit);
            if let Some(currency) = words::currency_word(&rest[..stop]) {
                emit(Piece { text: currency, shape: Shape::Currency });
            }
            at += stop;
            start = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    pairs(&run[start..], emit);
}

fn pairs(run: &str, emit: &mut impl FnMut(Piece<'_>)) {
    let mut ends = run.char_indices().map(|(at, c)| (at, at + c.len_utf8())).peekable();
    let alone = run.chars().nth(1).is_none();
    while let Some((start, end)) = ends.next() {
        let shape = if alone { Shape::LoneSingle } else { Shape::Single };
        emit(Piece { text: &run[start..end], shape });
        if let Some(&(_, next_end)) = ends.peek() {
            emit(Piece { text: &run[start..next_end], shape: Shape::Pair });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<(String, Shape)> {
        let mut found = Vec::new();
        scan(text, &mut |piece| found.push((piece.text.to_owned(), piece.shape)));
        found
    }

    fn texts(text: &str) -> Vec<String> {
        pieces(text).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn connectors_hold_codes_together_and_part_words() {
        assert_eq!(texts("well-known and/or"), ["well", "known", "and", "or"]);
        assert_eq!(texts("abc-12345."), ["abc12345", "abc", "12345"]);
        assert_eq!(texts("see ann@site.org!"), ["see", "ann@site.org", "ann", "site", "org"]);
        assert_eq!(texts("v1.2.3, 10:30"), ["1.2.3", "10:30", "10", "30"]);
    }

    #[test]
    fn numbers_lose_their_separators_and_keep_their_point() {
        assert_eq!(texts("5,999 1,234,567.50 2.5 7.00"), ["5999", "1234567.50", "2.5", "7"]);
        assert_eq!(texts("5.999,00 1.234.567,5 1.2.3"), ["5999", "1234567.5", "1.2.3"]);
        assert_eq!(texts("192.168.100.200"), ["192.168.100.200", "192", "168", "100", "200"]);
    }

    #[test]
    fn endings_with_an_apostrophe_go() {
        assert_eq!(texts("anna's don't i'm o'neill"), ["anna", "i", "o", "neill"]);
    }

    #[test]
    fn a_run_of_characters_gives_pairs_parted_at_function_words() {
        assert_eq!(texts("我的设备清单"), ["设", "设备", "备", "备清", "清", "清单", "单"]);
        assert_eq!(pieces("猫")[0].1, Shape::LoneSingle);
    }
}
