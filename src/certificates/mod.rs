//! The certificates that we show to clients: read, checked, and exchanged while we serve.
//!
//! A pair of PEM texts is checked whole before it is shown to anyone (`Pair`); the listener asks its [`Identity`] at each handshake,
//! so that renewed files hold for the next connection. Certificates of upstreams are not looked at here, and nothing here reads a file.

mod identity;
mod pair;
mod validity;

pub use identity::Identity;
pub use pair::{Pair, PairError};

/// So long before its end, in milliseconds, it is said that a certificate ends.
pub const EXPIRY_WARNING: i64 = 14 * 86_400_000;
