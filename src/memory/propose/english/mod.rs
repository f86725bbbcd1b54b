//! The English rules: a sentence is cut in clauses, each clause is brought into the form "I …" or "my …", and matched
//! against what people say of themselves. Questions, conditions, reports and jokes are passed over.
//!
//! Nothing is decided here: what is found is a candidate, and the gate has the next word.

mod clause;
mod lists;
mod request;
mod self_rules;
mod thing_rules;
mod third;
mod value;

use std::sync::LazyLock;

use regex::Regex;

use super::{Finding, captures, standing_facet};
use crate::memory::candidate::Intent;
use crate::memory::schema::KeySchema;
use crate::memory::segment::Sentence;

pub(super) use lists::tool as tool_kind;
pub(super) use request::is_request;

/// Jokes and irony that say so.
static IRONY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?-u:\b)(?:yeah,? right|just kidding|only kidding|kidding|jk|as if|sarcasm|sarcastic|oh sure|sure,? because|because of course|said no one|not!)(?-u:\b)|\s/s(?:\s|$)|🙄|🤪|😜")
        .expect("tested")
});

/// Whether a text marks itself as not meant.
pub(super) fn is_irony(text: &str) -> bool {
    IRONY.is_match(text)
}

/// Whom a sentence speaks of when that is not its speaker, nor the speaker among others.
pub(super) fn speaks_of(sentence: &str) -> Option<String> {
    third::as_first_person(sentence).map(|(about, _)| about).filter(|about| !third::is_we(about))
}

/// Finds what a sentence says, and the words that say it.
pub(super) fn find<'a>(sentence: Sentence<'a>, schema: &KeySchema, out: &mut Vec<(Finding, &'a str)>) {
    if is_irony(sentence.text) {
        return;
    }
    if let Some(request) = request::request(sentence.text) {
        request::find(&request, sentence.text, schema, out);
        return;
    }
    if let Some(finding) = not_but(sentence.text, schema) {
        out.push((finding, sentence.text));
        return;
    }
    let clauses = clause::clauses(sentence.text);
    let count = clauses.len();
    for (index, clause) in clauses.into_iter().enumerate() {
        // "My boss said I'm late and I live too far away": all that follows is hearsay, or hangs on a condition.
        if clause::colours(&clause.text) {
            return;
        }
        // Of "I'm vegan, what can I eat?" only the last part is the question.
        if clause.question || (sentence.question && index + 1 == count) {
            continue;
        }
        for finding in statements(&clause.text, clause.change) {
            out.push((finding, clause.quote));
        }
    }
}

static DENIED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?-u:\b)(?:not|never|no longer|nobody|none|neither|nor|isn't|aren't|wasn't|don't|doesn't|didn't|haven't|hasn't|won't|can't|cannot)(?-u:\b)").expect("tested")
});
/// What is denied for these is the value: "I don't eat meat".
static DENIAL_SAYS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?-u:\b)(?:eat|drink|like|love|enjoy|stand|use|tolerate|want|forget|have to|only)(?-u:\b)")
        .expect("tested")
});

/// Whether the clause with the value in it states it; `passing` = a time that passes makes it untrue.
pub(super) fn states(sentence: &str, value: &str, passing: bool) -> bool {
    let mut colour = false;
    for clause in clause::clauses(sentence) {
        colour |= clause::colours(&clause.text);
        let lower = clause.text.to_lowercase();
        let Some(at) = lower.find(value) else { continue };
        let denied = DENIED.is_match(&lower[..at]) && !DENIAL_SAYS.is_match(&lower[..at]);
        return !(colour
            || denied
            || clause.question
            || clause::is_doubtful(&clause.text)
            || is_irony(sentence)
            || (passing && clause::is_fleeting(&clause.text) && !clause.text.contains(" moved ")));
    }
    // In other words than the sentence's: the sentence as a whole must not be in doubt.
    !(colour || clause::is_doubtful(sentence) || is_irony(sentence))
}

static NOT_BUT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:no, |actually,? |sorry,? )?my (?P<what>[\w -]{3,30}?) (?:isn['’]t|is not) [^,;]{1,60}?[,;]? (?:it['’]s|it is|but|it should be) (?P<new>[^,;]{1,60})$").expect("tested")
});

/// "My name isn't Robert, it's Rupert": the key by what people call it.
fn not_but(sentence: &str, schema: &KeySchema) -> Option<Finding> {
    let found = captures(&NOT_BUT, sentence)?;
    let key = schema.called(&found["what"])?;
    let value = crate::memory::normalise::tidy(&found["new"], schema.get(key)?.value_type)?;
    Some(Finding::new(key, value).intent(Intent::Change))
}

/// What one clause in the form "I …", "my …", "we …" or an order says.
fn statements(clause: &str, change: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    if clause::is_doubtful(clause) {
        return found;
    }
    if let Some((about, first_person)) = third::as_first_person(clause) {
        if let Some((first, second)) = third::each_with_subject(clause) {
            found = statements(&first, change);
            found.extend(statements(&second, change));
            return found;
        }
        if third::is_we(&about) {
            return statements(&first_person, change);
        }
        found = statements(&first_person, change);
        found.retain(|f| f.about.is_none());
        for finding in &mut found {
            finding.about = Some(about.clone());
        }
        return found;
    }
    self_rules::find(clause, &mut found);
    if found.is_empty() {
        thing_rules::find(clause, &mut found);
    }
    if found.is_empty() {
        standing(clause, &mut found);
    }
    if found.is_empty() {
        found.extend(self_rules::named_relative(clause));
    }
    if change {
        for finding in &mut found {
            if finding.intent == Intent::State {
                finding.intent = Intent::Change;
            }
        }
    }
    found
}

static LASTING_ORDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:please\s)?(?:always|never|from now on|in (?:the )?future|going forward)[,\s]|(?-u:\b)(?:answers|replies|responses|explanations|always|from now on|going forward)(?-u:\b)")
        .expect("tested")
});
static WISH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:i (?:prefer|like|want|need) (?:it when you |you to |your |to get )?)((?:very |more )?\w+ (?:answers|replies|responses|explanations))$").expect("tested")
});

/// A lasting wish about how to be answered.
fn standing(clause: &str, out: &mut Vec<Finding>) {
    if !LASTING_ORDER.is_match(clause) {
        return;
    }
    let text = WISH.captures(clause).and_then(|c| c.get(1)).map_or(clause, |m| m.as_str());
    // "Use Celsius, not Fahrenheit" wishes for Celsius.
    let text = text.split_once(", not ").or_else(|| text.split_once(" instead of ")).map_or(text, |(wish, _)| wish);
    let bare = value::strip_words(
        text,
        &[
            "please",
            "always",
            "from now on,",
            "from now on",
            "going forward,",
            "going forward",
            "in the future,",
            "in future,",
        ],
    );
    let behind = [" please", " from now on", " in the future", " in future", " going forward"];
    let bare = behind.iter().find_map(|end| bare.strip_suffix(end)).unwrap_or(bare).trim_end_matches(',');
    if let Some(facet) = standing_facet(bare) {
        out.push(Finding::new("instruction.standing", bare).tag(facet));
    }
}
