//! The `backstory` binary: parse, run, exit.

use std::process::ExitCode;

use backstory::cli::{Cli, run};
use clap::Parser;

fn main() -> ExitCode {
    run(Cli::parse())
}
