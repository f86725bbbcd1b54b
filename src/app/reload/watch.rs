//! Looks whether the files of the configuration have changed.
//!
//! By asking for their times and sizes now and then: no file system does without that (inotify says nothing of a network share, and a
//! ConfigMap of Kubernetes changes by a symbolic link two folders away), and a handful of files every few seconds costs nothing.

use std::fs::Metadata;
use std::path::PathBuf;
use std::time::SystemTime;

use super::load::{Loaded, Source, load};
use super::report::Why;
use crate::config::Marks;

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
    /// Notes what the process was started with. What was written after it was read then, and before this, is a change.
    pub(super) async fn begin(&mut self, source: &Source, started_with: &Marks) {
        let loaded = load(source, Why::Signal).await;
        self.loaded(&loaded);
        if !loaded.config.is_ok_and(|now| started_with.changed(&now.marks).is_empty()) {
            self.loaded.iter_mut().for_each(|stamp| stamp.seen = None);
        }
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
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::config::{Overrides, SystemEnv};

    /// A configuration, and the file of a secret that it names.
    fn with_a_secret(folder: &Path) -> (Source, PathBuf) {
        let (file, secret) = (folder.join("b.toml"), folder.join("secret"));
        std::fs::write(&secret, "one").unwrap();
        let text = "[[providers]]\nname = 'up'\nbase_url = 'http://127.0.0.1:9'\napi_key = '${file:secret}'\n";
        std::fs::write(&file, text).unwrap();
        (Source { path: Some(file), overrides: Overrides::default(), env: Arc::new(SystemEnv) }, secret)
    }

    /// What it says now.
    async fn marks(source: &Source) -> Marks {
        load(source, Why::Signal).await.config.expect("it is right").marks
    }

    #[tokio::test]
    async fn what_changed_before_the_first_look_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let (source, secret) = with_a_secret(folder.path());
        let started_with = marks(&source).await;
        std::fs::write(&secret, "two").unwrap();
        let mut watch = Watch::default();
        watch.begin(&source, &started_with).await;
        assert!(!watch.has_changed().await && watch.has_changed().await);
    }

    #[tokio::test]
    async fn a_change_counts_once_it_stands_still() {
        let folder = tempfile::tempdir().unwrap();
        let (source, secret) = with_a_secret(folder.path());
        let mut watch = Watch::default();
        watch.begin(&source, &marks(&source).await).await;
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
        watch.begin(&source, &marks(&source).await).await;
        symlink(at("v2"), at("next")).unwrap();
        std::fs::rename(at("next"), at("data")).unwrap();
        assert!(!watch.has_changed().await && watch.has_changed().await);
    }
}
