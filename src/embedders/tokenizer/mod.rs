//! Cuts texts into the tokens of a model, as its `tokenizer.json` says.
//!
//! Read is what models of the BERT family use: WordPiece and Unigram vocabularies, with the normalisers and the splitting that go with
//! them. Anything else is an error when the file is read, never another cutting than the model was trained with. The crate `tokenizers`
//! reads everything, and is 78 crates and more than a minute of compiling; the results here are compared with its own (`tests/data/embed`).
//!
//! `normalise` changes the text, `split` parts it, `wordpiece` and `unigram` find the tokens. Names of special tokens in a text are text.

mod characters;
mod normalise;
mod precompiled;
mod split;
mod unigram;
mod wordpiece;

use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use normalise::Normaliser;
use split::Split;
use unigram::Unigram;
use wordpiece::WordPiece;

/// Of a text so many bytes are read for each token that may come out: more than any language needs.
const BYTES_PER_TOKEN: usize = 64;

/// Cuts texts into tokens.
pub(super) struct Tokenizer {
    normalisers: Vec<Normaliser>,
    splits: Vec<Split>,
    model: Model,
    /// Ids before and after every text.
    before: Vec<u32>,
    after: Vec<u32>,
}

enum Model {
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.model {
            Model::WordPiece(_) => "WordPiece",
            Model::Unigram(_) => "Unigram",
        };
        write!(f, "Tokenizer({name}, {} tokens)", self.vocabulary())
    }
}

/// `tokenizer.json`. `truncation` and `padding` are not read: how long a text may be is the model's own matter.
#[derive(Deserialize)]
struct File<'f> {
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(borrow)]
    model: &'f RawValue,
}

/// A token beside the vocabulary; those that are special frame a text, and never stand for a part of one.
#[derive(Deserialize)]
struct Added {
    content: String,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// A sentence about what is wrong or not supported.
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        let file: File<'_> = serde_json::from_slice(json).map_err(|error| format!("is no tokenizer file: {error}"))?;
        let Named { kind } = parsed(file.model)?;
        let special = file.added_tokens.iter().filter(|added| added.special).map(|added| added.content.as_str());
        let model = match kind.as_deref() {
            Some("WordPiece") => Model::WordPiece(WordPiece::read(parsed(file.model)?)?),
            Some("Unigram") => Model::Unigram(Unigram::read(parsed(file.model)?, special)?),
            other => return Err(unsupported("a model", other, "WordPiece and Unigram")),
        };
        let (before, after) = frame(file.post_processor.as_ref())?;
        Ok(Self {
            normalisers: normalise::read(file.normalizer.as_ref())?,
            splits: split::read(file.pre_tokenizer.as_ref())?,
            model,
            before,
            after,
        })
    }

    /// One more than the largest id that can come out.
    pub(super) fn vocabulary(&self) -> usize {
        let model = match &self.model {
            Model::WordPiece(model) => model.largest_id(),
            Model::Unigram(model) => model.largest_id(),
        };
        self.before.iter().chain(&self.after).fold(model, |most, id| most.max(*id)) as usize + 1
    }

    /// The ids of a text, at most `limit` with those around it; of a longer text those of its beginning.
    pub(super) fn encode(&self, text: &str, limit: usize) -> Vec<u32> {
        let room = limit.saturating_sub(self.before.len() + self.after.len());
        let mut end = text.len().min(room.saturating_mul(BYTES_PER_TOKEN));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut text = text[..end].to_owned();
        for normaliser in &self.normalisers {
            text = normaliser.apply(&text);
        }
        let mut ids = self.before.clone();
        let most = self.before.len() + room;
        for word in split::apply(&self.splits, &text) {
            if ids.len() >= most {
                break;
            }
            match &self.model {
                Model::WordPiece(model) => model.encode(&word, &mut ids),
                Model::Unigram(model) => model.encode(&word, &mut ids),
            }
        }
        ids.truncate(most);
        ids.extend(&self.after);
        ids
    }
}

/// The ids that stand before and after a text of its own.
fn frame(processor: Option<&Value>) -> Result<(Vec<u32>, Vec<u32>), String> {
    let Some(processor) = processor else { return Ok((Vec::new(), Vec::new())) };
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let wrong = || "its post_processor cannot be read".to_owned();
    match processor["type"].as_str() {
        Some("BertProcessing" | "RobertaProcessing") => {
            let end = |name: &str| id(&processor[name][1]).map(|id| vec![id]).ok_or_else(wrong);
            Ok((end("cls")?, end("sep")?))
        }
        Some("TemplateProcessing") => {
            let (mut before, mut after, mut seen) = (Vec::new(), Vec::new(), false);
            for piece in processor["single"].as_array().ok_or_else(wrong)? {
                if !piece["Sequence"].is_null() {
                    seen = true;
                    continue;
                }
                let name = piece["SpecialToken"]["id"].as_str().ok_or_else(wrong)?;
                let ids = processor["special_tokens"][name]["ids"].as_array().ok_or_else(wrong)?;
                let ids = ids.iter().map(id).collect::<Option<Vec<u32>>>().ok_or_else(wrong)?;
                if seen { &mut after } else { &mut before }.extend(ids);
            }
            if seen { Ok((before, after)) } else { Err(wrong()) }
        }
        other => {
            Err(unsupported("a post_processor", other, "TemplateProcessing, BertProcessing and RobertaProcessing"))
        }
    }
}

fn parsed<'f, T: Deserialize<'f>>(json: &'f RawValue) -> Result<T, String> {
    serde_json::from_str(json.get()).map_err(|error| format!("its model cannot be read: {error}"))
}

fn unsupported(what: &str, kind: Option<&str>, known: &str) -> String {
    format!("has {what} of the type {}; supported are {known}", kind.unwrap_or("(none)"))
}

#[cfg(test)]
mod tests;
