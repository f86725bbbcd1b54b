//! Redis servers: the one that all tests share, and ones of a test's own that may be killed.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::eventually;

/// The lines of `[redis]` for the server that all tests share, with a prefix of their own; `None` where there is none, which is said.
pub(crate) fn shared() -> Option<String> {
    let url = std::env::var("BACKSTORY_TEST_REDIS").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        skipped("BACKSTORY_TEST_REDIS names no Redis");
    }
    Some(lines(&url?))
}

/// The lines of `[redis]` for a server. Requests wait for it for longer than a busy machine takes.
pub(crate) fn lines(url: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("[redis]\nurl = \"{url}\"\nprefix = \"it-{process}-{number}:\"\ntimeout_ms = 5000\n")
}

/// Says that a test was left out, and why; a failure where servers are required.
#[expect(clippy::print_stderr, reason = "who runs the tests must see what they left out")]
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var("BACKSTORY_TEST_SERVERS").as_deref() != Ok("required"), "{why}, and servers are required");
    eprintln!("SKIPPED: {why}");
}

/// A server of this test alone; killed when dropped.
pub(crate) struct OwnRedis {
    child: Child,
    port: u16,
    args: Vec<String>,
}

impl OwnRedis {
    /// Starts one; `None` where the program is not installed, which is said.
    pub(crate) async fn start(args: &[&str]) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let Some(child) = spawn(port, &args) else {
            skipped("redis-server is not installed");
            return None;
        };
        let redis = Self { child, port, args };
        redis.listening().await;
        Some(redis)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends it one command, as in `CONFIG SET maxmemory 1`, and reads one line.
    pub(crate) async fn command(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).await.unwrap();
        answer
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, empty, where it was.
    pub(crate) async fn start_again(&mut self) {
        self.child = spawn(self.port, &self.args).unwrap();
        self.listening().await;
    }

    async fn listening(&self) {
        let listens = || async { TcpStream::connect(("127.0.0.1", self.port)).await.ok() };
        eventually("Redis listens", listens).await;
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        // It may have been killed already.
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

fn spawn(port: u16, args: &[String]) -> Option<Child> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}
