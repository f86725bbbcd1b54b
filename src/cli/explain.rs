//! `backstory explain`: what would be sent for a request, and why.

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use serde_json::value::RawValue;

use super::dry_run::DryRunArgs;
use super::{ConfigArgs, complain, say};
use crate::admin;
use crate::app::{Parts, build};
use crate::base::{Secret, SystemClock, SystemRandom};
use crate::config::SystemEnv;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The gateway key of the request, where keys are configured
    #[arg(long, env = "BACKSTORY_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
    /// Whom the request is about (header x-backstory-user)
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// A lower budget, in tokens (header x-backstory-budget)
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u32>,
    #[command(flatten)]
    dry_run: DryRunArgs,
    /// Print the JSON answer instead of a table
    #[arg(long)]
    json: bool,
    /// The request body (with --dry-run: a conversation): a file, or - for standard input
    #[arg(value_name = "FILE")]
    file: String,
}

/// Reads the request, explains it in this process, and prints a table.
pub(super) async fn run(args: ExplainArgs) -> ExitCode {
    match explain(&args).await {
        Ok(text) => {
            say(&text);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
        }
    }
}

async fn explain(args: &ExplainArgs) -> Result<String, String> {
    let config = args.config.load().map_err(|errors| errors.to_string())?;
    let body = read(&args.file).map_err(|error| format!("{} cannot be read: {error}", args.file))?;
    if args.dry_run.is_wanted() {
        let key = args.key.as_deref().map(Secret::from);
        return args.dry_run.run(&config, key.as_ref(), &body, args.json);
    }
    let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) };
    let app = build(&config, &SystemEnv, parts).await.map_err(|error| error.to_string())?;
    // Nothing is learned here: the background work ends before it begins.
    app.halt.cancel();
    let headers = headers(args)?;
    let answer = admin::explain(&app, &headers, None, Bytes::from(body)).await.map_err(|error| error.to_string())?;
    if args.json {
        return Ok(answer);
    }
    // Raw, so that it is printed as it would be sent: a `Value` sorts members and reads numbers.
    let raw: Raw<'_> = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    Ok(table(&answer, raw.request.get()))
}

fn read(file: &str) -> std::io::Result<Vec<u8>> {
    if file == "-" {
        let mut body = Vec::new();
        std::io::stdin().lock().read_to_end(&mut body)?;
        return Ok(body);
    }
    std::fs::read(file)
}

fn headers(args: &ExplainArgs) -> Result<HeaderMap, String> {
    let pairs = [
        ("authorization", args.key.as_ref().map(|key| format!("Bearer {key}"))),
        ("x-backstory-user", args.user.clone()),
        ("x-backstory-budget", args.budget.map(|n| n.to_string())),
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        if let Some(value) = value {
            let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| format!("{name}: not a header value"))?;
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    Ok(headers)
}

/// The part of the answer that is printed as it stands.
#[derive(serde::Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    request: &'a RawValue,
}

/// How the target counts and how large its window is, in a line.
fn counted_as(answer: &Value) -> String {
    let learned = &answer["learned"];
    let how = match (learned["exact"].as_bool(), learned["generation"].as_u64()) {
        (Some(true), _) => "with the model's own vocabulary".to_owned(),
        (_, None | Some(0)) => "with o200k_base; nothing was learned about this target yet".to_owned(),
        (_, Some(generation)) => format!(
            "as o200k_base x {:.3} + {:.0}, learned from {} exchanges (generation {generation})",
            learned["correction"].as_f64().unwrap_or(1.0),
            learned["overhead"].as_f64().unwrap_or(0.0),
            learned["exchanges"],
        ),
    };
    match learned["window"].as_u64() {
        Some(window) => format!("{how}; window {window} ({})", learned["window_source"].as_str().unwrap_or_default()),
        None => format!("{how}; window unknown"),
    }
}

/// A table for people; the request itself last, as it would be sent.
fn table(answer: &Value, request: &str) -> String {
    let text = |pointer: &str| match answer.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    let mut out = format!(
        "target   {}\ncounted  {}\nmemory   {}\ncontext  {}\n",
        text("/target"),
        counted_as(answer),
        text("/memory"),
        text("/context")
    );
    out.push_str(&format!("budget   {}\n", text("/tokens/allowance/why")));
    if text("/tokens/why") != "-" {
        out.push_str(&format!("cut      {}\n", text("/tokens/why")));
    }
    out.push_str(&format!("\n{:>7}  {:<10} {:>8} {:>8}  {:<7} why\n", "message", "role", "tokens", "sent", "fate"));
    for row in answer.pointer("/tokens/messages").and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| row.get(name).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        let field = |name: &str| field(name).unwrap_or_default();
        let line = format!(
            "{:>7}  {:<10} {:>8} {:>8}  {:<7} {}",
            field("message"),
            field("role"),
            field("tokens"),
            field("sent"),
            field("fate"),
            field("why")
        );
        out.push_str(&format!("{}\n", line.trim_end()));
    }
    let sums = [
        ("tools, format", text("/tokens/fixed"), text("/tokens/fixed")),
        ("profile", String::new(), text("/tokens/profile")),
        ("recollection", String::new(), text("/tokens/recollection")),
        ("earlier notes", String::new(), text("/tokens/earlier")),
        ("digest", String::new(), text("/tokens/digest")),
        ("in all", text("/tokens/counted"), text("/tokens/sent")),
    ];
    for (name, counted, sent) in sums {
        out.push_str(&format!("         {name:<13} {counted:>5} {sent:>8}\n"));
    }
    let digest_title = format!("digest (by {})", text("/digest_by"));
    for (title, pointer) in
        [("profile", "/recalled/profile"), ("recollection", "/recalled/recollection"), (&digest_title, "/digest")]
    {
        let block = text(pointer);
        if !block.is_empty() && block != "-" {
            out.push_str(&format!("\n{title}:\n{block}\n"));
        }
    }
    for why in answer.pointer("/recalled/why").and_then(Value::as_array).into_iter().flatten() {
        let score = why.get("score").and_then(Value::as_f64).unwrap_or_default();
        let field = |name: &str| why.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        out.push_str(&format!("\n{}  {score:.2}  {}", field("id"), field("reason")));
    }
    out.push_str(&format!("\n\nrequest as it would be sent:\n{request}"));
    out
}
