//! Stores a group of exchanges, and what it taught, in one transaction.
//!
//! Everything is read first (scopes, leases, when turns were last learned from, versions), then decided in memory in the order of
//! the group, then written. So a group costs a handful of statements however large it is.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use super::begin::{Asked, Basis, Known, begin, prefix};
use super::row::json;
use super::scope::{ScopeRow, ensure, load};
use super::session::Tx;
use super::text::Sql;
use super::usage::forget_subject;
use super::write::{StoredFacts, Then, TurnPlace, TurnRow, Writes, execute};
use super::{SqlStore, commit};
use crate::base::{ExchangeId, Time};
use crate::memory::{Scope, Speaker};
use crate::store::{Finished, LearnOutcome, Learned, StateKey, StoreError, TurnState, UsageRow};

/// How long retries and tool loops of one user turn are known as the same, in milliseconds (design, section 4).
pub(super) const SEEN_MILLIS: i64 = 10 * 60 * 1000;

static KEEP: Sql = Sql::new(
    "
    INSERT INTO raw_exchanges (id, scope, at, turn)
    SELECT exchange, scope, appended_at, turn FROM outbox WHERE exchange IN (SELECT value FROM each_text(?1))
    ON CONFLICT (id) DO NOTHING",
);

static DONE: Sql = Sql::new("DELETE FROM outbox WHERE exchange IN (SELECT value FROM each_text(?1))");

impl SqlStore {
    /// Stores finished exchanges: what they taught where that is known already (`learned`, as long as the group or empty), and otherwise
    /// themselves, to be learned from later.
    pub(super) async fn append_group(
        &self,
        group: &[Finished],
        learned: &[Option<Learned>],
    ) -> Result<Vec<Option<LearnOutcome>>, StoreError> {
        if group.is_empty() {
            return Ok(Vec::new());
        }
        self.patiently(|| self.append_once(group, learned)).await
    }

    async fn append_once(
        &self,
        group: &[Finished],
        learned: &[Option<Learned>],
    ) -> Result<Vec<Option<LearnOutcome>>, StoreError> {
        let of = |index: usize| learned.get(index).and_then(Option::as_ref);
        let states = group.iter().filter_map(|f| f.state.as_ref()).map(|(key, _)| &key.scope);
        let asked = Asked {
            scopes: group.iter().map(|f| &f.scope).chain(states).collect(),
            learned: (0..group.len()).filter_map(of).collect(),
            owner: None,
        };
        let (mut tx, basis) = begin(self, asked).await?;
        let mut state = GroupState::new(basis);
        let step = async {
            state.make_scopes(&mut tx, group).await?;
            let outcomes = group.iter().enumerate().map(|(i, finished)| state.take(finished, of(i))).collect();
            Ok((outcomes, state.write(&mut tx).await?))
        };
        finish(step.await, tx).await
    }

    /// Stores what leased exchanges taught.
    pub(super) async fn learn_group(&self, owner: &str, group: &[Learned]) -> Result<Vec<LearnOutcome>, StoreError> {
        if group.is_empty() {
            return Ok(Vec::new());
        }
        self.patiently(|| self.learn_once(owner, group)).await
    }

    async fn learn_once(&self, owner: &str, group: &[Learned]) -> Result<Vec<LearnOutcome>, StoreError> {
        let asked = Asked {
            scopes: group.iter().map(|l| &l.scope).collect(),
            learned: group.iter().collect(),
            owner: Some(owner),
        };
        let (mut tx, basis) = begin(self, asked).await?;
        let mut state = GroupState::new(basis);
        let step = async {
            let outcomes = group.iter().map(|learned| state.decide(learned)).collect();
            Ok((outcomes, state.write(&mut tx).await?))
        };
        finish(step.await, tx).await
    }
}

/// Keeps what was done, or undoes what failed on the way there.
async fn finish<T>(result: Result<(T, Then), StoreError>, tx: Tx) -> Result<T, StoreError> {
    match (result, tx) {
        (Ok((done, Then::Commit)), Tx::Script(open)) => {
            open.committed();
            Ok(done)
        }
        (Ok((done, _)), tx) => {
            commit(tx).await?;
            Ok(done)
        }
        (Err(error), tx) => {
            tx.undo().await;
            Err(error)
        }
    }
}

/// What is stored, as it will be when the results decided so far are written; and those results.
struct GroupState<'a> {
    scopes: HashMap<Scope, Known>,
    /// Leases that are held; `None` where none is needed.
    leased: Option<HashSet<ExchangeId>>,
    /// When turns were last learned from.
    seen: HashMap<TurnPlace, Time>,
    facts: StoredFacts,
    /// Scopes of which an earlier result of this group was not stored as it was decided: later ones rest on it.
    broken: HashSet<&'a Scope>,
    changed: HashSet<&'a Scope>,
    turns: HashMap<TurnPlace, TurnRow>,
    writes: Writes,
    done: Vec<ExchangeId>,
    /// Of those that are done, the ones that stay as raw exchanges.
    kept: Vec<ExchangeId>,
}

impl<'a> GroupState<'a> {
    fn new(Basis { scopes, leased, seen, facts }: Basis) -> Self {
        Self {
            scopes,
            leased,
            seen,
            facts,
            broken: HashSet::new(),
            changed: HashSet::new(),
            turns: HashMap::new(),
            writes: Writes::default(),
            done: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Makes the scopes that are new, and names again those whose name was erased, when something of theirs is to be stored.
    async fn make_scopes(&mut self, tx: &mut Tx, group: &'a [Finished]) -> Result<(), StoreError> {
        let lacks = |finished: &&Finished| match self.scopes.get(&finished.scope) {
            Some(known) => known.nameless && !self.is_from_before(known, finished),
            None => true,
        };
        let mut missing: HashSet<&Scope> = group.iter().filter(lacks).map(|f| &f.scope).collect();
        let of_states = group.iter().filter_map(|f| f.state.as_ref()).map(|(key, _)| &key.scope);
        missing.extend(of_states.filter(|scope| !self.scopes.contains_key(*scope)));
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<_> = missing.into_iter().collect();
        ensure(tx, &missing).await?;
        for (scope, row) in load(tx, &missing).await? {
            let new = Known { row, erased_at: None, erased_revision: 0, nameless: false, barred: false };
            self.scopes.entry(scope).or_insert(new).nameless = false;
        }
        Ok(())
    }

    /// Whether an exchange began before the last erasure: then it leaves nothing.
    fn is_from_before(&self, known: &Known, finished: &Finished) -> bool {
        match (&finished.turn, &finished.shown) {
            (Some(turn), _) => turn.epoch < known.row.epoch,
            (None, Some(shown)) => known.erased_at.is_some_and(|erased| shown.at <= erased),
            (None, None) => false,
        }
    }

    /// Takes in a finished exchange; what became of what it taught, when it is known what it taught.
    fn take(&mut self, finished: &'a Finished, learned: Option<&'a Learned>) -> Option<LearnOutcome> {
        let known = self.scopes.get(&finished.scope).copied()?;
        if let Some(row) = &finished.usage {
            let mut row = UsageRow::clone(row);
            if known.erased_at.is_some_and(|erased| row.at <= erased) {
                forget_subject(&mut row);
            }
            self.writes.usage(row);
        }
        if let Some(shown) = &finished.shown
            && known.erased_at.is_none_or(|erased| shown.at > erased)
        {
            self.writes.shown(known.row.id, shown);
        }
        if let Some((key, state)) = &finished.state {
            self.keep_state(key, state);
        }
        let turn = finished.turn.as_ref()?;
        if turn.epoch < known.row.epoch {
            return learned.map(|_| LearnOutcome::Erased);
        }
        let outcome = learned.map(|learned| {
            // Which words are barred only the worker asks.
            if known.barred { LearnOutcome::Stale } else { self.decide(learned) }
        });
        if matches!(outcome, None | Some(LearnOutcome::Stale)) {
            self.writes.waiting(turn.exchange, known.row.id, finished.at, json(turn));
        }
        outcome
    }

    fn keep_state(&mut self, key: &StateKey, state: &TurnState) {
        let Some(known) = self.scopes.get(&key.scope) else { return };
        // What rests on an earlier revision than the last erasure left is not kept.
        if state.revision < known.erased_revision {
            return;
        }
        let row = self.turn_row((known.row.id, key.prefix), state.expires_at);
        if state.revision >= row.revision {
            row.revision = state.revision;
            row.expires_at = state.expires_at;
            row.body = json(state);
        }
    }

    fn turn_row(&mut self, place: TurnPlace, expires_at: Time) -> &mut TurnRow {
        let new = || TurnRow { place, revision: -1, learned_at: None, expires_at, body: String::new() };
        self.turns.entry(place).or_insert_with(new)
    }

    /// Decides what becomes of what an exchange taught.
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
        let ours = self.leased.as_mut().is_none_or(|leased| leased.remove(&learned.exchange));
        // The append made the scope's row, so a lease implies it.
        let Some(scope) = self.scopes.get(&learned.scope).map(|known| known.row) else {
            return LearnOutcome::NotOurs;
        };
        if learned.epoch < scope.epoch {
            if ours {
                self.done(learned);
            }
            return LearnOutcome::Erased;
        }
        if !ours {
            return LearnOutcome::NotOurs;
        }
        if learned.user_side && self.was_seen(scope, learned) {
            return self.store_seen(scope, learned);
        }
        let stale = learned.revision != scope.revision || self.broken.contains(&learned.scope);
        if stale || !self.facts.admits(scope.id, &learned.changes) {
            if let Some(leased) = &mut self.leased {
                leased.insert(learned.exchange);
            }
            return LearnOutcome::Stale;
        }
        self.store(scope, learned)
    }

    fn was_seen(&self, scope: ScopeRow, learned: &Learned) -> bool {
        let at = self.seen.get(&(scope.id, prefix(&learned.turn_key)));
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
            let place = (scope.id, prefix(&learned.turn_key));
            self.seen.insert(place, learned.now);
            self.turn_row(place, learned.now.plus_millis(SEEN_MILLIS)).learned_at = Some(learned.now);
        }
        self.keep(learned);
        self.done(learned);
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
        self.keep(learned);
        self.done(learned);
        LearnOutcome::Seen { revision: self.raise(&learned.scope, changed) }
    }

    /// Has the exchange's row deleted, where it has one.
    fn done(&mut self, learned: &Learned) {
        if self.leased.is_some() {
            self.done.push(learned.exchange);
        }
    }

    /// Has the exchange's row stay, where that is wanted.
    fn keep(&mut self, learned: &Learned) {
        if self.leased.is_some() && learned.keep {
            self.kept.push(learned.exchange);
        }
    }

    /// Raises the scope's revision by one when something changed; returns what it is then.
    fn raise(&mut self, scope: &'a Scope, changed: bool) -> i64 {
        let Some(known) = self.scopes.get_mut(scope) else { return 0 };
        if changed {
            known.row.revision += 1;
            self.changed.insert(scope);
        }
        known.row.revision
    }

    async fn write(mut self, tx: &mut Tx) -> Result<Then, StoreError> {
        execute(tx, &KEEP, "keep raw exchanges", &self.kept).await?;
        let deleted = execute(tx, &DONE, "delete learned exchanges", &self.done).await?;
        if deleted != self.done.len() as u64 {
            return Err(StoreError::Conflict { what: "an outbox row".to_owned() });
        }
        for turn in std::mem::take(&mut self.turns).into_values() {
            self.writes.turn(turn);
        }
        for known in self.changed.iter().filter_map(|scope| self.scopes.get(*scope)) {
            self.writes.revision(known.row.id, known.row.revision);
        }
        self.writes.write(tx, Then::Commit).await
    }
}
