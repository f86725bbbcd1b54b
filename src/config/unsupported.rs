//! What can be configured but not yet done by this build. `serve` refuses to start on any of it: nothing is silently ignored.

use super::Config;

impl Config {
    /// Returns a sentence for each configured thing that this build cannot do; empty = it can do all of it.
    #[must_use]
    pub fn unsupported(&self) -> Vec<String> {
        let mut out = Vec::new();
        if !self.extract.window.is_zero() && self.extract.model.is_none() {
            out.push("extract.window_seconds: rules learn at once; it needs a model beside them".to_owned());
        }
        out
    }
}
