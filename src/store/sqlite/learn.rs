//! Stores what a group of exchanges taught, in one transaction.
//!
//! Everything is read first (scopes, leases, marks of what was seen, versions), then decided in memory in the order of
//! the group, then written. So a group costs a handful of statements however large it is.

use std::collections::{HashMap, HashSet};

use sqlx::SqliteConnection;

use super::error::driver;
use super::row::{hex, rows};
use super::scope::{ScopeRow, key, load, set_revisions};
use super::write::{StoredFacts, Writes, execute};
use super::{SqliteStore, commit};
use crate::base::{ExchangeId, Time};
use crate::memory::{Scope, Speaker};
use crate::store::{LearnOutcome, Learned, StoreError};

/// How long retries and tool loops of one user turn are known as the same, in milliseconds (design, section 4).
pub(super) const SEEN_MILLIS: i64 = 10 * 60 * 1000;

const LEASED: &str = "
    SELECT j.key FROM json_each(?2) j CROSS JOIN outbox o ON o.exchange = j.value WHERE o.owner = ?1";

const SEEN: &str = "
    SELECT j.key, n.at FROM json_each(?1) j CROSS JOIN scopes s ON s.key = unhex(j.value ->> 0)
    CROSS JOIN seen n ON n.scope = s.id AND n.turn_key = j.value ->> 1";

const MARK_SEEN: &str = "
    INSERT INTO seen (scope, turn_key, at) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1) WHERE true
    ON CONFLICT (scope, turn_key) DO UPDATE SET at = excluded.at";

const DONE: &str = "DELETE FROM outbox WHERE exchange IN (SELECT value FROM json_each(?1))";

impl SqliteStore {
    pub(super) async fn learn_group(&self, owner: &str, group: &[Learned]) -> Result<Vec<LearnOutcome>, StoreError> {
        if group.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.begin().await?;
        let mut state = GroupState::load(&mut tx, owner, group).await?;
        let outcomes: Vec<_> = group.iter().map(|learned| state.decide(learned)).collect();
        state.write(&mut tx).await?;
        commit(tx).await?;
        Ok(outcomes)
    }
}

/// What is stored, as it will be when the results decided so far are written; and those results.
struct GroupState<'a> {
    scopes: HashMap<Scope, ScopeRow>,
    leased: HashSet<ExchangeId>,
    seen: HashMap<(&'a Scope, &'a str), Time>,
    facts: StoredFacts,
    /// Scopes of which an earlier result of this group was not stored as it was decided: later ones rest on it.
    broken: HashSet<&'a Scope>,
    changed: HashSet<&'a Scope>,
    newly_seen: Vec<(i64, &'a str, Time)>,
    writes: Writes,
    done: Vec<ExchangeId>,
}

impl<'a> GroupState<'a> {
    async fn load(conn: &mut SqliteConnection, owner: &str, group: &'a [Learned]) -> Result<Self, StoreError> {
        let unique: HashSet<&Scope> = group.iter().map(|l| &l.scope).collect();
        let scopes = load(&mut *conn, &unique.into_iter().collect::<Vec<_>>()).await?;
        let leased = leased(&mut *conn, owner, group).await?;
        let seen = seen(&mut *conn, group).await?;
        let facts = StoredFacts::load(&mut *conn, group.iter().flat_map(|l| &l.changes)).await?;
        Ok(Self {
            scopes,
            leased,
            seen,
            facts,
            broken: HashSet::new(),
            changed: HashSet::new(),
            newly_seen: Vec::new(),
            writes: Writes::default(),
            done: Vec::new(),
        })
    }

    fn decide(&mut self, learned: &'a Learned) -> LearnOutcome {
        let outcome = self.outcome(learned);
        let stored_as_decided = matches!(outcome, LearnOutcome::Applied { .. });
        let is_base = !learned.changes.is_empty() || !learned.episodes.is_empty();
        if is_base && !stored_as_decided {
            self.broken.insert(&learned.scope);
        }
        outcome
    }

    fn outcome(&mut self, learned: &'a Learned) -> LearnOutcome {
        let ours = self.leased.remove(&learned.exchange);
        // The append made the scope's row, so a lease implies it.
        let Some(scope) = self.scopes.get(&learned.scope).copied() else {
            return LearnOutcome::NotOurs;
        };
        if learned.epoch < scope.epoch {
            if ours {
                self.done.push(learned.exchange);
            }
            return LearnOutcome::Erased;
        }
        if !ours {
            return LearnOutcome::NotOurs;
        }
        if learned.user_side && self.was_seen(learned) {
            return self.store_seen(scope, learned);
        }
        let stale = learned.revision != scope.revision || self.broken.contains(&learned.scope);
        if stale || !self.facts.admits(scope.id, &learned.changes) {
            self.leased.insert(learned.exchange);
            return LearnOutcome::Stale;
        }
        self.store(scope, learned)
    }

    fn was_seen(&self, learned: &Learned) -> bool {
        let at = self.seen.get(&(&learned.scope, learned.turn_key.as_str()));
        at.is_some_and(|at| learned.now.since(*at) < SEEN_MILLIS)
    }

    fn store(&mut self, scope: ScopeRow, learned: &'a Learned) -> LearnOutcome {
        for change in &learned.changes {
            self.writes.change(scope.id, change, &mut self.facts);
        }
        for episode in &learned.episodes {
            self.writes.episode(scope.id, episode);
        }
        for (episode, fact) in &learned.marks {
            self.writes.mark(scope.id, *episode, *fact);
        }
        for proposal in &learned.proposals {
            self.writes.proposal(scope.id, proposal);
        }
        if learned.user_side {
            self.seen.insert((&learned.scope, &learned.turn_key), learned.now);
            self.newly_seen.push((scope.id, &learned.turn_key, learned.now));
        }
        self.done.push(learned.exchange);
        let changed = !(learned.changes.is_empty() && learned.episodes.is_empty() && learned.marks.is_empty());
        LearnOutcome::Applied { revision: self.raise(&learned.scope, changed) }
    }

    fn store_seen(&mut self, scope: ScopeRow, learned: &'a Learned) -> LearnOutcome {
        let replies = learned.episodes.iter().filter(|e| e.role == Speaker::Assistant);
        let mut changed = false;
        for episode in replies {
            self.writes.episode(scope.id, episode);
            changed = true;
        }
        self.done.push(learned.exchange);
        LearnOutcome::Seen { revision: self.raise(&learned.scope, changed) }
    }

    /// Raises the scope's revision by one when something changed; returns what it is then.
    fn raise(&mut self, scope: &'a Scope, changed: bool) -> i64 {
        let Some(row) = self.scopes.get_mut(scope) else { return 0 };
        if changed {
            row.revision += 1;
            self.changed.insert(scope);
        }
        row.revision
    }

    async fn write(self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        self.writes.run(&mut *conn).await?;
        execute(&mut *conn, MARK_SEEN, "mark turns as seen", &self.newly_seen).await?;
        let revisions: Vec<_> =
            self.changed.iter().filter_map(|s| self.scopes.get(*s)).map(|row| (row.id, row.revision)).collect();
        set_revisions(&mut *conn, &revisions).await?;
        let deleted = execute(&mut *conn, DONE, "delete learned exchanges", &self.done).await?;
        if deleted != self.done.len() as u64 {
            return Err(StoreError::Conflict { what: "an outbox row".to_owned() });
        }
        Ok(())
    }
}

/// Those exchanges of the group that `owner` holds.
async fn leased(
    conn: &mut SqliteConnection,
    owner: &str,
    group: &[Learned],
) -> Result<HashSet<ExchangeId>, StoreError> {
    let exchanges: Vec<_> = group.iter().map(|l| l.exchange).collect();
    let found: Vec<i64> = sqlx::query_scalar(LEASED)
        .bind(owner)
        .bind(rows(&exchanges))
        .fetch_all(conn)
        .await
        .map_err(driver("check leases"))?;
    let exchange = |index: i64| usize::try_from(index).ok().and_then(|i| exchanges.get(i)).copied();
    Ok(found.into_iter().filter_map(exchange).collect())
}

/// When the group's user turns were last learned, as far as they were.
async fn seen<'a>(
    conn: &mut SqliteConnection,
    group: &'a [Learned],
) -> Result<HashMap<(&'a Scope, &'a str), Time>, StoreError> {
    let turns: Vec<_> = group.iter().map(|l| (hex(&key(&l.scope)), &l.turn_key)).collect();
    let found: Vec<(i64, i64)> =
        sqlx::query_as(SEEN).bind(rows(&turns)).fetch_all(conn).await.map_err(driver("check what was seen"))?;
    let learned = |index: i64| usize::try_from(index).ok().and_then(|i| group.get(i));
    Ok(found
        .into_iter()
        .filter_map(|(index, at)| learned(index).map(|l| ((&l.scope, l.turn_key.as_str()), Time(at))))
        .collect())
}
