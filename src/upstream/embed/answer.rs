//! Reads what an embedding server answers, and trusts none of it. Pure.

use memchr::memmem;
use serde::Deserialize;

use crate::embed::EmbedError;
use crate::wire::upstream_error;

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    /// Which text it belongs to; some servers leave it out, and answer in order.
    index: Option<usize>,
    /// `null` is how JSON writes a number that is none.
    embedding: Vec<Option<f32>>,
}

/// Reads the body of a 2xx: one vector of unit length for each of `count` texts, in their order, all of one dimension.
pub(super) fn vectors(body: &[u8], count: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    let answer: Answer = serde_json::from_slice(body).map_err(|_| unreadable(body))?;
    let found = answer.data.len();
    if found != count {
        return unusable(format!("{found} vectors for {count} texts"));
    }
    let mut out = vec![Vec::new(); count];
    for (place, item) in answer.data.into_iter().enumerate() {
        let index = item.index.unwrap_or(place);
        let Some(slot) = out.get_mut(index).filter(|slot| slot.is_empty()) else {
            return unusable(format!("the index {index} is out of range, or comes twice"));
        };
        *slot = normalised(item.embedding)?;
    }
    let dimension = out.first().map_or(0, Vec::len);
    match out.iter().find(|vector| vector.len() != dimension) {
        Some(other) => unusable(format!("vectors of {dimension} and of {} numbers in one answer", other.len())),
        None => Ok(out),
    }
}

fn normalised(embedding: Vec<Option<f32>>) -> Result<Vec<f32>, EmbedError> {
    let mut vector: Vec<f32> = embedding.into_iter().map(|number| number.unwrap_or(f32::NAN)).collect();
    if vector.is_empty() {
        return unusable("a vector without numbers");
    }
    if vector.iter().any(|number| !number.is_finite()) {
        return unusable("a vector with numbers that are none (NaN, infinite or null)");
    }
    if !crate::embed::to_unit_length(&mut vector) {
        return unusable("a vector of zeros");
    }
    Ok(vector)
}

/// Why a body is none of ours. What it says is not told: it may quote the texts.
fn unreadable(body: &[u8]) -> EmbedError {
    let text = String::from_utf8_lossy(body);
    if upstream_error(&text).is_some() {
        // Overloaded servers behind a proxy that has sent its 200 already.
        return EmbedError::Later { reason: "an error inside a 200".to_owned(), retry_after: None };
    }
    let start = text.trim_start();
    let reason = if start.starts_with('<') {
        "HTML where JSON was asked for: is base_url that of an OpenAI-compatible API?"
    } else if start.is_empty() {
        "an empty body"
    } else if memmem::find(body, b"NaN").is_some() || memmem::find(body, b"Infinity").is_some() {
        "a vector with numbers that are none (NaN or infinite)"
    } else {
        "a body that is no list of embeddings, or broke off"
    };
    EmbedError::Unusable(reason.to_owned())
}

fn unusable<T>(reason: impl Into<String>) -> Result<T, EmbedError> {
    Err(EmbedError::Unusable(reason.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(body: &str, count: usize) -> String {
        vectors(body.as_bytes(), count).unwrap_err().to_string()
    }

    #[test]
    fn vectors_come_in_the_order_of_their_texts_and_of_unit_length() {
        let body = r#"{"object":"list","data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[3,4.0]}]}"#;
        assert_eq!(vectors(body.as_bytes(), 2).unwrap(), [vec![0.6, 0.8], vec![0.0, 1.0]]);
        let unnumbered = r#"{"data":[{"embedding":[1,0]},{"embedding":[0,1]}]}"#;
        assert_eq!(vectors(unnumbered.as_bytes(), 2).unwrap(), [vec![1.0, 0.0], vec![0.0, 1.0]]);
        // Numbers whose squares do not fit into an f32.
        assert_eq!(vectors(br#"{"data":[{"embedding":[0,4e30]}]}"#, 1).unwrap(), [vec![0.0, 1.0]]);
    }

    #[test]
    fn a_wrong_answer_is_named_and_never_used() {
        for (body, count, reason) in [
            (r#"{"data":[{"index":0,"embedding":[1]}]}"#, 2, "1 vectors for 2 texts"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#, 2, "comes twice"),
            (r#"{"data":[{"index":7,"embedding":[1]}]}"#, 1, "out of range"),
            (r#"{"data":[{"embedding":[1]},{"embedding":[1,2]}]}"#, 2, "of 1 and of 2 numbers"),
            (r#"{"data":[{"embedding":[]}]}"#, 1, "without numbers"),
            (r#"{"data":[{"embedding":[0,0]}]}"#, 1, "of zeros"),
            (r#"{"data":[{"embedding":[1,null]}]}"#, 1, "numbers that are none"),
            (r#"{"data":[{"embedding":[1,NaN]}]}"#, 1, "numbers that are none"),
            (r#"{"data":[{"embedding":[1,-Infinity]}]}"#, 1, "numbers that are none"),
            (r#"{"data":[{"embedding":[1,1e39]}]}"#, 1, "numbers that are none"),
            (r#"{"data":[{"embedding":"AACAPw=="}]}"#, 1, "no list of embeddings"),
            (r#"{"data":[{"embedding":[1,"#, 1, "broke off"),
            ("<!doctype html><title>Sign in</title>", 1, "HTML"),
            (" ", 1, "empty body"),
            (r#"{"embeddings":[[1]]}"#, 1, "no list of embeddings"),
        ] {
            let said = why(body, count);
            assert!(said.contains(reason), "{body}: {said}");
        }
    }

    #[test]
    fn an_error_inside_a_200_may_pass() {
        let body = r#"{"error":{"message":"overloaded: I live in Oslo"}}"#;
        let error = vectors(body.as_bytes(), 1).unwrap_err();
        assert!(matches!(&error, EmbedError::Later { .. }), "{error}");
        assert!(!error.to_string().contains("Oslo"));
    }
}
