//! Where the memory goes, as far as it is known: what the system says of the process, and what our own caches hold by their own count.
//!
//! No allocation is traced. mimalloc does not offer that, and an allocator that does would cost every request. What is not in `held` is
//! in vocabularies, connections, requests that run, SQLite's page cache, and what the allocator keeps for the next.

use serde_json::{Map, Value, json};

use crate::app::App;

/// What is told, in bytes.
pub(super) fn profile(app: &App) -> Value {
    let health = app.outbox.health();
    json!({
        "process": process(),
        "held": {
            "recall": app.recall.held_bytes(),
            "knowledge": app.knowledge.held_bytes(),
            "digests": app.digests.held_bytes(),
            "prompt_trails": app.trails.held_bytes(),
            "conversation_states": app.states.held_bytes(),
        },
        "counts": {
            "exchanges_queued": health.queued,
            "limit_accounts": app.limits.len(),
            "requests_at_a_time_left": app.permits.available_permits(),
            "tasks": app.tracker.len(),
        },
    })
}

/// What Linux says; nothing where it says nothing.
fn process() -> Value {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    // smaps_rollup has what is resident by kind; status has peaks and threads.
    let mut told = figures(
        &read("/proc/self/smaps_rollup"),
        &[("Rss", "resident"), ("Pss", "resident_share"), ("Anonymous", "anonymous"), ("Swap", "swapped")],
    );
    told.extend(figures(
        &read("/proc/self/status"),
        &[("VmHWM", "resident_at_most"), ("VmSize", "address_space"), ("VmData", "committed"), ("Threads", "threads")],
    ));
    Value::Object(told)
}

/// Lines such as `Rss:   1234 kB`, in bytes.
fn figures(text: &str, wanted: &[(&str, &str)]) -> Map<String, Value> {
    let figure = |(name, called): &(&str, &str)| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let (number, unit) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let number: u64 = number.parse().ok()?;
        Some(((*called).to_owned(), Value::from(if unit == "kB" { number * 1024 } else { number })))
    };
    wanted.iter().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_bytes_and_what_is_not_there_is_left_out() {
        let text = "Rss:              10 kB\nThreads:\t7\nPss_Dirty: 1 kB\n";
        let told = figures(text, &[("Rss", "resident"), ("Threads", "threads"), ("Pss", "share")]);
        assert_eq!(Value::Object(told), json!({"resident": 10_240, "threads": 7}));
    }
}
