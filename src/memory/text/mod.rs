//! Text as terms: what makes "¥5,999" meet "5999 元", "running" meet "ran into runners", 设备 meet 设备清单.
//!
//! One analysis serves documents and questions, so that whatever it does to one it does to the other: full and half width
//! are folded (NFKC), case and Latin accents dropped, words stemmed by their language, function words left out, scripts without spaces cut in
//! overlapping pairs, codes and versions kept whole beside their parts, amounts and measures brought into one form. A term is a 64-bit hash: nothing is kept of the text.
//!
//! Pure and bounded: of a long text only [`MAX_TEXT_BYTES`] are read. It never guesses meaning; that is for embedders.
//!
//! Start with [`analyse`]; `scan` cuts a text, `words` knows the common ones.

mod fold;
mod languages;
mod scan;
mod stem;
mod words;

pub use fold::fold;
pub(in crate::memory) use fold::simplified;

use std::borrow::Cow;

use languages::Language;
use scan::{Piece, Shape};
use words::Commonness;

/// What is read of one text at most; of a longer one, the first and the last half of this.
pub const MAX_TEXT_BYTES: usize = 16 * 1024;

/// A term: the hash of a normalised word, number, code or pair of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId(pub u64);

/// What a term is, and so how much it tells by its form alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A telling word or number.
    Whole,
    /// A code, version, address or date as a whole: nobody says it by chance.
    Code,
    /// An everyday word, pair or currency: indexed, but never enough by itself.
    Common,
    /// A part of a code, beside the whole.
    Part,
    /// Two neighbouring characters of a script without spaces.
    Pair,
    /// One character of such a script, beside its pairs.
    Single,
}

impl Form {
    /// Whether a match of it says that two texts are about the same thing.
    #[must_use]
    pub fn is_telling(self) -> bool {
        matches!(self, Self::Whole | Self::Code | Self::Pair)
    }
}

/// One term of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Names the term.
    pub id: TermId,
    /// What it is.
    pub form: Form,
}

impl Term {
    /// How much it tells by its form, 0 to 1.
    #[must_use]
    pub fn weight(self) -> f32 {
        match self.form {
            Form::Whole | Form::Code | Form::Pair => 1.0,
            Form::Common => 0.6,
            Form::Part => 0.4,
            Form::Single => 0.35,
        }
    }

    /// Whether it counts towards a text's length: parts and single characters repeat what another term says.
    #[must_use]
    pub fn counts(self) -> bool {
        !matches!(self.form, Form::Part | Form::Single)
    }

    /// Whether a match of it says that two texts are about the same thing.
    #[must_use]
    pub fn is_telling(self) -> bool {
        self.form.is_telling()
    }
}

/// Cuts a text into terms, in order, repeats included.
#[must_use]
pub fn analyse(text: &str) -> Vec<Term> {
    analyse_folded(&fold(ends(text)))
}

/// The same for a text that was folded already.
#[must_use]
pub fn analyse_folded(folded: &str) -> Vec<Term> {
    let folded = ends(folded);
    let mut terms = Vec::with_capacity(folded.len() / 5 + 1);
    match languages::of(&folded) {
        None => scan::scan(&folded, &mut |piece| terms.extend(term(&piece))),
        Some(language) => scan::scan(&folded, &mut |piece| terms.extend(foreign(&piece, language))),
    }
    terms
}

/// The terms of a piece in another Latin language. A word stands for itself by the rules of its language; beside that it can be found as a
/// question of one or two words would have it, whose language nobody can tell.
fn foreign(piece: &Piece<'_>, language: Language) -> impl Iterator<Item = Term> {
    let shape = piece.shape;
    let own = match shape {
        Shape::Word if language.is_function(piece.text) => return [None, None].into_iter().flatten(),
        Shape::Word => Some(Term { id: stem::by_rules(piece.text, language.algorithm()), form: Form::Whole }),
        _ => None,
    };
    let plain = match own {
        None => term(piece),
        Some(own) => Some(Term { id: stem::stem(piece.text).0, form: Form::Part }).filter(|plain| plain.id != own.id),
    };
    [own, plain].into_iter().flatten()
}

fn term(piece: &Piece<'_>) -> Option<Term> {
    let text = piece.text;
    let form = match piece.shape {
        Shape::Word => return word(text, Form::Whole),
        Shape::Part => return word(text, Form::Part),
        // "two weeks", "10 minutes": small numbers are everywhere.
        Shape::Number if text.len() < 3 => Form::Common,
        Shape::Code => Form::Code,
        Shape::LoneSingle if words::is_common_single(text) => Form::Common,
        Shape::Number | Shape::LoneSingle => Form::Whole,
        Shape::Currency => Form::Common,
        Shape::Pair if words::is_common_pair(text) => Form::Common,
        Shape::Pair => Form::Pair,
        Shape::Single => Form::Single,
    };
    Some(Term { id: hash(text), form })
}

fn word(text: &str, form: Form) -> Option<Term> {
    let (id, commonness) = stem::stem(text);
    let form = match (commonness, form) {
        (Commonness::Telling, form) => form,
        (Commonness::Common, Form::Whole) => Form::Common,
        _ => return None,
    };
    Some(Term { id, form })
}

/// The terms of a person's name, each of which may stand for the person.
#[must_use]
pub fn name_terms(name: &str) -> Vec<TermId> {
    analyse(name).into_iter().filter(|term| term.is_telling()).map(|term| term.id).collect()
}

/// FNV-1a with a last mix: short inputs, no attacker to gain anything from a collision in his own scope.
fn hash(text: &str) -> TermId {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 32;
    TermId(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The whole of a short text; the beginning of a long one, where the question stands as often as not.
fn ends(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT_BYTES {
        return text.into();
    }
    let head = text.floor_char_boundary(MAX_TEXT_BYTES / 2);
    let tail = text.ceil_char_boundary(text.len() - MAX_TEXT_BYTES / 2);
    format!("{} {}", &text[..head], &text[tail..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<TermId> {
        analyse(text).into_iter().map(|term| term.id).collect()
    }

    fn meet(a: &str, b: &str) -> bool {
        let b = ids(b);
        ids(a).iter().any(|id| b.contains(id))
    }

    #[test]
    fn words_meet_in_their_stem() {
        assert!(meet("She was painting", "paintings"));
        assert!(meet("Café", "the CAFE's menu"));
        assert!(!meet("the and of", "of the and"));
    }

    #[test]
    fn amounts_meet_however_they_are_written() {
        let spellings = [
            "5999 元",
            "5999元",
            "5,999 yuan",
            "５９９９",
            "RMB 5,999.00",
            "rmb5999",
            "5999CNY",
            "\u{ffe5}5,999.00",
            "5999块钱",
            "5.999,00 CNY",
            "6k - 1, or 5.999k",
        ];
        for other in spellings {
            assert!(meet("¥5999", other), "{other}");
        }
        assert!(!meet("¥5999", "5998"));
        for other in ["1.5万元", "15,000 yuan", "15k", "1.5萬"] {
            assert!(meet("15000", other), "{other}");
        }
        assert!(meet("3 million", "300万") && meet("3百万", "3,000,000") && meet("2亿", "200 million"));
        assert!(!meet("5.999", "5999"), "a version or a price: nobody can tell");
    }

    #[test]
    fn currencies_are_one_however_they_are_called() {
        for (a, b) in [
            ("20€", "20 euros"),
            ("20欧元", "EUR 20"),
            ("$30", "30 dollars"),
            ("30美元", "usd30"),
            ("100円", "100 yen"),
        ] {
            let currency =
                |text: &str| analyse(text).iter().find(|t| t.form == Form::Common && t.id != hash("20")).map(|t| t.id);
            assert!(currency(a).is_some() && meet(a, b), "{a} {b}");
        }
    }

    #[test]
    fn measures_meet_however_they_are_written() {
        let code = |text: &str| analyse(text).iter().filter(|t| t.form == Form::Code).map(|t| t.id).collect::<Vec<_>>();
        for (a, b) in [
            ("10km", "10 kilometers"),
            ("10 km", "10公里"),
            ("128GB", "128 gb"),
            ("70 kg", "70公斤"),
            ("70kgs", "70 kilos"),
            ("37.5°C", "37.5 degrees"),
            ("30 cm", "30厘米"),
            ("20%", "20 percent"),
            ("20%", "20 per cent"),
        ] {
            assert!(!code(a).is_empty() && code(a) == code(b), "{a} {b}");
        }
        assert!(code("10 km") != code("11 km") && code("10 km") != code("10 kg"));
        assert!(code("10 apples").is_empty());
    }

    // Issue 5, item 4: stemming by language.
    #[test]
    fn words_of_other_languages_meet_in_their_stem() {
        for (a, b) in [
            ("Ich habe meine Wohnungen verkauft", "Wo ist die Wohnung?"),
            ("Ich habe meine Wohnungen verkauft", "Wohnungen"),
            ("Nous avons vendu les vieilles maisons", "quelle maison"),
            ("tengo tres hermanas en Madrid", "¿Dónde vive mi hermana?"),
            ("Я живу в больших городах", "большой город"),
            ("ho due biciclette", "dove è la mia bicicletta?"),
        ] {
            assert!(meet(a, b), "{a} {b}");
        }
        let telling = |text: &str| analyse(text).iter().filter(|term| term.is_telling()).count();
        assert_eq!(telling("wo ist mein das die der"), 0, "function words tell nothing in any language");
        assert_eq!(telling("что это и где он был"), 0);
    }

    #[test]
    fn codes_meet_whole_and_in_parts() {
        assert_eq!(ids("ABC-12345")[0], ids("abc-12345")[0]);
        assert!(meet("ABC-12345", "12345"));
        assert_eq!(ids("ABC-12345")[0], ids("ABC12345")[0]);
        assert!(meet("v1.2.3", "1.2.3"));
        assert!(!meet("v1.2.3", "v1.2.4"));
    }

    // Trap: Chinese is found by a part of the phrase (openclaw#20730, CherryHQ/stella#388, thedotmack/claude-mem#3801).
    #[test]
    fn chinese_is_found_by_a_part_of_the_phrase() {
        assert!(meet("库存清单在二楼", "库存"));
        assert!(meet("我家的猫叫小白", "猫"));
        assert!(meet("訂單號碼", "订单"));
    }

    #[test]
    fn a_long_text_is_read_at_both_ends() {
        let text = format!("zebra {} walrus", "filler ".repeat(200_000));
        assert!(meet(&text, "zebra") && meet(&text, "walrus"));
        assert!(analyse(&text).len() < MAX_TEXT_BYTES);
    }

    #[test]
    fn odd_texts_do_no_harm() {
        for text in ["", " ", "🙂🙃", "a", "שלום עולם", "\u{0}\u{feff}", "'''", "---", "¥", "é\u{301}\u{301}", "๒๓"]
        {
            let _ = analyse(text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_cut_alike_twice(text in ".{0,200}") {
            proptest::prop_assert_eq!(ids(&text), ids(&text));
        }
    }
}
