//! Every endpoint, through the router, over a store in memory.

mod calls;
mod changes;
mod edits;
mod episodes;
mod exchanges;
mod facts;
mod past;
mod subject;
mod transfer;

use std::sync::Mutex;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::base::{EpisodeId, ErrorKind, ExchangeId, GatewayError, ManualClock, ProposalId, SeededRandom, Time};
use crate::memory::{Candidate, Episode, Evidence, FactKind, Said, Sensitivity, Speaker, Turn};
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{Claim, Finished, Learned, OutboxStore, Proposal, ProposalStatus, Shown, VectorIndex};

/// Takes the caller from headers that name its parts.
struct FromHeaders;

#[async_trait]
impl Identify for FromHeaders {
    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, GatewayError> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let Some(tenant) = header("tenant") else {
            return Err(GatewayError::new(ErrorKind::Unauthenticated, "no key"));
        };
        let rights = header("rights").unwrap_or_default();
        let namespace: Arc<str> = header("namespace").unwrap_or_else(|| "support".to_owned()).into();
        // What `copy` names stands before what the request says of itself.
        let user = header("x-backstory-user").or_else(|| header("user"));
        Ok(Caller {
            scope: user.map(|user| Scope::new(tenant.clone(), namespace.clone(), user)),
            tenant: tenant.into(),
            namespace,
            namespaces_readable: vec!["sales".into()],
            memory_api: match rights.as_str() {
                "off" => ApiAccess::Off,
                "read" => ApiAccess::Read,
                _ => ApiAccess::Write,
            },
            may_edit: rights == "edit",
            admin: rights == "admin",
            max_sensitivity: if rights == "normal" { Sensitivity::Normal } else { Sensitivity::Sensitive },
        })
    }
}

#[derive(Default)]
struct Noted(Mutex<Vec<Scope>>);

#[async_trait]
impl Changed for Noted {
    fn changed(&self, scope: &Scope) {
        self.0.lock().unwrap().push(scope.clone());
    }

    fn documents(&self, namespace: &Namespace) {
        self.0.lock().unwrap().push(Scope::new(namespace.tenant.clone(), namespace.name.clone(), "(documents)"));
    }

    async fn mentioning(&self, _: &Scope, _: &str) -> Vec<EpisodeId> {
        Vec::new()
    }
}

struct Api {
    router: Router,
    store: SqlStore,
    clock: Arc<ManualClock>,
    noted: Arc<Noted>,
    tasks: TaskTracker,
}

/// An answer, read whole.
struct Got {
    status: u16,
    body: Value,
}

impl Got {
    fn id(&self) -> String {
        self.body["id"].as_str().unwrap_or_else(|| panic!("no id in {}", self.body)).to_owned()
    }

    fn texts(&self, member: &str) -> Vec<String> {
        let data = self.body["data"].as_array().unwrap_or_else(|| panic!("no list in {}", self.body));
        data.iter().map(|item| item[member].as_str().unwrap_or_default().to_owned()).collect()
    }

    #[track_caller]
    fn must_be(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        if status >= 400 {
            let error = &self.body["error"];
            assert!(error["message"].is_string() && error["type"].is_string() && error["code"].is_string(), "{error}");
        }
        self
    }
}

const ANN: &[(&str, &str)] = &[("tenant", "t"), ("user", "ann")];
const EDITOR: &[(&str, &str)] = &[("tenant", "t"), ("user", "ann"), ("rights", "edit")];
const BOB: &[(&str, &str)] = &[("tenant", "t"), ("user", "bob"), ("rights", "edit")];
const OTHER_TENANT: &[(&str, &str)] = &[("tenant", "u"), ("user", "ann"), ("rights", "edit")];
const OTHER_NAMESPACE: &[(&str, &str)] =
    &[("tenant", "t"), ("user", "ann"), ("namespace", "sales"), ("rights", "edit")];

fn ann() -> Scope {
    Scope::new("t", "support", "ann")
}

impl Api {
    async fn new() -> Self {
        Self::with_index(None).await
    }

    async fn with_index(index: Option<Arc<dyn VectorIndex>>) -> Self {
        let store = SqlStore::sqlite(SqliteOptions::default()).await.unwrap();
        let clock = Arc::new(ManualClock::new(Time(1_700_000_000_000)));
        let noted = Arc::new(Noted::default());
        let tasks = TaskTracker::new();
        let router = router(MemoryApi {
            store: Arc::new(store.clone()),
            index,
            identify: Arc::new(FromHeaders),
            changed: noted.clone(),
            clock: clock.clone(),
            tasks: tasks.clone(),
            random: Arc::new(SeededRandom::new(1)),
            schemas: Arc::new(crate::config::Memory::default().schemas()),
        });
        Self { router, store, clock, noted, tasks }
    }

    async fn send(&self, request: Request<Body>) -> Got {
        let response: Response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers().contains_key("allow"), status == 405);
        let bytes = to_bytes(response.into_body(), 1 << 22).await.unwrap();
        Got { status, body: serde_json::from_slice(&bytes).unwrap() }
    }

    async fn call(&self, who: &[(&str, &str)], method: &str, path: &str, body: Value) -> Got {
        self.clock.advance_millis(1000);
        let mut request = Request::builder().method(method).uri(format!("/memory/v1{path}"));
        for (name, value) in who {
            request = request.header(*name, *value);
        }
        let request = match body {
            Value::Null => request.body(Body::empty()),
            body => request.header("content-type", "application/json").body(Body::from(body.to_string())),
        };
        self.send(request.unwrap()).await
    }

    async fn get(&self, who: &[(&str, &str)], path: &str) -> Got {
        self.call(who, "GET", path, Value::Null).await
    }

    /// Adds a fact and returns its id.
    async fn add(&self, key: &str, value: &str) -> String {
        self.call(ANN, "POST", "/facts", json!({ "key": key, "value": value })).await.must_be(201).id()
    }

    fn changes(&self) -> usize {
        self.noted.0.lock().unwrap().len()
    }
}
