//! `backstory doctor`: looks at everything that can be wrong, and says what to do.

mod replicas;

use std::collections::BTreeMap;
use std::iter;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::{ConfigArgs, complain, say};
use crate::access::OTHERS;
use crate::app::{Parts, collector, embedder, name_of_records, open_records, provider};
use crate::base::{Clock, SystemClock, SystemRandom, Time};
use crate::certificates::EXPIRY_WARNING;
use crate::config::{Config, EmbeddingsEngine, Key, Provider, StoreUrl, SystemEnv, Unpriced};
use crate::embed::Side;
use crate::store::sql::SqlStore;
use crate::store::{GenerationRecord, GenerationState, ScopeStore, StoredKey, SubjectUse, UpkeepStore};
use crate::telemetry::otlp::{Collector, empty_message};
use crate::telemetry::{Label, Signal};
use crate::upstream::{Auth, probe};

mod index;

/// What is looked at, and repaired.
#[derive(Clone, Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Makes the index ([vectors] engine) anew from the records, beside gateways that run; may be stopped and taken up again
    #[arg(long)]
    reindex: bool,
}

/// One thing that was looked at.
struct Finding {
    ok: bool,
    /// Nothing is broken, and yet somebody should look at it.
    warns: bool,
    what: String,
}

/// A body-supplied subject with more than this share of a key's conversations is probably no person.
const SUSPECT_SHARE: f64 = 0.5;
/// So many conversations must there be before anything is said of shares.
const SUSPECT_FROM: u64 = 20;
/// How long a connection to a provider may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Clocks that are further apart than this are worth a word.
const MAX_SKEW_MILLIS: i64 = 2_000;
/// How far back is looked for such subjects, in days.
const SUSPECT_DAYS: i64 = 30;

/// Looks, prints a line for each finding, and fails when one is bad.
pub(super) async fn run(args: DoctorArgs) -> ExitCode {
    let config = match args.config.load() {
        Ok(config) => config,
        Err(errors) => {
            complain(&errors.to_string());
            return ExitCode::FAILURE;
        }
    };
    if args.reindex {
        return reindex(&config).await;
    }
    let mut findings = vec![good("the config has no mistakes".to_owned())];
    findings.extend(config.unsupported().into_iter().map(bad));
    for address in iter::once(config.server.listen).chain(config.server.admin_listen) {
        findings.push(listen(address).await);
    }
    findings.extend(certificates(&config, SystemClock.now()));
    findings.extend(unpriced_configured(&config).into_iter().map(warning));
    findings.extend(store(&config).await);
    findings.extend(replicas::look(&config).await);
    findings.extend(unbooked(&config).into_iter().map(warning));
    for provider in &config.providers {
        findings.extend(upstream(provider).await);
    }
    findings.extend(embeddings(&config).await);
    findings.extend(telemetry(&config).await);
    let healthy = findings.iter().all(|finding| finding.ok);
    for finding in findings {
        let mark = match (finding.ok, finding.warns) {
            (false, _) => "BAD ",
            (true, true) => "warn",
            (true, false) => "ok  ",
        };
        say(&format!("{mark} {}", finding.what));
    }
    if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is to be known of a PostgreSQL server.
async fn server(store: &SqlStore, config: &Config) -> Vec<Finding> {
    let asked = SystemClock.now();
    let server = match store.server().await {
        Ok(None) => return Vec::new(),
        Ok(Some(server)) => server,
        Err(error) => return vec![bad(format!("the server cannot be asked about itself: {error}"))],
    };
    // Taken while it answered.
    let ahead = server.clock_millis - (asked.0 + SystemClock.now().0) / 2;
    let said = format!("PostgreSQL {}; its clock is {ahead} ms ahead of ours", server.version);
    let connections = i64::from(config.store.connections);
    let mut findings = vec![if ahead.abs() > MAX_SKEW_MILLIS {
        warning(format!("{said}: leases of jobs, and limits of days, rest on clocks that agree; set them by NTP"))
    } else {
        good(said)
    }];
    if connections * 2 > server.max_connections {
        findings.push(warning(format!(
            "one process takes up to {connections} of the server's {} connections ([store] connections): two of them hardly fit",
            server.max_connections
        )));
    }
    findings
}

async fn reindex(config: &Config) -> ExitCode {
    match open_records(config, &SystemEnv).await {
        Ok(store) => index::make_anew(config, Arc::new(store)).await,
        Err(error) => {
            complain(&format!("the database cannot be opened: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn listen(address: SocketAddr) -> Finding {
    match tokio::net::TcpListener::bind(address).await {
        Ok(_) => good(format!("{address} is free to listen on")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            good(format!("{address} is in use: by a running gateway, or else choose another with --listen"))
        }
        Err(error) => {
            bad(format!("cannot listen on {address}: {error}; choose another with --listen or [server] listen"))
        }
    }
}

/// How long the certificates hold that are shown. That they and their keys belong together was checked with the config.
fn certificates(config: &Config, now: Time) -> Vec<Finding> {
    let server = &config.server;
    let shown = [("tls_cert", server.tls.as_ref()), ("admin_tls_cert", server.admin_tls.as_ref())];
    let said = shown.into_iter().filter_map(|(key, pair)| Some((key, pair?))).map(|(key, pair)| {
        let (from, until) = (pair.not_before, pair.not_after);
        if until <= now {
            bad(format!("the certificate of {key} ended at {until}: clients refuse it; put a renewed one in its place"))
        } else if from > now {
            bad(format!("the certificate of {key} holds from {from} on only: is the clock of this machine right?"))
        } else if until.since(now) < EXPIRY_WARNING {
            warning(format!("the certificate of {key} ends at {until}; put a renewed one in its place"))
        } else {
            good(format!("the certificate of {key} holds until {until}"))
        }
    });
    said.collect()
}

async fn store(config: &Config) -> Vec<Finding> {
    if let Some(folder) = config.embedded_folder(&SystemEnv)
        && !config.database(&SystemEnv).exists()
    {
        return vec![good(format!("no database yet; `serve` makes one in {}", folder.display()))];
    }
    let shown = name_of_records(config, &SystemEnv);
    let store = match open_records(config, &SystemEnv).await {
        Ok(store) => store,
        Err(error) => {
            let remedy = match config.store.url {
                StoreUrl::Postgres(_) => "see that the server runs and store.url is right",
                _ => "restore it from a backup, or move it away to start anew",
            };
            return vec![bad(format!("the database {shown} cannot be opened: {error}; {remedy}"))];
        }
    };
    let mut findings = vec![match store.ping().await {
        Ok(()) => good(format!("the database {shown} can be read")),
        Err(error) => bad(format!("the database {shown} cannot be read: {error}")),
    }];
    findings.extend(match store.check().await {
        Ok(None) => None,
        Ok(Some(problems)) if problems.is_empty() => Some(good("the database is intact".to_owned())),
        Ok(Some(problems)) => {
            Some(bad(format!("the database is damaged: {}; restore it from a backup", problems.join("; "))))
        }
        Err(error) => Some(bad(format!("the database cannot be checked: {error}"))),
    });
    findings.extend(server(&store, config).await);
    match crate::store::OutboxStore::depth(&store).await {
        Ok(depth) if depth.dead > 0 => {
            findings.push(bad(format!("{} exchanges could not be learned from and were given up", depth.dead)));
        }
        Ok(depth) => findings.push(good(format!("{} exchanges wait to be learned from", depth.waiting))),
        Err(error) => findings.push(bad(format!("the outbox cannot be read: {error}"))),
    }
    match crate::store::VectorStore::generations(&store).await {
        Ok(generations) => findings.extend(vectors(&generations, config.embeddings.engine != EmbeddingsEngine::Off)),
        Err(error) => findings.push(bad(format!("the generations of vectors cannot be read: {error}"))),
    }
    findings.extend(index::look(config, &store).await);
    let since = SystemClock.now().plus_seconds(-SUSPECT_DAYS * 86_400);
    match store.subject_use(since, 10_000).await {
        Ok(uses) => findings.extend(suspects(&uses).into_iter().map(warning)),
        Err(error) => findings.push(bad(format!("the counts of subjects cannot be read: {error}"))),
    }
    match super::keys::all(&store).await {
        Ok(keys) => findings.extend(unpriced_stored(config, &keys).into_iter().map(warning)),
        Err(error) => findings.push(bad(format!("the keys cannot be read: {error}"))),
    }
    findings
}

/// Keys of the config with a limit of money that may ask for models of which nobody knows the price. Where the config names
/// those models it is a mistake of its own.
fn unpriced_configured(config: &Config) -> Vec<String> {
    let (mut found, rules) = (Vec::new(), config.limit_rules());
    for (index, key) in config.keys.iter().enumerate() {
        if rules.limit_money(&key.tenant, &key.limits, &key.each_subject) {
            found.extend(unpriced(&format!("keys[{index}]"), &config.unpriced(&key.models)));
        }
    }
    found
}

/// The same of keys in the store that are in force.
fn unpriced_stored(config: &Config, keys: &[StoredKey]) -> Vec<String> {
    let (mut found, rules) = (Vec::new(), config.limit_rules());
    for key in keys.iter().filter(|key| key.revoked_at.is_none()) {
        let settings: Option<toml::Table> = serde_json::from_str(&key.settings).ok();
        // Settings that cannot be read refuse every request, and say so there.
        let Some(settings) = settings.and_then(|table| Key::from_settings(&table).ok()) else { continue };
        if rules.limit_money(&settings.tenant, &settings.limits, &settings.each_subject) {
            found.extend(unpriced(&format!("key {} ({})", key.id, key.name), &config.unpriced(&settings.models)));
        }
    }
    found
}

fn unpriced(who: &str, unpriced: &Unpriced) -> Option<String> {
    let what = match (unpriced.targets.as_slice(), unpriced.is_open) {
        ([], false) => return None,
        ([], true) => "any model of the default provider".to_owned(),
        (targets, _) => targets.join(", "),
    };
    Some(format!(
        "{who} has a limit in US dollars and may ask for {what}: what has no price counts in tokens alone; name its \
         `models`, and give their targets prices"
    ))
}

/// Targets whose price nobody knows.
fn unbooked(config: &Config) -> Vec<String> {
    let targets = config.models.iter().flat_map(|model| model.targets.iter().map(move |target| (model, target)));
    let unpriced = targets.filter(|(_, target)| target.price().is_none());
    let told = unpriced.map(|(model, target)| {
        format!(
            "model `{}`: the price of its target {}/{} is not known, so that its tokens are booked and their cost is not; \
             set price_input_per_million and price_output_per_million there (0 for a model of your own)",
            model.name, target.provider, target.model
        )
    });
    told.collect()
}

/// How the vectors of each generation stand. The one that was used last is that of the model in use, if one is.
fn vectors(generations: &[GenerationRecord], has_embedder: bool) -> Vec<Finding> {
    let last = generations.iter().map(|generation| generation.used_at).max();
    let said = generations.iter().map(|GenerationRecord { model, dimension, state, used_at, .. }| {
        let is_used = has_embedder && Some(*used_at) == last;
        match state {
            GenerationState::Dropping => format!("the vectors of {model}, which is no longer used, are being dropped"),
            _ if !is_used => format!("there are vectors of {model}, which is not the model in use"),
            GenerationState::Ready => format!("memories have vectors of {model}, {dimension} numbers each"),
            GenerationState::Filling => format!("memories are being given vectors of {model}; `serve` goes on with it"),
        }
    });
    said.map(good).collect()
}

/// Places where one subject named in bodies has most conversations: a constant that a framework sets, and then all its users share
/// one memory.
fn suspects(uses: &[SubjectUse]) -> Vec<String> {
    let mut places: BTreeMap<(&str, &str, &str), (u64, u64)> = BTreeMap::new();
    for used in uses {
        let (all, most) = places.entry((&used.tenant, &used.namespace, &used.source)).or_default();
        *all += used.begun;
        if used.subject != OTHERS {
            *most = (*most).max(used.begun);
        }
    }
    let suspect =
        |(_, (all, most)): &(_, (u64, u64))| *all >= SUSPECT_FROM && *most as f64 > *all as f64 * SUSPECT_SHARE;
    let found = places.into_iter().filter(suspect);
    let told = found.map(|((tenant, namespace, source), (all, most))| {
        format!(
            "keys of tenant `{tenant}`, namespace `{namespace}`: one and the same `{source}` in the body has {most} of {all} conversations; \
             if an app sets it for all its users, they share one memory: leave it out of the key's subject_from, or send x-backstory-user"
        )
    });
    told.collect()
}

/// Every key of a provider is tried; keys are named by their numbers.
async fn upstream(entry: &Provider) -> Vec<Finding> {
    let name = &entry.name;
    let keys: Vec<Auth> = match &entry.api_key {
        Auth::Keys(keys) => keys.iter().map(|key| Auth::Keys(vec![key.clone()])).collect(),
        Auth::Client | Auth::None => vec![Auth::None],
    };
    let mut findings = Vec::with_capacity(keys.len());
    let several = keys.len() > 1;
    for (at, key) in keys.into_iter().enumerate() {
        let called = if several { format!("{name}` (key {})", at + 1) } else { format!("{name}`") };
        findings.push(answer(entry, &called, key).await);
    }
    findings
}

/// An answer that refuses the key that we do not have is an answer: the host is there.
async fn answer(entry: &Provider, called: &str, key: Auth) -> Finding {
    let clients_own = matches!(entry.api_key, Auth::Client);
    let provider = match provider(entry, key, CONNECT_TIMEOUT) {
        Ok(provider) => provider,
        Err(problem) => return bad(format!("provider `{called}: {problem}")),
    };
    match probe(&provider).await {
        Ok(200..300) => good(format!("provider `{called} answers")),
        Ok(400..500) if clients_own => {
            good(format!("provider `{called} answers; it wants the client's own key, as it should"))
        }
        Ok(status @ (401 | 403)) => {
            bad(format!("provider `{called} refuses the configured API key ({status}); check api_key and headers"))
        }
        Ok(status @ 300..400) => bad(format!(
            "provider `{called} answers with a redirect ({status}), which is never followed; check base_url"
        )),
        Ok(status) => good(format!("provider `{called} answers with {status} to GET /models")),
        Err(reason) => bad(format!(
            "provider `{called} cannot be reached at {}: {reason}; check base_url, proxy, ca_file and the network",
            entry.base_url
        )),
    }
}

/// Embeds one question, as recall does.
async fn embeddings(config: &Config) -> Option<Finding> {
    let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) };
    let embedder = match embedder(config, &parts).await {
        Ok(embedder) => embedder?,
        Err(error) => return Some(bad(error.to_string())),
    };
    let model = &embedder.generation().model;
    let started = Instant::now();
    let found = embedder.embed(Side::Query, &["What did I say about the weather?"]).await;
    let took = started.elapsed();
    Some(match found {
        Ok(vectors) => {
            let dimension = vectors.first().map_or(0, Vec::len);
            let said =
                format!("the embedder {model} answers with vectors of {dimension} numbers, in {} ms", took.as_millis());
            if took > config.recall.deadline {
                let deadline = config.recall.deadline.as_millis();
                warning(format!(
                    "{said}: longer than a recall may take ([recall] deadline_ms = {deadline}), so words alone may have to find"
                ))
            } else {
                good(said)
            }
        }
        Err(error) => bad(format!("the embedder {model}: {error}; words find without it")),
    })
}

/// Sends the collector messages with nothing in them, which it takes as it would any.
async fn telemetry(config: &Config) -> Vec<Finding> {
    let Some(otlp) = &config.telemetry.otlp else { return Vec::new() };
    let endpoint = &otlp.endpoint;
    let collector = match collector(otlp, Arc::new(SystemClock)) {
        Ok(collector) => collector,
        Err(reason) => return vec![bad(format!("telemetry cannot be sent to {endpoint}: {reason}"))],
    };
    let mut findings = Vec::new();
    for signal in [Signal::Traces, Signal::Metrics] {
        if signal == Signal::Metrics && otlp.metrics_every.is_none() {
            continue;
        }
        let name = signal.text();
        let sent = tokio::time::timeout(otlp.timeout, collector.send(signal, empty_message(signal))).await;
        findings.push(match sent {
            Ok(Ok(_)) => good(format!("the collector {endpoint} takes {name}")),
            Ok(Err(error)) => bad(format!(
                "the collector {endpoint} does not take {name}: {error}; check otlp_endpoint, otlp_protocol and otlp_headers{}",
                if signal == Signal::Metrics { ", or set otlp_metrics_seconds = 0" } else { "" }
            )),
            Err(_) => bad(format!(
                "the collector {endpoint} does not answer within {} ms; check otlp_endpoint and the network",
                otlp.timeout.as_millis()
            )),
        });
    }
    findings
}

fn good(what: String) -> Finding {
    Finding { ok: true, warns: false, what }
}

fn warning(what: String) -> Finding {
    Finding { ok: true, warns: true, what }
}

fn bad(what: String) -> Finding {
    Finding { ok: false, warns: false, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_ends_is_said_in_time() {
        let pem = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls");
        let text = format!(
            "[server]\nadmin_listen='127.0.0.1:1'\ntls_cert='{pem}/good.pem'\ntls_key='{pem}/good.key'\nadmin_tls_cert='{pem}/expired.pem'\nadmin_tls_key='{pem}/expired.key'\n"
        );
        let path = std::path::Path::new("t.toml");
        let config = Config::parse(&text, path, &SystemEnv, &crate::config::Overrides::default()).unwrap();
        let seen = |now: &str| {
            certificates(&config, Time::parse(now).unwrap()).iter().map(|f| (f.ok, f.warns)).collect::<Vec<_>>()
        };
        let (good, warning, bad) = ((true, false), (true, true), (false, false));
        assert_eq!(seen("2080-01-01"), [good, bad]);
        assert_eq!(seen("2020-01-20"), [bad, warning], "the first is not good yet");
    }

    fn used(namespace: &str, source: &str, subject: &str, begun: u64) -> SubjectUse {
        SubjectUse {
            tenant: "acme".to_owned(),
            namespace: namespace.to_owned(),
            source: source.to_owned(),
            subject: subject.to_owned(),
            begun,
        }
    }

    /// Design, section 3: a constant `user` that a framework sets is a trap.
    #[test]
    fn a_subject_with_most_conversations_is_suspect() {
        let uses = [
            used("constant", "user", "aa", 30),
            used("constant", "user", "bb", 2),
            used("people", "user", "aa", 10),
            used("people", "user", "bb", 9),
            used("people", "user", OTHERS, 40),
            used("few", "user", "aa", 19),
            used("constant", "metadata.user_id", "cc", 5),
        ];
        let found = suspects(&uses);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("`constant`") && found[0].contains("`user`") && found[0].contains("30 of 32"),
            "{found:?}"
        );
    }

    #[test]
    fn only_the_model_in_use_is_said_to_be_given_vectors() {
        let generation = |model: &str, state, used_at| GenerationRecord {
            id: model.to_owned(),
            model: model.to_owned(),
            dimension: 3,
            state,
            cursor: 0,
            background: None,
            started_at: Time(0),
            ready_at: None,
            used_at: Time(used_at),
        };
        let all = [
            generation("given-up", GenerationState::Filling, 1),
            generation("dropped", GenerationState::Dropping, 2),
            generation("in-use", GenerationState::Filling, 3),
        ];
        let said = |has_embedder| vectors(&all, has_embedder).into_iter().map(|found| found.what).collect::<Vec<_>>();
        let with = said(true);
        assert!(with[0].contains("not the model in use") && with[1].contains("being dropped"), "{with:?}");
        assert!(with[2].contains("being given vectors of in-use"), "{with:?}");
        assert!(said(false)[2].contains("not the model in use"));
    }
}
