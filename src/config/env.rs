//! What the configuration reads from outside its text: variables and files, behind a trait.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Gives variables and files.
pub trait Env {
    /// Returns an environment variable; `None` when it is unset or not Unicode.
    fn var(&self, name: &str) -> Option<String>;

    /// Reads a whole text file.
    ///
    /// # Errors
    /// When it cannot be read, or is not UTF-8.
    fn file(&self, path: &Path) -> io::Result<String>;
}

impl fmt::Debug for dyn Env + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}

/// The process's own environment and file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnv;

impl Env for SystemEnv {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        use io::Read;
        // Bounded: a path that names a device or a log must not fill the memory.
        let mut text = String::new();
        std::fs::File::open(path)?.take(super::MAX_FILE_BYTES as u64 + 1).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// Notes which files are read.
#[derive(Debug)]
pub struct Noting<'a> {
    inner: &'a dyn Env,
    files: RefCell<BTreeSet<PathBuf>>,
}

impl<'a> Noting<'a> {
    /// Reads through another environment.
    #[must_use]
    pub fn new(inner: &'a dyn Env) -> Self {
        Self { inner, files: RefCell::default() }
    }

    /// The files that were asked for, there or not.
    #[must_use]
    pub fn into_files(self) -> BTreeSet<PathBuf> {
        self.files.into_inner()
    }
}

impl Env for Noting<'_> {
    fn var(&self, name: &str) -> Option<String> {
        self.inner.var(name)
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        self.files.borrow_mut().insert(path.to_path_buf());
        self.inner.file(path)
    }
}

/// The folder for application data of the user who runs us, by the platform's convention; `./backstory-data` without a home.
pub(super) fn user_data_folder(env: &dyn Env) -> PathBuf {
    let absolute = |name: &str| env.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = absolute("XDG_DATA_HOME") {
        return folder.join("backstory");
    }
    match absolute("HOME") {
        Some(home) if cfg!(target_os = "macos") => home.join("Library/Application Support/backstory"),
        Some(home) => home.join(".local/share/backstory"),
        None => PathBuf::from("backstory-data"),
    }
}

/// Replaces `${VAR}` and `${file:PATH}`; `$${` stands for a literal `${`.
///
/// # Errors
/// A sentence that names what is missing, never a value.
pub(super) fn expand(raw: &str, folder: &Path, env: &dyn Env) -> Result<String, String> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let (name, behind) = rest[at + 2..].split_once('}').ok_or("a `${` has no closing `}`")?;
        out.push_str(&lookup(name, folder, env)?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

fn lookup(name: &str, folder: &Path, env: &dyn Env) -> Result<String, String> {
    if let Some(path) = name.strip_prefix("file:") {
        let text = env.file(&folder.join(path)).map_err(|error| format!("the file {path} cannot be read: {error}"))?;
        // Secret files end with a line break that is not part of the secret.
        return Ok(text.trim_end_matches(['\n', '\r']).to_owned());
    }
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_name {
        return Err(format!("`${{{name}}}` is neither a variable name nor `file:PATH`"));
    }
    env.var(name).ok_or_else(|| format!("the environment variable {name} is not set"))
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Variables and files from maps.
    #[derive(Debug, Default)]
    pub(in crate::config) struct MapEnv {
        pub(in crate::config) vars: HashMap<&'static str, String>,
        pub(in crate::config) files: HashMap<PathBuf, String>,
    }

    impl MapEnv {
        pub(in crate::config) fn with(vars: &[(&'static str, &str)]) -> Self {
            Self { vars: vars.iter().map(|(k, v)| (*k, (*v).to_owned())).collect(), files: HashMap::new() }
        }
    }

    impl Env for MapEnv {
        fn var(&self, name: &str) -> Option<String> {
            self.vars.get(name).cloned()
        }

        fn file(&self, path: &Path) -> io::Result<String> {
            self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn variables_and_files_are_put_in_place() {
        let mut env = MapEnv::with(&[("HOST", "db"), ("PORT", "5432")]);
        env.files.insert("/etc/b/secret".into(), "s3cret\n".to_owned());
        let expanded = expand("a ${HOST}:${PORT} ${file:secret} $${HOST} $5", Path::new("/etc/b"), &env);
        assert_eq!(expanded.unwrap(), "a db:5432 s3cret ${HOST} $5");
    }

    #[test]
    fn what_is_missing_is_named() {
        let env = MapEnv::default();
        for (raw, named) in [("${NOPE}", "NOPE"), ("${file:gone}", "gone"), ("${A", "closing"), ("${a b}", "a b")] {
            let error = expand(raw, Path::new(""), &env).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn an_empty_variable_is_set() {
        assert_eq!(expand("<${E}>", Path::new(""), &MapEnv::with(&[("E", "")])).unwrap(), "<>");
    }

    #[test]
    fn the_data_folder_follows_the_platform() {
        let xdg = MapEnv::with(&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")]);
        assert_eq!(user_data_folder(&xdg), Path::new("/x/backstory"));
        assert!(user_data_folder(&MapEnv::with(&[("HOME", "/h")])).starts_with("/h"));
        assert_eq!(user_data_folder(&MapEnv::default()), Path::new("backstory-data"));
    }
}
