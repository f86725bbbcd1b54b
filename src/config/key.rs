//! `[[keys]]`: who may do what.

use std::path::Path;
use std::{fmt, io};

use sha2::{Digest, Sha256};

use super::env::Env;
use super::error::{ConfigError, ConfigErrors};
use super::limit_rules::read_limits;
use super::limits::BudgetChanges;
use super::provider::SENSITIVITIES;
use super::reader::{Reader, Section};
use crate::base::unhex;
use crate::exchange::Limits;
use crate::memory::Sensitivity;

/// One `[[keys]]`: a virtual key and its policy. The key itself is not kept, only its hash.
#[derive(Clone, PartialEq)]
pub struct Key {
    /// `key` or `key_sha256`: SHA-256 of the key.
    pub sha256: [u8; 32],
    /// `name`: what the books call it; none = a name made of its hash. Keys made at run time have theirs beside the settings.
    pub name: Option<String>,
    /// `tenant`: the hard wall.
    pub tenant: String,
    /// `namespace`: what it reads and writes.
    pub namespace: String,
    /// `read_namespaces`: others of its tenant that it may read.
    pub read_namespaces: Vec<String>,
    /// `subject_from`: where the subject is looked for, in this order.
    pub subject_from: Vec<SubjectFrom>,
    /// `default_subject`: the subject when the request names none; none = no long-term memory then.
    pub default_subject: Option<String>,
    /// `may_name_subject`: whether a request may name the subject; else only `default_subject` counts.
    pub may_name_subject: bool,
    /// `may_edit`: whether it may lock facts and edit them as an operator.
    pub may_edit: bool,
    /// `memory_api`: what it may do with the memory API.
    pub memory_api: ApiAccess,
    /// `models`: names it may ask for; empty = all.
    pub models: Vec<String>,
    /// `passthrough`: path prefixes under `/v1` that it may reach beside those we serve; `*` = all.
    pub passthrough: Vec<String>,
    /// `max_sensitivity`: memories above it are not shown to it.
    pub max_sensitivity: Sensitivity,
    /// `memory`: whether its chats read and write memory.
    pub memory: MemorySwitch,
    /// `requests_per_minute` and all other limits: of the key itself.
    pub limits: Limits,
    /// `[keys.each_subject]`: of each of its people; empty = as `[limits.each_subject]` says.
    pub each_subject: Limits,
    /// `budget`: what it changes of `[budget]`; `max_input_tokens` may stand in the key itself too.
    pub budget: BudgetChanges,
}

/// Leaves the hash out: a short key could be guessed from it.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("tenant", &self.tenant).field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// What is wrong with a key that can have no memory and does not say so.
pub(super) const NO_SUBJECT: &str = "without it this key has no subject and so no memory: it may not name one (`may_name_subject = false`); or set memory = \"off\"";

/// No variables and no files.
struct Closed;

impl Env for Closed {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &Path) -> io::Result<String> {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "files are not read here"))
    }
}

/// Where a subject is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectFrom {
    /// `header`: `x-backstory-user`.
    Header,
    /// `metadata.user_id` of the body.
    MetadataUserId,
    /// `safety_identifier` of the body.
    SafetyIdentifier,
    /// `user` of the body.
    User,
}

impl SubjectFrom {
    /// The order that holds where none is configured.
    pub const DEFAULT: [Self; 4] = [Self::Header, Self::MetadataUserId, Self::SafetyIdentifier, Self::User];
}

/// What a key may do with the memory API, in its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiAccess {
    /// Nothing.
    Off,
    /// List and read.
    Read,
    /// Read, add, change, delete, confirm, erase.
    Write,
}

/// Whether chats read and write memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySwitch {
    /// `on`: both.
    On,
    /// `off`: neither.
    Off,
    /// `read`: shown, nothing learned.
    Read,
    /// `write`: learned, nothing shown.
    Write,
}

impl MemorySwitch {
    /// Whether memories are shown.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::On | Self::Read)
    }

    /// Whether something is learned.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::On | Self::Write)
    }
}

impl Key {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let sha256 = read_hash(s);
        let name = s.name("name");
        Self { name, ..Self::read_settings(s, sha256) }
    }

    /// Reads the settings of a key that is not in the file: a table as under `[[keys]]`, without the key itself. Nothing is
    /// replaced in its texts: who may make keys need not be who may read this machine's files and variables.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn from_settings(settings: &toml::Table) -> Result<Self, ConfigErrors> {
        let reader = Reader::new(&Closed, Path::new(""));
        let key = reader.read(settings, |s| Self::read_settings(s, [0; 32]));
        let mut errors = reader.into_errors();
        if !key.may_name_subject && key.default_subject.is_none() && key.memory != MemorySwitch::Off {
            errors.push(ConfigError::new("default_subject", None, NO_SUBJECT));
        }
        if errors.is_empty() { Ok(key) } else { Err(ConfigErrors::new(None, errors)) }
    }

    fn read_settings(s: &mut Section<'_>, sha256: [u8; 32]) -> Self {
        let sources = [
            ("header", SubjectFrom::Header),
            ("metadata.user_id", SubjectFrom::MetadataUserId),
            ("safety_identifier", SubjectFrom::SafetyIdentifier),
            ("user", SubjectFrom::User),
        ];
        let access = [("off", ApiAccess::Off), ("read", ApiAccess::Read), ("write", ApiAccess::Write)];
        let switch = [
            ("on", MemorySwitch::On),
            ("off", MemorySwitch::Off),
            ("read", MemorySwitch::Read),
            ("write", MemorySwitch::Write),
        ];
        Self {
            sha256,
            name: None,
            tenant: s.name("tenant").unwrap_or_else(|| "default".to_owned()),
            namespace: s.name("namespace").unwrap_or_else(|| "default".to_owned()),
            read_namespaces: s.names("read_namespaces").unwrap_or_default(),
            subject_from: s.choices("subject_from", &sources).unwrap_or_else(|| SubjectFrom::DEFAULT.to_vec()),
            default_subject: s.name("default_subject"),
            may_name_subject: s.flag("may_name_subject", true),
            may_edit: s.flag("may_edit", false),
            memory_api: s.choice("memory_api", ApiAccess::Write, &access),
            models: s.names("models").unwrap_or_default(),
            passthrough: read_passthrough(s),
            max_sensitivity: s.choice("max_sensitivity", Sensitivity::Sensitive, SENSITIVITIES),
            memory: s.choice("memory", MemorySwitch::On, &switch),
            limits: read_limits(s),
            each_subject: s.table("each_subject", read_limits),
            budget: read_budget(s),
        }
    }

    /// SHA-256 of a key, as it is compared.
    #[must_use]
    pub fn hash(key: &str) -> [u8; 32] {
        Sha256::digest(key.as_bytes()).into()
    }
}

/// The hash, from either form. Zeros when neither can be read, which was reported.
fn read_hash(s: &mut Section<'_>) -> [u8; 32] {
    let (has_key, has_hash) = (s.has("key"), s.has("key_sha256"));
    let key = s.secret("key");
    let hash = s.secret("key_sha256");
    match (has_key, has_hash) {
        (true, true) => s.wrong_secret("key", "give either `key` or `key_sha256`"),
        (false, false) => s.wrong_secret("key", "is missing: give `key` or `key_sha256`"),
        _ => {}
    }
    if let Some(key) = key {
        return Key::hash(key.expose());
    }
    let Some(hash) = hash else { return [0; 32] };
    unhex(hash.expose()).unwrap_or_else(|| {
        s.wrong_secret("key_sha256", "must be the SHA-256 of the key: 64 hexadecimal digits (the value is not shown)");
        [0; 32]
    })
}

/// `max_input_tokens` of the key itself and of its `budget`: the tighter one holds, as everywhere.
fn read_budget(s: &mut Section<'_>) -> BudgetChanges {
    let own = s.count("max_input_tokens", 1..=100_000_000);
    let budget = s.table("budget", BudgetChanges::read);
    let tightest = [own, budget.max_input_tokens].into_iter().flatten().min();
    BudgetChanges { max_input_tokens: tightest, ..budget }
}

fn read_passthrough(s: &mut Section<'_>) -> Vec<String> {
    let mut prefixes = s.names("passthrough").unwrap_or_default();
    if prefixes.iter().any(|prefix| prefix != "*" && !prefix.starts_with("/v1/")) {
        s.wrong("passthrough", "each must be \"*\" or a path prefix under /v1, as in \"/v1/audio/\"");
        prefixes.clear();
    }
    prefixes
}
