//! What our collections are called.

use std::fmt::Write as _;

/// The names of collections: `{prefix}_{generation}`, and `{prefix}_{generation}_{tenant}` for a tenant's own, both as hashes, since
/// ids and names hold what a collection's name may not.
#[derive(Debug)]
pub(super) struct Names {
    prefix: String,
}

/// What a name says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    /// Of the generation.
    pub(super) generation: &'a str,
    /// Of the tenant; none: of the generation as a whole.
    pub(super) tenant: Option<&'a str>,
}

/// Hexadecimal digits that stand for a generation: an installation has a handful.
const GENERATION_DIGITS: usize = 16;

/// Hexadecimal digits that stand for a tenant.
const TENANT_DIGITS: usize = 32;

impl Names {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The alias of the generation that serves.
    pub(super) fn alias(&self) -> &str {
        &self.prefix
    }

    /// The collection of a generation.
    pub(super) fn generation(&self, generation: &str) -> String {
        format!("{}_{}", self.prefix, hash(generation, GENERATION_DIGITS))
    }

    /// The collection of a tenant in a generation.
    pub(super) fn tenant(&self, generation: &str, tenant: &str) -> String {
        format!("{}_{}", self.generation(generation), tenant_hash(tenant))
    }

    /// Reads a name; none where it is not one of ours.
    pub(super) fn read<'a>(&self, name: &'a str) -> Option<Named<'a>> {
        let rest = name.strip_prefix(&self.prefix)?.strip_prefix('_')?;
        let (generation, tenant) = rest.split_once('_').map_or((rest, None), |(first, second)| (first, Some(second)));
        let good = is_hash(generation, GENERATION_DIGITS) && tenant.is_none_or(|t| is_hash(t, TENANT_DIGITS));
        good.then_some(Named { generation, tenant })
    }
}

/// What stands for a tenant in a name.
pub(super) fn tenant_hash(tenant: &str) -> String {
    hash(tenant, TENANT_DIGITS)
}

fn hash(text: &str, digits: usize) -> String {
    let mut hex = blake3::hash(text.as_bytes()).to_hex().to_string();
    hex.truncate(digits);
    hex
}

fn is_hash(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Writes bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_made() {
        let names = Names::new("back_story");
        let (generation, tenant) = (names.generation("e5/384/x"), names.tenant("e5/384/x", "acme"));
        let read = names.read(&generation).unwrap();
        assert_eq!(read.tenant, None);
        let hash = tenant_hash("acme");
        assert_eq!(names.read(&tenant), Some(Named { generation: read.generation, tenant: Some(&hash) }));
        assert!(tenant.len() < 255, "what Qdrant takes for a name");
    }

    #[test]
    fn another_installation_on_the_same_server_has_other_names() {
        let (a, b) = (Names::new("backstory"), Names::new("backstory_test"));
        assert_eq!(a.read(&b.generation("x")), None);
        assert_eq!(a.read(&b.tenant("x", "acme")), None);
        assert_eq!(b.read(&a.generation("x")), None);
        for name in
            ["backstory", "backstory_", "backstory_docs", "other_0123456789abcdef", "backstory_0123456789ABCDEF"]
        {
            assert_eq!(a.read(name), None, "{name}");
        }
    }
}
