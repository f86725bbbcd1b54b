//! Where the process meets its operator and its clients: configurations, listeners, handshakes.

use super::Label;

label! {
    /// What became of a configuration that was read while running.
    ReloadOutcome = "outcome" {
        /// It holds now.
        Applied = "applied",
        /// It says what held already.
        Unchanged = "unchanged",
        /// It has mistakes: the one before stays.
        Refused = "refused",
    }
}

label! {
    /// Which address.
    Listener = "listener" {
        /// `listen`.
        Data = "data",
        /// `admin_listen`.
        Admin = "admin",
    }
}

label! {
    /// Why a TLS handshake came to nothing.
    HandshakeFailure = "reason" {
        /// The client broke it off, or the two found nothing in common.
        Failed = "failed",
        /// It took too long, or no place was free for it.
        Late = "late",
    }
}
