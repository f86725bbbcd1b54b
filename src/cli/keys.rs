//! `backstory keys`: virtual keys in the store, beside those of the config.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{ConfigArgs, complain, say};
use crate::access::{KEY_STALENESS, issue};
use crate::admin::keys::{Wanted, shown};
use crate::app::{name_of_records, open_records};
use crate::base::{Clock, KeyId, Secret, SystemClock, SystemRandom};
use crate::config::{Config, SystemEnv};
use crate::store::sql::SqlStore;
use crate::store::{KeyStore, Page, StoredKey};

/// Keys that are read at once from the store.
const PAGE: u32 = 500;

/// Arguments of `keys`.
#[derive(Debug, Args)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    config: ConfigArgs,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Makes a key and prints it, once: only its hash is stored
    Create {
        /// What people call it
        #[arg(long)]
        name: String,
        /// A setting of a key in the config, as in --set tenant=\"acme\" or --set requests_per_minute=600
        #[arg(long = "set", value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// After how many days it ends by itself [default: never]
        #[arg(long, value_name = "DAYS")]
        expires_in_days: Option<u32>,
        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Lists all keys, without their secrets, which nobody has
    List,
    /// Gives a key a new secret and prints it, once
    Rotate {
        /// The id of the key, as `list` prints it
        id: String,
        /// How long the old secret goes on being good
        #[arg(long, value_name = "HOURS", default_value_t = 0)]
        overlap_hours: u32,
    },
    /// Ends a key for good
    Revoke {
        /// The id of the key, as `list` prints it
        id: String,
    },
}

/// Limits of a key, as the config names them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits [default: none]")]
struct LimitArgs {
    /// Requests at a time
    #[arg(long, value_name = "N")]
    max_concurrency: Option<i64>,
    /// Requests a minute
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<i64>,
    /// Tokens a minute, input and output together
    #[arg(long, value_name = "N")]
    tokens_per_minute: Option<i64>,
    /// Tokens a day (UTC)
    #[arg(long, value_name = "N")]
    tokens_per_day: Option<i64>,
    /// Tokens a month (UTC)
    #[arg(long, value_name = "N")]
    tokens_per_month: Option<i64>,
    /// US dollars a day (UTC)
    #[arg(long, value_name = "USD")]
    usd_per_day: Option<f64>,
    /// US dollars a month (UTC)
    #[arg(long, value_name = "USD")]
    usd_per_month: Option<f64>,
}

impl LimitArgs {
    /// Puts them beside the other settings; what is wrong with them is told where those are checked.
    fn write(&self, settings: &mut toml::Table) {
        let whole = [
            ("max_concurrency", self.max_concurrency),
            ("requests_per_minute", self.requests_per_minute),
            ("tokens_per_minute", self.tokens_per_minute),
            ("tokens_per_day", self.tokens_per_day),
            ("tokens_per_month", self.tokens_per_month),
        ];
        let dollars = [("usd_per_day", self.usd_per_day), ("usd_per_month", self.usd_per_month)];
        let whole = whole.into_iter().filter_map(|(name, n)| Some((name, toml::Value::Integer(n?))));
        let dollars = dollars.into_iter().filter_map(|(name, usd)| Some((name, toml::Value::Float(usd?))));
        settings.extend(whole.chain(dollars).map(|(name, value)| (name.to_owned(), value)));
    }
}

/// Does it in the store of the config; a running gateway takes notice within seconds.
pub(super) async fn run(args: KeysArgs) -> ExitCode {
    match act(&args).await {
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

async fn act(args: &KeysArgs) -> Result<String, String> {
    let config = args.config.load().map_err(|errors| errors.to_string())?;
    // Where the gateway would not start, a key in the embedded store would be in the wrong place.
    let unsupported = config.unsupported();
    if !unsupported.is_empty() {
        return Err(format!("this build cannot do what is configured:\n  {}", unsupported.join("\n  ")));
    }
    let store = open(&config).await?;
    let text = match &args.what {
        What::Create { name, settings, expires_in_days, limits } => {
            let mut settings = table(settings)?;
            limits.write(&mut settings);
            let wanted = Wanted { name: name.clone(), expires_in_days: *expires_in_days, settings };
            let new = wanted.check().map_err(|error| error.public.to_string())?;
            let (key, secret) =
                issue::create(&store, &SystemClock, &SystemRandom, new).await.map_err(|error| error.to_string())?;
            if config.is_client_mode() {
                complain(
                    "note: this config has neither [[keys]] nor [admin] key, so the gateway asks clients for no key of \
                     ours; set [admin] key to have stored keys asked for",
                );
            }
            made(args.json, &key, &secret)
        }
        What::List => list(args.json, &all(&store).await?),
        What::Rotate { id, overlap_hours } => {
            let id = key_id(id)?;
            let overlap = Duration::from_secs(u64::from(*overlap_hours) * 3_600);
            let secret = issue::rotate(&store, &SystemClock, &SystemRandom, id, overlap)
                .await
                .map_err(|error| error.to_string())?
                .ok_or("no such key, or it was revoked")?;
            if args.json {
                json!({"id": id.to_string(), "key": secret.expose()}).to_string()
            } else {
                format!("{}\nthe old secret of {id} ends {}", secret.expose(), when(overlap))
            }
        }
        What::Revoke { id } => {
            let id = key_id(id)?;
            if !store.revoke_key(id, SystemClock.now()).await.map_err(|error| error.to_string())? {
                return Err("no such key, or it was revoked before".to_owned());
            }
            format!("{id} is revoked; running gateways refuse it within {} seconds", KEY_STALENESS.as_secs())
        }
    };
    store.close().await;
    Ok(text)
}

/// Opens the store of the config.
pub(super) async fn open(config: &Config) -> Result<SqlStore, String> {
    open_records(config, &SystemEnv).await.map_err(|error| {
        let shown = name_of_records(config, &SystemEnv);
        format!("the database {shown} cannot be opened: {error}; `backstory doctor` says more")
    })
}

/// Settings as they would stand in the config; a word without quotes is taken as a text.
fn table(settings: &[String]) -> Result<toml::Table, String> {
    let mut all = toml::Table::new();
    for setting in settings {
        let Some((name, value)) = setting.split_once('=') else {
            return Err(format!("--set {setting}: must be of the form KEY=VALUE"));
        };
        let (name, value) = (name.trim(), value.trim());
        let parsed = format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("v"));
        let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
        // As in the config: `each_subject.tokens_per_day` is a key of a table.
        match name.split_once('.') {
            None => {
                all.insert(name.to_owned(), value);
            }
            Some((table, key)) => {
                let empty = toml::Value::Table(toml::Table::new());
                let inner = all.entry(table.to_owned()).or_insert(empty).as_table_mut();
                let inner = inner.ok_or_else(|| format!("--set {setting}: `{table}` is no table"))?;
                inner.insert(key.to_owned(), value);
            }
        }
    }
    Ok(all)
}

/// Reads all keys, revoked ones too.
pub(super) async fn all(store: &SqlStore) -> Result<Vec<StoredKey>, String> {
    let mut keys: Vec<StoredKey> = Vec::new();
    loop {
        let page = Page { after: keys.last().map(|key| key.id.to_string()), limit: PAGE };
        let piece = store.list_keys(&page).await.map_err(|error| error.to_string())?;
        let done = piece.len() < PAGE as usize;
        keys.extend(piece);
        if done {
            return Ok(keys);
        }
    }
}

fn key_id(text: &str) -> Result<KeyId, String> {
    text.parse().map_err(|_| format!("{text} is not the id of a key; `backstory keys list` prints them"))
}

fn made(as_json: bool, key: &StoredKey, secret: &Secret) -> String {
    if as_json {
        let mut shown = shown(key);
        shown["key"] = json!(secret.expose());
        return shown.to_string();
    }
    format!("{}\nid {}, tenant {}; keep the key now, it cannot be shown again", secret.expose(), key.id, key.tenant)
}

fn list(as_json: bool, keys: &[StoredKey]) -> String {
    if as_json {
        return json!({"data": keys.iter().map(shown).collect::<Vec<_>>()}).to_string();
    }
    let now = SystemClock.now();
    let day = |at: crate::base::Time| at.to_rfc3339().chars().take(16).collect::<String>().replace('T', " ");
    let mut rows = vec![["ID", "NAME", "TENANT", "STATE", "CREATED", "LAST USED"].map(str::to_owned)];
    for key in keys {
        let state = match (key.revoked_at, key.expires_at) {
            (Some(at), _) => format!("revoked {}", day(at)),
            (None, Some(at)) if at <= now => format!("expired {}", day(at)),
            (None, Some(at)) => format!("until {}", day(at)),
            (None, None) => "active".to_owned(),
        };
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), day);
        rows.push([key.id.to_string(), key.name.clone(), key.tenant.clone(), state, day(key.created_at), used]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn when(overlap: Duration) -> String {
    match overlap.as_secs() / 3_600 {
        0 => "now".to_owned(),
        1 => "in an hour".to_owned(),
        hours => format!("in {hours} hours"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn settings_are_read_as_in_the_config_and_bare_words_are_texts() {
        let given = ["tenant=acme", "namespace=\"support\"", "requests_per_minute = 600", "models=[\"a\",\"b\"]"];
        let table = table(&given.map(str::to_owned)).unwrap();
        assert_eq!(table["tenant"].as_str(), Some("acme"));
        assert_eq!(table["namespace"].as_str(), Some("support"));
        assert_eq!(table["requests_per_minute"].as_integer(), Some(600));
        assert_eq!(table["models"].as_array().map(Vec::len), Some(2));
        assert!(super::table(&["tenant".to_owned()]).is_err());
    }

    #[test]
    fn limits_are_options_of_their_own_and_those_of_people_settings_of_a_table() {
        let args = ["x", "create", "--name", "app", "--tokens-per-day", "5000", "--usd-per-month", "2.5"];
        let args = args.into_iter().chain(["--set", "each_subject.requests_per_minute=9", "--set", "tenant=acme"]);
        let parsed = Cli::try_parse_from(args).unwrap();
        let What::Create { settings, limits, .. } = parsed.args.what else { unreachable!("it is `create`") };
        let mut table = table(&settings).unwrap();
        limits.write(&mut table);
        let key = crate::config::Key::from_settings(&table).unwrap();
        assert_eq!((key.limits.tokens_per_day, key.limits.usd_per_month), (Some(5_000), Some(2_500_000_000)));
        assert_eq!((key.each_subject.requests_per_minute, key.tenant.as_str()), (Some(9), "acme"));
        assert!(super::table(&["a=1", "a.b=2"].map(str::to_owned)).is_err());
    }

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: KeysArgs,
    }

    /// BerriAI/litellm#32962: mistakes are named, all at once.
    #[test]
    fn a_wrong_setting_is_named_with_what_is_allowed() {
        let settings = table(&["tenent=acme".to_owned(), "memory=maybe".to_owned()]).unwrap();
        let error = Wanted { name: "app".to_owned(), settings, ..Wanted::default() }.check().unwrap_err();
        for named in ["tenent", "`tenant`", "memory", "read"] {
            assert!(error.public.contains(named), "{named}: {}", error.public);
        }
    }

    /// Whoever may make keys need not be who may read this machine's files.
    #[test]
    fn variables_and_files_are_not_read_in_settings() {
        for value in ["${HOME}", "${file:/etc/hostname}"] {
            let settings = table(&[format!("tenant={value}")]).unwrap();
            assert!(Wanted { name: "app".to_owned(), settings, ..Wanted::default() }.check().is_err(), "{value}");
        }
    }
}
