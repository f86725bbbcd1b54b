//! Looks whether the files of the configuration have changed.
//!
//! By asking for their times and sizes now and then: no file system does without that (inotify says nothing of a network share, and a
//! ConfigMap of Kubernetes changes by a symbolic link two folders away), and a handful of files every few seconds costs nothing.

use std::fs::Metadata;
use std::path::PathBuf;
use std::time::SystemTime;

use super::load::{Loaded, Source, load};
use super::report::Why;

/// A file as it was seen: what its path leads to, links followed. `None` = there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    path: PathBuf,
    seen: Option<(Option<SystemTime>, u64, u64)>,
}

pub(super) fn stamps(paths: Vec<PathBuf>) -> Vec<Stamp> {
    let stamp = |path: PathBuf| {
        let seen = std::fs::metadata(&path).ok().map(|file| (file.modified().ok(), file.len(), inode(&file)));
        Stamp { path, seen }
    };
    paths.into_iter().map(stamp).collect()
}

#[cfg(unix)]
fn inode(file: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(file)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

/// What is watched.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// As it was when it was last read.
    loaded: Vec<Stamp>,
    /// As it was at the last look, where that was something else: who writes may not have ended.
    changing: Option<Vec<Stamp>>,
}

impl Watch {
    /// Notes what the process was started with.
    pub(super) async fn begin(&mut self, source: &Source) {
        self.loaded(&load(source, Why::Signal).await);
    }

    /// Notes what was read, good or not: it is not tried again until it changes.
    pub(super) fn loaded(&mut self, loaded: &Loaded) {
        self.loaded.clone_from(&loaded.files);
        self.changing = None;
    }

    /// Whether something has changed since it was last read, and has not changed since the last look.
    pub(super) async fn has_changed(&mut self) -> bool {
        let paths = self.loaded.iter().map(|stamp| stamp.path.clone()).collect();
        let Ok(now) = tokio::task::spawn_blocking(move || stamps(paths)).await else { return false };
        if now == self.loaded {
            self.changing = None;
            return false;
        }
        let is_still = self.changing.as_ref() == Some(&now);
        self.changing = Some(now);
        is_still
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::{Overrides, SystemEnv};

    #[tokio::test]
    async fn a_change_counts_once_it_stands_still() {
        let folder = tempfile::tempdir().unwrap();
        let (file, secret) = (folder.path().join("b.toml"), folder.path().join("secret"));
        std::fs::write(&secret, "one").unwrap();
        std::fs::write(&file, "[admin]\nkey = '${file:secret}'\n").unwrap();
        let source = Source { path: Some(file), overrides: Overrides::default(), env: Arc::new(SystemEnv) };
        let mut watch = Watch::default();
        watch.begin(&source).await;
        assert_eq!(watch.loaded.len(), 2, "a file that the file names is watched, too");
        assert!(!watch.has_changed().await);
        std::fs::write(&secret, "two and").unwrap();
        assert!(!watch.has_changed().await, "it may still be written");
        std::fs::write(&secret, "two and three").unwrap();
        assert!(!watch.has_changed().await, "it was");
        assert!(watch.has_changed().await);
        watch.loaded(&load(&source, Why::File).await);
        assert!(!watch.has_changed().await);
        std::fs::remove_file(&secret).unwrap();
        assert!(!watch.has_changed().await && watch.has_changed().await);
    }

    /// A ConfigMap of Kubernetes: the file stays, what it leads to is another one.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_link_that_leads_elsewhere_is_a_change() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["v1", "v2"] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("b.toml"), "[server]\n").unwrap();
        }
        symlink(at("v1"), at("data")).unwrap();
        symlink("data/b.toml", at("b.toml")).unwrap();
        let source = Source { path: Some(at("b.toml")), overrides: Overrides::default(), env: Arc::new(SystemEnv) };
        let mut watch = Watch::default();
        watch.begin(&source).await;
        symlink(at("v2"), at("next")).unwrap();
        std::fs::rename(at("next"), at("data")).unwrap();
        assert!(!watch.has_changed().await && watch.has_changed().await);
    }
}
