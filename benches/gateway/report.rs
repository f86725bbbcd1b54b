//! The result: a table with ratios to the bare proxy, the goals and whether each was reached, and all of it as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::goals::{Goal, goals};
use crate::measure::{Measured, OPEN_STREAMS_LIMITED, Rounds, Saturation, System};
use crate::{Effort, Result, beside};

/// One system's numbers, each a median over the rounds or a percentile over all requests.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) system: System,
    pub(crate) small_rate: f64,
    pub(crate) small_cpu: f64,
    pub(crate) history_rate: f64,
    pub(crate) history_cpu: f64,
    pub(crate) latency: Percentiles,
    pub(crate) first_token: Percentiles,
    pub(crate) token: Percentiles,
    pub(crate) idle_mb: Option<f64>,
    pub(crate) streaming_mb: Option<f64>,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Percentiles {
    pub(crate) fn of(rounds: &Rounds) -> Self {
        let sorted = |round: &Vec<Duration>| {
            let mut micros: Vec<f64> = round.iter().map(|value| value.as_secs_f64() * 1e6).collect();
            micros.sort_by(f64::total_cmp);
            micros
        };
        let rounds: Vec<Vec<f64>> = rounds.iter().map(sorted).collect();
        let over_rounds = |share: f64| median(&rounds.iter().map(|round| at(round, share)).collect::<Vec<_>>());
        Self { p50: over_rounds(0.50), p99: over_rounds(0.99) }
    }

    /// What a system adds to the direct way.
    pub(crate) fn added(self, direct: Self) -> Self {
        Self { p50: self.p50 - direct.p50, p99: self.p99 - direct.p99 }
    }

    fn json(self) -> Value {
        json!({"p50": self.p50.round(), "p99": self.p99.round()})
    }
}

/// The value at a share of a sorted list; 0 for an empty one.
fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    at(&sorted, 0.5)
}

fn rows(results: &[Measured]) -> Vec<Row> {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let rate = |saturation: &Saturation| median(&saturation.requests_per_second);
    let cpu = |saturation: &Saturation| median(&saturation.cpu_micros);
    let row = |measured: &Measured| Row {
        system: measured.system,
        small_rate: rate(&measured.small),
        small_cpu: cpu(&measured.small),
        history_rate: rate(&measured.history),
        history_cpu: cpu(&measured.history),
        latency: Percentiles::of(&measured.latency),
        first_token: Percentiles::of(&measured.first_token),
        token: Percentiles::of(&measured.token),
        idle_mb: measured.idle_bytes.map(megabytes),
        streaming_mb: measured.streaming_bytes.map(megabytes),
    };
    results.iter().map(row).collect()
}

pub(crate) fn find(rows: &[Row], system: System) -> Option<&Row> {
    rows.iter().find(|row| row.system == system)
}

/// The tables for a person.
pub(crate) fn table(results: &[Measured], effort: Effort) -> String {
    let Effort { rate, open_streams, .. } = effort;
    let rows = rows(results);
    let direct = find(&rows, System::Direct).map(|row| row.latency).unwrap_or_default();
    let bare = find(&rows, System::Bare);
    let mut text = String::new();
    line(&mut text, "", rows.iter().map(|row| row.system.name().to_owned()));
    let mut numbers = |what: &str, value: &dyn Fn(&Row) -> Option<f64>| {
        let bare = bare.and_then(value);
        let cell = |row: &Row| match (value(row), bare) {
            (Some(value), Some(bare)) if row.system != System::Direct && bare > 0.0 => {
                format!("{value:.1} ({:.2}x)", value / bare)
            }
            (Some(value), _) => format!("{value:.1}"),
            (None, _) => "-".to_owned(),
        };
        line(&mut text, what, rows.iter().map(cell));
    };
    let own = |row: &Row, value: f64| (row.system != System::Direct).then_some(value);
    numbers("small: requests/s", &|row| Some(row.small_rate));
    numbers("small: CPU us/request", &|row| own(row, row.small_cpu));
    numbers("100 KB: requests/s", &|row| Some(row.history_rate));
    numbers("100 KB: CPU us/request", &|row| own(row, row.history_cpu));
    numbers(&format!("{rate}/s: p50 us"), &|row| Some(row.latency.p50));
    numbers(&format!("{rate}/s: p99 us"), &|row| Some(row.latency.p99));
    numbers(&format!("{rate}/s: added p50 us"), &|row| own(row, row.latency.added(direct).p50));
    numbers(&format!("{rate}/s: added p99 us"), &|row| own(row, row.latency.added(direct).p99));
    numbers("first token: p50 us", &|row| Some(row.first_token.p50));
    numbers("first token: p99 us", &|row| Some(row.first_token.p99));
    numbers("token delay: p50 us", &|row| Some(row.token.p50));
    numbers("token delay: p99 us", &|row| Some(row.token.p99));
    numbers("memory idle: MB", &|row| row.idle_mb);
    numbers(&format!("memory, {open_streams}* streams: MB"), &|row| row.streaming_mb);
    let _ = writeln!(text, "* limits: {OPEN_STREAMS_LIMITED}\n");
    text.push_str(&beside::table(&rows));
    for goal in goals(&rows) {
        let Goal { what, value, limit, unit } = &goal;
        let _ = writeln!(text, "{what:<36} {value:>8.2} {unit:<7} limit {limit:>6.2}   {}", goal.verdict());
    }
    text
}

pub(crate) fn line(text: &mut String, what: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(text, "{what:<26}");
    for cell in cells {
        let _ = write!(text, " {cell:>22}");
    }
    text.push('\n');
}

/// Writes `target/bench-gateway.json`, or `target/bench-peers.json` with gateways of others, and returns its path.
pub(crate) fn write_json(results: &[Measured], effort: Effort) -> Result<PathBuf> {
    let rows = rows(results);
    let systems: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "system": row.system.name(),
                "small": {"requests_per_second": row.small_rate.round(), "cpu_us_per_request": row.small_cpu},
                "history_100kb": {"requests_per_second": row.history_rate.round(), "cpu_us_per_request": row.history_cpu},
                "latency_us_at_fixed_rate": row.latency.json(),
                "first_token_us": row.first_token.json(),
                "token_delay_us": row.token.json(),
                "resident_mb": {"idle": row.idle_mb, "with_open_streams": row.streaming_mb},
            })
        })
        .collect();
    let goals: Vec<Value> = goals(&rows)
        .iter()
        .map(|goal| {
            json!({"what": goal.what, "value": goal.value, "limit": goal.limit, "unit": goal.unit, "reached": goal.reached()})
        })
        .collect();
    let report = json!({
        "rounds": effort.rounds,
        "fixed_rate_per_second": effort.rate,
        "streams_at_a_time": effort.streams_at_a_time,
        "open_streams": effort.open_streams,
        "episodes": effort.episodes,
        "systems": systems,
        "factors": beside::json(&rows),
        "goals": goals,
    });
    let name = if rows.iter().any(|row| row.system.is_peer()) { "bench-peers.json" } else { "bench-gateway.json" };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(name);
    fs::create_dir_all(path.parent().ok_or("no folder for the report")?)?;
    fs::write(&path, serde_json::to_string_pretty(&report)?)?;
    Ok(path)
}
