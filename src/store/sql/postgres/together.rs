//! Where scopes stand, asked for by many at once: while one question to the server is under way, those who come wait and are all asked for in the next.
//!
//! Among replicas each request asks, before anything of it is shown; under load one question then answers for all of them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use sqlx::PgPool;

use crate::store::ScopeState;

/// So long a question waits for the one before it: one that hangs must not hold up all others.
const PATIENCE: Duration = Duration::from_millis(20);

const ASK: &str = "SELECT key, revision, epoch FROM scopes WHERE key = ANY($1)";

type Key = [u8; 32];

/// What is known of the scopes that have a row; `None` where the server did not answer.
type Answer = Option<Arc<HashMap<Key, ScopeState>>>;

/// Whoever waits for it drives it, so that it goes on when the one that began it is gone.
type Question = Shared<BoxFuture<'static, Answer>>;

/// Gathers questions. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::store::sql) struct Together {
    pool: PgPool,
    questions: Arc<Mutex<Questions>>,
}

#[derive(Debug, Default)]
struct Questions {
    /// The last one that was sent.
    sent: Option<Question>,
    /// The one that is sent next, and what it will ask for.
    next: Option<(Question, HashSet<Key>)>,
}

impl Together {
    pub(super) fn new(pool: PgPool) -> Self {
        Self { pool, questions: Arc::default() }
    }

    /// Asks for a scope, with what others ask for. What is answered was read after this was called. `None`: ask alone, to be told what is wrong.
    pub(in crate::store::sql) async fn ask(&self, key: Key) -> Option<ScopeState> {
        let question = self.join(key);
        let known = question.await?;
        Some(known.get(&key).copied().unwrap_or_default())
    }

    fn join(&self, key: Key) -> Question {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((next, keys)) = &mut questions.next {
            keys.insert(key);
            return next.clone();
        }
        let (together, before) = (self.clone(), questions.sent.take());
        let next = async move {
            if let Some(before) = before {
                // Its answer is for others.
                drop(tokio::time::timeout(PATIENCE, before).await);
            }
            together.send().await
        };
        let next = next.boxed().shared();
        questions.next = Some((next.clone(), HashSet::from([key])));
        next
    }

    /// Asks for all that wait. Whoever comes from now on is asked for after this.
    async fn send(&self) -> Answer {
        let keys = {
            let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
            let (question, keys) = questions.next.take()?;
            questions.sent = Some(question);
            keys
        };
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        let rows: Vec<(Vec<u8>, i64, i64)> = sqlx::query_as(ASK).bind(keys).fetch_all(&self.pool).await.ok()?;
        let state =
            |(key, revision, epoch): (Vec<u8>, _, _)| Some((key.try_into().ok()?, ScopeState { revision, epoch }));
        Some(Arc::new(rows.into_iter().filter_map(state).collect()))
    }
}
