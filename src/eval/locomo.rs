//! Reads LoCoMo (Maharana et al., ACL 2024): long conversations between two named people, with questions and the turns that answer them.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::EvalError;
use super::dataset::{DataScope, Dataset, Memory, Question};
use crate::base::{EpisodeId, Time};
use crate::memory::Speaker;

#[derive(Deserialize)]
struct Sample {
    sample_id: String,
    conversation: Map<String, Value>,
    qa: Vec<Asked>,
}

#[derive(Deserialize)]
struct Asked {
    question: String,
    category: u8,
    #[serde(default)]
    evidence: Vec<String>,
}

#[derive(Deserialize)]
struct Said {
    speaker: String,
    dia_id: String,
    text: String,
    /// What is seen on a picture that was sent along.
    blip_caption: Option<String>,
}

/// Questions about the wrong person: nothing that is said answers them.
const ADVERSARIAL: u8 = 5;

/// Reads a data set; `path` is for messages only.
pub(super) fn read(path: &str, content: &str) -> Result<Dataset, EvalError> {
    let wrong = |place: &str, error: serde_json::Error| EvalError::Format {
        path: path.to_owned(),
        place: place.to_owned(),
        problem: error.to_string(),
    };
    let samples: Vec<Sample> = serde_json::from_str(content).map_err(|error| wrong("the whole", error))?;
    let mut dataset = Dataset::default();
    for sample in samples {
        let mut scope = DataScope::new(&sample.sample_id);
        for number in 1.. {
            let name = format!("session_{number}");
            let date = sample.conversation.get(&format!("{name}_date_time")).and_then(Value::as_str);
            let Some(turns) = sample.conversation.get(&name) else {
                // Some sessions have a date and no turns.
                if date.is_some() {
                    continue;
                }
                break;
            };
            let turns: Vec<Said> = serde_json::from_value(turns.clone())
                .map_err(|error| wrong(&format!("{} {name}", scope.name), error))?;
            let start = date.and_then(session_time).unwrap_or_default();
            turns.into_iter().zip(0..).for_each(|(said, place)| scope.remember(memory(said, &name, start, place)));
        }
        scope.questions = sample.qa.into_iter().filter_map(|asked| question(asked, &scope.ids)).collect();
        dataset.scopes.push(scope);
    }
    Ok(dataset)
}

fn memory(said: Said, session: &str, start: Time, place: i64) -> Memory {
    let text = match said.blip_caption {
        Some(caption) => format!("{} [{caption}]", said.text),
        None => said.text,
    };
    Memory {
        id: said.dia_id,
        session: session.to_owned(),
        role: Speaker::User,
        speaker: Some(said.speaker),
        said_at: start.plus_seconds(place * 30),
        text,
    }
}

/// Questions without any evidence that resolves are left out, as everyone who reports on this set does.
fn question(asked: Asked, known: &HashMap<String, EpisodeId>) -> Option<Question> {
    let named = asked.evidence.iter().flat_map(|text| text.split([';', ',', ' '])).filter_map(evidence_id);
    let mut expected: Vec<EpisodeId> = named.filter_map(|id| known.get(&id).copied()).collect();
    expected.sort_unstable();
    expected.dedup();
    let category = match asked.category {
        1 => "multi-hop",
        2 => "temporal",
        3 => "open-domain",
        4 => "single-hop",
        _ => "adversarial",
    };
    (!expected.is_empty()).then(|| Question {
        text: asked.question,
        asked_at: None,
        expected,
        category: category.to_owned(),
        answerable: asked.category != ADVERSARIAL,
    })
}

/// `D30:05` and `(D30:5)` as `D30:5`.
fn evidence_id(text: &str) -> Option<String> {
    let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let (session, turn) = text.strip_prefix('D')?.split_once(':')?;
    let (session, turn): (u32, u32) = (session.parse().ok()?, turn.parse().ok()?);
    Some(format!("D{session}:{turn}"))
}

/// `1:56 pm on 8 May, 2023`.
fn session_time(text: &str) -> Option<Time> {
    let parsed = jiff::civil::DateTime::strptime("%I:%M %p on %d %B, %Y", text).ok()?;
    let timestamp = jiff::tz::Offset::UTC.to_timestamp(parsed).ok()?;
    Some(Time(timestamp.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_cleaned() {
        assert_eq!(evidence_id("D30:05").as_deref(), Some("D30:5"));
        assert_eq!(evidence_id("(D8:6)").as_deref(), Some("D8:6"));
        assert_eq!(evidence_id("D").or_else(|| evidence_id("D:11:26")), None);
    }

    #[test]
    fn a_session_has_its_time() {
        let time = session_time("4:05 pm on 9 June, 2021").unwrap();
        assert_eq!(time.to_rfc3339(), "2021-06-09T16:05:00.000Z");
    }

    #[test]
    fn a_conversation_is_read_with_its_questions() {
        let content = r#"[{"sample_id":"c1","conversation":{"speaker_a":"Ada","session_1_date_time":"4:05 pm on 9 June, 2021",
            "session_1":[{"speaker":"Ada","dia_id":"D1:1","text":"Look!","blip_caption":"a kite"}]},
            "qa":[{"question":"What flew?","category":4,"evidence":["D1:01; D9:9"]},{"question":"?","category":4,"evidence":[]}]}]"#;
        let dataset = read("f", content).unwrap();
        assert_eq!(dataset.scopes[0].episodes[0].text, "Look! [a kite]");
        assert_eq!(dataset.scopes[0].questions.len(), 1);
        assert_eq!(dataset.scopes[0].questions[0].expected, [EpisodeId(0)]);
    }
}
