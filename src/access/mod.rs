//! Who asks, and for whom: keys to principals, requests to identities.
//!
//! [`Keys`] turns a credential into a [`Principal`](crate::exchange::Principal): from the config, or from the store
//! ([`StoredKeys`], held in the process for a few seconds). [`identify()`] finds the subject, the namespace and the
//! memory switches of a request. [`LimitTable`] says what each may use.
//! [`issue`] makes keys. Memories are never read here.

mod identify;
pub mod issue;
mod keys;
mod limits;
mod stored;
mod subjects;
#[cfg(test)]
mod testing;

pub use identify::{BodyName, BodyNames, identify};
pub use keys::{ClientMode, Keys, VirtualKeys, fingerprint};
pub use limits::{Accounts, Asking, LimitRules, LimitTable, Need, Running, Spent, Standing, Taken, keep_budgets};
pub use stored::{KEY_STALENESS, ReadKey, StoredKeys};
pub use subjects::{OTHERS, Subjects};
