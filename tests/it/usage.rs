//! The books: what each exchange used and cost, however it ended.

use std::time::Duration;

use backstory::mock::{End, Raw, Script};
use serde_json::{Value, json};

use crate::support::sse::{DONE, event, finish, text};
use crate::support::stack::Builder;
use crate::support::{Got, Stack, binary, eventually};

const ADMIN: &str = "admin-key-for-the-tests";

/// A model whose tokens cost millionths of a dollar: input 1, cached 0.1, output 2.
const PRICED: &str = r#"
[admin]
key = "admin-key-for-the-tests"
[[models]]
name = "priced"
[[models.targets]]
provider = "upstream"
model = "mock"
price_input_per_million = 1
price_cached_per_million = 0.1
price_output_per_million = 2
"#;

fn priced(script: Script) -> Builder {
    Stack::of(script).keys("[[keys]]\nkey = \"${KEY}\"\nname = \"team-a\"\ntenant = \"one\"\n").with(PRICED)
}

fn ask(stream: bool) -> String {
    json!({"model": "priced", "stream": stream, "messages": [{"role": "user", "content": "Hello there"}]}).to_string()
}

/// A whole reply with these counts.
fn reply(usage: &Value) -> Raw {
    let body = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "mock", "usage": usage,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}]});
    Raw::json(200, body.to_string())
}

fn counts(input: u64, cached: u64, output: u64) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
        "prompt_tokens_details": {"cached_tokens": cached}})
}

fn usage_chunk(usage: &Value) -> String {
    event(&json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}).to_string())
}

impl Stack {
    async fn usage(&self, query: &str) -> Value {
        self.ask("GET", &format!("/admin/v1/usage?{query}")).key(ADMIN).send().await.must_be(200).json()
    }

    /// The rows, once there are so many: what a client left behind is booked a moment later.
    async fn rows(&self, n: usize) -> Vec<Value> {
        let query = "group_by=exchange,key,tenant,subject,model,target,operation,outcome";
        eventually("the rows are booked", || async {
            let rows = self.usage(query).await["data"].as_array().unwrap().clone();
            (rows.len() >= n).then_some(rows)
        })
        .await
    }

    async fn only_row(&self) -> Value {
        let mut rows = self.rows(1).await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }
}

/// The row of an exchange: within one millisecond their order is nobody's.
#[track_caller]
fn row_of<'a>(rows: &'a [Value], got: &Got) -> &'a Value {
    let exchange = got.header("x-backstory-exchange");
    rows.iter().find(|row| row["exchange"] == exchange).unwrap_or_else(|| panic!("no {exchange} in {rows:?}"))
}

#[track_caller]
fn ended<'a>(rows: &'a [Value], outcome: &str) -> &'a Value {
    rows.iter().find(|row| row["outcome"] == outcome).unwrap_or_else(|| panic!("no {outcome} in {rows:?}"))
}

#[track_caller]
fn assert_figures(row: &Value, expected: &Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&row[name], value, "{name} in {row}");
    }
}

#[tokio::test]
async fn what_upstream_counts_is_booked_exactly_streamed_or_not() {
    let stream = Raw::stream([text("Hi."), finish("stop"), usage_chunk(&counts(200, 0, 20)), DONE.to_owned()]);
    let scripts = vec![Script::Raw(reply(&counts(1_000, 400, 50))), Script::Raw(stream)];
    let stack = priced(Script::Sequence(scripts)).start().await;
    let first = stack.chat(ask(false)).user("ann").send().await.must_be(200);
    let second = stack.chat(ask(true)).user("ann").send().await.must_be(200);
    assert!(!second.text().contains("\"usage\":{"), "the client did not ask for it");
    let rows = stack.rows(2).await;
    let row = row_of(&rows, &first);
    assert_figures(
        row,
        &json!({"key": "team-a", "tenant": "one", "subject": "ann", "model": "priced", "target": "upstream/mock",
            "operation": "chat", "outcome": "complete", "exchanges": 1, "attempts": 1, "estimated": 0, "unpriced": 0,
            "input_tokens": 1_000, "cached_tokens": 400, "output_tokens": 50, "cost_micros": 600 + 40 + 100}),
    );
    let of_stream = json!({"input_tokens": 200, "output_tokens": 20, "estimated": 0, "cost_micros": 240});
    assert_figures(row_of(&rows, &second), &of_stream);
    let totals = &stack.usage("").await["totals"];
    assert_figures(totals, &json!({"exchanges": 2, "input_tokens": 1_200, "output_tokens": 70, "cost_micros": 980}));
    assert!(row["latency_ms"].as_f64() >= row["overhead_ms"].as_f64(), "{row}");
    let metrics = stack.ask("GET", "/metrics").send().await;
    let metrics = metrics.text();
    assert!(metrics.contains("backstory_target_cost_dollars_total{target=\"upstream/mock\"} 0.00098\n"), "{metrics}");
    assert!(metrics.contains("backstory_target_tokens_total{target=\"upstream/mock\",direction=\"input\"} 1200\n"));
}

// open-webui/open-webui#29064: running totals were summed up; pydantic/pydantic-ai#7913: a chunk without usage wiped them.
#[tokio::test]
async fn of_usage_in_several_chunks_the_last_counts() {
    let chunk = |usage: &Value| {
        event(
            &json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "usage": usage,
            "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": null}]})
            .to_string(),
        )
    };
    let pieces = [
        chunk(&Value::Null),
        chunk(&counts(10, 0, 1)),
        chunk(&Value::Null),
        chunk(&counts(10, 4, 2)),
        finish("stop"),
        DONE.to_owned(),
    ];
    let stack = priced(Script::Raw(Raw::stream(pieces))).start().await;
    stack.chat(ask(true)).user("ann").send().await.must_be(200);
    let expected = json!({"input_tokens": 10, "cached_tokens": 4, "output_tokens": 2, "estimated": 0});
    assert_figures(&stack.only_row().await, &expected);
}

// Augustas11/macprovider#187: what a stream used that broke in the middle was in no book.
#[tokio::test]
async fn a_stream_that_upstream_cuts_is_booked_with_what_was_seen() {
    let pieces = [text("The quick brown fox"), text(" jumps over the lazy dog")];
    let stack = priced(Script::Raw(Raw::stream(pieces).ending(End::Reset))).start().await;
    let got = stack.chat(ask(true)).user("ann").send().await.must_be(200);
    let row = stack.only_row().await;
    assert_figures(
        &row,
        &json!({"outcome": "cut", "incomplete": 1, "failed": 0, "estimated": 1, "input_tokens": got.context("sent"),
            "output_tokens": 9}),
    );
    assert_eq!(row["cost_micros"], row["input_tokens"].as_u64().unwrap() + 18);
}

// pollinations/pollinations#5594; decolua/9router PR#3348.
#[tokio::test]
async fn a_client_that_leaves_is_booked_with_what_it_saw() {
    let script = Script::Raw(Raw::stream([text("The quick brown fox")]).ending(End::Stall));
    let stack = priced(script).start().await;
    let mut running = stack.chat(ask(true)).user("ann").open().await;
    running.read_until("fox").await;
    drop(running);
    let row = stack.only_row().await;
    assert_figures(&row, &json!({"outcome": "aborted", "incomplete": 1, "estimated": 1, "output_tokens": 4}));
    assert!(row["input_tokens"].as_u64().unwrap() > 0, "{row}");
}

#[tokio::test]
async fn a_client_that_leaves_before_there_is_an_answer_is_booked_too() {
    let stack = priced(Script::As("mock-stall-header")).start().await;
    let mut client = tokio::task::JoinSet::new();
    let asked = stack.chat(ask(true)).user("ann");
    client.spawn(async move { asked.open().await.status });
    eventually("upstream is asked", || std::future::ready((stack.upstream().accepted() == 1).then_some(()))).await;
    client.abort_all();
    let row = stack.only_row().await;
    assert_figures(&row, &json!({"outcome": "aborted", "attempts": 1, "estimated": 1, "output_tokens": 0}));
    assert_eq!(row["target"], "upstream/mock");
}

// One row for each exchange that was accepted: a client may leave while memory is asked, too.
#[tokio::test]
async fn a_client_that_leaves_while_memory_is_asked_is_booked_though_nothing_was_sent() {
    let rerank = format!("{PRICED}[rerank]\nurl = \"${{UPSTREAM_2}}/rerank\"\n");
    let stack = Stack::of(Script::Fixed("I see.".to_owned()))
        .upstream(Script::Raw(Raw::error(400, "no")))
        .recall("deadline_ms = 30000\n")
        .keys("[[keys]]\nkey = \"${KEY}\"\nname = \"team-a\"\ntenant = \"one\"\n")
        .with(&rerank)
        .start()
        .await;
    for text in [
        "The wooden pier at the lake campsite was broken in spring.",
        "We repaired the pier at the lake campsite with planks from the old barn.",
        "The lake campsite by the pier has no showers.",
    ] {
        stack.chat(ask(false).replace("Hello there", text)).user("ann").send().await.must_be(200);
    }
    stack.learned().await;
    let reranker = &stack.upstreams[1];
    let late = Raw { header_delay: Duration::from_secs(3_600), ..Raw::json(200, "[]") };
    reranker.set_script(Script::Raw(late));
    let asked = reranker.accepted();
    let body = ask(false).replace("Hello there", "What do I know of the pier at the lake campsite?");
    let mut client = tokio::task::JoinSet::new();
    let question = stack.chat(body).user("ann");
    client.spawn(async move { question.open().await.status });
    eventually("memory is asked", || std::future::ready((reranker.accepted() > asked).then_some(()))).await;
    client.abort_all();
    let rows = stack.rows(4).await;
    let expected = json!({"attempts": 0, "target": null, "subject": "ann", "input_tokens": 0, "cost_micros": 0});
    assert_figures(ended(&rows, "aborted"), &expected);
}

fn delta(index: u64, delta: &Value) -> String {
    let choice = json!({"index": index, "delta": delta, "finish_reason": null});
    event(
        &json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
            .to_string(),
    )
}

/// What the limits counted and what the books say of one exchange, with memory on and off.
async fn counted_and_booked(script: Raw, stream: bool, memory: &str) -> (u64, Value) {
    let keys = format!(
        "[[keys]]\nkey = \"${{KEY}}\"\nname = \"team-a\"\ntenant = \"one\"\nmemory = \"{memory}\"\ntokens_per_day = 1000000\n"
    );
    let scripts = vec![Script::Raw(script), Script::Raw(Raw::error(400, "no"))];
    let stack = Stack::of(Script::Sequence(scripts)).keys(&keys).with(PRICED).start().await;
    let ask = || async {
        let body = json!({"model": "priced", "stream": stream, "max_tokens": 5_000, "n": 2,
            "messages": [{"role": "user", "content": "Hello there"}]});
        let got = stack.chat(body.to_string()).user("ann").send().await;
        got.header("x-ratelimit-remaining-tokens").parse::<u64>().unwrap()
    };
    // Both reserve as much: what lies between is what the first one used.
    let before = ask().await;
    let row = stack.only_row().await;
    (before - ask().await, row)
}

#[tokio::test]
async fn limits_count_what_the_books_say_however_an_exchange_ended() {
    let thought = || delta(0, &json!({"reasoning_content": "hm"}));
    let two = vec![delta(0, &json!({"content": "One two"})), delta(1, &json!({"content": " three four five"}))];
    let early = vec![usage_chunk(&counts(70, 0, 0)), text("one two three four five")];
    let silent = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "mock",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "one two three"}}]});
    for memory in ["off", "on"] {
        let of = |script: Raw, stream| counted_and_booked(script, stream, memory);
        let check = |what: &str, (used, row): (u64, Value), output: std::ops::RangeInclusive<u64>| {
            let figure = |name: &str| row[name].as_u64().unwrap();
            assert_eq!(used, figure("input_tokens") + figure("output_tokens"), "{what}, memory {memory}: {row}");
            assert!(
                output.contains(&figure("output_tokens")) && row["estimated"] == 1,
                "{what}, memory {memory}: {row}"
            );
        };
        check("no usage", of(Raw::json(200, silent.to_string()), false).await, 3..=60);
        let thinking = Raw::stream((0..30).map(|_| thought())).ending(End::Reset);
        check("cut while it thought", of(thinking, true).await, 30..=30);
        let (used, row) = of(Raw::stream(early.clone()).ending(End::Reset), true).await;
        assert_eq!(row["input_tokens"], 70);
        // With memory off only the event is seen.
        check("cut after an early report", (used, row), if memory == "off" { 1..=1 } else { 5..=5 });
        check("two choices", of(Raw::stream(two.clone()).ending(End::Reset), true).await, 2..=5);
    }
}

// Errors of upstream cost nothing, those inside a 200 neither.
#[tokio::test]
async fn an_error_in_a_stream_that_said_nothing_is_a_failure_and_costs_nothing() {
    let role = delta(0, &json!({"role": "assistant", "content": ""}));
    let error = event(&json!({"error": {"message": "overloaded", "type": "server_error"}}).to_string());
    for memory in ["off", "on"] {
        let script = Raw::stream([role.clone(), error.clone(), DONE.to_owned()]);
        let (used, row) = counted_and_booked(script, true, memory).await;
        let expected = json!({"outcome": "failed", "failed": 1, "incomplete": 0, "input_tokens": 0, "output_tokens": 0,
            "cost_micros": 0});
        assert_figures(&row, &expected);
        assert_eq!(used, 0);
        let script = Raw::stream([text("Well"), error.clone(), DONE.to_owned()]);
        let (used, row) = counted_and_booked(script, true, memory).await;
        assert_figures(&row, &json!({"outcome": "cut", "incomplete": 1, "output_tokens": 1}));
        assert_eq!(used, row["input_tokens"].as_u64().unwrap() + 1);
    }
}

// envoyproxy/ai-gateway#2162: a usage event that is cut within a number is booked whole.
#[tokio::test]
async fn a_usage_event_in_two_pieces_is_booked() {
    let stack = priced(Script::As("mock-fixed-usage-split")).start().await;
    let got = stack.chat(ask(true)).user("ann").send().await.must_be(200);
    assert!(!got.text().contains("prompt_tokens"), "{}", got.text());
    let row = stack.only_row().await;
    assert_figures(&row, &json!({"estimated": 0, "outcome": "complete"}));
    assert!(row["input_tokens"].as_u64() > Some(0) && row["output_tokens"].as_u64() > Some(0), "{row}");
}

#[tokio::test]
async fn an_error_of_upstream_costs_nothing_and_what_we_refuse_names_no_target() {
    let stack = priced(Script::As("mock-error-500")).start().await;
    stack.chat(ask(false)).user("ann").send().await.must_be(500);
    stack.chat(ask(false)).user("ann").header("x-backstory-budget", "1").send().await.must_be(400);
    let rows = stack.rows(2).await;
    let nothing =
        json!({"failed": 1, "incomplete": 0, "input_tokens": 0, "output_tokens": 0, "cost_micros": 0, "unpriced": 0});
    for row in &rows {
        assert_figures(row, &nothing);
    }
    assert_figures(ended(&rows, "failed"), &json!({"target": "upstream/mock", "attempts": 1}));
    assert_figures(ended(&rows, "refused"), &json!({"target": null, "attempts": 0}));
}

#[tokio::test]
async fn what_was_retried_on_a_second_target_is_one_row_of_the_second() {
    let stack = Stack::of(Script::As("mock-error-503"))
        .upstream(Script::Raw(reply(&counts(10, 0, 5))))
        .chain(2)
        .with(&format!("[admin]\nkey = \"{ADMIN}\""))
        .start()
        .await;
    let body = json!({"model": "chain", "messages": [{"role": "user", "content": "Hello"}]}).to_string();
    stack.chat(body).user("ann").send().await.must_be(200);
    assert_figures(
        &stack.only_row().await,
        &json!({"target": "p2/mock", "attempts": 2, "outcome": "complete", "input_tokens": 10, "output_tokens": 5,
            "cost_micros": null, "unpriced": 1}),
    );
}

#[tokio::test]
async fn without_memory_and_subject_the_books_are_kept_all_the_same() {
    let silent = Raw::stream([text("a"), text(" b"), text(" c"), finish("stop"), DONE.to_owned()]);
    let scripts = vec![Script::Raw(reply(&counts(30, 0, 3))), Script::Raw(silent), Script::Model];
    let stack = priced(Script::Sequence(scripts)).start().await;
    let off = stack.chat(ask(false)).header("x-backstory-memory", "off").send().await.must_be(200);
    // Nobody asks upstream for usage here: the client's own bytes went up.
    let got = stack.chat(ask(true)).send().await.must_be(200);
    assert!(got.memory().starts_with("skipped"), "{}", got.memory());
    let body = json!({"model": "priced", "input": ["some words", "and more"]}).to_string();
    let embeddings = stack.ask("POST", "/v1/embeddings").header("content-type", "application/json").body(body);
    let embeddings = embeddings.send().await.must_be(200);
    let rows = stack.rows(3).await;
    let figures = json!({"subject": null, "input_tokens": 30, "output_tokens": 3, "estimated": 0});
    assert_figures(row_of(&rows, &off), &figures);
    let silent = row_of(&rows, &got);
    assert_figures(silent, &json!({"estimated": 1, "outcome": "complete"}));
    let output = silent["output_tokens"].as_u64().unwrap();
    assert!((3..=4).contains(&output), "{output}");
    let row = row_of(&rows, &embeddings);
    assert_figures(row, &json!({"operation": "embeddings", "outcome": "complete", "estimated": 0, "output_tokens": 0}));
    assert!(row["input_tokens"].as_u64().unwrap() > 0, "{row}");
}

#[tokio::test]
async fn what_memory_added_and_what_cutting_saved_are_columns() {
    let stack = priced(Script::Model).start().await;
    let say = |messages: Value, budget: &str| {
        let body = json!({"model": "priced", "messages": messages}).to_string();
        stack.chat(body).user("ann").header("x-backstory-budget", budget).send()
    };
    say(json!([{"role": "user", "content": "I'm allergic to peanuts."}]), "9000").await.must_be(200);
    stack.learned().await;
    let asked = json!([{"role": "user", "content": "What am I allergic to?"}]);
    let shown = say(asked, "9000").await.must_be(200);
    let memory: u64 = shown.memory().rsplit('=').next().unwrap().parse().unwrap();
    assert!(memory > 0, "{}", shown.memory());
    let filler = "word ".repeat(300);
    let mut long = Vec::new();
    for _ in 0..6 {
        long.push(json!({"role": "user", "content": filler}));
        long.push(json!({"role": "assistant", "content": "Fine."}));
    }
    long.push(json!({"role": "user", "content": "Hello again"}));
    let cut = say(Value::from(long), "1000").await.must_be(200);
    let rows = stack.rows(3).await;
    let added = json!({"memory_tokens": memory, "memory_cost_micros": memory, "cut_tokens": 0});
    assert_figures(row_of(&rows, &shown), &added);
    let row = row_of(&rows, &cut);
    let removed = row["cut_tokens"].as_u64().unwrap();
    let own = cut.context("sent") as u64 - row["memory_tokens"].as_u64().unwrap();
    let net = cut.context("counted") as u64 - own;
    assert_eq!((removed, &row["saved_micros"]), (net, &Value::from(net)));
    assert!(removed > 800, "{removed}");
}

#[tokio::test]
async fn usage_is_grouped_filtered_and_paged_for_the_admin_alone() {
    let keys = "[[keys]]\nkey = \"key-one-0123456789\"\nname = \"one\"\ntenant = \"t1\"\n[[keys]]\nkey = \"key-two-0123456789\"\nname = \"two\"\ntenant = \"t2\"\n";
    let stack = Stack::of(Script::Raw(reply(&counts(10, 0, 1)))).keys(keys).with(PRICED).start().await;
    for (key, user) in
        [("key-one-0123456789", "ann"), ("key-one-0123456789", "=cmd|'x'!A1"), ("key-two-0123456789", "bob")]
    {
        stack.chat(ask(false)).key(key).user(user).send().await.must_be(200);
    }
    let keys = stack.usage("group_by=tenant,key").await;
    let names: Vec<(&str, u64)> = keys["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| (g["key"].as_str().unwrap(), g["exchanges"].as_u64().unwrap()))
        .collect();
    assert_eq!(names, [("one", 2), ("two", 1)]);
    assert_eq!(keys["totals"]["exchanges"], 3);
    let filtered = stack.usage("group_by=subject&tenant=t1&limit=1").await;
    assert_eq!(filtered["totals"]["exchanges"], 2);
    let next = filtered["next"].as_str().unwrap();
    let rest = stack.usage(&format!("group_by=subject&tenant=t1&limit=1&cursor={next}")).await;
    assert_eq!((&rest["data"][0]["subject"], &rest["next"]), (&Value::from("ann"), &Value::Null));
    assert_eq!(stack.usage("to=2001-01-01").await["data"], json!([]));

    let csv = stack.ask("GET", "/admin/v1/usage?group_by=subject").key(ADMIN).header("accept", "text/csv").send().await;
    assert_eq!(csv.header("content-type"), "text/csv; charset=utf-8; header=present");
    let lines: Vec<&str> = csv.text().split("\r\n").collect();
    assert!(lines[0].starts_with("subject,exchanges,"), "{lines:?}");
    assert!(lines[1].starts_with("'=cmd|'x'!A1,1,"), "{lines:?}");

    let asked = |key: &str| stack.ask("GET", "/admin/v1/usage").key(key).send();
    asked("key-one-0123456789").await.must_be_error(401);
    let error = stack.ask("GET", "/admin/v1/usage?group_by=keys").key(ADMIN).send().await.must_be_error(400);
    assert_eq!(error["param"], "group_by");
}

// Design, section 7: an erasure takes subjects out of usage rows; what was used stays.
#[tokio::test]
async fn an_erased_subject_is_in_no_row_and_no_sum_changes() {
    let stack = priced(Script::Raw(reply(&counts(10, 0, 1)))).start().await;
    for user in ["ann", "bob"] {
        stack.chat(ask(false)).user(user).send().await.must_be(200);
    }
    stack.chat(ask(false)).user("ann").header("x-backstory-memory", "off").send().await.must_be(200);
    let before = stack.usage("group_by=subject").await;
    assert_eq!(before["data"].as_array().unwrap().len(), 2);
    let receipt: Got = stack.ask("DELETE", "/memory/v1/subject").user("ann").send().await;
    assert_eq!(receipt.must_be(200).json()["counts"]["usage"], 2);
    let after = stack.usage("group_by=subject").await;
    let subjects: Vec<&Value> = after["data"].as_array().unwrap().iter().map(|g| &g["subject"]).collect();
    assert_eq!(subjects, [&Value::Null, &Value::from("bob")]);
    assert_eq!(after["totals"]["input_tokens"], before["totals"]["input_tokens"]);
}

#[tokio::test]
async fn the_command_line_prints_the_books_of_a_file_and_of_a_running_gateway() {
    let stack = priced(Script::Raw(reply(&counts(1_000, 0, 100)))).start().await;
    stack.chat(ask(false)).header("x-backstory-memory", "off").send().await.must_be(200);
    stack.chat(ask(false)).user("ann").send().await.must_be(200);
    let url = format!("http://{}", stack.addr);
    let (code, remote, said) =
        binary::run(&["usage", "--url", &url, "--by", "key,subject"], &[("BACKSTORY_ADMIN_KEY", ADMIN)]).await;
    assert_eq!(code, 0, "{said}");
    let (code, _, said) = binary::run(&["usage", "--url", &url], &[("BACKSTORY_ADMIN_KEY", "wrong")]).await;
    assert!(code != 0 && said.contains("401"), "{said}");

    // What waits for its group is booked at the end.
    let (_, folder) = stack.stop().await;
    let data = folder.path().to_str().unwrap();
    let (code, local, said) = binary::run(&["usage", "--data", data, "--by", "key,subject"], &[]).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(local, remote);
    let lines: Vec<&str> = local.lines().collect();
    assert!(lines[0].starts_with("KEY") && lines[0].contains("COST"), "{local}");
    assert!(lines[1].starts_with("team-a  -") && lines[2].starts_with("team-a  ann"), "{local}");
    assert!(lines[3].starts_with("total") && lines[3].contains("$0.002400"), "{local}");
    let (_, csv, _) = binary::run(&["usage", "--data", data, "--csv", "--by", "model"], &[]).await;
    assert!(csv.lines().nth(1).unwrap().starts_with("priced,2,"), "{csv}");
    let (_, json, _) = binary::run(&["usage", "--data", data, "--json", "--only", "subject=ann"], &[]).await;
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["totals"]["exchanges"], 1);
    let (code, _, said) = binary::run(&["usage", "--data", data, "--by", "keys"], &[]).await;
    assert!(code != 0 && said.contains("subject"), "{said}");
}

#[tokio::test]
async fn with_usage_days_zero_no_books_are_kept() {
    let admin = format!("[admin]\nkey = \"{ADMIN}\"");
    let stack = Stack::of(Script::Model).store("usage_days = 0\n").with(&admin).start().await;
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello"}]}).to_string();
    stack.chat(body).user("ann").send().await.must_be(200);
    assert_eq!(stack.usage("").await["totals"]["exchanges"], 0);
}
