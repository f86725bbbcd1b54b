//! Clients that leave, thousands of them: nothing of them stays.

use backstory::mock::{End, Raw, Script};
use backstory::telemetry::{Outcome, Route};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::support::sse::text;
use crate::support::{Stack, log, until};

/// Clients that leave before it is looked how much is there: what pools and caches keep is there then.
const WARM_UP: usize = 100;
/// Clients that leave in between the two looks, unless `BACKSTORY_ABORTS` says how many.
const ABORTS: usize = 500;
/// With `BACKSTORY_ABORTS`, so many leave before: what keeps the last thousand of anything is full then.
const LONG_WARM_UP: usize = 2_000;
/// Clients at a time.
const AT_A_TIME: usize = 50;

const WITH_MEMORY: &str = "bk-leaving-0123456789abcdef";
const WITHOUT: &str = "bk-without-0123456789abcdef";

const KEYS: &str = r#"
[[keys]]
key = "bk-leaving-0123456789abcdef"
tenant = "one"
max_concurrency = 1000
requests_per_minute = 100000000
tokens_per_minute = 1000000000000
tokens_per_day = 1000000000000
tokens_per_month = 1000000000000
[keys.each_subject]
max_concurrency = 1000
tokens_per_day = 1000000000000
[[keys]]
key = "bk-without-0123456789abcdef"
tenant = "two"
memory = "off"
max_concurrency = 1000
tokens_per_day = 1000000000000
"#;

/// What must not grow with the clients that left.
#[derive(Debug)]
struct Held {
    permits: usize,
    running: u64,
    in_flight: u64,
    streams: u64,
    outbox: u64,
    accounts: usize,
}

impl Held {
    /// A late request may have been there at the first look, and be gone at the second.
    fn is_no_more_than(&self, before: &Self) -> bool {
        self.permits >= before.permits
            && self.running <= before.running
            && self.in_flight <= before.in_flight
            && self.streams <= before.streams
            && self.outbox <= before.outbox
            && self.accounts <= before.accounts
    }
}

fn held(stack: &Stack) -> Held {
    let metrics = stack.app.metrics.render();
    let gauge = |name: &str| {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {name}"))
    };
    Held {
        permits: stack.app.permits.available_permits(),
        running: stack.app.limits.running(),
        in_flight: gauge("backstory_requests_in_flight "),
        streams: gauge("backstory_streams_open "),
        outbox: stack.app.outbox.health().queued,
        accounts: stack.app.limits.len(),
    }
}

/// The memory that the process has, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// One client that leaves: before the header, within a body that is no stream, or after the first event of a stream.
async fn leaves(stack: &Stack, key: &str, n: usize) {
    let how = n % 3;
    let model = if how == 0 { "silent" } else { "stalls" };
    let content = format!("Hello, this is number {n}. I'm allergic to peanuts.");
    let body = json!({"model": model, "stream": how == 2, "max_tokens": 100, "messages": [{"role": "user", "content": content}]});
    let ask = stack.chat(body.to_string()).key(key).user(&format!("person-{}", n % 20));
    let accepted = stack.upstream().accepted();
    if how == 0 {
        let mut client = JoinSet::new();
        client.spawn(async move { ask.open().await.status });
        // Somebody's request has reached upstream: most of those who leave here are there by then.
        until("upstream is asked", || stack.upstream().accepted() > accepted).await;
        client.abort_all();
        while client.join_next().await.is_some() {}
    } else {
        let mut running = ask.open().await;
        running.next().await.unwrap();
        drop(running);
    }
}

async fn all_leave(stack: &Stack, key: &str, count: usize) {
    let numbers: Vec<usize> = (0..count).collect();
    for some in numbers.chunks(AT_A_TIME) {
        futures_util::future::join_all(some.iter().map(|n| leaves(stack, key, *n))).await;
    }
    let app = &stack.app;
    until("no request runs", || app.permits.available_permits() == 1_024).await;
    until("nothing waits to be written", || app.outbox.health().queued == 0).await;
    stack.learned().await;
}

/// A gateway before an upstream that says nothing, half a body, or one event.
async fn stack() -> Stack {
    let stalls = {
        let mut json = Raw::json(200, "{\"half\":").ending(End::Stall);
        json.headers.retain(|(name, _)| *name != "content-length");
        (json, Raw::stream([text("one")]).ending(End::Stall))
    };
    let script = Script::from_fn(move |request| {
        let asked = request.json();
        match (asked["model"] == "silent", asked["stream"] == true) {
            (true, _) => Script::As("mock-stall-header"),
            (false, true) => Script::Raw(stalls.1.clone()),
            (false, false) => Script::Raw(stalls.0.clone()),
        }
    });
    Stack::of(script).keys(KEYS).start().await
}

/// Has `count` clients leave and looks that nothing of them stays.
async fn nothing_stays_of(stack: &Stack, key: &str, count: usize) {
    let (before, tasks) = (held(stack), Handle::current().metrics().num_alive_tasks());
    let (tracked, accepted) = (stack.app.tracker.len(), stack.upstream().accepted());
    all_leave(stack, key, count).await;
    // A request may come late whose client has left already: it ends as well.
    until("nothing more is held than before", || held(stack).is_no_more_than(&before)).await;
    // What loads vocabularies at the start may have been there before, and be done now.
    until("no tracked task is left", || stack.app.tracker.len() <= tracked).await;
    // Every connection, on either side, is a task; a few of those that upstream's pool keeps may come and go.
    until("no task is left", || Handle::current().metrics().num_alive_tasks() <= tasks + 8).await;
    let upstream = stack.upstream();
    until("upstream is cancelled", || upstream.cancelled() == upstream.accepted()).await;
    // Those who leave before the header may leave before upstream is asked, too.
    let asked = (upstream.accepted() - accepted) as usize;
    assert!(asked >= count * 2 / 3, "{asked} of {count}");
}

// Design, section 2: one accepted request = one reservation = one outcome, also of clients that leave, with memory on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_leave_leave_no_permit_connection_task_or_reservation_behind() {
    let stack = stack().await;
    all_leave(&stack, WITH_MEMORY, WARM_UP).await;
    nothing_stays_of(&stack, WITH_MEMORY, ABORTS).await;
    // What was reserved for replies that nobody saw, and for memory, is given back, 1,100 tokens for each: the input was paid for,
    // with what was remembered, and the one event that was seen.
    stack.upstream().set_script(Script::Model);
    let body = json!({"model": "mock", "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]});
    let got = stack.chat(body.to_string()).key(WITH_MEMORY).user("person-1").send().await.must_be(200);
    let left: u64 = got.header("x-ratelimit-remaining-tokens").parse().unwrap();
    let used = 1_000_000_000_000 - left;
    assert!(used < (WARM_UP + ABORTS) as u64 * 300, "{used} tokens");
    assert!(stack.app.metrics.requests.get(Route::Chat, Outcome::ClientGone) > 0, "they are counted as such");
}

// 10,000 aborted streams leave no permit, connection, task or memory behind: `BACKSTORY_ABORTS=10000`, and the test alone in
// its process, so that its memory is its own. With memory off: what is remembered of them would stay, and should.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_leave_leave_no_memory_behind() {
    let stack = stack().await;
    let Some(count) = std::env::var("BACKSTORY_ABORTS").ok().and_then(|n| n.parse().ok()) else {
        all_leave(&stack, WITHOUT, WARM_UP).await;
        nothing_stays_of(&stack, WITHOUT, WARM_UP).await;
        return;
    };
    all_leave(&stack, WITHOUT, LONG_WARM_UP).await;
    let (before, log_before) = (resident(), log::len());
    nothing_stays_of(&stack, WITHOUT, count).await;
    // These tests keep the log in memory.
    let log = (log::len() - log_before) as u64;
    let grown = resident().saturating_sub(before + log);
    assert!(grown < 4 * 1024 * 1024 + count as u64 * 256, "{grown} bytes for {count} clients, beside {log} of the log");
}
