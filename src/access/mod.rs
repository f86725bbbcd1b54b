//! Who asks, and for whom: keys to principals, requests to identities.
//!
//! [`Keys`] turns a credential into a [`Principal`](crate::exchange::Principal); [`identify()`] finds the subject, the namespace and the memory
//! switches of a request. Both are pure; nothing here reads a store.

mod identify;
mod keys;

pub use identify::{BodyNames, identify};
pub use keys::{ClientMode, Keys, fingerprint};
