//! The configuration: one TOML file, read once at start into plain typed fields.
//!
//! It reports *all* mistakes at once, each with its key, its value and what is allowed. That is why it walks a
//! `toml::Table` with a small reader of its own (`reader`) and uses neither serde nor figment (which design.md names):
//! both stop at the first mistake. Unknown keys are mistakes too. Nothing here opens a port, a database or a
//! connection; files are read through [`Env`] alone, so that tests pass a map.
//!
//! Start with [`Config`], then `check` for the rules that span sections. `config/backstory.toml` lists every key.

mod check;
mod env;
mod error;
mod extract;
mod key;
mod limit_rules;
mod limits;
mod marks;
mod memory;
mod model;
mod params;
mod provider;
mod reader;
mod recall;
mod restart;
mod retry;
mod server;
mod spending;
mod store;
mod telemetry;
mod unsupported;
mod vectors;
mod words;

use std::path::{Path, PathBuf};

pub use env::{Env, Noting, SystemEnv};
pub use error::{ConfigError, ConfigErrors};
pub use extract::{Extract, ModelRef, Summary};
pub use key::{ApiAccess, Key, MemorySwitch, SubjectFrom};
pub use limit_rules::LimitSection;
pub use limits::{Budget, BudgetChanges, Overflow, Profile, Timeouts};
pub use marks::Marks;
pub use memory::{Memory, MemoryRules};
pub use model::{Model, Routing, Target, UnknownModels};
pub use provider::Provider;
pub use recall::{Embeddings, EmbeddingsEngine, Recall, RecallWeights, Rerank, RerankKind};
pub use server::{Admin, Server};
pub use spending::Unpriced;
pub use store::{Durability, Redis, StoreSection, StoreUrl};
pub use telemetry::{Otlp, Telemetry};
pub use vectors::{Vectors, VectorsEngine};

use reader::{Reader, Section};

use crate::upstream::{Auth, Retry};

pub use crate::telemetry::LogFormat;

/// The largest configuration file that is read, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Everything that can be configured. [`Config::default`] is what holds without any file.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// `[store]`.
    pub store: StoreSection,
    /// `[vectors]`.
    pub vectors: Vectors,
    /// `[redis]`.
    pub redis: Redis,
    /// `[admin]`.
    pub admin: Admin,
    /// `[[providers]]`; never empty.
    pub providers: Vec<Provider>,
    /// `[[models]]`.
    pub models: Vec<Model>,
    /// `[routing]`.
    pub routing: Routing,
    /// `[[keys]]`; empty = `client` mode: the client's own upstream key passes through.
    pub keys: Vec<Key>,
    /// `[limits]`.
    pub limits: LimitSection,
    /// `[summary]`.
    pub summary: Summary,
    /// `[memory]`.
    pub memory: Memory,
    /// `[timeouts]`.
    pub timeouts: Timeouts,
    /// `[retry]`.
    pub retry: Retry,
    /// `[budget]`.
    pub budget: Budget,
    /// `[recall]`.
    pub recall: Recall,
    /// `[extract]`.
    pub extract: Extract,
    /// `[embeddings]`.
    pub embeddings: Embeddings,
    /// `[rerank]`.
    pub rerank: Rerank,
    /// `[telemetry]`.
    pub telemetry: Telemetry,
    /// The file it came from; `None` = no file: then the tenant is `local`, whatever the client's key.
    pub file: Option<PathBuf>,
    /// The subject in `client` mode when a request names none: `me` without a file and on loopback, else none.
    pub default_subject: Option<String>,
    /// `--allow-open`: a non-loopback address without keys is meant.
    pub allow_open: bool,
    /// What the file says, key by key, to tell it from another reading.
    pub marks: Marks,
}

/// What the command line sets; it wins over the file and is checked with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--listen ADDR`.
    pub listen: Option<String>,
    /// `--upstream URL/v1`: the base URL of the provider that is `default = true`.
    pub upstream: Option<String>,
    /// `--data DIR`.
    pub data: Option<PathBuf>,
    /// `--allow-open`.
    pub allow_open: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            server: Server::default(),
            store: StoreSection::default(),
            vectors: Vectors::default(),
            redis: Redis::default(),
            admin: Admin::default(),
            providers: vec![Provider::default()],
            models: Vec::new(),
            routing: Routing::default(),
            keys: Vec::new(),
            limits: LimitSection::default(),
            summary: Summary::default(),
            memory: Memory::default(),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            budget: Budget::default(),
            recall: Recall::default(),
            extract: Extract::default(),
            embeddings: Embeddings::default(),
            rerank: Rerank::default(),
            telemetry: Telemetry::default(),
            file: None,
            default_subject: Some("me".to_owned()),
            allow_open: false,
            marks: Marks::default(),
        }
    }
}

impl Config {
    /// Reads the file at `path`, else the one that `BACKSTORY_CONFIG` names, else takes the defaults.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn load(path: Option<&Path>, env: &dyn Env) -> Result<Self, ConfigErrors> {
        Self::load_with(path, env, &Overrides::default())
    }

    /// The same as [`Config::load`], with what the command line sets.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn load_with(path: Option<&Path>, env: &dyn Env, overrides: &Overrides) -> Result<Self, ConfigErrors> {
        let named = env.var("BACKSTORY_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let Some(path) = path.map(Path::to_path_buf).or(named) else {
            return Self::build(Self::default(), Vec::new(), env, overrides);
        };
        let text = match env.file(&path) {
            Ok(text) if text.len() <= MAX_FILE_BYTES => text,
            Ok(_) => return Err(ConfigErrors::file(&path, "it is larger than 1 MiB")),
            Err(error) => return Err(ConfigErrors::file(&path, &format!("it cannot be read: {error}"))),
        };
        Self::parse(&text, &path, env, overrides)
    }

    /// Reads the text of a file; `path` is for messages and for relative `${file:…}` names.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn parse(text: &str, path: &Path, env: &dyn Env, overrides: &Overrides) -> Result<Self, ConfigErrors> {
        let table = text.parse::<toml::Table>().map_err(|error| ConfigErrors::syntax(path, text, &error))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let reader = Reader::new(env, folder);
        let mut config = reader.read(&table, Self::read);
        config.file = Some(path.to_path_buf());
        config.marks = Marks::of(&table, folder, env);
        Self::build(config, reader.into_errors(), env, overrides)
    }

    /// The folder of the embedded store: `[store] data`, else the user's data folder for this application.
    #[must_use]
    pub fn data_folder(&self, env: &dyn Env) -> PathBuf {
        self.store.data.clone().unwrap_or_else(|| env::user_data_folder(env))
    }

    /// The file of the embedded store.
    #[must_use]
    pub fn database(&self, env: &dyn Env) -> PathBuf {
        match &self.store.url {
            StoreUrl::Sqlite(path) => path.clone(),
            _ => self.data_folder(env).join("backstory.db"),
        }
    }

    /// The folder of the embedded store; none for a server.
    #[must_use]
    pub fn embedded_folder(&self, env: &dyn Env) -> Option<PathBuf> {
        if matches!(self.store.url, StoreUrl::Postgres(_)) {
            return None;
        }
        self.database(env).parent().map(Into::into)
    }

    /// Whether other processes may use what is stored at the same time, so that each looks whether what it holds still stands.
    #[must_use]
    pub fn has_replicas(&self) -> bool {
        self.redis.url.is_some() || matches!(self.store.url, StoreUrl::Postgres(_))
    }

    /// Whether the client's own key goes upstream: there are no virtual keys, and nobody who could make some.
    #[must_use]
    pub fn is_client_mode(&self) -> bool {
        self.keys.is_empty() && self.admin.key.is_none()
    }

    fn read(root: &mut Section<'_>) -> Self {
        let admin = root.table("admin", Admin::read);
        let mut providers = root.tables("providers", Provider::read);
        let models = root.tables("models", Model::read);
        if providers.is_empty() && !root.has("providers") {
            // Behind virtual keys there is no client's key that could be passed on.
            let virtual_keys = root.has("keys") || admin.key.is_some();
            let api_key = if virtual_keys { Auth::None } else { Auth::Client };
            providers.push(Provider { api_key, ..Provider::default() });
        }
        // With one provider and no aliases there is only one place to go to.
        if let ([only], true) = (providers.as_mut_slice(), models.is_empty()) {
            only.default = true;
        }
        Self {
            server: root.table("server", Server::read),
            store: root.table("store", StoreSection::read),
            vectors: root.table("vectors", Vectors::read),
            redis: root.table("redis", Redis::read),
            admin,
            providers,
            models,
            routing: root.table("routing", Routing::read),
            keys: root.tables("keys", Key::read),
            limits: root.table("limits", LimitSection::read),
            summary: root.table("summary", Summary::read),
            memory: root.table("memory", Memory::read),
            timeouts: root.table("timeouts", Timeouts::read),
            retry: root.table("retry", retry::read),
            budget: root.table("budget", Budget::read),
            recall: root.table("recall", Recall::read),
            extract: root.table("extract", Extract::read),
            embeddings: root.table("embeddings", Embeddings::read),
            rerank: root.table("rerank", Rerank::read),
            telemetry: root.table("telemetry", Telemetry::read),
            file: None,
            default_subject: None,
            allow_open: false,
            marks: Marks::default(),
        }
    }

    /// The model behind a name: itself, or the one that its alias leads to.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<&Model> {
        let find = |name: &str| self.models.iter().find(|model| model.name == name);
        let mut model = find(name)?;
        // `check` has refused circles; in a configuration that was not checked they end here.
        for _ in 0..self.models.len() {
            match &model.alias {
                Some(alias) => model = find(alias)?,
                None => return Some(model),
            }
        }
        None
    }

    /// Applies the command line, then the rules that span sections.
    fn build(
        mut config: Self,
        mut errors: Vec<ConfigError>,
        env: &dyn Env,
        overrides: &Overrides,
    ) -> Result<Self, ConfigErrors> {
        config.telemetry = config.telemetry.with_environment(env);
        check::apply(&mut config, overrides, &mut errors);
        check::check(&config, &mut errors);
        if !errors.is_empty() {
            return Err(ConfigErrors::new(config.file.as_deref(), errors));
        }
        if !config.server.listen.ip().is_loopback() {
            config.default_subject = None;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod routing_tests;
#[cfg(test)]
mod tests;
