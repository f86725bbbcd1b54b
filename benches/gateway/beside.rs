//! Gateways of others beside ours: what each adds to the direct way, and by what factor that is more than what we add.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::measure::System;
use crate::report::{Row, find, line};

const OURS: [System; 2] = [System::MemoryOff, System::MemoryOn];

/// What is compared: less is better. `None` where nothing was measured.
type Cost = fn(&Row, &Row) -> Option<f64>;

const COSTS: [(&str, Cost); 12] = [
    ("CPU us, small", |row, _| Some(row.small_cpu)),
    ("CPU us, 100 KB", |row, _| Some(row.history_cpu)),
    ("us between replies, small", |row, _| Some(1e6 / row.small_rate)),
    ("us between replies, 100 KB", |row, _| Some(1e6 / row.history_rate)),
    ("added p50 us", |row, direct| Some(row.latency.added(direct.latency).p50)),
    ("added p99 us", |row, direct| Some(row.latency.added(direct.latency).p99)),
    ("first token: added p50 us", |row, direct| Some(row.first_token.added(direct.first_token).p50)),
    ("first token: added p99 us", |row, direct| Some(row.first_token.added(direct.first_token).p99)),
    ("token delay: added p50 us", |row, direct| Some(row.token.added(direct.token).p50)),
    ("token delay: added p99 us", |row, direct| Some(row.token.added(direct.token).p99)),
    ("memory idle: MB", |row, _| row.idle_mb),
    ("memory, streams: MB", |row, _| row.streaming_mb),
];

#[derive(Debug)]
struct Factor {
    what: &'static str,
    peer: &'static str,
    than: &'static str,
    /// `None` where it was too little to measure.
    factor: Option<f64>,
}

fn factors(rows: &[Row]) -> Vec<Factor> {
    let Some(direct) = find(rows, System::Direct) else { return Vec::new() };
    let mut factors = Vec::new();
    for (what, cost) in COSTS {
        for peer in System::PEERS.into_iter().filter_map(|peer| find(rows, peer)) {
            for own in OURS.into_iter().filter_map(|own| find(rows, own)) {
                let factor = match (cost(peer, direct), cost(own, direct)) {
                    (Some(theirs), Some(ours)) if theirs > 0.0 && ours > 0.0 => Some(theirs / ours),
                    _ => None,
                };
                factors.push(Factor { what, peer: peer.system.name(), than: own.system.name(), factor });
            }
        }
    }
    factors
}

/// Empty where no gateway of others was measured.
pub(crate) fn table(rows: &[Row]) -> String {
    let (factors, mut text) = (factors(rows), String::new());
    let (Some(first), Some(direct)) = (factors.first(), find(rows, System::Direct)) else { return text };
    let systems: Vec<&Row> = rows.iter().filter(|row| row.system != System::Direct).collect();
    line(&mut text, "beside others", systems.iter().map(|row| row.system.name().to_owned()));
    for (what, cost) in COSTS {
        let cell = |row: &&Row| cost(row, direct).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        line(&mut text, what, systems.iter().map(cell));
    }
    text.push('\n');
    let per_cost = factors.iter().filter(|factor| factor.what == first.what).count();
    line(&mut text, "times as much", factors[..per_cost].iter().map(|f| format!("{}/{}", f.peer, f.than)));
    for of_one in factors.chunks(per_cost) {
        let cell = |factor: &Factor| factor.factor.map_or_else(|| "-".to_owned(), |factor| format!("{factor:.1}x"));
        line(&mut text, of_one[0].what, of_one.iter().map(cell));
    }
    let _ = writeln!(text);
    text
}

pub(crate) fn json(rows: &[Row]) -> Vec<Value> {
    let json = |f: &Factor| json!({"what": f.what, "peer": f.peer, "than": f.than, "factor": f.factor});
    factors(rows).iter().map(json).collect()
}
