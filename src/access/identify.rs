//! Requests to identities: subject, namespace and memory switches (design, section 3).

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};

use crate::base::{ErrorKind, GatewayError};
use crate::exchange::{Identity, Principal, SubjectRule, SubjectSource, Switch};
use crate::memory::{Namespace, Scope};

// Names that need not be parsed for each request.
const NAMESPACE: HeaderName = HeaderName::from_static("x-backstory-namespace");
const USER: HeaderName = HeaderName::from_static("x-backstory-user");
const MEMORY: HeaderName = HeaderName::from_static("x-backstory-memory");

/// Longest subject or namespace, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// What a body says at a place where it names its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyName<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// Something that is no text: a number, or half of a surrogate pair.
    Unreadable,
}

/// Where a body names its subject, by source.
pub trait BodyNames {
    /// Returns what the body says at `source`; `None` where it says nothing, or `null`.
    fn name(&self, source: SubjectSource) -> Option<BodyName<'_>>;
}

/// No body, or one that names nobody.
impl BodyNames for () {
    fn name(&self, _: SubjectSource) -> Option<BodyName<'_>> {
        None
    }
}

/// Finds out whose memory a request touches, and how.
///
/// # Errors
/// 403 for a header that names a subject or namespace which the key may not use; 400 for one that is malformed.
/// What a *body* names and the key may not use is ignored.
pub fn identify(principal: &Principal, headers: &HeaderMap, body: &dyn BodyNames) -> Result<Identity, GatewayError> {
    let (namespace, own) = namespace(principal, headers)?;
    let (subject, named_by) = subject(principal, headers, body)?.unzip();
    let named_by = named_by.flatten();
    let asked = switch(headers)?;
    let mut memory = principal.memory.and(asked);
    // A granted namespace is read, never written.
    memory.write &= own;

    let skipped = if subject.is_none() {
        Some("no-subject")
    } else if memory == Switch::OFF {
        Some("off")
    } else {
        None
    };
    let scope = subject.map(|subject| Scope::new(Arc::clone(&principal.tenant), Arc::clone(&namespace), subject));
    let also_read = match &scope {
        Some(scope) if own => principal.read_namespaces.iter().map(|n| scope.in_namespace(Arc::clone(n))).collect(),
        _ => Vec::new(),
    };
    // Documents are about no person, so they need none; but who reads nothing reads no documents either.
    let mut knowledge = Vec::new();
    if memory.read {
        let granted = principal.read_namespaces.iter().filter(|_| own);
        let names = std::iter::once(&namespace).chain(granted);
        knowledge.extend(names.map(|name| Namespace::new(Arc::clone(&principal.tenant), Arc::clone(name))));
    }
    if scope.is_none() {
        memory = Switch::OFF;
    }
    Ok(Identity { namespace, scope, named_by, also_read, knowledge, memory, skipped })
}

/// Returns the namespace in force and whether it is the key's own.
fn namespace(principal: &Principal, headers: &HeaderMap) -> Result<(Arc<str>, bool), GatewayError> {
    let Some(named) = header(headers, &NAMESPACE)? else {
        return Ok((Arc::clone(&principal.namespace), true));
    };
    if *named == *principal.namespace || principal.any_namespace {
        return Ok((Arc::from(named), true));
    }
    if principal.read_namespaces.iter().any(|n| **n == *named) {
        return Ok((Arc::from(named), false));
    }
    Err(GatewayError::new(ErrorKind::Forbidden, "this key may not use the namespace named in x-backstory-namespace")
        .with_param("x-backstory-namespace"))
}

/// A subject, and the place that named it; none for the default.
type Named = (Arc<str>, Option<SubjectSource>);

fn subject(principal: &Principal, headers: &HeaderMap, body: &dyn BodyNames) -> Result<Option<Named>, GatewayError> {
    let default = |rule: &SubjectRule| rule.default.clone().map(|name| (name, None));
    let rule = &principal.subject;
    let named = header(headers, &USER)?;
    if !rule.may_name {
        return match (named, &rule.default) {
            (Some(named), default) if default.as_deref() != Some(named) => {
                Err(GatewayError::new(ErrorKind::Forbidden, "this key may not name a subject")
                    .with_param("x-backstory-user"))
            }
            _ => Ok(default(rule)),
        };
    }
    for source in &rule.from {
        let found = match source {
            SubjectSource::Header => named.map(Cow::Borrowed),
            source => match body.name(*source) {
                Some(BodyName::Text(name)) if is_usable(&name) => Some(name),
                None => None,
                // It was not written for us, so it is no mistake; but the default is for those who name nobody.
                Some(_) => return Ok(None),
            },
        };
        if let Some(name) = found.filter(|name| !name.is_empty()) {
            return Ok(Some((Arc::from(name.as_ref()), Some(*source))));
        }
    }
    Ok(default(rule))
}

fn switch(headers: &HeaderMap) -> Result<Switch, GatewayError> {
    match header(headers, &MEMORY)? {
        None | Some("on") => Ok(Switch::ON),
        Some("off") => Ok(Switch::OFF),
        Some("read") => Ok(Switch { read: true, write: false }),
        Some("write") => Ok(Switch { read: false, write: true }),
        Some(_) => {
            Err(GatewayError::new(ErrorKind::BadRequest, "x-backstory-memory must be one of on, off, read, write")
                .with_param("x-backstory-memory"))
        }
    }
}

/// Returns a header's text; an empty one is as good as none.
fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, GatewayError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    // Two of them mean that somebody on the way added one: nobody can tell whose memory is meant.
    if headers.get_all(name).iter().any(|other| other != value) {
        return Err(GatewayError::new(ErrorKind::BadRequest, format!("{name} is sent twice, with different values"))
            .with_param(name.as_str()));
    }
    // Names are UTF-8 text; clients send 用户 as raw UTF-8 bytes.
    let text = std::str::from_utf8(value.as_bytes()).ok().map(str::trim).filter(|text| is_usable(text));
    match text {
        Some("") => Ok(None),
        Some(text) => Ok(Some(text)),
        None => Err(GatewayError::new(
            ErrorKind::BadRequest,
            format!("{name} must be UTF-8 text of at most {MAX_NAME_BYTES} bytes without control characters"),
        )
        .with_param(name.as_str())),
    }
}

fn is_usable(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::PolicyChanges;
    use crate::exchange::{Limits, MemoryApi};
    use crate::memory::Sensitivity;

    fn principal() -> Principal {
        use SubjectSource::{Header, MetadataUserId, SafetyIdentifier, User};
        Principal {
            tenant: "acme".into(),
            namespace: "support".into(),
            read_namespaces: vec!["sales".into()],
            any_namespace: false,
            subject: SubjectRule {
                from: vec![Header, MetadataUserId, SafetyIdentifier, User],
                default: None,
                may_name: true,
            },
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

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), http::HeaderValue::from_bytes(v.as_bytes()).unwrap()))
            .collect()
    }

    struct Body(&'static [(SubjectSource, &'static str)]);

    impl BodyNames for Body {
        fn name(&self, source: SubjectSource) -> Option<BodyName<'_>> {
            self.0.iter().find(|(s, _)| *s == source).map(|(_, name)| BodyName::Text(Cow::Borrowed(*name)))
        }
    }

    fn subject_of(p: &Principal, h: &[(&'static str, &str)], body: &dyn BodyNames) -> Option<String> {
        identify(p, &headers(h), body).unwrap().scope.map(|s| s.subject.to_string())
    }

    #[test]
    fn the_first_place_that_names_a_subject_counts() {
        let body = Body(&[(SubjectSource::User, "u"), (SubjectSource::MetadataUserId, "m")]);
        assert_eq!(subject_of(&principal(), &[("x-backstory-user", "h")], &body).as_deref(), Some("h"));
        assert_eq!(subject_of(&principal(), &[], &body).as_deref(), Some("m"));
        assert_eq!(subject_of(&principal(), &[("x-backstory-user", "用户")], &body).as_deref(), Some("用户"));
    }

    /// moorcheh-ai/memanto PR#1891: no subject never means a shared one; an empty `user` is no subject.
    #[test]
    fn without_a_subject_there_is_no_memory_and_a_reason() {
        let identity = identify(&principal(), &HeaderMap::new(), &Body(&[(SubjectSource::User, "")])).unwrap();
        assert!(identity.scope.is_none());
        assert_eq!(identity.memory, Switch::OFF);
        assert_eq!(identity.skipped, Some("no-subject"));
    }

    /// vllm-project/semantic-router PR#1318; nearai/ironclaw#6900.
    #[test]
    fn a_key_that_may_not_name_subjects_has_its_default_only() {
        let mut p = principal();
        p.subject = SubjectRule { may_name: false, default: Some("fixed".into()), ..p.subject };
        assert_eq!(subject_of(&p, &[], &Body(&[(SubjectSource::User, "other")])).as_deref(), Some("fixed"));
        let error = identify(&p, &headers(&[("x-backstory-user", "other")]), &()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Forbidden);
    }

    #[test]
    fn a_granted_namespace_is_read_only_and_any_other_is_refused() {
        let h = |ns: &'static str| headers(&[("x-backstory-user", "u"), ("x-backstory-namespace", ns)]);
        let own = identify(&principal(), &h("support"), &()).unwrap();
        assert_eq!((own.memory, own.also_read.len()), (Switch::ON, 1));
        let granted = identify(&principal(), &h("sales"), &()).unwrap();
        assert_eq!(granted.memory, Switch { read: true, write: false });
        assert_eq!(identify(&principal(), &h("hr"), &()).unwrap_err().kind, ErrorKind::Forbidden);
    }

    #[test]
    fn documents_need_no_subject_but_reading() {
        let of = |h: &[(&'static str, &str)]| {
            let knowledge = identify(&principal(), &headers(h), &()).unwrap().knowledge;
            knowledge.iter().map(|namespace| namespace.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), ["support", "sales"]);
        assert_eq!(of(&[("x-backstory-namespace", "sales")]), ["sales"]);
        for off in ["off", "write"] {
            assert!(of(&[("x-backstory-user", "u"), ("x-backstory-memory", off)]).is_empty());
            assert!(of(&[("x-backstory-memory", off)]).is_empty());
        }
    }

    #[test]
    fn a_request_can_only_narrow_the_switches() {
        let mut p = principal();
        p.memory = Switch { read: true, write: false };
        let memory =
            |value: &str| identify(&p, &headers(&[("x-backstory-user", "u"), ("x-backstory-memory", value)]), &());
        assert_eq!(memory("on").unwrap().memory, p.memory);
        assert_eq!(memory("write").unwrap().skipped, Some("off"));
        assert_eq!(memory("sometimes").unwrap_err().kind, ErrorKind::BadRequest);
    }

    #[test]
    fn a_header_that_is_sent_twice_with_different_values_is_refused() {
        let twice = |one: &str, other: &str| {
            let mut headers = headers(&[("x-backstory-user", one)]);
            headers.append("x-backstory-user", other.parse().unwrap());
            identify(&principal(), &headers, &())
        };
        assert_eq!(twice("ann", "bob").unwrap_err().kind, ErrorKind::BadRequest);
        assert_eq!(&*twice("ann", "ann").unwrap().scope.unwrap().subject, "ann");
    }

    #[test]
    fn malformed_names_are_refused_in_headers_and_nobody_in_bodies() {
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        assert_eq!(
            identify(&principal(), &headers(&[("x-backstory-user", &long)]), &()).unwrap_err().kind,
            ErrorKind::BadRequest
        );
        let mut p = principal();
        p.subject.default = Some("shared".into());
        assert_eq!(subject_of(&p, &[], &Body(&[(SubjectSource::User, "a\nb")])), None);
        assert_eq!(subject_of(&p, &[], &Body(&[(SubjectSource::User, "")])).as_deref(), Some("shared"));
    }
}
