//! Windows over a real store, with a scripted model and a reader that takes `key = value`.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::ask::{Ask, AskError, Format};
use crate::base::{Clock as _, FactId, ManualClock, SeededRandom};
use crate::jobs::learner::{ExtractLearner, NoObserver, StoreFacts};
use crate::jobs::testing::store;
use crate::jobs::{Learner, Worker, WorkerConfig};
use crate::memory::{Scope, Speaker};
use crate::store::contract::fixtures::{self, NOW, evidence, finished, scope};
use crate::store::sql::SqlStore;
use crate::store::{
    ExchangeStore, FactStore, Finished, OutboxStore, Page, ScopeStore, WindowDepth, WindowRules, WindowStore,
};
use crate::telemetry::{ItemOutcome, Metrics, WindowEnd};

type Reply = Result<&'static str, AskError>;

/// A model that says what it is told to, and then for ever the last of it.
#[derive(Debug, Default)]
struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    asked: AtomicUsize,
    questions: Mutex<Vec<Question>>,
    /// It never answers.
    silent: bool,
}

impl Scripted {
    /// Waits until it has been asked so often.
    async fn until_asked(&self, times: usize) {
        while self.asked.load(Ordering::Relaxed) < times {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Ask for Scripted {
    async fn ask(&self, question: &Question) -> Result<Answer, AskError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.questions.lock().unwrap().push(question.clone());
        if self.silent {
            std::future::pending::<()>().await;
        }
        let mut replies = self.replies.lock().unwrap();
        let reply = if replies.len() > 1 { replies.pop_front().unwrap() } else { replies[0].clone() };
        reply.map(|text| Answer { text: text.to_owned(), input_tokens: 60, output_tokens: 40, finished: true })
    }
}

/// Every exchange is worth asking about. An answer is `exchange: key = value`, one a line; `nonsense` is none.
struct Lines;

impl WindowReader for Lines {
    fn tokens(&self, turn: &Turn) -> Option<u64> {
        (!turn.user[0].text.contains("small talk")).then_some(10)
    }

    fn question(&self, turns: &[Turn], facts: &[Arc<Fact>], rung: Rung, _: Time) -> Question {
        let ids: Vec<_> = turns.iter().map(|turn| turn.exchange.0.to_string()).collect();
        Question {
            system: format!("{} known", facts.len()),
            user: ids.join(" "),
            format: match rung {
                Rung::Schema => Format::JsonSchema { name: "lines", schema: json!({}) },
                Rung::Object => Format::JsonObject,
                Rung::Text => Format::Text,
            },
            max_output_tokens: 100,
            timeout: Duration::from_secs(60),
        }
    }

    fn read(&self, answer: &Answer, _: &[Turn]) -> Option<Read> {
        if answer.text == "nonsense" {
            return None;
        }
        let mut read = Read::default();
        for line in answer.text.lines() {
            let (exchange, rest) = line.split_once(": ").unwrap();
            let (key, value) = rest.split_once(" = ").unwrap();
            let mut candidate = fixtures::proposal(1, crate::store::ProposalStatus::Accepted, None).candidate;
            (candidate.key, candidate.value) = (key.to_owned(), json!(value));
            read.candidates.entry(ExchangeId(exchange.parse().unwrap())).or_default().push(candidate);
            read.good += 1;
        }
        Some(read)
    }

    fn decide(&self, args: DecideArgs<'_>, candidates: &[Candidate]) -> Learned {
        let n = args.turn.exchange.0;
        let mut learned = fixtures::learned(n, &args.turn.scope, args.revision);
        learned.epoch = args.turn.epoch;
        for (at, candidate) in candidates.iter().enumerate() {
            let id = n * 100 + at as u128;
            if args.facts.iter().any(|fact| fact.id == FactId(id)) {
                continue;
            }
            let mut change = fixtures::insert(id, &candidate.key, candidate.value.as_str().unwrap());
            change.fact.evidence = vec![evidence("these words")];
            learned.changes.push(change);
        }
        learned
    }
}

/// The rules: they find nothing, and say when they ran.
fn no_rules(args: DecideArgs<'_>) -> Learned {
    let mut learned = fixtures::learned(args.turn.exchange.0, &args.turn.scope, args.revision);
    learned.turn_key.clone_from(&args.turn.turn_key);
    learned.epoch = args.turn.epoch;
    learned.now = args.now;
    learned
}

struct Fixture {
    store: Arc<SqlStore>,
    clock: Arc<ManualClock>,
    model: Arc<Scripted>,
    metrics: Arc<Metrics>,
    worker: Worker,
    windows: Arc<Windows>,
}

async fn fixture_with(model: Scripted, cap: Option<u64>) -> Fixture {
    let store = store().await;
    let clock = Arc::new(ManualClock::new(NOW.plus_seconds(1)));
    let (model, metrics, wake) = (Arc::new(model), Arc::new(Metrics::new()), Arc::new(Notify::new()));
    let facts = || Arc::new(StoreFacts::new(store.clone()));
    let rules = ExtractLearner::new(store.clone(), Arc::new(no_rules), facts(), Arc::new(NoObserver), clock.clone());
    let window_rules = WindowRules { idle: Duration::from_secs(30), max_turns: 3, max_tokens: 1_000, max_waiting: 50 };
    let queueing: Arc<dyn Learner> = Arc::new(QueueForModel::new(
        Arc::new(rules),
        store.clone(),
        Arc::new(Lines),
        window_rules,
        clock.clone(),
        metrics.clone(),
        wake.clone(),
    ));
    let random = Arc::new(SeededRandom::new(1));
    let worker = Worker::new(
        store.clone(),
        queueing,
        clock.clone(),
        random.clone(),
        Arc::default(),
        WorkerConfig::named("rules"),
    );
    let parts = WindowParts {
        store: store.clone(),
        ask: model.clone(),
        reader: Arc::new(Lines),
        facts: facts(),
        observer: Arc::new(NoObserver),
        clock: clock.clone(),
        random,
        metrics: metrics.clone(),
        wake,
    };
    let windows = Arc::new(Windows::new(parts, WindowsConfig::named("model", cap)));
    Fixture { store, clock, model, metrics, worker, windows }
}

async fn fixture(replies: impl IntoIterator<Item = Reply>) -> Fixture {
    let model = Scripted { replies: Mutex::new(replies.into_iter().collect()), ..Scripted::default() };
    fixture_with(model, None).await
}

impl Fixture {
    /// Says something in one conversation of `ann`, and has it learned by rule.
    async fn say(&self, exchanges: impl IntoIterator<Item = u128>) {
        let group: Vec<Finished> = exchanges.into_iter().map(|n| said(n, &scope("ann"))).collect();
        self.store.append(&group).await.unwrap();
        self.worker.run_until_empty().await.unwrap();
    }

    /// Works on all windows that are due.
    async fn work(&self) -> usize {
        let mut worked = 0;
        while self.windows.work_once().await.unwrap() {
            worked += 1;
        }
        worked
    }

    fn later(&self, seconds: i64) {
        self.clock.advance_millis(seconds * 1000);
    }

    async fn facts(&self) -> Vec<String> {
        let facts = self.store.list_facts(&scope("ann"), &Default::default(), &Page::first(100)).await.unwrap();
        facts.iter().map(|fact| format!("{} = {}", fact.key, fact.value_text())).collect()
    }

    async fn depth(&self) -> WindowDepth {
        self.store.window_depth(day_of(self.clock.now()), None).await.unwrap()
    }
}

fn said(n: u128, scope: &Scope) -> Finished {
    let mut finished = finished(n, scope);
    finished.turn.as_mut().unwrap().session = "talk".to_owned();
    finished
}

fn later(retry_after: Option<u64>) -> Reply {
    Err(AskError::Later { reason: "busy".to_owned(), retry_after: retry_after.map(Duration::from_secs) })
}

#[tokio::test]
async fn a_conversation_that_was_idle_is_one_question() {
    let f = fixture([Ok("1: note.a = x\n2: note.b = y")]).await;
    f.say([1, 2]).await;
    assert_eq!(f.store.depth().await.unwrap().waiting, 0, "the rules path has ended");
    assert_eq!(f.work().await, 0, "the conversation goes on");
    f.later(30);
    assert_eq!(f.work().await, 1);
    assert_eq!(f.model.asked.load(Ordering::Relaxed), 1);
    assert_eq!(f.model.questions.lock().unwrap()[0].user, "1 2");
    assert_eq!(f.facts().await, ["note.a = x", "note.b = y"]);
    assert_eq!(f.store.scope_state(&scope("ann")).await.unwrap().revision, 2);
    assert_eq!(f.depth().await, WindowDepth::default());
    assert_eq!(f.metrics.windows.get(WindowEnd::Learned), 1);
    assert_eq!(f.metrics.model_items.get(ItemOutcome::Good), 2);
}

#[tokio::test]
async fn small_talk_is_not_queued() {
    let f = fixture([Ok("")]).await;
    let mut finished = said(1, &scope("ann"));
    finished.turn.as_mut().unwrap().user[0].text = "small talk".to_owned();
    f.store.append(&[finished]).await.unwrap();
    f.worker.run_until_empty().await.unwrap();
    assert_eq!(f.depth().await.turns, 0);
}

// design: nothing lost on restart, nothing stored twice.
#[tokio::test]
async fn a_kill_between_question_and_store_asks_again_and_stores_once() {
    let silent = Scripted { silent: true, ..Scripted::default() };
    let f = fixture_with(silent, None).await;
    f.say([1]).await;
    f.later(30);
    // The process dies while the model thinks: the future is gone, the lease stays.
    tokio::select! {
        _ = f.windows.work_once() => panic!("a silent model does not answer"),
        () = f.model.until_asked(1) => {}
    }
    assert_eq!(f.work().await, 0, "it is leased");
    f.later(180);
    let again = fixture([Ok("1: note.a = x")]).await;
    let parts_of_a_new_process = Windows::new(
        WindowParts {
            store: f.store.clone(),
            ask: again.model.clone(),
            reader: Arc::new(Lines),
            facts: Arc::new(StoreFacts::new(f.store.clone())),
            observer: Arc::new(NoObserver),
            clock: f.clock.clone(),
            random: Arc::new(SeededRandom::new(2)),
            metrics: f.metrics.clone(),
            wake: Arc::default(),
        },
        WindowsConfig::named("another", None),
    );
    assert!(parts_of_a_new_process.work_once().await.unwrap());
    assert!(!parts_of_a_new_process.work_once().await.unwrap());
    assert_eq!(f.facts().await, ["note.a = x"]);
}

#[tokio::test]
async fn a_stop_breaks_a_question_off_and_gives_its_window_back() {
    let f = fixture_with(Scripted { silent: true, ..Scripted::default() }, None).await;
    f.say([1]).await;
    f.later(30);
    let stop = tokio_util::sync::CancellationToken::new();
    let windows = Arc::into_inner(f.windows).unwrap();
    let model = Arc::clone(&f.model);
    let asked = async {
        model.until_asked(1).await;
        stop.cancel();
    };
    tokio::join!(windows.run(stop.clone()), asked);
    let claim = crate::store::WindowClaim {
        owner: "next".to_owned(),
        now: f.clock.now(),
        lease: Duration::from_secs(1),
        cap: None,
    };
    assert_eq!(f.store.claim_window(&claim).await.unwrap().unwrap().attempts, 0);
}

#[tokio::test]
async fn so_many_windows_are_asked_about_at_a_time_and_no_more() {
    let f = fixture_with(Scripted { silent: true, ..Scripted::default() }, None).await;
    let people: Vec<_> = (1..=9).map(|n| said(n, &scope(&n.to_string()))).collect();
    f.store.append(&people).await.unwrap();
    f.worker.run_until_empty().await.unwrap();
    f.later(30);
    let stop = tokio_util::sync::CancellationToken::new();
    let windows = Arc::into_inner(f.windows).unwrap();
    let model = Arc::clone(&f.model);
    let asked = async {
        model.until_asked(4).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    tokio::join!(windows.run(stop.clone()), asked);
    assert_eq!(f.model.asked.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_format_that_is_refused_is_not_asked_for_again() {
    let f = fixture([Err(AskError::Format), Err(AskError::Format), Ok("1: note.a = x"), Ok("")]).await;
    f.say([1]).await;
    f.later(30);
    f.work().await;
    f.say([2]).await;
    f.later(30);
    f.work().await;
    let questions = f.model.questions.lock().unwrap();
    let formats: Vec<_> = questions.iter().map(|q| std::mem::discriminant(&q.format)).collect();
    let text = std::mem::discriminant(&Format::Text);
    assert_eq!(formats.len(), 4);
    assert!(formats[0] != text && formats[1] != text && formats[0] != formats[1]);
    assert_eq!(formats[2..], [text, text]);
}

#[tokio::test]
async fn a_busy_model_holds_up_all_windows_for_as_long_as_it_asks_and_none_is_lost() {
    let f = fixture([later(Some(50)), Ok("1: note.a = x")]).await;
    f.say([1]).await;
    f.later(30);
    assert_eq!(f.work().await, 1);
    assert_eq!(f.windows.pause.left(f.clock.now()), Some(Duration::from_secs(50)));
    f.later(49);
    assert_eq!(f.work().await, 0);
    f.later(1);
    assert_eq!(f.work().await, 1);
    assert_eq!(f.windows.pause.left(f.clock.now()), None);
    assert_eq!(f.facts().await, ["note.a = x"]);
    assert_eq!(f.metrics.windows.get(WindowEnd::Retried), 1);
}

#[tokio::test]
async fn a_model_that_is_down_for_hours_costs_no_window_its_life() {
    let f = fixture([later(None)]).await;
    f.say([1]).await;
    for _ in 0..40 {
        f.later(1200);
        f.work().await;
    }
    assert_eq!((f.depth().await.turns, f.store.depth().await.unwrap().dead), (1, 0));
    // But not for ever: what times out every time may be the window's own fault.
    f.later(24 * 3600);
    f.work().await;
    assert_eq!((f.depth().await.turns, f.store.depth().await.unwrap().dead), (0, 1));
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_asked_for_again_and_given_up_after_some_tries() {
    let f = fixture([Ok("nonsense"), Ok("1: note.a = x"), Ok("nonsense")]).await;
    f.say([1]).await;
    f.later(30);
    f.work().await;
    f.later(60);
    f.work().await;
    assert_eq!(f.facts().await, ["note.a = x"]);
    f.say([2, 3]).await;
    for _ in 0..5 {
        f.later(600);
        assert_eq!(f.work().await, 1);
    }
    f.later(600);
    assert_eq!(f.work().await, 0);
    let dead = f.store.dead_letters(&scope("ann"), &Page::first(10)).await.unwrap();
    assert_eq!(dead.iter().map(|letter| (letter.exchange.0, letter.attempts)).collect::<Vec<_>>(), [(2, 5), (3, 5)]);
    assert_eq!(dead[0].error, "extraction model: its answer could not be read");
    assert_eq!(f.metrics.windows.get(WindowEnd::Dead), 1);
}

#[tokio::test]
async fn a_refusal_is_tried_again_slowly() {
    let f = fixture([Err(AskError::Refused("status 401".to_owned())), Ok("1: note.a = x")]).await;
    f.say([1]).await;
    f.later(30);
    f.work().await;
    f.later(29);
    assert_eq!(f.work().await, 0);
    f.later(60);
    f.work().await;
    assert_eq!(f.facts().await, ["note.a = x"]);
}

#[tokio::test]
async fn a_tenant_that_used_its_tokens_up_waits_until_tomorrow() {
    let model = Scripted { replies: Mutex::new([Ok("")].into()), ..Scripted::default() };
    let f = fixture_with(model, Some(150)).await;
    for n in 1..=4 {
        f.say([n]).await;
        f.later(30);
        f.work().await;
    }
    // 100 a question: the second reaches the cap, the others wait, over a restart too.
    assert_eq!(f.model.asked.load(Ordering::Relaxed), 2);
    let day = day_of(f.clock.now());
    assert_eq!(f.store.window_depth(day, Some(150)).await.unwrap().capped, 1);
    assert_eq!(f.store.spend("acme", day, 0).await.unwrap(), 200);
    f.later(24 * 3600);
    f.work().await;
    assert_eq!(f.model.asked.load(Ordering::Relaxed), 3, "the two waited in one window");
}

#[tokio::test]
async fn what_was_erased_while_the_model_was_asked_leaves_nothing() {
    let f = fixture([Ok("1: note.a = x")]).await;
    f.say([1]).await;
    f.later(30);
    f.store.erase(&scope("ann"), f.clock.now()).await.unwrap();
    assert_eq!(f.work().await, 0);
    assert!(f.facts().await.is_empty());
    assert_eq!(f.store.proposals(&scope("ann"), None, &Page::first(1)).await.unwrap(), []);
}

#[tokio::test]
async fn a_retry_of_the_same_user_turn_is_not_asked_about_again() {
    let f = fixture([Ok("1: note.a = x")]).await;
    f.say([1]).await;
    let mut retry = said(2, &scope("ann"));
    retry.turn.as_mut().unwrap().turn_key = "turn-1".to_owned();
    f.store.append(&[retry]).await.unwrap();
    f.worker.run_until_empty().await.unwrap();
    assert_eq!(f.depth().await.turns, 1);
    assert_eq!(finished(1, &scope("ann")).turn.unwrap().user[0].role, Speaker::User);
}
