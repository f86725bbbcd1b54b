//! `backstory usage`: what was used and cost, from the books of the store, or of a running gateway.

use std::process::ExitCode;

use clap::Args;

use super::keys::open;
use super::{ConfigArgs, complain, say};
use crate::admin::usage::{Format, MAX_GROUPS, csv, json, read, table, text};
use crate::base::Secret;
use crate::config::SystemEnv;
use crate::upstream::OwnGateway;

const EXAMPLES: &str = "\
Examples:
  backstory usage                                        by key, of all time
  backstory usage --by tenant,day --from 2026-11-01      by tenant and day, from the first of November on
  backstory usage --by subject --only tenant=acme        who of one tenant used how much
  backstory usage --by exchange --only key=team-a --csv  every single exchange of a key, for a sheet
  backstory usage --url http://127.0.0.1:8080            of a running gateway, with BACKSTORY_ADMIN_KEY";

/// Arguments of `usage`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct UsageArgs {
    /// What to group by: exchange, day, tenant, namespace, key, subject, conversation, operation, model, target, outcome
    #[arg(long, value_name = "NAMES", default_value = "key")]
    by: String,
    /// The first day (2026-11-01, UTC) or moment (2026-11-01T12:00:00Z)
    #[arg(long, value_name = "WHEN")]
    from: Option<String>,
    /// The last day, whole, or the moment of the end
    #[arg(long, value_name = "WHEN")]
    to: Option<String>,
    /// Only of this, as in --only tenant=acme; may be given several times
    #[arg(long = "only", value_name = "NAME=VALUE")]
    only: Vec<String>,
    /// Most groups that are printed
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: u32,
    /// Print CSV: all columns, money in US dollars, times in milliseconds
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON: all columns, money in millionths of a US dollar, times in milliseconds
    #[arg(long)]
    json: bool,
    /// Ask a running gateway at this address instead of opening its store
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The admin key, for --url
    #[arg(long, env = "BACKSTORY_ADMIN_KEY", value_name = "KEY", hide_env_values = true)]
    admin_key: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Prints it.
pub(super) async fn run(args: UsageArgs) -> ExitCode {
    match answer(&args).await {
        Ok(answer) => {
            say(answer.trim_end());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
        }
    }
}

async fn answer(args: &UsageArgs) -> Result<String, String> {
    let pairs = pairs(args)?;
    let format = if args.csv { Format::Csv } else { Format::Json };
    let asked = read(&pairs, format).map_err(|error| error.public)?;
    if let Some(url) = &args.url {
        return remote(url, args, &pairs).await;
    }
    let config = args.config.load().map_err(|errors| errors.to_string())?;
    let path = config.database(&SystemEnv);
    if !path.exists() {
        return Err(format!(
            "there is no database at {}; name its folder with --data or --config, or use --url",
            path.display()
        ));
    }
    let store = open(&config).await?;
    let table = table(&store, &asked.query).await;
    store.close().await;
    let table = table.map_err(|error| error.causes().unwrap_or(error.public))?;
    Ok(match (args.csv, args.json) {
        (true, _) => csv(&table),
        (_, true) => json(&table).to_string(),
        _ => text(&table),
    })
}

/// The arguments as the API has them.
fn pairs(args: &UsageArgs) -> Result<Vec<(String, String)>, String> {
    if !(1..=MAX_GROUPS).contains(&args.limit) {
        return Err(format!("--limit must be a number from 1 to {MAX_GROUPS}"));
    }
    let mut pairs = vec![("group_by".to_owned(), args.by.clone()), ("limit".to_owned(), args.limit.to_string())];
    for (name, value) in [("from", &args.from), ("to", &args.to)] {
        pairs.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
    }
    for only in &args.only {
        let (name, value) =
            only.split_once('=').ok_or_else(|| format!("--only {only}: must be of the form NAME=VALUE"))?;
        pairs.push((name.trim().to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

async fn remote(url: &str, args: &UsageArgs, pairs: &[(String, String)]) -> Result<String, String> {
    let key = args.admin_key.clone().map(Secret::from);
    let gateway = OwnGateway::new(url, key.as_ref(), None, None)?;
    let mut path = String::from("/admin/v1/usage?format=");
    path.push_str(if args.csv { "csv" } else { "json" });
    for (name, value) in pairs {
        path.push_str(&format!("&{}={}", encoded(name), encoded(value)));
    }
    let mut body = Vec::new();
    let took = |piece: &[u8]| {
        body.extend_from_slice(piece);
        Ok(())
    };
    gateway.read(&path, took).await.map_err(|problem| format!("the gateway at {url}: {problem}"))?;
    let body = String::from_utf8(body).map_err(|_| format!("the gateway at {url} does not answer with text"))?;
    if args.csv || args.json {
        return Ok(body);
    }
    let table = crate::admin::usage::from_json(&body)
        .ok_or_else(|| format!("the answer of {url} is not usage: is this address a Backstory gateway?"))?;
    Ok(text(&table))
}

/// A text as part of a query.
fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_goes_into_a_query_whole() {
        assert_eq!(encoded("a b&c=d/é"), "a%20b%26c%3Dd%2F%C3%A9");
    }
}
