//! A PostgreSQL that is stopped, crashes or is full while requests run: none of them fails, and nothing that a client saw complete is lost.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use backstory::mock::{MockHandle, Script, start};
use backstory::store::UsageQuery;
use serde_json::{Value, json};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, raw_sql};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::postgres::{How, OwnPostgres};
use crate::support::stack::Builder;
use crate::support::{Ask, Binary, Got, KEY, Stack, eventually, log, until};

/// Long enough for a recall on a busy machine, and no longer than a request may be held up by a server that is away.
const RECALL: &str = "deadline_ms = 500\n";
/// Who is released before an exchange is committed has a gateway that holds it in memory, and goes on.
const ACKNOWLEDGE: Duration = Duration::from_millis(250);

fn over(server: &OwnPostgres) -> Builder {
    Stack::of(Script::Fixed("I see.".to_owned())).store(&server.line()).recall(RECALL).acknowledge_wait(ACKNOWLEDGE)
}

async fn readiness(stack: &Stack) -> Value {
    stack.ask("GET", "/readyz").send().await.must_be(200).json()
}

async fn until_ready(stack: &Stack) {
    eventually("it is ready", || async { (readiness(stack).await["status"] == "ready").then_some(()) }).await;
}

/// States numbers, each for a person of its own, one after the other from several clients at once, until told to end.
struct Load<'a> {
    stack: &'a Stack,
    next: AtomicUsize,
    end: AtomicBool,
    /// Those whose reply came whole.
    complete: Mutex<Vec<usize>>,
}

const CLIENTS: usize = 4;

impl<'a> Load<'a> {
    fn of(stack: &'a Stack) -> Self {
        Self { stack, next: AtomicUsize::new(0), end: AtomicBool::new(false), complete: Mutex::default() }
    }

    /// Runs it while `what` happens, and returns what was complete.
    async fn during(self, what: impl AsyncFnOnce(&Self)) -> Vec<usize> {
        let clients = futures_util::future::join_all((0..CLIENTS).map(|_| self.client()));
        let happening = async {
            self.more(10).await;
            what(&self).await;
            self.more(10).await;
            self.end.store(true, Ordering::Relaxed);
        };
        tokio::join!(clients, happening);
        self.complete.into_inner().unwrap()
    }

    async fn client(&self) {
        while !self.end.load(Ordering::Relaxed) {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let got = self.stack.say(&user(n), &format!("Remember that locker {n} opens with zebra{n}x.")).await;
            assert!(!got.broken);
            self.complete.lock().unwrap().push(n);
        }
    }

    /// Waits until so many more were complete.
    async fn more(&self, n: usize) {
        let complete = || self.complete.lock().unwrap().len();
        let before = complete();
        until("clients are answered", || complete() >= before + n).await;
    }
}

fn user(n: usize) -> String {
    format!("user{n}")
}

/// What was complete is learned, in the books, and in both once.
async fn is_kept_once(stack: &Stack, complete: &[usize]) {
    stack.learned().await;
    let usual = stack.episodes(&user(complete[0])).await.len();
    for &n in complete {
        let (facts, episodes) = (stack.facts(&user(n)).await, stack.episodes(&user(n)).await);
        assert!(facts.len() == 1 && facts[0].contains(&format!("zebra{n}x")), "{n}: {facts:?}");
        assert_eq!(episodes.len(), usual, "{n}: {episodes:?}");
    }
    let query = UsageQuery { limit: 10, ..UsageQuery::default() };
    eventually("all is booked", || async {
        let groups = stack.app.store.usage(&query).await.unwrap();
        (groups[0].sums.exchanges == complete.len() as u64).then_some(())
    })
    .await;
}

// Issue 8, point 5. The server is really away for as long as ten requests take, and comes back with what it had committed.
#[tokio::test]
async fn postgres_stopped_and_crashed_under_load_fails_no_request_and_loses_nothing() {
    let Some(server) = OwnPostgres::start().await else { return };
    let stack = over(&server).start().await;
    let complete = Load::of(&stack)
        .during(async |load| {
            for how in [How::Fast, How::Immediate] {
                server.stop(how).await;
                load.more(10).await;
                eventually("it is said", || async { (readiness(&stack).await["status"] == "degraded").then_some(()) })
                    .await;
                server.start_again().await;
                until_ready(&stack).await;
                load.more(10).await;
            }
        })
        .await;
    is_kept_once(&stack, &complete).await;
}

// Issue 8, point 5.
#[tokio::test]
async fn a_full_disk_of_postgres_fails_no_request_says_what_to_do_and_loses_nothing() {
    let Some(server) = OwnPostgres::on_a_disk_of(64).await else { return };
    let stack = over(&server).start().await;
    let complete = Load::of(&stack)
        .during(async |load| {
            server.fill().await;
            // Tables have some room in their last pages.
            let said = eventually("it is said", || async {
                let ready = readiness(&stack).await;
                (ready["status"] == "degraded").then(|| ready["store"].as_str().unwrap().to_owned())
            })
            .await;
            assert!(said.contains("disk is full") && said.contains("make room"), "{said}");
            load.more(10).await;
            // What was there can be read.
            assert_eq!(stack.facts(&user(0)).await.len(), 1);
            server.make_room().await;
            until_ready(&stack).await;
        })
        .await;
    assert!(log::has_line_with(&["ERROR", "the outbox cannot be written", "disk is full", "make room"]));
    assert!(log::has_line_with(&["INFO", "the outbox can be written again"]));
    is_kept_once(&stack, &complete).await;
}

/// The program itself, over a database.
async fn process(upstream: &MockHandle, database: &str) -> (Binary, NamedTempFile) {
    let mut file = NamedTempFile::with_suffix(".toml").unwrap();
    let text = format!(
        "[store]\nurl = \"{database}\"\nacknowledge_wait_ms = 30000\n[recall]\ndeadline_ms = 5000\n\
         [[providers]]\nname = \"up\"\nbase_url = \"{}\"\ndefault = true\n[[keys]]\nkey = \"{KEY}\"\ntenant = \"one\"\n",
        upstream.base_url()
    );
    file.write_all(text.as_bytes()).unwrap();
    (Binary::serve(&["--config", file.path().to_str().unwrap()]).await, file)
}

async fn get(gateway: &Binary, path: &str) -> Got {
    Ask::new(gateway.addr, "GET", path).key(KEY).user("ann").send().await
}

async fn say(gateway: &Binary, text: &str) -> Got {
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": text}]});
    let ask = Ask::new(gateway.addr, "POST", "/v1/chat/completions").key(KEY).user("ann").json(&body);
    ask.send().await.must_be(200)
}

// Issue 8, point 7: in which order servers start does not matter, however long it takes.
#[tokio::test]
async fn a_database_that_comes_after_the_gateway_is_gone_over_to_without_a_restart() {
    let Some(server) = OwnPostgres::start().await else { return };
    server.stop(How::Fast).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = start(listener, Script::Model, &TaskTracker::new(), CancellationToken::new()).await;
    let (gateway, _file) = process(&upstream, &server.database("memories")).await;
    get(&gateway, "/livez").await.must_be(200);
    let ready = get(&gateway, "/readyz").await.must_be(503).json();
    assert_eq!(ready["status"], "waiting");
    assert_eq!(say(&gateway, "I'm allergic to peanuts.").await.memory(), "error");
    get(&gateway, "/memory/v1/facts").await.must_be(503);

    // What someone has to repair is told apart from what comes by itself.
    server.start_again().await;
    let told = eventually("it says what is wrong", || async {
        let got = get(&gateway, "/readyz").await;
        (got.status == 200).then(|| got.json())
    })
    .await;
    assert_eq!(told["status"], "degraded");
    assert!(told["store"].as_str().unwrap().contains("there is no such database: create it"), "{told}");

    let mut conn = PgConnection::connect(&server.database("postgres")).await.unwrap();
    raw_sql("CREATE DATABASE memories").execute(&mut conn).await.unwrap();
    eventually("it is ready", || async { (get(&gateway, "/readyz").await.json()["status"] == "ready").then_some(()) })
        .await;
    say(&gateway, "I'm allergic to walnuts.").await;
    eventually("it is learned", || async {
        get(&gateway, "/memory/v1/facts").await.must_be(200).text().contains("walnuts").then_some(())
    })
    .await;
    let got = say(&gateway, "Which nuts must I avoid?").await;
    assert!(
        got.memory().starts_with("hit; facts=1") && got.text().contains("walnuts"),
        "{} {}",
        got.memory(),
        got.text()
    );
}
