//! Reads memories and questions from lines of JSON.
//!
//! `{"type": "memory", "scope", "id", "session", "role", "speaker"?, "said_at", "text"}` and
//! `{"type": "question", "scope", "text", "asked_at"?, "expected": [ids], "category"}`.

use serde::Deserialize;

use super::EvalError;
use super::dataset::{Dataset, Memory, Question};
use crate::base::Time;
use crate::memory::Speaker;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Memory {
        scope: String,
        id: String,
        session: String,
        role: Speaker,
        speaker: Option<String>,
        said_at: String,
        text: String,
    },
    Question {
        scope: String,
        text: String,
        asked_at: Option<String>,
        expected: Vec<String>,
        #[serde(default)]
        category: String,
    },
}

/// Reads a data set; `path` is for messages only.
pub(super) fn read(path: &str, content: &str) -> Result<Dataset, EvalError> {
    let mut dataset = Dataset::default();
    let mut asked = Vec::new();
    for (at, line) in content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong =
            |problem: String| EvalError::Format { path: path.to_owned(), place: format!("line {}", at + 1), problem };
        let time =
            |text: &str| Time::parse(text).ok_or_else(|| wrong(format!("{text:?} is not a date or an RFC 3339 time")));
        match serde_json::from_str(line).map_err(|error| wrong(error.to_string()))? {
            Line::Memory { scope, id, session, role, speaker, said_at, text } => {
                let said_at = time(&said_at)?;
                dataset.scope(&scope).remember(Memory { id, session, role, speaker, said_at, text });
            }
            Line::Question { scope, text, asked_at, expected, category } => {
                let asked_at = asked_at.as_deref().map(time).transpose()?;
                let answerable = !expected.is_empty();
                let question = Question { text, asked_at, expected: Vec::new(), category, answerable };
                asked.push((at, scope, question, expected));
            }
        }
    }
    // What is expected may be told further down.
    for (at, scope, mut question, expected) in asked {
        let scope = dataset.scope(&scope);
        for id in expected {
            let Some(&number) = scope.ids.get(&id) else {
                let problem = format!("no memory of the scope is called {id:?}");
                return Err(EvalError::Format { path: path.to_owned(), place: format!("line {}", at + 1), problem });
            };
            if !question.expected.contains(&number) {
                question.expected.push(number);
            }
        }
        scope.questions.push(question);
    }
    Ok(dataset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_a_wrong_one_is_named() {
        let memory =
            r#"{"type":"memory","scope":"a","id":"1","session":"s","role":"user","said_at":"2024-01-02","text":"x"}"#;
        let question = r#"{"type":"question","scope":"a","text":"x?","expected":["1"],"category":"c"}"#;
        let dataset = read("f", &format!("{question}\n\n{memory}\n")).unwrap();
        assert_eq!((dataset.scopes[0].ids.len(), dataset.scopes[0].questions.len()), (1, 1));
        let error = read("f", &format!("{memory}\nnonsense")).unwrap_err().to_string();
        assert!(error.starts_with("f, line 2: "), "{error}");
        // A typo would count as a memory that nobody has to find.
        let error =
            read("f", &format!("{memory}\n{}", question.replace("[\"1\"]", "[\"1\",\"11\"]"))).unwrap_err().to_string();
        assert!(error.starts_with("f, line 2: ") && error.contains("\"11\""), "{error}");
        let twice = read("f", &format!("{memory}\n{}", question.replace("[\"1\"]", "[\"1\",\"1\"]"))).unwrap();
        assert_eq!(twice.scopes[0].questions[0].expected.len(), 1);
    }
}
