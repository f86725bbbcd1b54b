//! Streams: how long the first token and every later one are under way, and what open streams cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use tokio::task::JoinSet;

use crate::Result;
use crate::client::{Calls as _, Connection, Target, wall_clock_nanos};
use crate::prompts::Prompts;

/// Between the starts of two streams, so that neither starts nor tokens fall on the same instant.
const STAGGER: Duration = Duration::from_millis(27);

#[derive(Debug, Default)]
pub(crate) struct Delays {
    /// From the request to the first token at the client.
    pub(crate) first: Vec<Duration>,
    /// From upstream's write of a token to its arrival, for all tokens but the first.
    pub(crate) token: Vec<Duration>,
}

/// Reads paced streams, so many at a time, until `duration` is over.
pub(crate) async fn delays(
    target: &Target,
    prompts: &Arc<Prompts>,
    at_a_time: u32,
    duration: Duration,
) -> Result<Delays> {
    let end = Instant::now() + duration;
    let mut clients = JoinSet::new();
    for n in 0..at_a_time {
        let mut connection = Connection::open(target).await?;
        let prompts = Arc::clone(prompts);
        clients.spawn(async move {
            tokio::time::sleep(STAGGER * n).await;
            let mut delays = Delays::default();
            while Instant::now() < end {
                let start = Instant::now();
                let reply = connection.send(prompts.next()).await?;
                read(reply, start, &mut delays).await?;
            }
            Ok::<Delays, Box<dyn std::error::Error + Send + Sync>>(delays)
        });
    }
    let mut all = Delays::default();
    while let Some(client) = clients.join_next().await {
        let delays = client??;
        all.first.extend(delays.first);
        all.token.extend(delays.token);
    }
    Ok(all)
}

async fn read(reply: Response<Incoming>, start: Instant, delays: &mut Delays) -> Result<()> {
    let mut body = reply.into_body();
    let mut first = true;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let now = wall_clock_nanos();
        for written in times_written(&data) {
            if first {
                delays.first.push(start.elapsed());
                first = false;
            } else {
                delays.token.push(Duration::from_nanos(now.saturating_sub(written)));
            }
        }
    }
    if first { Err("a stream ended without any token".into()) } else { Ok(()) }
}

/// The times in the chunks of one read. Upstream writes a chunk at once, so none is parted between two reads.
fn times_written(data: &Bytes) -> Vec<u64> {
    let text = String::from_utf8_lossy(data);
    // As the two dialects call it; a chunk has one of them.
    let after = [r#""content":""#, r#""text":""#].into_iter().flat_map(|name| text.split(name).skip(1));
    after.filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
}

/// Opens `count` streams, and returns them once each has had its first token.
pub(crate) async fn hold_open(
    target: &Target,
    prompts: &Arc<Prompts>,
    count: usize,
) -> Result<Vec<(Connection, Incoming)>> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = Connection::open(target).await?;
        let mut body = connection.send(prompts.next()).await?.into_body();
        body.frame().await.ok_or("a held stream ended at once")??;
        open.push((connection, body));
    }
    Ok(open)
}
