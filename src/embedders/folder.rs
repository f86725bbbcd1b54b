//! A model as it stands in a folder: which files there are, what they must say, and what to do when they do not.

mod tensors;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use pulp::Arch;
use serde::Deserialize;
use serde_json::Value;

use super::encoder::{Encoder, Layer, Linear, Norm, Pooling, Rows};
use super::tokenizer::Tokenizer;
use tensors::Tensors;

/// The largest file that is read as a whole, in bytes: the vocabulary of a multilingual model has 17 MB.
const MAX_FILE_BYTES: u64 = 128 << 20;
/// Texts are cut here where nothing in the folder says how many tokens the model reads.
const DEFAULT_TOKENS: usize = 512;
/// Bounds of what a configuration may ask for: twice the largest models of the family.
const MAX_LAYERS: usize = 96;
const MAX_HIDDEN: usize = 8_192;
const MAX_WIDE: usize = 8 * MAX_HIDDEN;
const MAX_PLACES: usize = 1 << 20;

/// Why a folder holds no model that can be run. The text names the file, and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", .file.display())]
pub struct FolderError {
    /// The file or folder.
    pub file: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// A model that was read.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) tokenizer: Tokenizer,
    pub(super) encoder: Encoder,
    /// How many tokens of a text it reads.
    pub(super) tokens: usize,
    /// A name for exactly these numbers: hexadecimal, 16 characters.
    pub(super) hash: String,
}

/// `config.json`: what is acted on.
#[derive(Deserialize)]
struct Config {
    model_type: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "epsilon")]
    layer_norm_eps: f32,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(default)]
    pad_token_id: Option<usize>,
}

fn epsilon() -> f32 {
    1e-12
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn absolute() -> String {
    "absolute".to_owned()
}

impl Model {
    /// Reads a folder as it comes from a model hub: `config.json`, `tokenizer.json`, `model.safetensors`, and what sentence-transformers
    /// puts beside them. Takes a moment, and blocks.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub(super) fn open(folder: &Path) -> Result<Self, FolderError> {
        let folder = Folder { path: folder };
        folder.is_there()?;
        let config = folder.config()?;
        let pooling = folder.pooling()?;
        let json = folder.read("tokenizer.json")?;
        let wrong = |problem: String| folder.wrong("tokenizer.json", problem);
        let tokenizer = Tokenizer::parse(&json).map_err(wrong)?;
        let mut tensors = folder.tensors()?;
        tensors.mark(&json);
        let places = config.max_position_embeddings - config.skipped_places();
        let tokens = folder.tokens()?.unwrap_or(DEFAULT_TOKENS).min(places);
        // All that the numbers are computed by, beside the weights.
        let Config { model_type, num_attention_heads: heads, layer_norm_eps: epsilon, .. } = &config;
        tensors.mark(format!("int8 2 {model_type} {heads} {epsilon:e} {pooling:?} {tokens}").as_bytes());
        let encoder = config.encoder(pooling, &mut tensors).map_err(|p| folder.wrong("model.safetensors", p))?;
        let (known, used) = (encoder.words.len(), tokenizer.vocabulary());
        if used > known {
            return Err(wrong(format!("has {used} tokens, and the model knows {known}: it belongs to another model")));
        }
        Ok(Self { tokenizer, encoder, tokens, hash: tensors.hash() })
    }
}

impl Config {
    fn check(&self) -> Result<(), String> {
        if !matches!(self.model_type.as_str(), "bert" | "roberta" | "xlm-roberta" | "camembert") {
            let kind = &self.model_type;
            return Err(format!("is of a {kind:?} model; supported are bert, roberta, xlm-roberta and camembert"));
        }
        if self.hidden_act != "gelu" {
            return Err(format!("has the activation {:?}; supported is \"gelu\"", self.hidden_act));
        }
        if self.position_embedding_type != "absolute" {
            return Err(format!("has {:?} positions; supported are \"absolute\" ones", self.position_embedding_type));
        }
        let Self { hidden_size: hidden, num_attention_heads: heads, num_hidden_layers: layers, .. } = self;
        if *hidden == 0 || *heads == 0 || hidden % heads != 0 || *hidden > MAX_HIDDEN || *layers > MAX_LAYERS {
            return Err(format!("has {layers} layers of {hidden} with {heads} heads, which cannot be"));
        }
        let (wide, places) = (self.intermediate_size, self.max_position_embeddings);
        if wide == 0 || places <= self.skipped_places().saturating_add(2) {
            return Err("has no room for tokens".to_owned());
        }
        if wide > MAX_WIDE || places > MAX_PLACES {
            return Err(format!("has {places} places and layers {wide} wide, which cannot be"));
        }
        Ok(())
    }

    /// RoBERTa counts places from behind its padding token on.
    fn skipped_places(&self) -> usize {
        if self.model_type == "bert" { 0 } else { self.pad_token_id.unwrap_or(1).saturating_add(1) }
    }

    fn encoder(&self, pooling: Pooling, tensors: &mut Tensors) -> Result<Encoder, String> {
        let arch = Arch::new();
        let (hidden, wide) = (self.hidden_size, self.intermediate_size);
        let mut words = Rows::of_width(hidden);
        tensors.each_row("embeddings.word_embeddings.weight", hidden, |row| words.push(row))?;
        let places = tensors.read("embeddings.position_embeddings.weight", &[self.max_position_embeddings, hidden])?;
        let mut types = Vec::new();
        tensors.each_row("embeddings.token_type_embeddings.weight", hidden, |row| types.extend_from_slice(row))?;
        let mut places = places[self.skipped_places() * hidden..].to_vec();
        for place in places.chunks_exact_mut(hidden) {
            place.iter_mut().zip(&types).for_each(|(place, kind)| *place += kind);
        }
        let norm = norm(tensors, "embeddings.LayerNorm", hidden)?;
        let mut layers = Vec::with_capacity(self.num_hidden_layers);
        for at in 0..self.num_hidden_layers {
            let mut linear = |part: &str, inputs: usize, outputs: usize| {
                let name = format!("encoder.layer.{at}.{part}");
                let weights = tensors.read(&format!("{name}.weight"), &[outputs, inputs])?;
                Ok::<_, String>(Linear::new(arch, &weights, tensors.read(&format!("{name}.bias"), &[outputs])?))
            };
            let (query, key) =
                (linear("attention.self.query", hidden, hidden)?, linear("attention.self.key", hidden, hidden)?);
            let value = linear("attention.self.value", hidden, hidden)?;
            let attention = linear("attention.output.dense", hidden, hidden)?;
            let (up, down) = (linear("intermediate.dense", hidden, wide)?, linear("output.dense", wide, hidden)?);
            let attention_norm = norm_of(tensors, at, "attention.output", hidden)?;
            let norm = norm_of(tensors, at, "output", hidden)?;
            layers.push(Layer { query, key, value, attention, attention_norm, up, down, norm });
        }
        let (heads, epsilon) = (self.num_attention_heads, self.layer_norm_eps);
        Ok(Encoder { arch, words, places, norm, layers, heads, hidden, epsilon, pooling })
    }
}

fn norm_of(tensors: &mut Tensors, layer: usize, part: &str, hidden: usize) -> Result<Norm, String> {
    norm(tensors, &format!("encoder.layer.{layer}.{part}.LayerNorm"), hidden)
}

fn norm(tensors: &mut Tensors, name: &str, hidden: usize) -> Result<Norm, String> {
    // Files that come from TensorFlow call them gamma and beta.
    let old = tensors.has(&format!("{name}.gamma"));
    let (weight, bias) = if old { ("gamma", "beta") } else { ("weight", "bias") };
    Ok(Norm {
        weight: tensors.read(&format!("{name}.{weight}"), &[hidden])?,
        bias: tensors.read(&format!("{name}.{bias}"), &[hidden])?,
    })
}

/// The files of a model.
struct Folder<'f> {
    path: &'f Path,
}

impl Folder<'_> {
    fn wrong(&self, file: &str, problem: impl Into<String>) -> FolderError {
        FolderError { file: self.path.join(file), problem: problem.into() }
    }

    fn is_there(&self) -> Result<(), FolderError> {
        if self.path.is_dir() {
            return Ok(());
        }
        let problem = "there is no such folder; `backstory models list` names models and `backstory models pull NAME --to DIR` fetches one";
        Err(FolderError { file: self.path.to_owned(), problem: problem.to_owned() })
    }

    /// A file that a model must have.
    fn read(&self, file: &str) -> Result<Vec<u8>, FolderError> {
        self.read_if_there(file)?.ok_or_else(|| self.missing(file))
    }

    fn missing(&self, file: &str) -> FolderError {
        self.wrong(
            file,
            "is missing; copy it from where the model comes from, or fetch the model with `backstory models pull`",
        )
    }

    fn read_if_there(&self, file: &str) -> Result<Option<Vec<u8>>, FolderError> {
        let unreadable = |error: std::io::Error| self.wrong(file, format!("cannot be read: {error}"));
        let opened = match fs::File::open(self.path.join(file)) {
            Ok(opened) => opened,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let mut bytes = Vec::new();
        opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(self.wrong(file, format!("is larger than {} MB", MAX_FILE_BYTES >> 20)));
        }
        Ok(Some(bytes))
    }

    fn config(&self) -> Result<Config, FolderError> {
        let wrong = |problem: String| self.wrong("config.json", problem);
        let config: Config = serde_json::from_slice(&self.read("config.json")?)
            .map_err(|error| wrong(format!("cannot be read: {error}")))?;
        config.check().map_err(wrong)?;
        Ok(config)
    }

    /// An optional file of JSON.
    fn json(&self, file: &str) -> Result<Option<Value>, FolderError> {
        let Some(bytes) = self.read_if_there(file)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| self.wrong(file, format!("cannot be read: {error}")))
    }

    /// As sentence-transformers writes it; the mean where it does not.
    fn pooling(&self) -> Result<Pooling, FolderError> {
        let modules = self.json("modules.json")?.unwrap_or_default();
        for module in modules.as_array().into_iter().flatten() {
            let kind = module["type"].as_str().unwrap_or_default().rsplit('.').next().unwrap_or_default();
            if !matches!(kind, "Transformer" | "Pooling" | "Normalize") {
                let problem = format!("has a module {kind:?}; supported are Transformer, Pooling and Normalize");
                return Err(self.wrong("modules.json", problem));
            }
        }
        let file = "1_Pooling/config.json";
        let Some(json) = self.json(file)? else { return Ok(Pooling::Mean) };
        let on = |name: &str| json[name].as_bool().unwrap_or(false);
        let others = ["max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"];
        if others.iter().any(|name| on(&format!("pooling_mode_{name}"))) {
            return Err(self.wrong(file, "asks for another pooling than that of the mean or of the first token"));
        }
        match (on("pooling_mode_cls_token"), on("pooling_mode_mean_tokens")) {
            (true, false) => Ok(Pooling::First),
            (false, true) => Ok(Pooling::Mean),
            _ => Err(self.wrong(file, "must ask for the pooling of either the mean or the first token")),
        }
    }

    fn tokens(&self) -> Result<Option<usize>, FolderError> {
        let file = "sentence_bert_config.json";
        let Some(json) = self.json(file)? else { return Ok(None) };
        match json["max_seq_length"].as_u64() {
            Some(0..=2) => Err(self.wrong(file, "has a max_seq_length without room for tokens")),
            most => Ok(most.and_then(|most| usize::try_from(most).ok())),
        }
    }

    fn tensors(&self) -> Result<Tensors, FolderError> {
        let file = "model.safetensors";
        let path = self.path.join(file);
        if !path.exists() {
            let beside = |name: &str| self.path.join(name).exists();
            return Err(if beside("model.safetensors.index.json") {
                self.wrong("model.safetensors.index.json", "a model in several files is not supported")
            } else if beside("pytorch_model.bin") {
                self.wrong(file, "is missing, and pytorch_model.bin is not read: take a version with safetensors")
            } else {
                self.missing(file)
            });
        }
        Tensors::open(&path).map_err(|problem| self.wrong(file, problem))
    }
}
