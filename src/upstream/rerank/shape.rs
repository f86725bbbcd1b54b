//! The forms of question and answer of rerank endpoints. They are asked differently, and their answers tell themselves apart.

use serde::Deserialize;
use serde_json::json;

/// How an endpoint is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RerankKind {
    /// As Cohere, and what speaks like it (vLLM, LiteLLM, Infinity).
    Cohere,
    /// As Jina, which sends the texts back unless it is told not to.
    Jina,
    /// As text-embeddings-inference of Hugging Face: one model an endpoint.
    Tei,
}

impl RerankKind {
    /// The body of a question.
    pub(super) fn question(self, model: Option<&str>, question: &str, texts: &[&str]) -> Vec<u8> {
        let mut body = match self {
            Self::Cohere => json!({"query": question, "documents": texts, "top_n": texts.len()}),
            Self::Jina => {
                json!({"query": question, "documents": texts, "top_n": texts.len(), "return_documents": false})
            }
            Self::Tei => json!({"query": question, "texts": texts, "truncate": true}),
        };
        if let Some(model) = model {
            body["model"] = model.into();
        }
        body.to_string().into_bytes()
    }
}

/// `{"results": […]}` of Cohere and Jina, `{"data": […]}` of Voyage, or the list itself of TEI.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Results { results: Vec<Item> },
    Data { data: Vec<Item> },
    List(Vec<Item>),
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    #[serde(alias = "relevance_score")]
    score: f64,
}

/// Reads one score for each of `n` texts, in their order. Items may come in any order, and each text must have one.
pub(super) fn scores(body: &[u8], n: usize) -> Result<Vec<f64>, String> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|_| "it is not a list of an index and a score each".to_owned())?;
    let (Answer::Results { results: items } | Answer::Data { data: items } | Answer::List(items)) = answer;
    if items.len() != n {
        return Err(format!("it has {} scores for {n} texts", items.len()));
    }
    let mut scores = vec![None; n];
    for Item { index, score } in items {
        if !score.is_finite() {
            return Err("one of its scores is no number".to_owned());
        }
        match scores.get_mut(index) {
            Some(slot @ None) => *slot = Some(score),
            Some(Some(_)) => return Err("two of its scores are for one text".to_owned()),
            None => return Err("one of its scores is for a text that was not sent".to_owned()),
        }
    }
    scores.into_iter().collect::<Option<Vec<f64>>>().ok_or_else(|| "a text has no score".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_kind_is_asked_in_its_own_form() {
        let ask = |kind: RerankKind| -> Value {
            serde_json::from_slice(&kind.question(Some("m"), "q", &["a", "b"])).unwrap()
        };
        let cohere = json!({"model": "m", "query": "q", "documents": ["a", "b"], "top_n": 2});
        assert_eq!(ask(RerankKind::Cohere), cohere);
        assert_eq!(ask(RerankKind::Jina)["return_documents"], false);
        assert_eq!(ask(RerankKind::Tei), json!({"model": "m", "query": "q", "texts": ["a", "b"], "truncate": true}));
        assert!(!String::from_utf8(RerankKind::Tei.question(None, "q", &[])).unwrap().contains("model"));
    }

    #[test]
    fn answers_of_every_shape_are_read() {
        for body in [
            r#"{"id":"x","results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.25}],"meta":{}}"#,
            r#"{"model":"j","usage":{},"results":[{"index":0,"relevance_score":0.25,"document":{"text":"a"}},{"index":1,"relevance_score":0.9}]}"#,
            r#"{"object":"list","data":[{"index":0,"relevance_score":0.25},{"index":1,"relevance_score":0.9}]}"#,
            r#"[{"index":1,"score":0.9,"text":null},{"index":0,"score":0.25}]"#,
        ] {
            assert_eq!(scores(body.as_bytes(), 2), Ok(vec![0.25, 0.9]), "{body}");
        }
        assert_eq!(scores(b"[]", 0), Ok(Vec::new()));
    }

    #[test]
    fn answers_that_cannot_be_an_order_are_refused() {
        for body in [
            "",
            "<html>busy</html>",
            "{}",
            "[]",
            r#"[{"index":0,"score":1.0}]"#,
            r#"[{"index":0,"score":1.0},{"index":1,"score":NaN}]"#,
            r#"[{"index":0,"score":1.0},{"index":1,"score":null}]"#,
            r#"[{"index":0,"score":1.0},{"index":1,"score":1e999}]"#,
            r#"[{"index":0,"score":1.0},{"index":2,"score":1.0}]"#,
            r#"[{"index":0,"score":1.0},{"index":-1,"score":1.0}]"#,
            r#"[{"index":0,"score":1.0},{"index":0,"score":1.0}]"#,
            r#"[{"index":0,"score":1.0},{"index":1,"score":1.0},{"index":1,"score":1.0}]"#,
            r#"{"results":[{"index":0},{"index":1}]}"#,
        ] {
            assert!(scores(body.as_bytes(), 2).is_err(), "{body}");
        }
    }
}
