//! Whose memory: every store call takes a [`Scope`].

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The walls around a memory. There is no store call without one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// The owner of keys; the hard wall.
    pub tenant: Arc<str>,
    /// A line of business inside the tenant; crossed only by explicit grant.
    pub namespace: Arc<str>,
    /// The person that memories are about.
    pub subject: Arc<str>,
}

impl Scope {
    /// Makes a scope of its three names.
    pub fn new(tenant: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>, subject: impl Into<Arc<str>>) -> Self {
        Self { tenant: tenant.into(), namespace: namespace.into(), subject: subject.into() }
    }

    /// The same subject in another namespace of the tenant.
    #[must_use]
    pub fn in_namespace(&self, namespace: impl Into<Arc<str>>) -> Self {
        Self { tenant: Arc::clone(&self.tenant), namespace: namespace.into(), subject: Arc::clone(&self.subject) }
    }
}

/// A line of business inside a tenant: what is about nobody in particular, as the documents of an operator, is kept under it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Namespace {
    /// The owner of keys; the hard wall.
    pub tenant: Arc<str>,
    /// Its name inside the tenant; crossed only by explicit grant.
    pub name: Arc<str>,
}

impl Namespace {
    /// Makes a namespace of its two names.
    pub fn new(tenant: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { tenant: tenant.into(), name: name.into() }
    }
}

/// Never prints the subject: scopes end up in logs.
impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({}/{}/…)", self.tenant, self.namespace)
    }
}
