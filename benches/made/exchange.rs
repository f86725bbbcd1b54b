//! Exchanges as the gateway hands them to its store.

use backstory::base::{Clock, ExchangeId, SystemClock, Time};
use backstory::memory::{Said, Scope, Speaker, Turn};
use backstory::store::{Finished, Shown, StateKey, TurnState, UsageOutcome, UsageRow, UsageTimes, UsageTokens};
use backstory::tokens::Cost;

/// What people say; all but two of five tell nothing about them.
pub(crate) const SAID: [&str; 5] = [
    "What is the difference between a mutex and a semaphore, and when should I use which?",
    "I live in Oslo and I'm allergic to peanuts. Can you suggest a restaurant?",
    "Our deployment fails with error 137 after about ten minutes; the logs show nothing unusual.",
    "我住在上海，对花生过敏。周末有什么推荐？",
    "Please summarise the plan that we discussed, and list the open questions for the meeting.",
];

pub(crate) fn scope(n: u128) -> Scope {
    Scope::new("bench", "default", format!("subject-{n}"))
}

/// One exchange, with a block of notes that was shown for it.
pub(crate) fn finished(n: u128, scope: &Scope, all: &[&str]) -> Finished {
    let at = SystemClock.now();
    let said = |role, text: String| Said { role, hash: format!("{n:064x}"), text };
    let block = "- 3 weeks ago the user said that the deployment of the billing service had failed twice.\n".repeat(5);
    let exchange = ExchangeId((at.0 as u128) << 80 | n);
    // Prefixes are hashes.
    let prefix = *blake3::hash(&n.to_le_bytes()).as_bytes();
    let turn = Turn {
        exchange,
        scope: scope.clone(),
        epoch: 0,
        session: format!("{n:064x}"),
        turn_key: blake3::Hash::from_bytes(prefix).to_hex().to_string(),
        turn_index: 0,
        said_at: at,
        before: None,
        user: vec![said(Speaker::User, format!("{} ({n})", all[n as usize % all.len()]))],
        repeated: false,
        reply: Some(said(Speaker::Assistant, format!("Here is what I found about question {n}. ").repeat(5))),
        complete: true,
        shown: vec![block.clone()],
        trace: None,
    };
    let shown = Shown {
        exchange,
        at,
        model: "gpt-4o".to_owned(),
        target: "openai/gpt-4o".to_owned(),
        memory: "hit; facts=0; episodes=5; tokens=120".to_owned(),
        context: "counted=40; sent=160; cut=0; budget=100000".to_owned(),
        detail: serde_json::json!({"profile": "", "recollection": block, "facts": [], "episodes": [], "why": []}),
        complete: true,
    };
    let state =
        TurnState { recollection: block.into(), expires_at: at.plus_seconds(7 * 86_400), ..TurnState::default() };
    let state = (StateKey { scope: scope.clone(), prefix }, state);
    Finished {
        exchange,
        scope: scope.clone(),
        at,
        turn: Some(turn),
        shown: Some(shown),
        state: Some(state),
        usage: Some(Box::new(used(n, at))),
    }
}

pub(crate) fn used(n: u128, at: Time) -> UsageRow {
    UsageRow {
        exchange: ExchangeId((at.0 as u128) << 80 | n),
        at,
        tenant: "bench".into(),
        namespace: "default".into(),
        key: "team-a".into(),
        subject: None,
        conversation: None,
        operation: "chat",
        model: "assistant".to_owned(),
        target: Some("openai/gpt-4o-mini".to_owned()),
        attempts: 1,
        stream: false,
        status: 200,
        outcome: UsageOutcome::Complete,
        tokens: UsageTokens { input: 150, output: 20, ..UsageTokens::default() },
        cost: Some(Cost::from_nanos(34_500)),
        memory_cost: Some(Cost::default()),
        saved: Some(Cost::default()),
        times: UsageTimes { total_us: 900, first_us: Some(800), overhead_us: 60 },
    }
}
