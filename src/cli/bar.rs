//! A line that says how far a long work is: one that is written over on a terminal, and a new one now and then otherwise.

use std::io::{IsTerminal, Write};

use super::{complain, say};
use crate::base::{Clock, SystemClock, Time};

const WIDTH: u64 = 30;

/// How far a work is.
#[derive(Debug)]
pub(super) struct Bar {
    /// What is counted, as in `changes`.
    unit: &'static str,
    began: Time,
    is_terminal: bool,
    /// The tenth that was told last.
    tenth: Option<u64>,
}

impl Bar {
    pub(super) fn new(unit: &'static str) -> Self {
        Self { unit, began: SystemClock.now(), is_terminal: std::io::stderr().is_terminal(), tenth: None }
    }

    /// Says that `done` of `all` are done; `note` stands behind it.
    pub(super) fn tell(&mut self, done: u64, all: u64, note: &str) {
        let line = || self.line(done, all, SystemClock.now());
        if self.is_terminal {
            let mut out = std::io::stderr().lock();
            // Nobody is left to tell.
            let _ = write!(out, "\r{} {note:<20}", line()).and_then(|()| out.flush());
            return;
        }
        let tenth = (done * 10).checked_div(all).unwrap_or(10);
        if self.tenth != Some(tenth) {
            complain(format!("{} {note}", line()).trim_end());
            self.tenth = Some(tenth);
        }
    }

    fn line(&self, done: u64, all: u64, now: Time) -> String {
        let full = (done.min(all) * WIDTH).checked_div(all).unwrap_or(WIDTH);
        let bar: String = (0..WIDTH).map(|i| if i < full { '#' } else { '.' }).collect();
        let seconds = u64::try_from((now.0 - self.began.0) / 1_000).unwrap_or_default().max(1);
        let rate = (done / seconds).max(1);
        let left = all.saturating_sub(done) / rate;
        let (minutes, seconds) = (left / 60, left % 60);
        format!("[{bar}] {done} of {all} {}, {rate} a second, {minutes} min {seconds:02} s left", self.unit)
    }

    /// Ends the line.
    pub(super) fn end(self) {
        if self.is_terminal {
            say("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_much_is_left() {
        let bar = Bar { unit: "episodes", began: Time(0), is_terminal: false, tenth: None };
        let line = bar.line(500, 1_000, Time(5_000));
        assert_eq!(line, "[###############...............] 500 of 1000 episodes, 100 a second, 0 min 05 s left");
        assert!(bar.line(0, 0, Time(0)).contains("0 of 0"));
    }
}
