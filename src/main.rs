//! The `backstory` binary: parse, run, exit.

use std::process::ExitCode;

use backstory::cli::{Cli, run};
use clap::Parser;

/// Requests allocate and free many small things on several threads; the system's allocator costs a fifth of a request.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run(Cli::parse())
}
