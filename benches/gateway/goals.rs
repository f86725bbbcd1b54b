//! The goals of the project, and whether they were reached.

use crate::measure::System;
use crate::report::{Row, find};

/// A goal of the project, and what was reached.
#[derive(Debug)]
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) limit: f64,
    pub(crate) unit: &'static str,
}

impl Goal {
    /// `None` where the bare proxy itself seemed to add nothing: then the machine was too busy to tell.
    pub(crate) fn reached(&self) -> Option<bool> {
        (self.value.is_finite() && self.value >= 0.0).then_some(self.value <= self.limit)
    }

    pub(crate) fn verdict(&self) -> &'static str {
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

/// The goals that can be judged with what was measured. Beside gateways of others there are those only: the load is another.
pub(crate) fn goals(rows: &[Row]) -> Vec<Goal> {
    if rows.iter().any(|row| row.system.is_peer()) { beside_peers(rows) } else { beside_bare(rows) }
}

/// CPU as a share of theirs, and what the first token waits for us.
fn beside_peers(rows: &[Row]) -> Vec<Goal> {
    let mut goals = Vec::new();
    let direct = find(rows, System::Direct);
    let ours = [(System::MemoryOff, [200.0, 25.0]), (System::MemoryOn, [40.0, 5.0])];
    for (system, factors) in ours {
        let Some(row) = find(rows, system) else { continue };
        let name = system.name();
        for (peer, factor) in System::PEERS.into_iter().zip(factors) {
            let Some(peer) = find(rows, peer) else { continue };
            let what = format!("{name}: CPU, small, of {}'s", peer.system.name());
            goals.push(Goal { what, value: 100.0 * row.small_cpu / peer.small_cpu, limit: 100.0 / factor, unit: "%" });
        }
        if let Some(direct) = direct {
            let value = row.first_token.added(direct.first_token).p50.max(0.0) / 1e3;
            goals.push(Goal { what: format!("{name}: first token, added p50"), value, limit: 0.5, unit: "ms" });
        }
    }
    goals
}

fn beside_bare(rows: &[Row]) -> Vec<Goal> {
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
    if let (Some(messages), Some(off)) = (find(rows, System::Messages), find(rows, System::MemoryOff)) {
        goal(messages, "CPU, small", messages.small_cpu / off.small_cpu, 1.3, "x off");
        goal(messages, "CPU, 100 KB history", messages.history_cpu / off.history_cpu, 1.3, "x off");
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
