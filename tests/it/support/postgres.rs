//! A PostgreSQL server of a test's own, which may be stopped, killed and filled up (`scripts/own-postgres`).

use std::path::Path;
use std::process::{Command, Stdio};

use super::redis::skipped;

/// A server of this test alone; nothing of it stays when it is dropped.
pub(crate) struct OwnPostgres {
    folder: String,
    url: String,
}

/// How a server is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// Connections are cut, what was done is written down.
    Fast,
    /// As if it had crashed: it recovers at the next start.
    Immediate,
}

impl OwnPostgres {
    /// Starts one; `None` where there is none to be had, which is said.
    pub(crate) async fn start() -> Option<Self> {
        Self::make(&["make"]).await
    }

    /// The same, with its tables on a disk of so many megabytes.
    pub(crate) async fn on_a_disk_of(megabytes: u32) -> Option<Self> {
        Self::make(&["make", &megabytes.to_string()]).await
    }

    async fn make(args: &[&str]) -> Option<Self> {
        let (code, said, why) = script(args).await;
        if code == Some(3) {
            skipped(why.trim());
            return None;
        }
        let [folder, url] = said.lines().collect::<Vec<_>>()[..] else { panic!("{code:?}: {said}{why}") };
        Some(Self { folder: folder.to_owned(), url: url.to_owned() })
    }

    /// The line of `[store]`.
    pub(crate) fn line(&self) -> String {
        format!("url = \"{}\"\n", self.url)
    }

    /// The address of a database on it.
    pub(crate) fn database(&self, name: &str) -> String {
        let (server, _) = self.url.rsplit_once('/').unwrap();
        format!("{server}/{name}")
    }

    pub(crate) async fn stop(&self, how: How) {
        let how = match how {
            How::Fast => "fast",
            How::Immediate => "immediate",
        };
        self.run(&["stop", &self.folder, how]).await;
    }

    /// Starts it where it was, with what it had.
    pub(crate) async fn start_again(&self) {
        self.run(&["start", &self.folder]).await;
    }

    /// Leaves no room on its disk.
    pub(crate) async fn fill(&self) {
        self.run(&["fill", &self.folder]).await;
    }

    /// Makes room on its disk.
    pub(crate) async fn make_room(&self) {
        self.run(&["clear", &self.folder]).await;
    }

    async fn run(&self, args: &[&str]) {
        let (code, said, why) = script(args).await;
        assert_eq!(code, Some(0), "{args:?}: {said}{why}");
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        // What stays is of no use to anybody.
        let _dropped = command(&["drop", &self.folder]).status();
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/own-postgres"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs the script beside the gateway, which goes on meanwhile: exit code, standard output, standard error.
async fn script(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = command(args);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
