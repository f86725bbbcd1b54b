//! Stores a group of exchanges, and what it taught, in one transaction.
//!
//! Everything is read first (scopes, leases, when turns were last learned from, versions), then decided in memory in the order of
//! the group, then written. So a group costs a handful of statements however large it is.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use super::error::driver;
use super::query::{Row, query};
use super::row::{JsonRows, json, rows};
use super::scope::{ScopeRow, ensure, key, load};
use super::session::{Pool, Tx};
use super::sqlite::{Bound, begin_script};
use super::text::Sql;
use super::usage::forget_subject;
use super::write::{StoredFacts, Then, TurnPlace, TurnRow, VersionRow, Writes, execute};
use super::{Backend, SqlStore, commit};
use crate::base::{ExchangeId, Time, hex};
use crate::memory::{Scope, Speaker};
use crate::store::{Finished, LearnOutcome, Learned, StateKey, StoreError, TurnState, UsageRow};

/// How long retries and tool loops of one user turn are known as the same, in milliseconds (design, section 4).
pub(super) const SEEN_MILLIS: i64 = 10 * 60 * 1000;

/// Each row begins with the number of the statement that it is from.
const BEGIN: &str = "
    BEGIN IMMEDIATE;
    SELECT 0, j.key, s.id, s.revision, s.epoch, s.erased_at, s.erased_revision, s.subject IS NULL,
           EXISTS (SELECT 1 FROM tombstones t WHERE t.scope = s.id)
    FROM json_each(?) j CROSS JOIN scopes s ON s.key = unhex(j.value);
    SELECT 1, j.key, t.learned_at
    FROM json_each(?) j CROSS JOIN scopes s ON s.key = unhex(substr(j.value, 1, 64))
    CROSS JOIN turn_states t ON t.scope = s.id AND t.prefix = unhex(substr(j.value, 65))
    WHERE t.learned_at IS NOT NULL;
    SELECT 2, f.id, f.scope, f.version, f.body -> '$.value'
    FROM json_each(?) j CROSS JOIN facts f ON f.id = j.value;
    SELECT 3, j.key FROM json_each(?) j CROSS JOIN outbox o ON o.exchange = j.value WHERE o.owner = ?";

/// The same for PostgreSQL, where the scopes are locked first: what is read then stays as it is until the group is stored.
static LOCK: Sql = Sql::new(
    "
    SELECT s.id FROM each_text(?1) j JOIN scopes s ON s.key = unhex(j.value) ORDER BY s.id FOR UPDATE OF s",
);
static SCOPES: Sql = Sql::new(
    "
    SELECT 0::bigint, j.key, s.id, s.revision, s.epoch, s.erased_at, s.erased_revision, s.subject IS NULL,
           EXISTS (SELECT 1 FROM tombstones t WHERE t.scope = s.id)
    FROM each_text(?1) j JOIN scopes s ON s.key = unhex(j.value)",
);
static SEEN: Sql = Sql::new(
    "
    SELECT 1::bigint, j.key, t.learned_at
    FROM each_text(?1) j JOIN scopes s ON s.key = unhex(substr(j.value, 1, 64))
    JOIN turn_states t ON t.scope = s.id AND t.prefix = unhex(substr(j.value, 65))
    WHERE t.learned_at IS NOT NULL",
);
static VERSIONS: Sql = Sql::new(
    "
    SELECT 2::bigint, f.id, f.scope, f.version, (f.body::json -> 'value')::text
    FROM each_text(?1) j JOIN facts f ON f.id = j.value",
);
static LEASES: Sql = Sql::new(
    "
    SELECT 3::bigint, j.key FROM each_text(?1) j JOIN outbox o ON o.exchange = j.value WHERE o.owner = ?2",
);

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
        let (mut tx, mut state) = GroupState::load(self, asked).await?;
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
        let (mut tx, mut state) = GroupState::load(self, asked).await?;
        let step = async {
            let outcomes = group.iter().map(|learned| state.decide(learned)).collect();
            Ok((outcomes, state.write(&mut tx).await?))
        };
        finish(step.await, tx).await
    }
}

/// Begins a transaction, and reads what has to be known: scopes, turns that were learned from, facts and leases, in this order.
async fn begin_group(
    store: &SqlStore,
    asked: [JsonRows; 4],
    owner: Option<&str>,
) -> Result<(Tx, Vec<Row>), StoreError> {
    const DOING: &str = "begin a group";
    if let (Pool::Sqlite(pool), Backend::Sqlite(file)) = (&store.write, &store.backend) {
        let script = asked
            .into_iter()
            .fold(sqlx::query(BEGIN), |bound, rows| Bound::bind(bound, rows.0))
            .bind(owner.map(str::to_owned));
        let (open, found) = begin_script(pool, script, DOING, file.in_memory).await?;
        return Ok((Tx::Script(open), found.into_iter().map(Row::Sqlite).collect()));
    }
    // Boxed, so that what waits for a file is not as large as what waits for a server.
    Box::pin(begin_locked(store, asked, owner)).await
}

/// The same for PostgreSQL.
async fn begin_locked(
    store: &SqlStore,
    asked: [JsonRows; 4],
    owner: Option<&str>,
) -> Result<(Tx, Vec<Row>), StoreError> {
    const DOING: &str = "begin a group";
    let mut tx = store.begin().await?;
    let [scopes, turns, facts, leases] = asked;
    query(&LOCK).bind(scopes.clone()).execute(&mut tx).await.map_err(driver(DOING))?;
    let mut found = query(&SCOPES).bind(scopes).fetch_all(&mut tx).await.map_err(driver(DOING))?;
    for (sql, asked) in [(&SEEN, turns), (&VERSIONS, facts)] {
        if !asked.is_empty() {
            found.extend(query(sql).bind(asked).fetch_all(&mut tx).await.map_err(driver(DOING))?);
        }
    }
    if let Some(owner) = owner {
        let leases = query(&LEASES).bind(leases).bind(owner).fetch_all(&mut tx).await;
        found.extend(leases.map_err(driver(DOING))?);
    }
    Ok((tx, found))
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

/// What has to be known to store a group.
struct Asked<'a> {
    scopes: HashSet<&'a Scope>,
    learned: Vec<&'a Learned>,
    /// Whose leases count.
    owner: Option<&'a str>,
}

/// What is known of a scope.
#[derive(Clone, Copy, Debug)]
struct Known {
    row: ScopeRow,
    /// The last erasure, and the revision that it left.
    erased_at: Option<Time>,
    erased_revision: i64,
    /// Whether the subject's name was erased.
    nameless: bool,
    /// Whether anything of it may not be learned again.
    barred: bool,
}

/// What is stored, as it will be when the results decided so far are written; and those results.
struct GroupState<'a> {
    scopes: HashMap<Scope, Known>,
    /// Leases that are held; `None` where none is needed.
    leased: Option<HashSet<ExchangeId>>,
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
    async fn load(store: &SqlStore, asked: Asked<'a>) -> Result<(Tx, Self), StoreError> {
        let Asked { scopes, learned, owner } = asked;
        let scopes: Vec<&Scope> = scopes.into_iter().collect();
        let turns: Vec<(&Scope, [u8; 32])> =
            learned.iter().filter(|l| l.user_side).map(|l| (&l.scope, prefix(&l.turn_key))).collect();
        let keys: Vec<_> = scopes.iter().map(|s| hex(&key(s))).collect();
        let named: Vec<_> = turns.iter().map(|(scope, prefix)| hex(&key(scope)) + &hex(prefix)).collect();
        let facts: Vec<_> = learned.iter().flat_map(|l| &l.changes).map(|change| change.fact.id).collect();
        let leases: Vec<_> = learned.iter().filter(|_| owner.is_some()).map(|l| l.exchange).collect();
        let asked = [rows(&keys), rows(&named), rows(&facts), rows(&leases)];
        let (tx, found) = begin_group(store, asked, owner).await?;
        let mut state = Self {
            scopes: HashMap::with_capacity(scopes.len()),
            leased: owner.map(|_| HashSet::new()),
            seen: HashMap::new(),
            facts: StoredFacts::default(),
            broken: HashSet::new(),
            changed: HashSet::new(),
            turns: HashMap::new(),
            writes: Writes::default(),
            done: Vec::new(),
            kept: Vec::new(),
        };
        match state.read(&found, &scopes, &turns, &leases) {
            Ok(()) => Ok((tx, state)),
            Err(error) => {
                tx.undo().await;
                Err(error)
            }
        }
    }

    fn read(
        &mut self,
        found: &[Row],
        scopes: &[&Scope],
        turns: &[(&Scope, [u8; 32])],
        leases: &[ExchangeId],
    ) -> Result<(), StoreError> {
        for row in found {
            let (statement, index) =
                (number(row, 0)?, || number(row, 1).map(|n| usize::try_from(n).unwrap_or(usize::MAX)));
            match statement {
                0 => {
                    if let Some(scope) = scopes.get(index()?) {
                        self.scopes.insert((*scope).clone(), known(row)?);
                    }
                }
                1 => {
                    if let Some((scope, prefix)) = turns.get(index()?)
                        && let Some(known) = self.scopes.get(*scope)
                    {
                        self.seen.insert((known.row.id, *prefix), Time(number(row, 2)?));
                    }
                }
                2 => self.facts.read(version(row)?)?,
                _ => {
                    if let Some(leased) = &mut self.leased {
                        leased.extend(leases.get(index()?));
                    }
                }
            }
        }
        Ok(())
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

/// The name of a turn, as that of a conversation state: both are the hash of what was said up to it, one of them in hex.
pub(super) fn prefix(turn_key: &str) -> [u8; 32] {
    unhex(turn_key).unwrap_or_else(|| *blake3::hash(turn_key.as_bytes()).as_bytes())
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |c: u8| char::from(c).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

fn known(row: &Row) -> Result<Known, StoreError> {
    Ok(Known {
        row: ScopeRow { id: number(row, 2)?, revision: number(row, 3)?, epoch: number(row, 4)? },
        erased_at: row.get::<Option<i64>>(5).map_err(driver("read scopes"))?.map(Time),
        erased_revision: number(row, 6)?,
        nameless: is(row, 7)?,
        barred: is(row, 8)?,
    })
}

fn number(row: &Row, column: usize) -> Result<i64, StoreError> {
    row.get(column).map_err(driver("read what a group rests on"))
}

fn is(row: &Row, column: usize) -> Result<bool, StoreError> {
    row.get(column).map_err(driver("read what a group rests on"))
}

fn version(row: &Row) -> Result<VersionRow, StoreError> {
    let read = || Ok((row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
    read().map_err(driver("read versions"))
}
