//! Wishes, and what becomes of them.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::ask::{Answer, AskError, Question};
use crate::base::{ManualClock, SeededRandom};
use crate::context::summary::candidates;
use crate::conversation::{self, Chain};
use crate::jobs::testing::store;
use crate::store::{ScopeStore, StateStore};
use crate::wire::ChatRequest;

/// A model that answers as told, then with the same sentence.
#[derive(Debug)]
struct Scripted {
    answers: Mutex<VecDeque<Result<Answer, AskError>>>,
    asked: Mutex<Vec<Question>>,
    /// One permit is taken by each answer.
    gate: Semaphore,
}

#[async_trait]
impl Ask for Scripted {
    async fn ask(&self, question: &Question) -> Result<Answer, AskError> {
        self.asked.lock().unwrap().push(question.clone());
        self.gate.acquire().await.unwrap().forget();
        self.answers.lock().unwrap().pop_front().unwrap_or_else(|| Ok(said("The user has a red boat.")))
    }
}

fn said(text: &str) -> Answer {
    Answer { text: text.to_owned(), input_tokens: 60, output_tokens: 40, finished: true }
}

fn later() -> Result<Answer, AskError> {
    Err(AskError::Later { reason: "busy".to_owned(), retry_after: None })
}

struct Bench {
    summaries: Summaries,
    model: Arc<Scripted>,
    store: Arc<crate::store::sql::SqlStore>,
    clock: Arc<ManualClock>,
    metrics: Arc<Metrics>,
    tracker: TaskTracker,
}

const NOW: Time = Time(1_760_000_000_000);

impl Bench {
    async fn new(answers: impl IntoIterator<Item = Result<Answer, AskError>>) -> Self {
        Self::with(answers, 1_000, SummariesConfig::default()).await
    }

    async fn with(
        answers: impl IntoIterator<Item = Result<Answer, AskError>>,
        permits: usize,
        config: SummariesConfig,
    ) -> Self {
        let backoff = Backoff { first: Duration::ZERO, longest: Duration::ZERO, max_attempts: 3 };
        let model = Arc::new(Scripted {
            answers: Mutex::new(answers.into_iter().collect()),
            asked: Mutex::default(),
            gate: Semaphore::new(permits),
        });
        let (store, clock, metrics) = (store().await, Arc::new(ManualClock::new(NOW)), Arc::new(Metrics::new()));
        let tracker = TaskTracker::new();
        let means = Means {
            model: Arc::clone(&model) as Arc<_>,
            store: Arc::clone(&store) as Arc<_>,
            clock: Arc::clone(&clock) as Arc<_>,
            random: Arc::new(SeededRandom::new(1)),
            metrics: Arc::clone(&metrics),
        };
        let config = SummariesConfig { backoff, ..config };
        let summaries = Summaries::start(means, config, &tracker, CancellationToken::new());
        Self { summaries, model, store, clock, metrics, tracker }
    }

    fn want(&self, talk: &Talk, first_kept: usize) {
        let (owner, states) = (talk.owner.clone(), candidates(&talk.chain, first_kept));
        self.summaries.want(&talk.owner, talk.chain.session().unwrap(), states[0], || {
            let material = Material::read(&talk.request, &talk.chain, first_kept)?;
            let session = talk.chain.session()?;
            Some(Wish { owner, session, material, candidates: states[1..].to_vec(), trace: None })
        });
    }

    async fn idle(&self) {
        while self.summaries.waiting() > 0 {
            tokio::task::yield_now().await;
        }
    }

    async fn settle(&self, talk: &Talk, first_kept: usize) -> Option<String> {
        let states = candidates(&talk.chain, first_kept);
        self.summaries.settle(&talk.owner, states[0], &states, NOW).await.map(|summary| summary.text)
    }

    fn asked(&self) -> usize {
        self.model.asked.lock().unwrap().len()
    }

    fn count(&self, outcome: SummaryOutcome) -> u64 {
        self.metrics.summaries.get(outcome)
    }
}

/// A conversation of so many user turns.
struct Talk {
    request: ChatRequest,
    chain: Chain,
    owner: Owner,
}

fn talk(subject: &str, durable: bool) -> Talk {
    let messages: Vec<_> = (0..6)
        .flat_map(|n| {
            [
                json!({"role": "user", "content": format!("My boat is red, says {subject} ({n}).")}),
                json!({"role": "assistant", "content": "I see."}),
            ]
        })
        .collect();
    let body = json!({"model": "m", "messages": messages});
    let request = ChatRequest::decode(Bytes::from(body.to_string())).unwrap();
    let scope = Scope::new("acme", "support", subject);
    let chain = conversation::chain(&scope, &request);
    let owner = Owner { start: chain.start, scope, epoch: 0, durable };
    Talk { request, chain, owner }
}

#[tokio::test]
async fn a_summary_is_asked_for_once_and_used_at_the_next_cut() {
    for durable in [true, false] {
        let bench = Bench::new([]).await;
        let talk = talk("ann", durable);
        // Both before it is ready and after.
        bench.want(&talk, 4);
        bench.want(&talk, 4);
        bench.idle().await;
        bench.want(&talk, 4);
        assert_eq!((bench.asked(), bench.count(SummaryOutcome::Made)), (1, 1));
        assert_eq!(bench.settle(&talk, 6).await.as_deref(), Some("The user has a red boat."));
        assert_eq!(bench.settle(&talk, 2).await, None, "it tells of more than was cut");
    }
}

/// Design, section 5: ready later is used at the next cut, not before.
#[tokio::test]
async fn a_cut_that_was_settled_without_stays_without() {
    let bench = Bench::new([]).await;
    let talk = talk("ann", true);
    assert_eq!(bench.settle(&talk, 6).await, None);
    bench.want(&talk, 4);
    bench.idle().await;
    assert_eq!(bench.settle(&talk, 6).await, None);
    assert!(bench.settle(&talk, 8).await.is_some());
    // Another replica over the same store says the same.
    let other = Bench::new([]).await;
    let summaries = Summaries { store: Arc::clone(&bench.store) as Arc<_>, ..other.summaries };
    let states = candidates(&talk.chain, 6);
    assert_eq!(summaries.settle(&talk.owner, states[0], &states, NOW).await, None);
    assert_eq!(summaries.foretell(&talk.owner, states[0], &states, NOW).await, None);
    let states = candidates(&talk.chain, 8);
    assert!(summaries.foretell(&talk.owner, states[0], &states, NOW).await.is_some());
}

#[tokio::test]
async fn what_is_foretold_is_not_settled() {
    let bench = Bench::new([]).await;
    let talk = talk("ann", true);
    let states = candidates(&talk.chain, 6);
    assert_eq!(bench.summaries.foretell(&talk.owner, states[0], &states, NOW).await, None);
    bench.want(&talk, 4);
    bench.idle().await;
    assert!(bench.summaries.foretell(&talk.owner, states[0], &states, NOW).await.is_some());
    assert!(bench.settle(&talk, 6).await.is_some());
}

#[tokio::test]
async fn the_next_summary_is_made_of_the_one_before_and_what_came_since() {
    for durable in [true, false] {
        let bench = Bench::new([]).await;
        let talk = talk("ann", durable);
        bench.want(&talk, 4);
        bench.idle().await;
        bench.want(&talk, 8);
        bench.idle().await;
        let asked = bench.model.asked.lock().unwrap();
        assert!(asked[0].user.contains("(0)") && asked[0].user.contains("(1)") && !asked[0].user.contains("(2)"));
        assert!(asked[1].user.contains("before that: The user has a red boat."), "{}", asked[1].user);
        assert!(!asked[1].user.contains("(1)") && asked[1].user.contains("(2)") && asked[1].user.contains("(3)"));
    }
}

/// Issue 3: a summary model that answers with an error, an empty string, or 100 KB.
#[tokio::test]
async fn a_model_that_fails_is_asked_again_and_then_left_alone() {
    let bench = Bench::new([later(), later()]).await;
    bench.want(&talk("ann", true), 4);
    bench.idle().await;
    assert_eq!((bench.asked(), bench.count(SummaryOutcome::Made)), (3, 1));

    let bench = Bench::new([later(), later(), later()]).await;
    let talk = talk("ann", true);
    bench.want(&talk, 4);
    bench.idle().await;
    bench.want(&talk, 4);
    bench.idle().await;
    assert_eq!((bench.asked(), bench.count(SummaryOutcome::Failed)), (3, 1));
    assert_eq!(bench.settle(&talk, 4).await, None);
}

#[tokio::test]
async fn answers_that_will_not_do_leave_the_extract() {
    let ten_thousand = "The user has a red boat ".repeat(4_500);
    for (answer, outcome) in [
        (Ok(said("")), SummaryOutcome::Empty),
        (Ok(said("They have 77 boats.")), SummaryOutcome::Unfit),
        (Ok(said("用户有一条红船。")), SummaryOutcome::Unfit),
        (Ok(said(&ten_thousand)), SummaryOutcome::Empty),
        (Err(AskError::Refused("no such model".to_owned())), SummaryOutcome::Failed),
        (Err(AskError::Format), SummaryOutcome::Failed),
    ] {
        let bench = Bench::new([answer]).await;
        let talk = talk("ann", true);
        bench.want(&talk, 4);
        bench.idle().await;
        assert_eq!((bench.asked(), bench.count(outcome)), (1, 1), "{outcome:?}");
        assert_eq!(bench.settle(&talk, 4).await, None);
    }
}

#[tokio::test]
async fn jobs_are_bounded_and_one_conversation_has_one() {
    let config = SummariesConfig { max_running: 2, max_waiting: 3, ..SummariesConfig::default() };
    let bench = Bench::with([], 0, config).await;
    let talks: Vec<_> = (0..9).map(|n| talk(&format!("s{n}"), false)).collect();
    for talk in &talks {
        bench.want(talk, 4);
        bench.want(talk, 6);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    // Two run, three wait, the rest is passed over, twice each.
    assert_eq!((bench.asked(), bench.summaries.waiting(), bench.count(SummaryOutcome::Full)), (2, 5, 8));
    bench.model.gate.add_permits(100);
    bench.idle().await;
    assert_eq!((bench.asked(), bench.count(SummaryOutcome::Made)), (5, 5));
}

#[tokio::test]
async fn a_day_has_so_many_tokens() {
    let config = SummariesConfig { max_tokens_per_day: Some(150), ..SummariesConfig::default() };
    let bench = Bench::with([], 100, config).await;
    for subject in ["a", "b", "c"] {
        bench.want(&talk(subject, true), 4);
        bench.idle().await;
    }
    assert_eq!((bench.asked(), bench.count(SummaryOutcome::Capped)), (2, 1));
    bench.clock.advance_millis(24 * 3600 * 1000);
    bench.want(&talk("d", true), 4);
    bench.idle().await;
    assert_eq!((bench.asked(), bench.count(SummaryOutcome::Made)), (3, 3));
}

/// Design, promise 10 and doubt 14.
#[tokio::test]
async fn what_is_summed_up_while_its_subject_is_erased_is_dropped() {
    for durable in [true, false] {
        let bench = Bench::with([], 0, SummariesConfig::default()).await;
        let talk = talk("ann", durable);
        bench.want(&talk, 4);
        while bench.asked() == 0 {
            tokio::task::yield_now().await;
        }
        bench.store.erase(&talk.owner.scope, NOW).await.unwrap();
        bench.summaries.forget(talk.owner.start);
        bench.model.gate.add_permits(1);
        bench.idle().await;
        assert_eq!(bench.count(SummaryOutcome::Erased), 1, "{durable}");
        assert_eq!(bench.settle(&talk, 4).await, None);
        let states = candidates(&talk.chain, 4);
        assert_eq!(bench.store.summary(&talk.owner.scope, &states, NOW).await.unwrap(), None);
    }
}

#[tokio::test]
async fn forgetting_takes_what_was_made_of_this_scope_only() {
    let bench = Bench::new([]).await;
    let (ann, bob) = (talk("ann", false), talk("bob", false));
    for talk in [&ann, &bob] {
        bench.want(talk, 4);
        bench.idle().await;
    }
    bench.summaries.forget(ann.owner.start);
    assert_eq!(bench.settle(&ann, 4).await, None);
    assert!(bench.settle(&bob, 4).await.is_some());
}

#[tokio::test]
async fn work_ends_when_nobody_can_wish_any_more() {
    let bench = Bench::new([]).await;
    bench.want(&talk("ann", true), 4);
    let Bench { summaries, tracker, metrics, .. } = bench;
    drop(summaries);
    tracker.close();
    tracker.wait().await;
    assert_eq!(metrics.summaries.get(SummaryOutcome::Made), 1);
}
