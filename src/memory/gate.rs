//! The gate: what may be remembered at all. A pure function with a reason for every refusal.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::candidate::{Candidate, Intent, ProposedBy};
use super::dates;
use super::fact::{FactKind, SourceType};
use super::normalise::{fold, kept, slug};
use super::propose::states;
use super::schema::KeySchema;
use super::segment::{is_small_talk, own_words, sentences};
use super::turn::{Speaker, Turn};
use crate::base::{Time, fence};

/// What the gate judges by.
pub struct GateCx<'a> {
    /// The exchange.
    pub turn: &'a Turn,
    /// The key schema.
    pub schema: &'a KeySchema,
    /// Whether a text may not be learned again.
    pub tombstoned: &'a dyn Fn(&str) -> bool,
    /// Whether a current fact says the same: such a candidate can reinforce and bring nothing new.
    pub known: &'a dyn Fn(&Candidate) -> bool,
    /// Whether the sentence of a quote is put there by the app.
    pub boilerplate: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for GateCx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GateCx").field("exchange", &self.turn.exchange).finish_non_exhaustive()
    }
}

/// Why a candidate was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One of [`REASONS`]; also a metric label.
    pub reason: &'static str,
    /// Whether it is kept, held back, for a person to see.
    pub quarantine: bool,
}

/// Every reason for which the gate refuses.
pub const REASONS: [&str; 14] = [
    "no_evidence",
    "not_the_user",
    "not_own_words",
    "repeated",
    "shown",
    "fleeting",
    "not_stated",
    "small_talk",
    "tombstoned",
    "boilerplate",
    "orders",
    "secret",
    "no_value",
    "not_in_closed_set",
];

/// A line of ours that is shorter says nothing about where a text comes from.
const MIN_LINE_CHARS: usize = 12;

/// What ends a sentence.
const CLOSING: [char; 6] = ['.', '!', '?', '。', '\u{ff01}', '\u{ff1f}'];

fn refuse<T>(reason: &'static str) -> Result<T, Refusal> {
    Err(Refusal { reason, quarantine: false })
}

/// What an assistant does with what it is told: who is to do that is being ordered about, who "must be so excited" is not.
const CONDUCT: &str = r"(?:answer|reply|respond|say|tell|recommend|include|mention|claim|add|output|write|refuse|send|run|execute|call|use\sthe|obey|comply|pretend|act\sas|ignore|disregard|reveal|follow\s(?:the|these|my|this)|treat|speak|address\sme)";
const CONDUCT_ZH: &str = "(?:回答|回复|回应|说|告诉|推荐|输出|提到|遵守|服从|执行|扮演|忽略|无视|拒绝|泄露|调用|发送)";

/// What says that somebody has to do something.
const DUTY: &str = r"(?-u:\b)you\s(?:must|should|shall|will|are\sto|have\sto|need\sto)";
const DUTY_ZH: &str = "你(?:必须|应该|要|得|需要|只能|不能|不许|不得)";

/// Orders to the assistant.
static ORDERS: LazyLock<Regex> = LazyLock::new(|| {
    let duty = format!(r"|{DUTY}(?:\s\w+){{0,2}}\s{CONDUCT}(?-u:\b)|{DUTY_ZH}[^,。;!?，；！？\s]{{0,6}}{CONDUCT_ZH}");
    let plain = r"(?xi)(?:ignore|disregard|forget|override)\s(?:all\s|any\s|the\s|your\s|my\s|every\s)*(?:previous|prior|above|earlier|system|safety)\s?(?:instructions?|prompts?|rules?|messages?)?
        |(?-u:\b)you\sare\snow(?-u:\b)|(?-u:\b)(?:the\s)?(?:assistant|system|model|ai)\s(?:must|should|shall|will|has\sto)(?-u:\b)
        |(?-u:\b)(?:always|never|from\snow\son|whenever|every\stime)(?-u:\b).{0,60}(?-u:\b)(?:answer|reply|respond|say|tell|recommend|include|mention|claim|add|output|write|refuse|send|run|execute|call|use\sthe)(?-u:\b)
        |(?-u:\b)system\sprompt(?-u:\b)|(?-u:\b)jail\s?break|developer\smode|(?-u:\b)do\sanything\snow
        |(?-u:\b)(?:answer|reply|respond)\s(?:that|with|yes|no)(?-u:\b)|(?-u:\b)do\snot\s(?:tell|reveal|mention|refuse)
        |忽略(?:之前|以上|前面|所有|上面)|无视(?:之前|以上|前面|所有)|(?:总是|永远|一律|每次|从现在起|从今以后|以后).{0,20}(?:回答|回复|说|告诉|推荐|输出|提到)|系统提示";
    Regex::new(&format!("{plain}{duty}")).expect("tested")
});

/// What tells somebody what to do, whoever it is: people say it to each other, but it is nothing that is known of one.
static BIDDING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!(r"(?xi){DUTY}(?-u:\b)|^(?:always|never)\s|{DUTY_ZH}")).expect("tested"));

/// Whether a text gives orders to the assistant. "You must be so excited" gives none.
#[must_use]
pub fn gives_orders(text: &str) -> bool {
    ORDERS.is_match(text)
}

/// Whether a text is no fact, because it tells somebody what to do.
#[must_use]
pub fn is_bidding(text: &str) -> bool {
    BIDDING.is_match(text) || gives_orders(text)
}

/// Judges one candidate; what passes may have been mended (an unknown key becomes `note.*`, trust is lowered to that of the weakest source).
///
/// # Errors
/// A [`Refusal`] with its reason.
pub fn gate(mut candidate: Candidate, cx: &GateCx<'_>) -> Result<Candidate, Refusal> {
    if candidate.by == ProposedBy::Api {
        return Ok(candidate);
    }
    let quote = candidate.evidence.quote.trim().to_owned();
    let quote = quote.as_str();
    if quote.is_empty() {
        return refuse("no_evidence");
    }
    if candidate.evidence.role != Speaker::User {
        return refuse("not_the_user");
    }
    if cx.turn.repeated {
        return refuse("repeated");
    }
    let was_shown = check_words(quote, cx.turn)?;
    if is_small_talk(quote) {
        return refuse("small_talk");
    }
    let taking = matches!(candidate.intent, Intent::State | Intent::Change);
    if taking {
        if !candidate.lasting {
            return refuse("fleeting");
        }
        mend_key(&mut candidate, cx.schema)?;
        if candidate.by == ProposedBy::Model && !is_stated(&candidate, cx.turn) {
            return refuse("not_stated");
        }
        mend_value(&mut candidate, cx.schema)?;
        if text_of(&candidate.value).contains("[redacted:") {
            return refuse("secret");
        }
        check_orders(&candidate, cx.schema)?;
        if (cx.tombstoned)(quote) {
            return refuse("tombstoned");
        }
        if (cx.boilerplate)(quote) {
            return refuse("boilerplate");
        }
    }
    // Who says again what we showed means it; but only what is known already, so that no echo ever brings anything new.
    if was_shown && !(may_restate(quote, cx.turn) && (!taking || (cx.known)(&candidate))) {
        return refuse("shown");
    }
    if candidate.by == ProposedBy::Model && candidate.source_type as u8 > SourceType::UserStated as u8 {
        candidate.source_type = SourceType::UserStated;
    }
    candidate.confidence = candidate.confidence.clamp(0.0, 1.0).min(candidate.source_type.starting_confidence());
    Ok(candidate)
}

/// The quote stands word for word in the user's own words of this turn; whether it stands in what we showed with it as well.
fn check_words(quote: &str, turn: &Turn) -> Result<bool, Refusal> {
    let wanted = fold(quote);
    if !turn
        .user
        .iter()
        .filter(|s| s.role == Speaker::User)
        .any(|said| said.text.contains(quote) || fold(&said.text).contains(&*wanted))
    {
        return refuse("no_evidence");
    }
    let own =
        turn.user.iter().filter(|s| s.role == Speaker::User).any(|said| {
            own_words(&said.text).parts().any(|part| part.contains(quote) || fold(part).contains(&*wanted))
        });
    if !own || fence::occurs_loosely(quote) {
        return refuse("not_own_words");
    }
    Ok(turn.shown.iter().any(|shown| shown.contains(quote) || fold(shown).contains(&*wanted)))
}

/// A restatement is the user's own voice and nearly all of the message. A block of ours that an app or a model sends back comes with its
/// other lines, or speaks of "you".
fn may_restate(quote: &str, turn: &Turn) -> bool {
    const SPEAKS: [&str; 10] = ["i", "i'm", "im", "i've", "my", "me", "we", "we're", "our", "mine"];
    let lower = quote.to_lowercase().replace('’', "'");
    let first_person = lower.split(|c: char| !c.is_alphanumeric() && c != '\'').any(|word| SPEAKS.contains(&word))
        || quote.contains(['我', '咱']);
    let others = turn.shown.iter().flat_map(|shown| shown.lines()).map(fold).filter(|line| {
        let line = line.trim();
        line.chars().count() >= MIN_LINE_CHARS && !line.contains(&*fold(quote))
    });
    let user = || turn.user.iter().filter(|s| s.role == Speaker::User);
    let mut echoed = others.filter(|line| user().any(|said| fold(&said.text).contains(line.trim())));
    first_person && echoed.next().is_none()
}

/// Whether the sentence in which the quote stands states the value. A model quotes well and overlooks "if"; the rules look for it themselves.
fn is_stated(candidate: &Candidate, turn: &Turn) -> bool {
    let wanted = fold(&candidate.evidence.quote);
    let value = text_of(&candidate.value);
    turn.user.iter().filter(|s| s.role == Speaker::User).all(|said| {
        let own = own_words(&said.text);
        let holding = own.parts().flat_map(sentences).find(|s| fold(s.text).contains(wanted.trim_end_matches(CLOSING)));
        holding.is_none_or(|s| states(s.text, &value, &candidate.key))
    })
}

/// A key that the schema does not know becomes a note, with less trust.
fn mend_key(candidate: &mut Candidate, schema: &KeySchema) -> Result<(), Refusal> {
    if text_of(&candidate.value).trim().is_empty() || candidate.value.is_null() {
        return refuse("no_value");
    }
    if schema.get(&candidate.key).is_none() {
        let Some(end) =
            slug(candidate.key.rsplit('.').next().unwrap_or(""), 4).or_else(|| slug(&text_of(&candidate.value), 4))
        else {
            return refuse("no_value");
        };
        candidate.key = format!("note.{end}");
        candidate.kind = FactKind::Other;
        candidate.source_type = SourceType::Inferred;
    }
    Ok(())
}

/// The value in the form in which its key keeps it; what its type cannot hold is no value.
fn mend_value(candidate: &mut Candidate, schema: &KeySchema) -> Result<(), Refusal> {
    let (Some(rule), Value::String(text)) = (schema.get(&candidate.key), &candidate.value) else { return Ok(()) };
    let Some(kept) = kept(text, rule.value_type, candidate.evidence.said_at) else { return refuse("no_value") };
    if candidate.valid_from.is_none() && matches!(candidate.intent, Intent::State | Intent::Change) {
        candidate.valid_from = since(candidate);
    }
    candidate.value = Value::String(kept);
    Ok(())
}

/// Since when it is true, when the words say so: "I moved to Rome last month". A time to come is no beginning.
fn since(candidate: &Candidate) -> Option<Time> {
    let said_at = candidate.evidence.said_at;
    let (_, when) = dates::find(&candidate.evidence.quote, said_at)?;
    when.start().filter(|start| *start <= said_at)
}

/// Orders are held back, except the closed set that `instruction.standing` takes.
fn check_orders(candidate: &Candidate, schema: &KeySchema) -> Result<(), Refusal> {
    let text = text_of(&candidate.value);
    let facets = schema.get(&candidate.key).map_or(&[][..], |rule| rule.facets.as_slice());
    if !facets.is_empty() {
        let facet = super::propose::standing_facet(&text);
        return match facet {
            Some(facet) if candidate.tags.iter().any(|t| t == facet) => Ok(()),
            _ => Err(Refusal { reason: "not_in_closed_set", quarantine: true }),
        };
    }
    if is_bidding(&text) || (candidate.by == ProposedBy::Model && is_bidding(&candidate.evidence.quote)) {
        return Err(Refusal { reason: "orders", quarantine: true });
    }
    Ok(())
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
