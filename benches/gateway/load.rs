//! Load: as much as goes (closed loop), and at a fixed rate (open loop).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::Result;
use crate::client::{Calls, Connection, Target};

/// Connections at saturation: enough to keep two cores busy, and few enough that queues do not hide the cost.
const CLOSED_LOOP_CONNECTIONS: usize = 32;
/// Connections that the open loop may open. More waiting requests than this wait here, and their clock runs.
const OPEN_LOOP_CONNECTIONS: usize = 256;

/// Sends as fast as replies come, for `duration`. Returns the number of requests that were answered.
pub(crate) async fn saturate(target: &Target, calls: &Arc<impl Calls>, duration: Duration) -> Result<u64> {
    let end = Instant::now() + duration;
    closed_loop(target, calls, Arc::new(move || Instant::now() < end)).await
}

/// The same until so many requests were sent.
pub(crate) async fn send(target: &Target, calls: &Arc<impl Calls>, count: usize) -> Result<u64> {
    let sent = AtomicUsize::new(0);
    closed_loop(target, calls, Arc::new(move || sent.fetch_add(1, Ordering::Relaxed) < count)).await
}

async fn closed_loop(
    target: &Target,
    calls: &Arc<impl Calls>,
    goes_on: Arc<impl Fn() -> bool + Send + Sync + 'static>,
) -> Result<u64> {
    let answered = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLOSED_LOOP_CONNECTIONS {
        let mut connection = Connection::open(target).await?;
        let (calls, answered, goes_on) = (Arc::clone(calls), Arc::clone(&answered), Arc::clone(&goes_on));
        clients.spawn(async move {
            while goes_on() {
                connection.exchange(calls.next()).await?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(answered.load(Ordering::Relaxed))
}

/// Sends `rate` requests a second for `duration`, whether or not earlier ones were answered.
///
/// A latency counts from the time at which the request should have been sent, so that a stall of the server shows in all
/// requests that fall into it (no "coordinated omission").
pub(crate) async fn fixed_rate(
    target: &Target,
    calls: &Arc<impl Calls>,
    rate: u32,
    duration: Duration,
) -> Result<Vec<Duration>> {
    let mut due = pace(rate, duration);
    let idle = Arc::new(Mutex::new(Vec::new()));
    let open = Arc::new(Semaphore::new(OPEN_LOOP_CONNECTIONS));
    let mut requests = JoinSet::new();
    let mut latencies = Vec::new();
    while let Some(intended) = due.recv().await {
        let permit = Arc::clone(&open).acquire_owned().await?;
        let (target, calls, idle) = (target.clone(), Arc::clone(calls), Arc::clone(&idle));
        requests.spawn(async move {
            let pooled = idle.lock().map_err(|_| "a request panicked")?.pop();
            let mut connection = match pooled {
                Some(connection) => connection,
                None => Connection::open(&target).await?,
            };
            connection.exchange(calls.next()).await?;
            let latency = intended.elapsed();
            idle.lock().map_err(|_| "a request panicked")?.push(connection);
            drop(permit);
            Ok::<Duration, Box<dyn std::error::Error + Send + Sync>>(latency)
        });
        while let Some(done) = requests.try_join_next() {
            latencies.push(done??);
        }
    }
    while let Some(done) = requests.join_next().await {
        latencies.push(done??);
    }
    Ok(latencies)
}

/// Yields the times at which requests are due. A thread of its own, since timers of the runtime tick in milliseconds.
fn pace(rate: u32, duration: Duration) -> mpsc::Receiver<Instant> {
    let (sender, due) = mpsc::channel(4_096);
    thread::spawn(move || {
        let start = Instant::now();
        let interval = Duration::from_secs(1) / rate;
        let mut offset = Duration::ZERO;
        while offset < duration {
            thread::sleep(offset.saturating_sub(start.elapsed()));
            if sender.blocking_send(start + offset).is_err() {
                return;
            }
            offset += interval;
        }
    });
    due
}
