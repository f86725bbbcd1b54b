//! What the tests of this module share.

use crate::context::PolicyChanges;
use crate::exchange::{Limits, MemoryApi, Principal, SubjectRule, Switch};
use crate::memory::Sensitivity;

/// Someone of a tenant who may do everything that needs no grant.
pub(super) fn principal(tenant: &str) -> Principal {
    Principal {
        tenant: tenant.into(),
        namespace: "default".into(),
        read_namespaces: vec![],
        any_namespace: false,
        subject: SubjectRule { from: vec![], default: None, may_name: true },
        memory: Switch::ON,
        memory_api: MemoryApi::Write,
        may_edit: false,
        models: vec![],
        passthrough: vec![],
        max_sensitivity: Sensitivity::Sensitive,
        budget: PolicyChanges::default(),
        key: 0,
        key_name: "k".into(),
        limits: Limits::default(),
        each_subject: Limits::default(),
    }
}
