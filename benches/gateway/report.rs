//! The result: a table with ratios to the bare proxy, the goals and whether each was reached, and all of it as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::measure::{Measured, OPEN_STREAMS, OPEN_STREAMS_LIMITED, RATE, Rounds, Saturation, System};
use crate::{Effort, Result};

/// One system's numbers, each a median over the rounds or a percentile over all requests.
#[derive(Clone, Debug)]
struct Row {
    system: System,
    small_rate: f64,
    small_cpu: f64,
    history_rate: f64,
    history_cpu: f64,
    latency: Percentiles,
    first_token: Percentiles,
    token: Percentiles,
    idle_mb: Option<f64>,
    streaming_mb: Option<f64>,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Percentiles {
    p50: f64,
    p99: f64,
}

impl Percentiles {
    fn of(rounds: &Rounds) -> Self {
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
    fn added(self, direct: Self) -> Self {
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

/// A goal of the project, and what was reached.
#[derive(Debug)]
struct Goal {
    what: String,
    value: f64,
    limit: f64,
    unit: &'static str,
}

impl Goal {
    /// `None` where the bare proxy itself seemed to add nothing: then the machine was too busy to tell.
    fn reached(&self) -> Option<bool> {
        (self.value.is_finite() && self.value >= 0.0).then_some(self.value <= self.limit)
    }

    fn verdict(&self) -> &'static str {
        match self.reached() {
            Some(true) => "reached",
            Some(false) => "MISSED",
            None => "unclear: the machine was too busy",
        }
    }
}

/// A ratio to what the bare proxy adds; none where that is not above zero.
fn ratio(value: f64, bare: f64) -> f64 {
    if bare > 0.0 { value.max(0.0) / bare } else { f64::NAN }
}

fn find(rows: &[Row], system: System) -> Option<&Row> {
    rows.iter().find(|row| row.system == system)
}

/// The goals that can be judged with what was measured.
fn goals(rows: &[Row]) -> Vec<Goal> {
    let mut goals = Vec::new();
    let (Some(direct), Some(bare)) = (find(rows, System::Direct), find(rows, System::Bare)) else { return goals };
    let mut goal = |row: &Row, what: &str, value: f64, limit: f64, unit: &'static str| {
        goals.push(Goal { what: format!("{}: {what}", row.system.name()), value, limit, unit });
    };
    let bare_added = bare.latency.added(direct.latency);
    if let Some(off) = find(rows, System::MemoryOff) {
        let added = off.latency.added(direct.latency);
        goal(off, "CPU, small", off.small_cpu / bare.small_cpu, 2.0, "x bare");
        goal(off, "CPU, 100 KB history", off.history_cpu / bare.history_cpu, 2.0, "x bare");
        goal(off, "added p50", ratio(added.p50, bare_added.p50), 2.0, "x bare");
        goal(off, "added p99", ratio(added.p99, bare_added.p99), 2.0, "x bare");
    }
    if let (Some(limits), Some(off)) = (find(rows, System::Limits), find(rows, System::MemoryOff)) {
        goal(limits, "CPU, small", limits.small_cpu / off.small_cpu, 1.05, "x off");
        goal(limits, "CPU, 100 KB history", limits.history_cpu / off.history_cpu, 1.05, "x off");
        goal(limits, "requests/s, small", off.small_rate / limits.small_rate, 1.05, "x fewer");
        goal(limits, "memory, 1,000 streams", limits.streaming_mb.unwrap_or_default(), 200.0, "MB");
    }
    if let Some(on) = find(rows, System::MemoryOn) {
        let added = on.latency.added(direct.latency);
        goal(on, "CPU, small", on.small_cpu / bare.small_cpu, 8.0, "x bare");
        goal(on, "added p50", added.p50.max(0.0) / 1e3, 0.6, "ms");
        goal(on, "added p99", added.p99.max(0.0) / 1e3, 5.0, "ms");
    }
    for row in rows.iter().filter(|row| matches!(row.system, System::MemoryOff | System::MemoryOn)) {
        goal(row, "first token p50", row.first_token.p50 / bare.first_token.p50, 1.5, "x bare");
        goal(row, "first token p99", row.first_token.p99 / bare.first_token.p99, 1.5, "x bare");
        goal(row, "token delay p50", row.token.p50 / bare.token.p50, 1.5, "x bare");
        goal(row, "token delay p99", row.token.p99 / bare.token.p99, 1.5, "x bare");
        goal(row, "memory, idle", row.idle_mb.unwrap_or_default(), 60.0, "MB");
        goal(row, "memory, 500 streams", row.streaming_mb.unwrap_or_default(), 100.0, "MB");
    }
    goals
}

/// The tables for a person.
pub(crate) fn table(results: &[Measured]) -> String {
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
    numbers(&format!("{RATE}/s: p50 us"), &|row| Some(row.latency.p50));
    numbers(&format!("{RATE}/s: p99 us"), &|row| Some(row.latency.p99));
    numbers(&format!("{RATE}/s: added p50 us"), &|row| own(row, row.latency.added(direct).p50));
    numbers(&format!("{RATE}/s: added p99 us"), &|row| own(row, row.latency.added(direct).p99));
    numbers("first token: p50 us", &|row| Some(row.first_token.p50));
    numbers("first token: p99 us", &|row| Some(row.first_token.p99));
    numbers("token delay: p50 us", &|row| Some(row.token.p50));
    numbers("token delay: p99 us", &|row| Some(row.token.p99));
    numbers("memory idle: MB", &|row| row.idle_mb);
    numbers(&format!("memory, {OPEN_STREAMS}* streams: MB"), &|row| row.streaming_mb);
    let _ = writeln!(text, "* limits: {OPEN_STREAMS_LIMITED}\n");
    for goal in goals(&rows) {
        let Goal { what, value, limit, unit } = &goal;
        let _ = writeln!(text, "{what:<36} {value:>8.2} {unit:<7} limit {limit:>6.2}   {}", goal.verdict());
    }
    text
}

fn line(text: &mut String, what: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(text, "{what:<26}");
    for cell in cells {
        let _ = write!(text, " {cell:>22}");
    }
    text.push('\n');
}

/// Writes `target/bench-gateway.json` and returns its path.
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
        "fixed_rate_per_second": RATE,
        "open_streams": OPEN_STREAMS,
        "episodes": effort.episodes,
        "systems": systems,
        "goals": goals,
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-gateway.json");
    fs::create_dir_all(path.parent().ok_or("no folder for the report")?)?;
    fs::write(&path, serde_json::to_string_pretty(&report)?)?;
    Ok(path)
}
