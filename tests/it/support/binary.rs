//! The program itself, as a process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::eventually;

/// A running `backstory serve`; killed when dropped.
pub(crate) struct Binary {
    pub(crate) child: Child,
    pub(crate) addr: SocketAddr,
    /// What it printed at its start.
    pub(crate) banner: String,
}

/// `backstory` with these arguments and no settings of this machine.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backstory"));
    command.args(args).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end: exit code, standard output, standard error.
pub(crate) async fn run(args: &[&str], envs: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = command(args);
    command.envs(envs.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

impl Binary {
    /// Starts `serve` on a free port and waits for its five lines.
    pub(crate) async fn serve(args: &[&str]) -> Self {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend_from_slice(args);
        let mut child = command(&all).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let banner = tokio::task::spawn_blocking(move || {
            let mut lines = BufReader::new(stdout).lines();
            (0..5).filter_map(|_| lines.next()?.ok()).map(|line| line + "\n").collect::<String>()
        })
        .await
        .unwrap();
        let addr = banner.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let addr = addr.unwrap_or_else(|| panic!("no address in {banner:?}"));
        Self { child, addr, banner }
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let mut poll = || child.try_wait().unwrap();
        eventually("the process ends", || std::future::ready(poll())).await
    }

    /// What it wrote to standard error; only after its end.
    pub(crate) fn log(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
