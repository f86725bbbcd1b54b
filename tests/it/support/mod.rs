//! The whole gateway in one process: a real listener in front, scripted upstreams behind, a data folder of its own.
//!
//! [`Stack`] starts it, [`client`] talks to it byte by byte, [`Binary`] runs the program itself where a process is what
//! is tested. Nothing here waits for a fixed time: [`eventually`] asks again until a bound that only a fault reaches.

pub(crate) mod binary;
pub(crate) mod client;
pub(crate) mod collector;
pub(crate) mod fake;
pub(crate) mod live;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod postgres;
pub(crate) mod raw;
pub(crate) mod redis;
pub(crate) mod responses;
pub(crate) mod sse;
pub(crate) mod stack;

use std::time::Duration;

pub(crate) use binary::Binary;
pub(crate) use client::{Ask, Got};
pub(crate) use live::{ADMIN_KEY, Live};
pub(crate) use stack::{KEY, PROVIDER_KEY, Stack};

/// Longer than anything takes here, also on a machine that is busy with something else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until the answer is there.
///
/// # Panics
/// After [`PATIENCE`], naming what was waited for.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

/// The same for something that is true or not.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || std::future::ready(is_so().then_some(()))).await;
}
