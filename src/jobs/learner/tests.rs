//! The learner over a real store, with a decision function that reads `key = value`.

use std::sync::Mutex;

use super::*;
use crate::base::{ExchangeId, FactId, ManualClock};
use crate::jobs::testing::store;
use crate::memory::FactChange;
use crate::store::contract::fixtures::{self, NOW, change, episode, evidence, fact, scope};
use crate::store::sql::SqlStore;
use crate::store::{EpisodeStore, FactStore, Finished, OutboxStore, Page, ScopeStore};

/// `key = value` inserts or supersedes; anything else is an episode. Ids follow from the exchange.
fn decide(args: DecideArgs<'_>) -> Learned {
    let turn = args.turn;
    let n = turn.exchange.0;
    let text = &turn.user[0].text;
    let mut learned = fixtures::learned(n, &turn.scope, args.revision);
    learned.epoch = turn.epoch;
    learned.turn_key.clone_from(&turn.turn_key);
    learned.now = args.now;
    if (args.barred)(text) {
        return learned;
    }
    let Some((key, value)) = text.split_once(" = ") else {
        learned.episodes = vec![episode(n * 2, Speaker::User, text), episode(n * 2 + 1, Speaker::Assistant, "ok")];
        return learned;
    };
    if let Some(old) = args.facts.iter().find(|f| f.key == key) {
        let mut retired = Fact::clone(old);
        retired.status = crate::memory::FactStatus::Superseded;
        retired.version += 1;
        learned.marks = (args.mentioning)(&old.value_text()).into_iter().map(|e| (e, old.id)).collect();
        learned.changes.push(change(crate::memory::Action::Supersede, retired, Some(old.version)));
    }
    let mut new = fact(n, key, value);
    new.evidence = vec![evidence(text)];
    learned.changes.push(FactChange { fact: new, ..fixtures::insert(n, key, value) });
    learned
}

/// Notes what it is told.
#[derive(Default)]
struct Told(Mutex<Vec<(i64, u128, usize, usize)>>);

impl LearnObserver for Told {
    fn learned(&self, _: &Scope, revision: i64, learned: &Learned) {
        let told = (revision, learned.exchange.0, learned.changes.len(), learned.episodes.len());
        self.0.lock().unwrap().push(told);
    }
}

struct Fixture {
    store: Arc<SqlStore>,
    learner: ExtractLearner,
    told: Arc<Told>,
}

async fn fixture() -> Fixture {
    let store = store().await;
    let facts = Arc::new(StoreFacts::new(store.clone()));
    with_facts(store, facts)
}

fn with_facts(store: Arc<SqlStore>, facts: Arc<dyn FactSource>) -> Fixture {
    let told = Arc::new(Told::default());
    let clock = Arc::new(ManualClock::new(NOW.plus_seconds(1)));
    let learner = ExtractLearner::new(store.clone(), Arc::new(decide), facts, told.clone(), clock);
    Fixture { store, learner, told }
}

fn saying(n: u128, subject: &str, text: &str) -> Finished {
    let mut finished = fixtures::finished(n, &scope(subject));
    finished.turn.as_mut().unwrap().user[0].text = text.to_owned();
    finished
}

impl Fixture {
    async fn learn(&self, said: &[Finished]) {
        self.store.append(said).await.unwrap();
        let batch = self.store.claim(&fixtures::claim("me", 100)).await.unwrap();
        assert_eq!(batch.len(), said.len());
        self.learner.learn(batch, "me").await.unwrap();
    }

    async fn current(&self, subject: &str) -> Vec<String> {
        let filter = crate::store::FactFilter { current: true, ..Default::default() };
        let facts = self.store.list_facts(&scope(subject), &filter, &Page::first(1000)).await.unwrap();
        facts.iter().map(|f| format!("{} = {}", f.key, f.value_text())).collect()
    }
}

#[tokio::test]
async fn a_batch_of_several_people_is_learned_in_the_order_in_which_each_spoke() {
    let f = fixture().await;
    f.learn(&[
        saying(1, "ann", "home = Oslo"),
        saying(2, "bob", "home = Bonn"),
        saying(3, "ann", "home = Rome"),
        saying(4, "ann", "nice weather"),
    ])
    .await;
    assert_eq!(f.current("ann").await, ["home = Rome"]);
    assert_eq!(f.current("bob").await, ["home = Bonn"]);
    // Revision, exchange, changes, episodes; by scope, in order.
    assert_eq!(*f.told.0.lock().unwrap(), [(1, 1, 1, 0), (2, 3, 2, 0), (3, 4, 0, 2), (1, 2, 1, 0)]);
    assert_eq!(f.learner.counters().applied.load(Ordering::Relaxed), 4);
}

/// smaramwbc/statewave#236: a retired value does not come back through an episode, be it of the same batch.
#[tokio::test]
async fn episodes_that_mention_a_retired_value_are_marked() {
    let f = fixture().await;
    f.learn(&[saying(1, "ann", "home = Oslo"), saying(2, "ann", "OSLO is cold")]).await;
    f.learn(&[saying(3, "ann", "the opera of oslo"), saying(4, "ann", "home = Rome")]).await;
    for id in [4, 6] {
        let episode = f.store.episode(&scope("ann"), EpisodeId(id)).await.unwrap().unwrap();
        assert_eq!(episode.retired_facts, [FactId(1)], "{}", episode.text);
    }
}

/// plastic-labs/honcho#725, design doubt 14: the same words do not bring a deleted fact back, new words do.
#[tokio::test]
async fn deleted_words_are_not_learned_again() {
    let f = fixture().await;
    f.learn(&[saying(1, "ann", "home = Oslo"), saying(2, "ann", "job = cook")]).await;
    f.store.delete_fact(&scope("ann"), FactId(1), NOW).await.unwrap();
    f.learn(&[saying(3, "ann", "home = Oslo"), saying(4, "ann", "pet = cat"), saying(5, "bob", "home = Oslo")]).await;
    assert_eq!(f.current("ann").await, ["job = cook", "pet = cat"]);
    assert_eq!(f.current("bob").await, ["home = Oslo"]);
    f.learn(&[saying(6, "ann", "home = oslo, again")]).await;
    assert_eq!(f.current("ann").await.len(), 3);
}

/// MemTensor/MemOS#881: a retry of the same turn is learned once; the caches are told only what was stored.
#[tokio::test]
async fn of_a_turn_that_was_seen_only_the_reply_is_told() {
    let f = fixture().await;
    let mut said = [saying(1, "ann", "nice weather"), saying(2, "ann", "nice weather")];
    for one in &mut said {
        one.turn.as_mut().unwrap().turn_key = "the same".to_owned();
    }
    f.learn(&said).await;
    assert_eq!(*f.told.0.lock().unwrap(), [(1, 1, 0, 2), (2, 2, 0, 1)]);
    assert_eq!(f.learner.counters().seen.load(Ordering::Relaxed), 1);
}

/// Someone else writes the scope right after it was read, so often.
struct Interrupted {
    inner: StoreFacts,
    store: Arc<SqlStore>,
    left: Mutex<u32>,
}

#[async_trait]
impl FactSource for Interrupted {
    async fn facts(&self, scope: &Scope) -> Result<(i64, Vec<Arc<Fact>>), StoreError> {
        let read = self.inner.facts(scope).await?;
        let left = {
            let mut left = self.left.lock().unwrap();
            *left = left.saturating_sub(1);
            *left + 1
        };
        if left > 1 {
            self.store.apply(scope, &[fixtures::insert(9000 + u128::from(left), "note.a", "x")]).await?;
        }
        Ok(read)
    }

    fn mentioning(&self, scope: &Scope, value: &str) -> Vec<EpisodeId> {
        self.inner.mentioning(scope, value)
    }
}

async fn interrupted(times: u32) -> Fixture {
    let store = store().await;
    let facts =
        Interrupted { inner: StoreFacts::new(store.clone()), store: store.clone(), left: Mutex::new(times + 1) };
    with_facts(store, Arc::new(facts))
}

/// odysseus-dev/odysseus#1940, redis/agent-memory-server#196: what was decided on an older state is decided again.
#[tokio::test]
async fn a_stale_decision_is_made_again() {
    let f = interrupted(2).await;
    f.learn(&[saying(1, "ann", "home = Oslo"), saying(2, "ann", "home = Rome")]).await;
    assert_eq!(f.current("ann").await, ["home = Rome", "note.a = x", "note.a = x"]);
    assert_eq!(f.learner.counters().stale.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_scope_that_others_write_all_the_time_is_tried_again_later() {
    let f = interrupted(100).await;
    f.store.append(&[saying(1, "ann", "home = Oslo")]).await.unwrap();
    let batch = f.store.claim(&fixtures::claim("me", 1)).await.unwrap();
    let result = f.learner.learn(batch, "me").await;
    assert!(matches!(result, Err(LearnError::Retry(_))), "{result:?}");
}

#[tokio::test]
async fn what_was_erased_or_taken_over_meanwhile_is_counted_and_not_told() {
    let f = fixture().await;
    f.store.append(&[saying(1, "ann", "home = Oslo"), saying(2, "bob", "home = Bonn")]).await.unwrap();
    let batch = f.store.claim(&fixtures::claim("me", 2)).await.unwrap();
    f.store.erase(&scope("ann"), NOW).await.unwrap();
    let mut later = fixtures::claim("other", 2);
    later.now = later.now.plus_seconds(61);
    assert_eq!(f.store.claim(&later).await.unwrap()[0].turn.exchange, ExchangeId(2));
    f.learner.learn(batch, "me").await.unwrap();
    assert!(f.told.0.lock().unwrap().is_empty());
    let counters = f.learner.counters();
    assert_eq!(counters.erased.load(Ordering::Relaxed), 1);
    assert_eq!(counters.not_ours.load(Ordering::Relaxed), 1);
    assert_eq!(f.current("ann").await, [""; 0]);
}

/// TrueMemory#256, ruvnet/ruflo#2878: eight writers with ten statements each for one subject, none is lost.
#[tokio::test]
async fn eight_writers_with_ten_statements_each_lose_none() {
    let f = fixture().await;
    let writers = (0..8_u128).map(|writer| {
        let store = f.store.clone();
        async move {
            for n in 0..10 {
                let id = writer * 10 + n + 1;
                store.append(&[saying(id, "ann", &format!("note.{id} = x"))]).await.unwrap();
            }
        }
    });
    let learners = ["a", "b"].map(|owner| {
        let (f, mut learned) = (&f, 0);
        async move {
            while f.store.depth().await.unwrap().waiting > 0 || learned == 0 {
                let batch = f.store.claim(&fixtures::claim(owner, 7)).await.unwrap();
                learned += batch.len();
                f.learner.learn(batch, owner).await.unwrap();
                tokio::task::yield_now().await;
                if f.store.scope_state(&scope("ann")).await.unwrap().revision == 80 {
                    break;
                }
            }
        }
    });
    tokio::join!(futures_util::future::join_all(writers), futures_util::future::join_all(learners));
    assert_eq!(f.current("ann").await.len(), 80);
    assert_eq!(f.learner.counters().not_ours.load(Ordering::Relaxed), 0);
    assert_eq!(f.store.scope_state(&scope("ann")).await.unwrap().revision, 80);
}

/// Facts in memory, of the people who are there.
struct InMemory {
    people: Vec<&'static str>,
}

#[async_trait]
impl FactSource for InMemory {
    async fn facts(&self, _: &Scope) -> Result<(i64, Vec<Arc<Fact>>), StoreError> {
        Err(StoreError::Unavailable("nobody waits for the store".to_owned()))
    }

    fn facts_now(&self, wanted: &Scope) -> Option<(i64, Vec<Arc<Fact>>)> {
        self.people.iter().any(|person| scope(person) == *wanted).then(|| (0, Vec::new()))
    }

    fn mentioning(&self, _: &Scope, _: &str) -> Vec<EpisodeId> {
        Vec::new()
    }
}

#[tokio::test]
async fn what_is_in_memory_is_learned_at_once_each_on_the_result_of_those_before_it() {
    let f = with_facts(store().await, Arc::new(InMemory { people: vec!["ann", "bob"] }));
    let group = [
        saying(1, "ann", "home = Oslo"),
        saying(2, "zoe", "home = Lima"),
        saying(3, "bob", "home = Bonn"),
        saying(4, "ann", "home = Rome"),
    ];
    let learned = AtOnce::decide(&f.learner, &group).await;
    let revisions: Vec<_> = learned.iter().map(|l| l.as_ref().map(|l| (l.exchange.0, l.revision))).collect();
    assert_eq!(revisions, [Some((1, 0)), None, Some((3, 0)), Some((4, 1))], "of zoe nothing is in memory");
    let outcomes = f.store.append_learned(&group, &learned).await.unwrap();
    for (learned, outcome) in learned.iter().zip(outcomes) {
        if let (Some(learned), Some(outcome)) = (learned, outcome) {
            f.learner.stored(learned, outcome);
        }
    }
    assert_eq!(f.current("ann").await, ["home = Rome"]);
    assert_eq!(f.store.depth().await.unwrap().waiting, 1);
    assert_eq!(*f.told.0.lock().unwrap(), [(1, 1, 1, 0), (1, 3, 1, 0), (2, 4, 2, 0)]);
    assert_eq!(f.learner.counters().applied.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn long_turns_and_those_that_cannot_be_decided_on_are_left_to_the_worker() {
    let store = store().await;
    let facts = Arc::new(InMemory { people: vec!["ann", "bob"] });
    let failing = |args: DecideArgs<'_>| {
        assert!(args.turn.user[0].text != "fail", "as told");
        decide(args)
    };
    let clock = Arc::new(ManualClock::new(NOW));
    let learner = ExtractLearner::new(store, Arc::new(failing), facts, Arc::new(NoObserver), clock);
    let group =
        [saying(1, "ann", "fail"), saying(2, "bob", &"x".repeat(MAX_AT_ONCE_BYTES)), saying(3, "bob", "home = Bonn")];
    let learned = AtOnce::decide(&learner, &group).await;
    assert_eq!(learned.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
}

#[tokio::test]
async fn the_worker_and_the_writer_do_not_spoil_each_others_decisions() {
    let f = fixture().await;
    f.store.append(&[saying(1, "ann", "home = Oslo")]).await.unwrap();
    let batch = f.store.claim(&fixtures::claim("me", 100)).await.unwrap();
    let turn = f.learner.in_turn().await;
    assert!(turn.is_some());
    let learning = f.learner.learn(batch, "me");
    tokio::pin!(learning);
    assert!(futures_util::poll!(&mut learning).is_pending());

    let second = saying(2, "ann", "pet = cat");
    let learned = fixtures::learned(2, &scope("ann"), 0);
    let mut learned = Learned { changes: vec![fixtures::insert(2, "pet", "cat")], ..learned };
    learned.turn_key.clone_from(&second.turn.as_ref().unwrap().turn_key);
    let outcomes = f.store.append_learned(&[second], &[Some(learned)]).await.unwrap();
    assert!(matches!(outcomes[..], [Some(LearnOutcome::Applied { revision: 1 })]));
    drop(turn);

    learning.await.unwrap();
    assert_eq!(f.current("ann").await, ["home = Oslo", "pet = cat"]);
    assert_eq!(f.learner.counters().stale.load(Ordering::Relaxed), 0);
}
