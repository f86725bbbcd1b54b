//! What replicas share through Redis.

use super::Label;

label! {
    /// What Redis is asked to do.
    RedisCommand = "command" {
        /// Take what a request needs of its limits.
        Take = "take",
        /// Correct what was taken, by what was used.
        Settle = "settle",
        /// Say which requests still run, or run no longer.
        Slots = "slots",
        /// Read a conversation state.
        Read = "read",
        /// Write or delete conversation states.
        Write = "write",
        /// Tell the other replicas of a change.
        Publish = "publish",
        /// Look whether it is there, and is what it should be.
        Check = "check",
    }
}

label! {
    /// How that ended.
    RedisOutcome = "outcome" {
        /// It was done.
        Ok = "ok",
        /// There was no answer in time; it may have been done.
        Late = "late",
        /// It was refused, or the connection broke.
        Failed = "failed",
        /// Nobody asked: Redis is known to be away, or too much waits for it already.
        Skipped = "skipped",
    }
}
