//! Reads tables of TOML and collects every mistake, instead of stopping at the first.
//!
//! A read of a bad value records the mistake and goes on with the default, so that one run finds all of them.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::{Table, Value};

use super::env::{self, Env};
use super::error::ConfigError;
use super::words::{name_problem, nearest, one_of, quoted, quoted_key, show};
use crate::base::Secret;

/// The state of one reading.
pub(super) struct Reader<'a> {
    env: &'a dyn Env,
    folder: &'a Path,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'a> Reader<'a> {
    /// `folder` is where relative `${file:…}` names start.
    pub(super) fn new(env: &'a dyn Env, folder: &'a Path) -> Self {
        Self { env, folder, errors: RefCell::default() }
    }

    pub(super) fn read<T>(&self, root: &Table, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        Section::new(self, String::new(), Some(root)).read(read)
    }

    pub(super) fn into_errors(self) -> Vec<ConfigError> {
        self.errors.into_inner()
    }
}

/// One table that is being read. Each method takes the key, so that what was never asked for is known to be unknown.
pub(super) struct Section<'a> {
    reader: &'a Reader<'a>,
    path: String,
    table: Option<&'a Table>,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    fn new(reader: &'a Reader<'a>, path: String, table: Option<&'a Table>) -> Self {
        Self { reader, path, table, asked: Vec::new() }
    }

    fn read<T>(mut self, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let value = read(&mut self);
        self.report_unknown();
        value
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        self.asked.push(key);
        self.table?.get(key)
    }

    /// Whether the key is written in the file, readable or not.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// The path of a key of this table.
    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { quoted_key(key) } else { format!("{}.{}", self.path, quoted_key(key)) }
    }

    fn push(&self, key: &str, value: Option<String>, problem: impl Into<String>) {
        self.reader.errors.borrow_mut().push(ConfigError::new(self.at(key), value, problem));
    }

    /// Records a mistake of a key, with its value as written.
    pub(super) fn wrong(&self, key: &str, problem: impl Into<String>) {
        let value = self.table.and_then(|table| table.get(key)).map(show);
        self.push(key, value, problem);
    }

    /// Records a mistake of a key whose value may be a secret.
    pub(super) fn wrong_secret(&self, key: &str, problem: impl Into<String>) {
        self.push(key, None, problem);
    }

    /// A table; absent is like empty.
    pub(super) fn table<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let table = match self.get(key) {
            None => None,
            Some(Value::Table(table)) => Some(table),
            Some(_) => {
                self.wrong_secret(key, format!("must be a table, as in [{}]", self.at(key)));
                None
            }
        };
        Section::new(self.reader, self.at(key), table).read(read)
    }

    /// An array of tables.
    pub(super) fn tables<T>(&mut self, key: &'static str, read: impl Fn(&mut Section<'_>) -> T) -> Vec<T> {
        let path = self.at(key);
        let Some(value) = self.get(key) else { return Vec::new() };
        let Value::Array(items) = value else {
            self.wrong_secret(key, format!("must be an array of tables, as in [[{path}]]"));
            return Vec::new();
        };
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match item {
                Value::Table(table) => out.push(Section::new(self.reader, path, Some(table)).read(&read)),
                _ => self.reader.errors.borrow_mut().push(ConfigError::new(path, None, "must be a table")),
            }
        }
        out
    }

    /// A table whose keys are names that the operator chose.
    pub(super) fn named_tables<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&mut Section<'_>) -> T,
    ) -> Vec<(String, T)> {
        let path = self.at(key);
        let Some(value) = self.get(key) else { return Vec::new() };
        let Value::Table(tables) = value else {
            self.wrong_secret(key, format!("must be a table, as in [{path}.NAME]"));
            return Vec::new();
        };
        let mut out = Vec::with_capacity(tables.len());
        for (name, item) in tables {
            let path = format!("{path}.{}", quoted_key(name));
            match item {
                Value::Table(table) => {
                    out.push((name.clone(), Section::new(self.reader, path, Some(table)).read(&read)));
                }
                _ => self.reader.errors.borrow_mut().push(ConfigError::new(path, None, "must be a table")),
            }
        }
        out
    }

    /// A table of free names and secret texts, as of headers.
    pub(super) fn secrets(
        &mut self,
        key: &'static str,
        check: impl Fn(&str, &str) -> Result<(), &'static str>,
    ) -> Vec<(String, Secret)> {
        let path = self.at(key);
        let Some(value) = self.get(key) else { return Vec::new() };
        let Value::Table(table) = value else {
            self.wrong_secret(key, format!("must be a table, as in [{path}]"));
            return Vec::new();
        };
        let mut out = Vec::with_capacity(table.len());
        let section = Section::new(self.reader, path, Some(table));
        for (name, value) in table {
            let Some(text) = section.expanded(name, value, true) else { continue };
            match check(name, &text) {
                Ok(()) => out.push((name.clone(), Secret::from(text))),
                Err(problem) => section.wrong_secret(name, problem),
            }
        }
        out
    }

    /// A table of free names and texts.
    pub(super) fn texts(&mut self, key: &'static str) -> Vec<(String, String)> {
        let path = self.at(key);
        let values = self.named_values(key);
        let section = Section::new(self.reader, path, None);
        let texts =
            values.into_iter().map(|(name, value)| Some((name.to_owned(), section.expanded(name, value, false)?)));
        texts.flatten().collect()
    }

    fn expanded(&self, key: &str, value: &Value, secret: bool) -> Option<String> {
        let Value::String(raw) = value else {
            let shown = if secret { None } else { Some(show(value)) };
            self.push(key, shown, "must be a string");
            return None;
        };
        match env::expand(raw, self.reader.folder, self.reader.env) {
            Ok(text) => Some(text),
            Err(problem) => {
                self.wrong_secret(key, problem);
                None
            }
        }
    }

    /// Any text, variables replaced.
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        let value = self.get(key)?;
        self.expanded(key, value, false)
    }

    /// A text that must not be empty, nor hold control characters.
    pub(super) fn name(&mut self, key: &'static str) -> Option<String> {
        let text = self.text(key)?;
        match name_problem(&text) {
            None => Some(text),
            Some(problem) => {
                self.wrong(key, problem);
                None
            }
        }
    }

    /// A name that must be there. Returns an empty text when it is not, which was reported.
    pub(super) fn required(&mut self, key: &'static str) -> String {
        if !self.has(key) {
            self.asked.push(key);
            self.push(key, None, "is missing: a name is needed here");
            return String::new();
        }
        self.name(key).unwrap_or_default()
    }

    /// A secret: it is never shown in a message.
    pub(super) fn secret(&mut self, key: &'static str) -> Option<Secret> {
        let value = self.get(key)?;
        let text = self.expanded(key, value, true)?;
        if text.is_empty() || text.chars().any(char::is_control) {
            self.wrong_secret(key, "must be a text of one line that is not empty (the value is not shown)");
            return None;
        }
        Some(Secret::from(text))
    }

    /// A list of secrets, at most `most` of them.
    pub(super) fn secret_list(&mut self, key: &'static str, most: usize) -> Option<Vec<Secret>> {
        let value = self.get(key)?;
        let Value::Array(items) = value else {
            self.wrong_secret(key, "must be a list of strings, as in [\"${A}\", \"${B}\"]");
            return None;
        };
        if items.is_empty() || items.len() > most {
            self.wrong_secret(key, format!("must have from 1 to {most} entries"));
            return None;
        }
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let key = format!("{key}[{index}]");
            let Some(text) = self.expanded(&key, item, true) else { continue };
            if text.is_empty() || text.chars().any(char::is_control) {
                self.wrong_secret(&key, "must be a text of one line that is not empty (the value is not shown)");
            } else {
                out.push(Secret::from(text));
            }
        }
        Some(out)
    }

    /// The text of a file that is named, relative to the configuration.
    pub(super) fn file_text(&mut self, key: &'static str) -> Option<String> {
        let path = self.name(key)?;
        match self.reader.env.file(&self.reader.folder.join(&path)) {
            Ok(text) => Some(text),
            Err(error) => {
                self.wrong(key, format!("cannot be read: {error}"));
                None
            }
        }
    }

    /// A table of names that the operator chose: each with its path for messages, and its value.
    pub(super) fn named_values(&mut self, key: &'static str) -> Vec<(&'a str, &'a Value)> {
        let path = self.at(key);
        match self.get(key) {
            None => Vec::new(),
            Some(Value::Table(table)) => table.iter().map(|(name, value)| (name.as_str(), value)).collect(),
            Some(_) => {
                self.wrong_secret(key, format!("must be a table, as in [{path}]"));
                Vec::new()
            }
        }
    }

    /// A string that stands inside another value, at this path below the section, with its variables replaced; `None` when that was reported.
    pub(super) fn expand_within(&self, path: &str, raw: &str) -> Option<String> {
        let found = env::expand(raw, self.reader.folder, self.reader.env);
        let wrong = |problem| ConfigError::new(format!("{}.{path}", self.path), None, problem);
        found.map_err(|problem| self.reader.errors.borrow_mut().push(wrong(problem))).ok()
    }

    /// Records a mistake of something inside a key, with its value as written.
    pub(super) fn wrong_within(&self, key: &str, name: &str, value: &Value, problem: impl Into<String>) {
        let path = format!("{}.{}", self.at(key), quoted_key(name));
        self.reader.errors.borrow_mut().push(ConfigError::new(path, Some(show(value)), problem));
    }

    /// A path, variables replaced.
    pub(super) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        self.name(key).map(PathBuf::from)
    }

    /// A text in a form of its own; `allowed` says which.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(key)?;
        let parsed = parse(&text);
        if parsed.is_none() {
            self.wrong(key, format!("must be {allowed}"));
        }
        parsed
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, default: T, choices: &[(&str, T)]) -> T {
        let Some(text) = self.text(key) else { return default };
        match choices.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => *value,
            None => {
                self.wrong(key, one_of(&text, choices.iter().map(|(word, _)| *word)));
                default
            }
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        match self.get(key) {
            None => default,
            Some(Value::Boolean(flag)) => *flag,
            Some(_) => {
                self.wrong(key, "must be true or false");
                default
            }
        }
    }

    /// `true`, `false`, or left out.
    pub(super) fn maybe(&mut self, key: &'static str) -> Option<bool> {
        self.has(key).then(|| self.flag(key, false)).or_else(|| {
            self.asked.push(key);
            None
        })
    }

    /// A whole number within a range.
    pub(super) fn whole(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let number = match self.get(key)? {
            Value::Integer(number) => u64::try_from(*number).ok().filter(|number| range.contains(number)),
            _ => None,
        };
        if number.is_none() {
            self.wrong(key, format!("must be a whole number from {} to {}", range.start(), range.end()));
        }
        number
    }

    /// A whole number within the 32 bits that counts of tokens and the like have.
    pub(super) fn count(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        self.whole(key, wide).map(|number| u32::try_from(number).expect("the range ends within 32 bits"))
    }

    /// A number within a range; whole numbers count.
    pub(super) fn number(&mut self, key: &'static str, default: f64, range: RangeInclusive<f64>) -> f64 {
        let number = match self.get(key) {
            None => return default,
            Some(Value::Float(number)) => Some(*number),
            #[expect(clippy::cast_precision_loss, reason = "a number this large is out of range anyway")]
            Some(Value::Integer(number)) => Some(*number as f64),
            Some(_) => None,
        };
        match number.filter(|number| range.contains(number)) {
            Some(number) => number,
            None => {
                self.wrong(key, format!("must be a number from {} to {}", range.start(), range.end()));
                default
            }
        }
    }

    /// A time in milliseconds, up to a day.
    pub(super) fn millis(&mut self, key: &'static str, min: u64) -> Option<Duration> {
        self.whole(key, min..=86_400_000).map(Duration::from_millis)
    }

    /// A time in seconds, up to a day.
    pub(super) fn seconds(&mut self, key: &'static str, min: u64) -> Option<Duration> {
        self.whole(key, min..=86_400).map(Duration::from_secs)
    }

    /// A list of names.
    pub(super) fn names(&mut self, key: &'static str) -> Option<Vec<String>> {
        let value = self.get(key)?;
        let Value::Array(items) = value else {
            self.wrong(key, "must be a list of strings, as in [\"a\", \"b\"]");
            return None;
        };
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let Some(text) = self.expanded(&format!("{key}[{index}]"), item, false) else { continue };
            match name_problem(&text) {
                None => out.push(text),
                Some(problem) => self.push(&format!("{key}[{index}]"), Some(show(item)), problem),
            }
        }
        Some(out)
    }

    /// A list of words out of a few.
    pub(super) fn choices<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<Vec<T>> {
        let words = self.names(key)?;
        let mut out = Vec::with_capacity(words.len());
        for word in words {
            match choices.iter().find(|(known, _)| *known == word) {
                Some((_, value)) => out.push(*value),
                None => self.wrong(
                    key,
                    format!("{}: {}", quoted(&word), one_of(&word, choices.iter().map(|(known, _)| *known))),
                ),
            }
        }
        Some(out)
    }

    fn report_unknown(&self) {
        let Some(table) = self.table else { return };
        for key in table.keys().filter(|key| !self.asked.contains(&key.as_str())) {
            let near = nearest(key, self.asked.iter().copied());
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let problem = format!("unknown key{near}; allowed: {}", self.asked.join(", "));
            // The value may be a secret under a misspelt name.
            self.wrong_secret(key, problem);
        }
    }
}
