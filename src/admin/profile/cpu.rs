//! Where the processor's time goes: every so often each thread that computes is asked where it is.
//!
//! A timer of the system counts the time that the process computes (`ITIMER_PROF`) and interrupts whoever does. An idle process has no
//! samples. Stacks of the C library are left out: a thread may be interrupted there in the midst of what a walk over the stack needs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::base::{ErrorKind, GatewayError};

/// Samples per second of computing; a prime, so that nothing that repeats keeps step with it.
const HERTZ: i32 = 199;

/// Measures for so long and returns folded stacks, the outermost frame first: a line for each, as flamegraph.pl, inferno and speedscope
/// read them.
///
/// Cancel safe: measuring ends with the future.
///
/// # Errors
/// 501 where the system has no such timer.
pub(super) async fn profile(time: Duration) -> Result<String, GatewayError> {
    let unavailable = |error: pprof::Error| {
        GatewayError::new(ErrorKind::NotImplemented, "this system gives no profile").with_source(error)
    };
    let sampling = pprof::ProfilerGuardBuilder::default()
        .frequency(HERTZ)
        .blocklist(&["libc", "libgcc", "pthread", "vdso"])
        .build()
        .map_err(unavailable)?;
    tokio::time::sleep(time).await;
    let folding = move || {
        let report = sampling.report().build().map_err(unavailable)?;
        // Names are looked up in the report's own time, not in that of who is measured.
        drop(sampling);
        let mut stacks = BTreeMap::new();
        for (frames, count) in &report.data {
            *stacks.entry(folded(frames)).or_insert(0) += *count;
        }
        Ok(stacks.into_iter().fold(String::new(), |mut text, (stack, count): (_, isize)| {
            let _ = writeln!(text, "{stack} {count}");
            text
        }))
    };
    tokio::task::spawn_blocking(folding).await.map_err(GatewayError::internal)?
}

/// Names and numbers of places in our own code: nothing of what it worked on.
fn folded(frames: &pprof::Frames) -> String {
    let mut stack = frames.thread_name.clone();
    for symbol in frames.frames.iter().rev().flat_map(|frame| frame.iter().rev()) {
        stack.push(';');
        stack.push_str(&symbol.name().replace([';', '\n'], ":"));
    }
    stack
}
