//! Who may ask: the keys of the config and of the store as principals.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::build::policy_changes;
use crate::access::{ClientMode, Keys, StoredKeys, VirtualKeys};
use crate::config::{self, Config};
use crate::context::PolicyChanges;
use crate::exchange::{Limits, MemoryApi, Principal, SubjectRule, SubjectSource, Switch};
use crate::memory::Sensitivity;
use crate::store::StoredKey;

/// How often it is written down which keys were used.
const NOTE_USED_EVERY: Duration = Duration::from_secs(20);

/// Everyone who may ask.
pub(super) fn keys(config: &Config, salt: [u8; 32], stored: Option<Arc<StoredKeys>>) -> Keys {
    if config.is_client_mode() {
        let template = Principal {
            tenant: "local".into(),
            namespace: "default".into(),
            read_namespaces: Vec::new(),
            any_namespace: true,
            subject: SubjectRule {
                from: vec![
                    SubjectSource::Header,
                    SubjectSource::MetadataUserId,
                    SubjectSource::SafetyIdentifier,
                    SubjectSource::User,
                ],
                default: config.default_subject.as_deref().map(Arc::from),
                may_name: true,
            },
            memory: Switch::ON,
            memory_api: MemoryApi::Write,
            may_edit: true,
            models: Vec::new(),
            passthrough: Vec::new(),
            max_sensitivity: Sensitivity::Sensitive,
            budget: PolicyChanges::default(),
            key: 0,
            key_name: "client".into(),
            limits: Limits::default(),
            each_subject: Limits::default(),
        };
        let fixed_tenant = config.file.is_none();
        return Keys::Client(Box::new(ClientMode { template, fixed_tenant, salt }));
    }
    let configured = config
        .keys
        .iter()
        .map(|key| (key.sha256, Arc::new(principal(key, key_id(&key.sha256), &key_name(key, &salt)))))
        .collect();
    Keys::Virtual(VirtualKeys { configured, stored })
}

/// A key of the config is known by the first half of its hash.
fn key_id(sha256: &[u8; 32]) -> u128 {
    sha256.iter().take(16).fold(0, |name, byte| (name << 8) | u128::from(*byte))
}

/// What the books call a key of the config. A plain hash would let guesses be checked: keys that people make up are short.
fn key_name(key: &config::Key, salt: &[u8; 32]) -> String {
    let made = || format!("key-{}", &blake3::keyed_hash(salt, &key.sha256).to_hex()[..8]);
    key.name.clone().unwrap_or_else(made)
}

/// What a stored key stands for.
pub(super) fn stored_principal(key: &StoredKey) -> Result<Principal, String> {
    let settings: toml::Table = serde_json::from_str(&key.settings).map_err(|error| error.to_string())?;
    let settings = config::Key::from_settings(&settings).map_err(|errors| errors.to_string())?;
    Ok(principal(&settings, key.id.0, &key.name))
}

fn principal(key: &config::Key, name: u128, key_name: &str) -> Principal {
    Principal {
        tenant: key.tenant.as_str().into(),
        namespace: key.namespace.as_str().into(),
        read_namespaces: key.read_namespaces.iter().map(|n| n.as_str().into()).collect(),
        any_namespace: false,
        subject: SubjectRule {
            from: key
                .subject_from
                .iter()
                .map(|from| match from {
                    config::SubjectFrom::Header => SubjectSource::Header,
                    config::SubjectFrom::MetadataUserId => SubjectSource::MetadataUserId,
                    config::SubjectFrom::SafetyIdentifier => SubjectSource::SafetyIdentifier,
                    config::SubjectFrom::User => SubjectSource::User,
                })
                .collect(),
            default: key.default_subject.as_deref().map(Arc::from),
            may_name: key.may_name_subject,
        },
        memory: Switch { read: key.memory.reads(), write: key.memory.writes() },
        memory_api: match key.memory_api {
            config::ApiAccess::Off => MemoryApi::Off,
            config::ApiAccess::Read => MemoryApi::Read,
            config::ApiAccess::Write => MemoryApi::Write,
        },
        may_edit: key.may_edit,
        models: key.models.clone(),
        passthrough: key.passthrough.clone(),
        max_sensitivity: key.max_sensitivity,
        budget: policy_changes(&key.budget),
        key: name,
        key_name: key_name.into(),
        limits: key.limits,
        each_subject: key.each_subject,
    }
}

/// Writes down, now and then and at the end, which stored keys were used.
pub(super) async fn note_used_keys(keys: Arc<StoredKeys>, halt: CancellationToken) {
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(NOTE_USED_EVERY) => false,
            () = halt.cancelled() => true,
        };
        if let Err(error) = keys.write_used().await {
            tracing::warn!(%error, "could not note which keys were used");
        }
        if last {
            return;
        }
    }
}
