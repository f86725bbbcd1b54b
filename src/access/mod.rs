//! Who asks, and for whom: keys to principals, requests to identities.
//!
//! [`Keys`] turns a credential into a [`Principal`](crate::exchange::Principal); [`identify()`] finds the subject, the namespace and the memory
//! switches of a request. [`Limits`] are what a key may use in a minute.
//! Nothing here reads a store.

mod identify;
mod keys;
mod limits;

pub use identify::{BodyNames, identify};
pub use keys::{ClientMode, Keys, fingerprint};
pub use limits::{Limits, Taken};
