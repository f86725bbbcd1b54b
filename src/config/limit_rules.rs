//! Limits of use: one vocabulary for keys, their people, tenants and models.

use super::reader::Section;
use crate::exchange::Limits;

/// The most tokens that a limit can be: it fits every sum.
const MAX_TOKENS: u64 = 1_000_000_000_000_000;
/// The most US dollars that a limit can be.
const MAX_USD: f64 = 1_000_000_000.0;

/// `[limits]`: beside those of `[[keys]]` and `[[models]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSection {
    /// `[limits.tenants.NAME]`: of all keys of a tenant together.
    pub tenants: Vec<(String, Limits)>,
    /// `[limits.each_tenant]`: of every tenant that has no table of its own; without `[[keys]]` each client is one.
    pub each_tenant: Limits,
    /// `[limits.each_subject]`: of every person whose key says nothing of its people.
    pub each_subject: Limits,
}

impl LimitSection {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        Self {
            tenants: s.named_tables("tenants", read_limits),
            each_tenant: s.table("each_tenant", read_limits),
            each_subject: s.table("each_subject", read_limits),
        }
    }
}

/// Reads the limits of whatever the table is about; what is left out is not limited.
pub(super) fn read_limits(s: &mut Section<'_>) -> Limits {
    Limits {
        max_concurrency: s.whole("max_concurrency", 1..=1_000_000),
        requests_per_minute: s.whole("requests_per_minute", 1..=u64::from(u32::MAX)),
        tokens_per_minute: s.whole("tokens_per_minute", 1..=MAX_TOKENS),
        tokens_per_day: s.whole("tokens_per_day", 1..=MAX_TOKENS),
        tokens_per_month: s.whole("tokens_per_month", 1..=MAX_TOKENS),
        usd_per_day: dollars(s, "usd_per_day"),
        usd_per_month: dollars(s, "usd_per_month"),
    }
}

/// Dollars as billionths of them.
fn dollars(s: &mut Section<'_>, key: &'static str) -> Option<u64> {
    // What is left out, or wrong (which was reported), is no number.
    let usd = s.number(key, f64::NAN, 0.000_001..=MAX_USD);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was just checked")]
    usd.is_finite().then(|| (usd * 1e9).round() as u64)
}
