//! Child processes: started, found by the address that they print, measured through `/proc`, ended when dropped.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// Names the part that this program plays when it starts itself again.
const ROLE_VARIABLE: &str = "BACKSTORY_BENCH_ROLE";
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// `USER_HZ`, the unit of the times in `/proc/PID/stat`, is 100 on every Linux that we run on.
const TICK: Duration = Duration::from_millis(10);

pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE_VARIABLE).ok()
}

/// A running child. Its standard input stays open for as long as it should live.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    _alive: Option<ChildStdin>,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Process {
    /// Starts this program in another role.
    pub(crate) fn start_role(role: &str, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).env(ROLE_VARIABLE, role);
        Self::start(command)
    }

    /// Starts a program that prints `http://ADDRESS` once it listens, on either output.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let alive = child.stdin.take();
        let (sender, lines) = mpsc::sync_channel(64);
        if let Some(stdout) = child.stdout.take() {
            forward_lines(stdout, sender.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            forward_lines(stderr, sender);
        }
        let mut process = Self { child, _alive: alive, address: String::new() };
        let deadline = Instant::now() + START_TIMEOUT;
        let mut said = String::new();
        while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let Some(address) = printed_address(&line) {
                process.address = address;
                return Ok(process);
            }
            said.push_str(&line);
            said.push('\n');
        }
        Err(format!("{name} did not say where it listens; it said:\n{said}").into())
    }

    /// CPU time that the process has used so far, in user and in system mode.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field is the name in parentheses, which may hold spaces; utime and stime are fields 14 and 15.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default().split_whitespace();
        let ticks: u32 = fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
        Ok(TICK * ticks)
    }

    /// Waits until the process has nothing left to do (work after the replies counts too), for 15 s at most.
    pub(crate) fn settle(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(15);
        while Instant::now() < deadline {
            let before = self.cpu()?;
            thread::sleep(Duration::from_millis(200));
            if self.cpu()? - before <= TICK {
                break;
            }
        }
        Ok(())
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kibibytes * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end, so that the child never blocks on a full pipe; lines that nobody waits for any more are dropped.
fn forward_lines(output: impl Read + Send + 'static, lines: mpsc::SyncSender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
            let _ = lines.try_send(line);
        }
    });
}

fn printed_address(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("listening on http://")?;
    Some(rest.chars().take_while(|c| c.is_ascii_alphanumeric() || ".:".contains(*c)).collect())
}

/// Tells the parent where this child listens, and ends the process when the parent is gone.
pub(crate) fn announce(address: std::net::SocketAddr) {
    crate::say(&format!("listening on http://{address}"));
}

/// Returns when the parent closes our standard input, by will or by its own end.
pub(crate) async fn parent_gone() {
    let (sender, gone) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    let _ = gone.await;
}
