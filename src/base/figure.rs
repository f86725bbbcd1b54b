//! How large a figure can be that others tell us.

/// The largest figure that counts, of tokens as of billionths of a dollar. Upstream and clients may say anything, and the sum of a few
/// thousand such figures must still be a number.
pub const MAX_FIGURE: u64 = 1 << 50;

/// The largest sum that is kept of them: two such sums are still a number in 64 bits.
pub const MAX_SUM: i64 = 1 << 60;
