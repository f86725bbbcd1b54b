//! The table of known models.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::encoding::{Encoding, Rules};
use super::image::ImageRule;
use super::price::Price;

/// The table that is compiled in.
const BUILT_IN: &str = include_str!("../../config/models.toml");

/// A table that cannot be read; the text names line and column, or the entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the table of models is not valid: {0}")]
pub struct ModelTableError(String);

/// What is known of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelLimits {
    /// Tokens of input and output together.
    pub window: usize,
    /// Tokens of input at most, where that is less than what the window and the output leave.
    pub max_input: Option<usize>,
    /// Tokens of output at most.
    pub max_output: usize,
    /// Whether our count is the provider's own: then there is nothing to learn about it.
    pub exact: bool,
    /// What it costs; for routing and the books. `None` = not known.
    pub prices: Option<Price>,
    /// The vocabulary; `O200k` where the model's own is not public.
    pub encoding: Encoding,
    /// What an image costs.
    pub images: ImageRule,
}

impl ModelLimits {
    /// How the model counts.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules { encoding: self.encoding, images: self.images }
    }
}

/// Windows, output limits and vocabularies of known models, by name.
#[derive(Clone, Debug, Default)]
pub struct ModelTable {
    models: HashMap<String, ModelLimits>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    models: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    names: Vec<String>,
    window: usize,
    max_input: Option<usize>,
    max_output: usize,
    #[serde(default)]
    exact: bool,
    prices: Option<Price>,
    #[serde(default)]
    encoding: Encoding,
    #[serde(default)]
    images: ImageRule,
    /// Where the figures are from, and when they were read: for people, but an entry without them is an error.
    source: String,
    date: String,
}

impl ModelTable {
    /// Returns the table that is compiled in.
    #[must_use]
    pub fn built_in() -> &'static Self {
        static TABLE: LazyLock<ModelTable> =
            LazyLock::new(|| ModelTable::parse(BUILT_IN).expect("a test reads the compiled-in table"));
        &TABLE
    }

    /// Reads a table in the form of `config/models.toml`.
    ///
    /// # Errors
    /// Invalid TOML, an unknown member, an entry without source or date, a window of zero, a name that comes twice.
    pub fn parse(text: &str) -> Result<Self, ModelTableError> {
        let file: File = toml::from_str(text).map_err(|e| ModelTableError(e.to_string()))?;
        let mut models = HashMap::new();
        for entry in file.models {
            let Entry { names, window, max_input, max_output, exact, prices, encoding, images, source, date } = entry;
            if window == 0 || max_output == 0 || source.is_empty() || date.is_empty() {
                return Err(ModelTableError(format!("{names:?} needs a window, max_output, source and date")));
            }
            for name in names {
                let limits = ModelLimits { window, max_input, max_output, exact, prices, encoding, images };
                if models.insert(name.to_ascii_lowercase(), limits).is_some() {
                    return Err(ModelTableError(format!("{name} comes twice")));
                }
            }
        }
        Ok(Self { models })
    }

    /// Returns what is known of a model: by its name, by the longest known name that it goes on from (`gpt-4o-2024-08-06`,
    /// `qwen3:8b`), and the same without `provider/` in front.
    #[must_use]
    pub fn lookup(&self, name: &str) -> Option<ModelLimits> {
        let name = name.to_ascii_lowercase();
        let mut rest = name.as_str();
        loop {
            if let Some(found) = self.longest_prefix(rest) {
                return Some(found);
            }
            rest = rest.split_once('/')?.1;
        }
    }

    /// Returns the list price of a model; `None` = not known.
    #[must_use]
    pub fn price(&self, name: &str) -> Option<Price> {
        self.lookup(name)?.prices
    }

    fn longest_prefix(&self, name: &str) -> Option<ModelLimits> {
        let mut end = name.len();
        loop {
            if let Some(found) = self.models.get(&name[..end]) {
                return Some(*found);
            }
            // A name goes on behind one of these, never in the middle of a word: `gpt-4.1` is no `gpt-4`.
            end = name[..end].rfind(['-', ':', '@'])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_in_table_is_valid() {
        let table = ModelTable::parse(BUILT_IN).unwrap();
        assert!(table.models.len() > 40);
        for (name, limits) in &table.models {
            assert!(limits.max_output <= limits.window, "{name}");
            assert!(limits.max_input.is_none_or(|input| (1..limits.window).contains(&input)), "{name}");
            let cached = limits.prices.and_then(|price| price.cached.map(|cached| (cached, price.input)));
            assert!(cached.is_none_or(|(cached, input)| cached <= input), "{name}");
        }
    }

    #[test]
    fn a_model_is_found_by_the_longest_name_that_fits() {
        let window = |name: &str| ModelTable::built_in().lookup(name).map(|m| m.window);
        assert_eq!(window("gpt-4"), Some(8_192));
        assert_eq!(window("gpt-4-0613"), Some(8_192));
        assert_eq!(window("gpt-4o-2024-08-06"), Some(128_000));
        assert_eq!(window("openai/GPT-4o-mini"), Some(128_000));
        assert_eq!(window("gpt-4.1-mini-2025-04-14"), Some(1_047_576));
        assert_eq!(window("openrouter/openai/gpt-4"), Some(8_192));
        assert_eq!(window("my-own-model"), None);
        assert_eq!(window("gpt-47"), None);
        assert_eq!(window(""), None);
    }

    #[test]
    fn the_table_agrees_with_the_family_rule() {
        for (name, limits) in &ModelTable::built_in().models {
            if name.starts_with("gpt") || name.starts_with('o') {
                assert_eq!(limits.encoding, Encoding::for_model(name), "{name}");
            }
        }
    }

    #[test]
    fn an_entry_needs_its_source_and_comes_once() {
        assert!(ModelTable::parse("[[models]]\nnames = ['a']\nwindow = 1\nmax_output = 1").is_err());
        let entry = "[[models]]\nnames = ['a', 'A']\nwindow = 2\nmax_output = 1\nsource = 's'\ndate = 'd'";
        assert_eq!(
            ModelTable::parse(entry).unwrap_err().to_string(),
            "the table of models is not valid: A comes twice"
        );
    }
}
