//! Begins the transaction of a group of exchanges, and reads what is decided upon: scopes, when turns were last learned from, facts and
//! leases, in this order. SQLite does so in one script; PostgreSQL locks the scopes first and asks for each beside it.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use super::error::driver;
use super::query::{Row, query};
use super::row::{JsonRows, rows};
use super::scope::{ScopeRow, key};
use super::session::{Pool, Tx};
use super::sqlite::{Bound, begin_script};
use super::text::Sql;
use super::write::{StoredFacts, TurnPlace, VersionRow};
use super::{Backend, SqlStore};
use crate::base::{ExchangeId, Time, hex, unhex};
use crate::memory::Scope;
use crate::store::{Learned, StoreError};

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

/// What has to be known to store a group.
pub(super) struct Asked<'a> {
    pub(super) scopes: HashSet<&'a Scope>,
    pub(super) learned: Vec<&'a Learned>,
    /// Whose leases count.
    pub(super) owner: Option<&'a str>,
}

/// What is known of a scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) row: ScopeRow,
    /// The last erasure, and the revision that it left.
    pub(super) erased_at: Option<Time>,
    pub(super) erased_revision: i64,
    /// Whether the subject's name was erased.
    pub(super) nameless: bool,
    /// Whether anything of it may not be learned again.
    pub(super) barred: bool,
}

/// What a group is decided upon, as it was read.
pub(super) struct Basis {
    pub(super) scopes: HashMap<Scope, Known>,
    /// Leases that are held; `None` where none was asked for.
    pub(super) leased: Option<HashSet<ExchangeId>>,
    /// When turns were last learned from.
    pub(super) seen: HashMap<TurnPlace, Time>,
    pub(super) facts: StoredFacts,
}

/// Begins the transaction, and reads what was asked for.
pub(super) async fn begin(store: &SqlStore, asked: Asked<'_>) -> Result<(Tx, Basis), StoreError> {
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
    let mut basis = Basis {
        scopes: HashMap::with_capacity(scopes.len()),
        leased: owner.map(|_| HashSet::new()),
        seen: HashMap::new(),
        facts: StoredFacts::default(),
    };
    match basis.read(&found, &scopes, &turns, &leases) {
        Ok(()) => Ok((tx, basis)),
        Err(error) => {
            tx.undo().await;
            Err(error)
        }
    }
}

/// Returns the rows of all statements.
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

impl Basis {
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
}

/// The name of a turn, as that of a conversation state: both are the hash of what was said up to it, one of them in hex.
pub(super) fn prefix(turn_key: &str) -> [u8; 32] {
    unhex(turn_key).unwrap_or_else(|| *blake3::hash(turn_key.as_bytes()).as_bytes())
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
