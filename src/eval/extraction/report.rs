//! What was measured, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::score::Scored;

/// The figures of a measurement.
#[derive(Clone, Debug)]
pub struct Report {
    /// Over all cases.
    pub overall: Figures,
    /// By language.
    pub by_language: BTreeMap<String, Figures>,
    /// The cases in which something is wrong: id, and what.
    pub problems: Vec<(String, Vec<String>)>,
}

/// Counts over a set of cases, and the shares that follow from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Cases.
    pub cases: usize,
    /// Facts that were known in the end.
    pub known: usize,
    /// … of them: expected.
    pub right: usize,
    /// … the right thing of the wrong person.
    pub wrong_subject: usize,
    /// … what nobody asked for, or was forbidden.
    pub junk: usize,
    /// Facts that were expected.
    pub expected: usize,
    /// … of them: known.
    pub found: usize,
    /// Values of which is given what holds in the end.
    pub dated: usize,
    /// … of them: not so.
    pub stale: usize,
    /// Facts that rest on words which are not the user's.
    pub loops: usize,
    /// Facts with a secret in them.
    pub secrets: usize,
}

impl Figures {
    fn add(&mut self, scored: &Scored) {
        self.cases += 1;
        self.known += scored.known;
        self.right += scored.right;
        self.wrong_subject += scored.wrong_subject;
        self.junk += scored.junk;
        self.expected += scored.expected;
        self.found += scored.found;
        self.dated += scored.dated;
        self.stale += scored.stale;
        self.loops += scored.loops;
        self.secrets += scored.secrets;
    }

    /// Share of what is known that is right; 1 when nothing is known.
    #[must_use]
    pub fn precision(&self) -> f64 {
        share(self.right, self.known, 1.0)
    }

    /// Share of what was expected that is known; 1 when nothing was expected.
    #[must_use]
    pub fn recall(&self) -> f64 {
        share(self.found, self.expected, 1.0)
    }

    /// Share of what is known that is filed under the wrong person.
    #[must_use]
    pub fn wrong_subject_rate(&self) -> f64 {
        share(self.wrong_subject, self.known, 0.0)
    }

    /// Share of the values whose outcome is given that are not what holds in the end.
    #[must_use]
    pub fn stale_rate(&self) -> f64 {
        share(self.stale, self.dated, 0.0)
    }

    /// Share of what is known that nobody asked for.
    #[must_use]
    pub fn junk_rate(&self) -> f64 {
        share(self.junk, self.known, 0.0)
    }

    fn json(&self) -> Value {
        json!({
            "cases": self.cases,
            "known": self.known,
            "expected": self.expected,
            "precision": self.precision(),
            "recall": self.recall(),
            "wrong_subject_rate": self.wrong_subject_rate(),
            "stale_rate": self.stale_rate(),
            "junk_rate": self.junk_rate(),
            "loops": self.loops,
            "secrets": self.secrets,
        })
    }
}

fn share(part: usize, whole: usize, of_nothing: f64) -> f64 {
    if whole == 0 { of_nothing } else { part as f64 / whole as f64 }
}

impl Report {
    pub(super) fn of(scored: Vec<Scored>) -> Self {
        let mut report = Self { overall: Figures::default(), by_language: BTreeMap::new(), problems: Vec::new() };
        for case in scored {
            report.overall.add(&case);
            report.by_language.entry(case.language.clone()).or_default().add(&case);
            if !case.problems.is_empty() {
                report.problems.push((case.id, case.problems));
            }
        }
        report
    }

    /// As a table for people; with `verbose`, the cases in which something is wrong come first.
    #[must_use]
    pub fn table(&self, verbose: bool) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        for (id, problems) in self.problems.iter().filter(|_| verbose) {
            for problem in problems {
                let _ = writeln!(out, "{id}: {problem}");
            }
        }
        let _ = writeln!(
            out,
            "{:<10}{:>7}{:>8}{:>11}{:>9}{:>15}{:>8}{:>8}{:>7}{:>9}",
            "", "cases", "facts", "precision", "recall", "wrong subject", "stale", "junk", "loops", "secrets"
        );
        let languages = self.by_language.iter().map(|(name, figures)| (name.as_str(), figures));
        for (name, f) in languages.chain(std::iter::once(("all", &self.overall))) {
            let _ = writeln!(
                out,
                "{name:<10}{:>7}{:>8}{:>11.3}{:>9.3}{:>15.3}{:>8.3}{:>8.3}{:>7}{:>9}",
                f.cases,
                f.known,
                f.precision(),
                f.recall(),
                f.wrong_subject_rate(),
                f.stale_rate(),
                f.junk_rate(),
                f.loops,
                f.secrets
            );
        }
        out
    }

    /// As JSON for machines.
    #[must_use]
    pub fn json(&self) -> Value {
        let by_language: serde_json::Map<String, Value> =
            self.by_language.iter().map(|(name, figures)| (name.clone(), figures.json())).collect();
        let problems: serde_json::Map<String, Value> =
            self.problems.iter().map(|(id, problems)| (id.clone(), json!(problems))).collect();
        json!({ "overall": self.overall.json(), "by_language": by_language, "problems": problems })
    }
}
