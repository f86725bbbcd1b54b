//! The `backstory` binary: parse, run, exit.

use std::process::ExitCode;

use backstory::cli::{Cli, run};
use clap::Parser;

/// Requests free on one thread what another allocated, which the system's allocator is slow at: with memory on it takes
/// half as much CPU again (`benches/README.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run(Cli::parse())
}
