//! What stands in a configuration, key by key, as hashes: tells what changed between two readings, and keeps no value.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::env::{self, Env};
use super::words::{quoted_key, show};

/// Keys whose value names a file that is part of the configuration: what stands in it counts, not only its name.
const FILES: [&str; 5] = ["ca_file", "tls_cert", "tls_key", "admin_tls_cert", "admin_tls_key"];

/// A hash of each value, by the path of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<String, blake3::Hash>);

impl Marks {
    /// Marks everything in a table, variables and files put in place.
    pub(super) fn of(table: &Table, folder: &Path, env: &dyn Env) -> Self {
        let mut marks = Self::default();
        Marking { folder, env, marks: &mut marks }.table("", table);
        marks
    }

    /// The keys that differ, among them those that only one of the two has; in order.
    #[must_use]
    pub fn changed(&self, other: &Self) -> Vec<String> {
        let keys = self.0.keys().chain(other.0.keys().filter(|key| !self.0.contains_key(*key)));
        let mut changed: Vec<String> = keys.filter(|key| self.0.get(*key) != other.0.get(*key)).cloned().collect();
        changed.sort_unstable();
        changed
    }
}

struct Marking<'a> {
    folder: &'a Path,
    env: &'a dyn Env,
    marks: &'a mut Marks,
}

impl Marking<'_> {
    fn table(&mut self, path: &str, table: &Table) {
        for (key, value) in table {
            let at = if path.is_empty() { quoted_key(key) } else { format!("{path}.{}", quoted_key(key)) };
            self.value(&at, key, value);
        }
    }

    fn value(&mut self, path: &str, key: &str, value: &Value) {
        match value {
            Value::Table(table) => self.table(path, table),
            Value::Array(items) if items.iter().any(Value::is_table) => {
                for (index, item) in items.iter().enumerate() {
                    // A name stays where a place in the list does not.
                    let name =
                        item.get("name").and_then(Value::as_str).map_or_else(|| index.to_string(), str::to_owned);
                    self.value(&format!("{path}[{name}]"), key, item);
                }
            }
            leaf => {
                let mark = self.leaf(key, leaf);
                self.marks.0.insert(path.to_owned(), mark);
            }
        }
    }

    fn leaf(&self, key: &str, value: &Value) -> blake3::Hash {
        let mut hash = blake3::Hasher::new();
        match value {
            Value::Array(items) => {
                for item in items {
                    hash.update(self.leaf("", item).as_bytes());
                }
            }
            Value::String(raw) => {
                // What cannot be read is no configuration; it is refused elsewhere.
                let text = env::expand(raw, self.folder, self.env).unwrap_or_default();
                hash.update(text.as_bytes());
                if FILES.contains(&key) {
                    hash.update(self.env.file(&self.folder.join(&text)).unwrap_or_default().as_bytes());
                }
            }
            other => {
                hash.update(show(other).as_bytes());
            }
        }
        hash.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::super::env::tests::MapEnv;
    use super::*;

    fn marks(text: &str, env: &MapEnv) -> Marks {
        Marks::of(&text.parse().unwrap(), Path::new("/etc/b"), env)
    }

    #[test]
    fn what_changed_is_named_and_nothing_else() {
        let env = MapEnv::default();
        let before =
            marks("[server]\nlisten='a'\ndrain_seconds=1\n[[keys]]\nname='x'\nkey='1'\n[[keys]]\nkey='2'\n", &env);
        let after = marks(
            "[server]\nlisten='b'\ndrain_seconds=1\n[[keys]]\nkey='2'\n[[keys]]\nname='x'\nkey='1'\nmodels=['m']\n",
            &env,
        );
        assert_eq!(before.changed(&after), ["keys[0].key", "keys[1].key", "keys[x].models", "server.listen"]);
        assert!(before.changed(&before.clone()).is_empty());
    }

    #[test]
    fn a_file_that_is_named_is_part_of_the_value() {
        let with = |secret: &str, pem: &str| {
            let mut env = MapEnv::default();
            env.files.insert("/etc/b/secret".into(), secret.to_owned());
            env.files.insert("/etc/b/cert.pem".into(), pem.to_owned());
            marks("[admin]\nkey='${file:secret}'\n[server]\ntls_cert='cert.pem'\n", &env)
        };
        assert_eq!(with("one", "a").changed(&with("two", "a")), ["admin.key"]);
        assert_eq!(with("one", "a").changed(&with("one", "b")), ["server.tls_cert"]);
    }
}
