//! Several gateways over one PostgreSQL and one Redis: reads and writes of memory at a fixed rate, and how fast they learn what waits in
//! the outbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use backstory::store::OutboxStore as _;
use backstory::store::sql::{PostgresOptions, SqlStore};
use bytes::Bytes;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::backstory::Backstory;
use crate::client::{Call, Calls};
use crate::exchange::{self, SAID};
use crate::process::Process;
use crate::report::Percentiles;
use crate::servers::Servers;
use crate::{Result, load, prompts, say, upstream};

/// Reads and writes a second, half each: the goal's.
const RATE: u32 = 2_000;
/// People whose memories are read and written, in turn by no order.
const PEOPLE: u64 = 1_000;
/// Memories of each before anything is measured.
const MEMORIES: usize = 10;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(8);
/// Exchanges that wait in the outbox, of people who say five things each.
const WAITING: u128 = 12_800;
const GROUP: usize = 32;
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures one gateway, then three.
pub(crate) fn run() -> Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let upstream = Process::start_role(upstream::ROLE, &[])?;
    for count in [1, 3] {
        reads_and_writes(&runtime, &upstream.address, count)?;
    }
    for count in [1, 3] {
        runtime.block_on(outbox(&upstream.address, count))?;
    }
    Ok(())
}

fn start(servers: &Servers, upstream: &str, count: usize) -> Result<Vec<Backstory>> {
    (0..count).map(|_| Backstory::start_on(servers, upstream)).collect()
}

fn reads_and_writes(runtime: &Runtime, upstream: &str, count: usize) -> Result<()> {
    let servers = Servers::create()?;
    let gateways = start(&servers, upstream, count)?;
    let writes = Arc::new(Writes(AtomicU64::new(0)));
    runtime.block_on(load::send(&gateways[0].target, &writes, PEOPLE as usize * MEMORIES))?;
    servers.analyze()?;
    let reads = Arc::new(Reads(AtomicU64::new(0)));
    let at_rate = async |duration| {
        let rate = RATE / 2 / u32::try_from(count)?;
        let mut under_way = JoinSet::new();
        for target in gateways.iter().map(|gateway| gateway.target.clone()) {
            let (reads, to_read) = (Arc::clone(&reads), target.clone());
            under_way.spawn(async move {
                Ok::<_, crate::Failure>((0, load::fixed_rate(&to_read, &reads, rate, duration).await?))
            });
            let writes = Arc::clone(&writes);
            under_way.spawn(async move { Ok((1, load::fixed_rate(&target, &writes, rate, duration).await?)) });
        }
        let mut latencies = [Vec::new(), Vec::new()];
        while let Some(done) = under_way.join_next().await {
            let (which, of_one) = done??;
            latencies[which].extend(of_one);
        }
        Ok::<_, crate::Failure>(latencies)
    };
    runtime.block_on(at_rate(WARM_UP))?;
    let cpu = || gateways.iter().map(|gateway| gateway.process.cpu()).sum::<Result<Duration>>();
    let before = cpu()?;
    let [reads, writes] = runtime.block_on(at_rate(MEASURED))?;
    let (spent, calls) = (cpu()? - before, reads.len() + writes.len());
    say(&format!("{count} gateway(s), {RATE} reads and writes a second, {PEOPLE} people:"));
    let all: Vec<Duration> = reads.iter().chain(&writes).copied().collect();
    for (name, latencies) in [("reads", reads), ("writes", writes), ("all", all)] {
        let mean = latencies.iter().sum::<Duration>().as_secs_f64() * 1e3 / latencies.len() as f64;
        let p = Percentiles::of(&vec![latencies]);
        say(&format!("  {name:<8} mean {mean:6.2} ms, p50 {:6.2} ms, p99 {:7.2} ms", p.p50 / 1e3, p.p99 / 1e3));
    }
    say(&format!("  CPU of the gateways {:.0} us a call", spent.as_secs_f64() * 1e6 / calls as f64));
    Ok(())
}

/// What a replica finds at its start when others have left it: it learns this while no request comes.
async fn outbox(upstream: &str, count: usize) -> Result<()> {
    let servers = Servers::create()?;
    let store = SqlStore::postgres(PostgresOptions::url(servers.url())).await?;
    let waiting: Vec<_> = (0..WAITING).map(|n| exchange::finished(n, &exchange::scope(n / 5), &SAID)).collect();
    for group in waiting.chunks(GROUP) {
        store.append(group).await?;
    }
    servers.analyze()?;
    let gateways = start(&servers, upstream, count)?;
    let (started, waiting) = (Instant::now(), store.depth().await?.waiting);
    let mut left = waiting;
    while left > 0 && started.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
        left = store.depth().await?.waiting;
    }
    if left > 0 {
        return Err(format!("{left} exchanges still wait after {PATIENCE:?}").into());
    }
    let rate = waiting as f64 / started.elapsed().as_secs_f64();
    let cpu: Duration = gateways.iter().map(|gateway| gateway.process.cpu()).sum::<Result<_>>()?;
    let each = cpu.as_secs_f64() * 1e6 / waiting as f64;
    say(&format!("{count} gateway(s): {rate:.0} exchanges a second learned from the outbox, {each:.0} us of CPU each"));
    Ok(())
}

/// A person, by no order and the same in every run.
fn person(n: u64) -> Option<String> {
    Some(format!("person-{}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % PEOPLE))
}

/// Memories that are added.
#[derive(Debug)]
struct Writes(AtomicU64);

impl Calls for Writes {
    fn next(&self) -> Call {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        Call { path: "/memory/v1/episodes", body: prompts::episode(n), user: person(n) }
    }
}

/// Questions to memory.
#[derive(Debug)]
struct Reads(AtomicU64);

impl Calls for Reads {
    fn next(&self) -> Call {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        let body = Bytes::from(json!({"query": prompts::question(n)}).to_string());
        Call { path: "/memory/v1/recall", body, user: person(n) }
    }
}
