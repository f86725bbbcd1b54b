//! A line that says how far a long work is: a bar on a terminal, and a line for every tenth otherwise.

use std::io::{IsTerminal, Write};

use super::{complain, say};

/// How far a work is.
#[derive(Debug)]
pub(super) struct Bar {
    /// What is counted, as in `changes`.
    unit: &'static str,
    is_terminal: bool,
    tenths: Option<u64>,
}

impl Bar {
    pub(super) fn new(unit: &'static str) -> Self {
        Self { unit, is_terminal: std::io::stderr().is_terminal(), tenths: None }
    }

    /// Says that `done` of `all` are done; `note` stands behind the bar.
    pub(super) fn tell(&mut self, done: u64, all: u64, note: &str) {
        let percent = (done.min(all) * 100).checked_div(all).unwrap_or(100);
        if self.is_terminal {
            let filled = "#".repeat((percent / 2) as usize);
            let mut out = std::io::stderr().lock();
            // Nobody is left to tell.
            let _ = write!(out, "\r[{filled:<50}] {percent:>3} % of {all} {} {note:<20}", self.unit)
                .and_then(|()| out.flush());
        } else if self.tenths != Some(percent / 10) {
            self.tenths = Some(percent / 10);
            complain(&format!("{done} of {all} {} ({percent} %) {note}", self.unit));
        }
    }

    /// Ends the line.
    pub(super) fn end(self) {
        if self.is_terminal {
            say("");
        }
    }
}
