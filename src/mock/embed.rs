//! Embeddings made of hashed words: deterministic, and texts that share words are near.

use serde_json::{Value, json};

use super::behaviour::{Behaviour, Odd, Stop};
use super::record::Recorded;
use super::reply::{End, Raw};

/// The size when the request names none.
const DEFAULT_DIMENSION: usize = 64;

/// The largest size that a request may ask for.
const MAX_DIMENSION: u64 = 4096;

/// Answers an embedding request.
pub(super) fn reply(request: &Recorded, as_model: Option<&str>) -> Raw {
    let body = request.json();
    let Some(model) = body["model"].as_str() else {
        return Raw::error(400, "`model` is required");
    };
    let behaviour = Behaviour::of(as_model.unwrap_or(model));
    if let Some(status) = behaviour.error {
        return Raw::error(status, "The mock was asked to fail.");
    }
    let inputs: Vec<String> = match &body["input"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) if items.iter().all(Value::is_number) => vec![body["input"].to_string()],
        Value::Array(items) => {
            items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
        }
        _ => return Raw::error(400, "`input` is required"),
    };
    if let Some(window) = behaviour.window
        && let Some(longest) = inputs.iter().map(|text| tokens(text)).max().filter(|most| *most > window)
    {
        return Raw::error(
            400,
            &format!("This model's maximum context length is {window} tokens, however you requested {longest} tokens."),
        );
    }
    let dimension = body["dimensions"].as_u64().map_or(DEFAULT_DIMENSION, |d| d.clamp(1, MAX_DIMENSION) as usize);
    let base64 = body["encoding_format"] == "base64";
    let mut data: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let vector = embed(text, dimension);
            let embedding = if base64 { encode_base64(&vector).into() } else { json!(vector) };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        })
        .collect();
    let tokens: u64 = inputs.iter().map(|text| tokens(text)).sum();
    behaviour.odd.into_iter().for_each(|odd| spoil(odd, &mut data));
    let body = json!({
        "object": "list", "data": data, "model": model,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens }
    });
    let mut raw = match behaviour.odd {
        Some(Odd::Html) => Raw::json(200, "<!doctype html><title>Sign in</title>"),
        Some(Odd::NaN) => Raw::json(200, body.to_string().replace("null", "NaN")),
        _ => Raw::json(200, body.to_string()),
    };
    raw.header_delay = behaviour.header_delay;
    if let Some(stop) = behaviour.stop {
        let half = raw.pieces[0].1.len() / 2;
        raw.pieces[0].1.truncate(half);
        raw.end = if matches!(stop, Stop::Reset | Stop::ResetInLine) { End::Reset } else { End::Stall };
    }
    raw
}

fn tokens(text: &str) -> u64 {
    text.len() as u64 / 4 + 1
}

/// Makes an answer wrong.
fn spoil(odd: Odd, data: &mut Vec<Value>) {
    match odd {
        Odd::Few => {
            data.pop();
        }
        Odd::Reversed => data.reverse(),
        Odd::Html => {}
        Odd::NaN | Odd::Null | Odd::Zeros | Odd::OtherDimension => {
            for embedding in data.iter_mut().filter_map(|item| item["embedding"].as_array_mut()) {
                match odd {
                    Odd::Zeros => embedding.fill(0.into()),
                    Odd::OtherDimension => {
                        embedding.pop();
                    }
                    _ => embedding[0] = Value::Null,
                }
            }
        }
    }
}

/// A sum of one direction for each word, of length 1; Chinese counts by character.
fn embed(text: &str, dimension: usize) -> Vec<f32> {
    let mut sum = vec![0.0_f32; dimension];
    for word in words(text) {
        let mut stream = blake3::Hasher::new().update(word.as_bytes()).finalize_xof();
        let mut bytes = vec![0_u8; dimension];
        stream.fill(&mut bytes);
        for (slot, byte) in sum.iter_mut().zip(bytes) {
            *slot += (f32::from(byte) - 127.5) / 127.5;
        }
    }
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        sum.iter_mut().for_each(|x| *x /= length);
    } else {
        sum[0] = 1.0;
    }
    sum
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        if run.is_ascii() {
            words.push(run.to_lowercase());
        } else {
            words.extend(run.chars().map(String::from));
        }
    }
    words
}

/// Little-endian floats in base 64, as OpenAI's SDKs ask for.
fn encode_base64(vector: &[f32]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, &b| (word << 8) | u32::from(b)) << (8 * (3 - three.len()));
        for i in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str) -> f32 {
        embed(a, 64).iter().zip(embed(b, 64)).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn texts_that_share_words_are_near() {
        assert!(cosine("the red car", "The red CAR!") > 0.999);
        assert!(cosine("my red car is fast", "a red car") > cosine("my red car is fast", "bread and butter"));
        assert!(cosine("我喜欢设备清单", "设备") > cosine("我喜欢设备清单", "天气"));
        assert!((cosine("", "") - 1.0).abs() < 1e-6);
    }

    #[test]
    fn base64_is_padded_little_endian() {
        assert_eq!(encode_base64(&[1.0]), "AACAPw==");
        assert_eq!(encode_base64(&[1.0, 0.5]), "AACAPwAAAD8=");
    }
}
