//! Keys to principals.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

use super::stored::StoredKeys;
use crate::base::{ErrorKind, GatewayError, Secret};
use crate::exchange::{Credential, Principal};

/// Returns the SHA-256 of a key: what is kept and compared, never the key itself.
#[must_use]
pub fn fingerprint(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// How clients that bring their own upstream key become tenants.
#[derive(Debug)]
pub struct ClientMode {
    /// What every such client gets; its tenant is replaced unless `fixed_tenant`.
    pub template: Principal,
    /// Keep the template's tenant, whatever the key: the no-config case, where it is `local`.
    pub fixed_tenant: bool,
    /// Salt of the tenant hash; from the store, so that replicas agree.
    pub salt: [u8; 32],
}

/// Everyone who may ask.
#[derive(Debug)]
pub enum Keys {
    /// Virtual keys.
    Virtual(VirtualKeys),
    /// No virtual keys: the client's own key passes through.
    Client(Box<ClientMode>),
}

/// Keys of ours, by their hash. Looking up a hash leaks nothing of use about the key by its timing.
#[derive(Debug, Default)]
pub struct VirtualKeys {
    /// Those of the config.
    pub configured: HashMap<[u8; 32], Arc<Principal>>,
    /// Those made at run time.
    pub stored: Option<Arc<StoredKeys>>,
}

impl VirtualKeys {
    async fn find(&self, key: &str) -> Result<Option<Arc<Principal>>, GatewayError> {
        let hash = fingerprint(key);
        match (self.configured.get(&hash), &self.stored) {
            (Some(principal), _) => Ok(Some(Arc::clone(principal))),
            (None, Some(stored)) => Box::pin(stored.find(&hash)).await,
            (None, None) => Ok(None),
        }
    }
}

impl Keys {
    /// Finds out who asks.
    ///
    /// # Errors
    /// 401 when virtual keys are in force and the request has none of them; 503 when the store would have to say. The
    /// key itself is never in the text.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<(Arc<Principal>, Credential), GatewayError> {
        let key = presented(headers)?;
        match self {
            Self::Virtual(known) => {
                let key = key.ok_or_else(|| {
                    GatewayError::new(ErrorKind::Unauthenticated, "no API key: send it as `Authorization: Bearer KEY`")
                })?;
                let principal = known.find(key).await?.ok_or_else(|| {
                    GatewayError::new(ErrorKind::Unauthenticated, "the API key is not one that this gateway knows")
                })?;
                Ok((principal, Credential::Virtual))
            }
            Self::Client(mode) => Ok((mode.principal(key), Credential::Client(key.map(Secret::from)))),
        }
    }
}

impl ClientMode {
    fn principal(&self, key: Option<&str>) -> Arc<Principal> {
        let tenant = if self.fixed_tenant {
            Arc::clone(&self.template.tenant)
        } else {
            let hash = blake3::keyed_hash(&self.salt, key.unwrap_or_default().as_bytes());
            Arc::from(format!("client-{}", &hash.to_hex()[..24]))
        };
        let t = &self.template;
        Arc::new(Principal {
            tenant,
            namespace: Arc::clone(&t.namespace),
            read_namespaces: t.read_namespaces.clone(),
            subject: t.subject.clone(),
            models: t.models.clone(),
            passthrough: t.passthrough.clone(),
            budget: t.budget.clone(),
            key_name: Arc::clone(&t.key_name),
            ..*t
        })
    }
}

/// Returns the key that a request presents: a bearer token, else `api-key` or `x-api-key`, as some SDKs send it.
fn presented(headers: &HeaderMap) -> Result<Option<&str>, GatewayError> {
    let bad =
        || GatewayError::new(ErrorKind::Unauthenticated, "the API key is not plain text").with_param("authorization");
    if let Some(value) = headers.get(AUTHORIZATION) {
        if headers.get_all(AUTHORIZATION).iter().any(|other| other != value) {
            let public = "the Authorization header is sent twice, with different values";
            return Err(GatewayError::new(ErrorKind::Unauthenticated, public).with_param("authorization"));
        }
        let text = value.to_str().map_err(|_| bad())?.trim();
        let (scheme, key) = text.split_once(' ').unwrap_or(("", text));
        if !scheme.is_empty() && !scheme.eq_ignore_ascii_case("bearer") {
            return Err(GatewayError::new(
                ErrorKind::Unauthenticated,
                "the Authorization header must be of the form `Bearer KEY`",
            ));
        }
        return Ok(Some(key.trim()).filter(|k| !k.is_empty()));
    }
    for name in ["api-key", "x-api-key"] {
        if let Some(value) = headers.get(name) {
            return value.to_str().map(|k| Some(k.trim())).map_err(|_| bad());
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::testing::principal;
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        [(http::HeaderName::from_static(name), value.parse().unwrap())].into_iter().collect()
    }

    fn configured(keys: &[(&str, &str)]) -> Keys {
        let configured = keys.iter().map(|(key, tenant)| (fingerprint(key), Arc::new(principal(tenant)))).collect();
        Keys::Virtual(VirtualKeys { configured, stored: None })
    }

    #[tokio::test]
    async fn a_known_key_is_a_principal_and_never_a_credential() {
        let keys = configured(&[("vk-1", "acme")]);
        for h in [
            headers("authorization", "Bearer vk-1"),
            headers("authorization", "bearer  vk-1"),
            headers("api-key", "vk-1"),
        ] {
            let (who, credential) = keys.authenticate(&h).await.unwrap();
            assert_eq!(&*who.tenant, "acme");
            assert!(matches!(credential, Credential::Virtual));
        }
    }

    #[tokio::test]
    async fn two_keys_in_one_request_are_none() {
        let keys = configured(&[("vk-1", "acme"), ("vk-2", "other")]);
        let mut h = headers("authorization", "Bearer vk-1");
        h.append("authorization", "Bearer vk-2".parse().unwrap());
        assert_eq!(keys.authenticate(&h).await.unwrap_err().kind, ErrorKind::Unauthenticated);
    }

    #[tokio::test]
    async fn an_unknown_key_is_401_and_not_repeated_in_the_text() {
        let keys = configured(&[]);
        for h in
            [headers("authorization", "Bearer vk-secret"), HeaderMap::new(), headers("authorization", "Basic eDp5")]
        {
            let error = keys.authenticate(&h).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unauthenticated);
            assert!(!error.public.contains("vk-secret"));
        }
    }

    #[tokio::test]
    async fn in_client_mode_each_key_is_a_tenant_of_its_own() {
        let mode = |fixed_tenant| {
            Keys::Client(Box::new(ClientMode { template: principal("local"), fixed_tenant, salt: [7; 32] }))
        };
        let tenant = async |keys: &Keys, key: &str| {
            keys.authenticate(&headers("authorization", key)).await.unwrap().0.tenant.clone()
        };
        let (hashed, fixed) = (mode(false), mode(true));
        assert_ne!(tenant(&hashed, "Bearer a").await, tenant(&hashed, "Bearer b").await);
        assert_eq!(tenant(&hashed, "Bearer a").await, tenant(&hashed, "Bearer a").await);
        assert_eq!(&*tenant(&fixed, "Bearer a").await, "local");
    }
}
