//! Which Latin language a text is in, by its function words, so that they are left out and the rest is stemmed by its rules.
//!
//! English is told first and for next to nothing, since most texts are. A word of another alphabet needs no guess: its script says it.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::FixedState;
use rust_stemmers::Algorithm;

use super::words::{self, Commonness};

/// So many words are looked at.
const MAX_WORDS: usize = 24;
/// So many function words of English settle it.
const SETTLED: u32 = 2;
/// In a text of at most so many words, one function word of another language is enough where there is none of English.
const SHORT: usize = 5;

/// A Latin language other than English.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    German,
    French,
    Spanish,
    Italian,
    Portuguese,
    Dutch,
}

const ALL: [(Language, &str); 6] = [
    (
        Language::German,
        "der die das den dem des ein eine einen einem einer eines und oder aber ich du er sie es wir ihr mich dich mir dir uns euch \
         ist sind war waren bin bist habe hast hat haben hatte wird werden wurde kann muss soll nicht kein keine mit von vom zu zum zur \
         bei im am auf aus nach fur uber unter als wie was wer wo wann warum welche welcher welches mein meine meinen meinem meiner \
         dein deine sein seine sich auch noch schon nur sehr dass wenn weil hier dort heute",
    ),
    (
        Language::French,
        "le la les un une des du de et ou mais je tu il elle nous vous ils elles on me te se est sont suis etait etais etes ai as a \
         ont avons avez avait pas ne que qui quoi quel quelle quels quelles ou quand comment pourquoi mon ma mes ton ta tes son sa ses \
         notre nos votre vos leur leurs ce cet cette ces dans sur sous pour par avec sans chez au aux en y plus tres aussi",
    ),
    (
        Language::Spanish,
        "el la los las un una unos unas y o pero yo tu ella nosotros ellos me te se nos lo le les es son soy eres era fue estoy esta \
         estan estaba he ha han habia no que quien cual cuales donde cuando como cuanto mi mis tus su sus nuestro nuestra este esta \
         ese esa en de del al con sin por para sobre muy tambien ya mas",
    ),
    (
        Language::Italian,
        "il lo la i gli le un uno una e o ma io tu lui lei noi voi loro mi ti si ci vi e sono sei era erano ho hai ha abbiamo avete \
         hanno aveva non che chi cosa quale quali dove quando come quanto perche mio mia miei mie tuo tua suo sua nostro nostra di del \
         della dei delle dello da dal dalla in nel nella con su sul sulla per tra anche molto piu questo questa",
    ),
    (
        Language::Portuguese,
        "o a os as um uma uns umas e ou mas eu tu ele ela nos voces eles elas me te se lhe e sao sou era foi estou esta estava tenho \
         tem tinha nao que quem qual quais onde quando como quanto meu minha meus minhas teu tua seu sua nosso nossa de do da dos das \
         em no na nos nas com sem por pelo pela para muito tambem ja mais este esta isso",
    ),
    (
        Language::Dutch,
        "de het een en of maar ik jij je hij zij ze wij we jullie mij me jou hem haar ons is zijn was waren ben bent heb hebt heeft \
         hebben had wordt worden kan moet niet geen met van voor naar bij op uit aan in als dan wat wie waar wanneer waarom welke mijn \
         jouw onze hun ook nog al heel dat die dit deze hoe",
    ),
];

/// The languages that a word is a function word of, a bit each.
static FUNCTION: LazyLock<HashMap<&'static str, u8, FixedState>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, u8, FixedState> = HashMap::default();
    for (language, list) in ALL {
        for word in list.split_whitespace() {
            *table.entry(word).or_default() |= language.bit();
        }
    }
    table
});

impl Language {
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether a folded word is one of those that tell nothing.
    pub(super) fn is_function(self, word: &str) -> bool {
        FUNCTION.get(word).is_some_and(|languages| languages & self.bit() != 0)
    }

    pub(super) fn algorithm(self) -> Algorithm {
        match self {
            Self::German => Algorithm::German,
            Self::French => Algorithm::French,
            Self::Spanish => Algorithm::Spanish,
            Self::Italian => Algorithm::Italian,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Dutch => Algorithm::Dutch,
        }
    }
}

/// The language of a folded text; `None` = English, or none that is known.
pub(super) fn of(folded: &str) -> Option<Language> {
    let (mut english, mut others, mut n_words) = (0, [0_u32; ALL.len()], 0);
    let words = folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    for word in words.take(MAX_WORDS) {
        n_words += 1;
        if word.len() > 1 && words::commonness(word) == Commonness::Function {
            english += 1;
            if english == SETTLED {
                return None;
            }
        }
        if let Some(languages) = FUNCTION.get(word) {
            for (n, count) in others.iter_mut().enumerate() {
                *count += u32::from(languages >> n & 1);
            }
        }
    }
    let best = others.into_iter().max()?;
    let least = if n_words <= SHORT && english == 0 { 1 } else { 2 };
    if best < least || best <= english {
        return None;
    }
    // What two languages have alike is neither's.
    let mut likely = ALL.iter().zip(others).filter(|(_, count)| *count == best);
    let (language, _) = likely.next()?;
    likely.next().is_none().then_some(language.0)
}

/// The rules for a word of an alphabet that one large language is written in.
pub(super) fn by_script(word: &str) -> Option<Algorithm> {
    match word.chars().next()? {
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Some(Algorithm::Greek),
        '\u{400}'..='\u{4ff}' => Some(Algorithm::Russian),
        '\u{600}'..='\u{6ff}' => Some(Algorithm::Arabic),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told_by_their_function_words() {
        for (text, language) in [
            ("ich habe gestern die alte wohnung verkauft", Some(Language::German)),
            ("wo ist mein schlussel", Some(Language::German)),
            ("j'ai vendu mon vieil appartement et je suis triste", Some(Language::French)),
            ("vendi mi casa y ahora no tengo donde vivir", Some(Language::Spanish)),
            ("ho comprato una bicicletta nuova per mia figlia", Some(Language::Italian)),
            ("eu comprei uma bicicleta para a minha filha", Some(Language::Portuguese)),
            ("ik heb mijn fiets aan de buren gegeven", Some(Language::Dutch)),
            ("i sold the old flat", None),
            ("what was in the der spiegel article", None),
            ("boiler service", None),
            ("die hard", None),
            ("", None),
            ("设备清单", None),
        ] {
            assert_eq!(of(text), language, "{text}");
        }
    }
}
