//! Child processes: started, found by the address that they print, measured through `/proc`, ended when dropped.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// Names the part that this program plays when it starts itself again.
const ROLE_VARIABLE: &str = "BACKSTORY_BENCH_ROLE";
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// For a drain and the end of what is done in the background.
const END_TIMEOUT: Duration = Duration::from_secs(10);
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
        let lines = lines_of(&mut child);
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

    /// Starts a program that was told to listen at an address, and waits until it does.
    pub(crate) fn start_at(mut command: Command, address: String, patience: Duration) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let lines = lines_of(&mut child);
        let mut process = Self { child, _alive: None, address };
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline && process.child.try_wait()?.is_none() {
            if TcpStream::connect(&process.address).is_ok() {
                return Ok(process);
            }
            thread::sleep(Duration::from_millis(100));
        }
        let said: Vec<String> = lines.try_iter().collect();
        Err(format!("{name} does not listen at {}; it said:\n{}", process.address, said.join("\n")).into())
    }

    /// CPU time that the process and those that it started have used so far, in user and in system mode.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let mut ticks = cpu_ticks(self.child.id())?;
        // One that has just ended is counted by its parent.
        ticks += self.descendants().into_iter().filter_map(|id| cpu_ticks(id).ok()).sum::<u32>();
        Ok(TICK * ticks)
    }

    fn descendants(&self) -> Vec<u32> {
        let mut found = children(self.child.id());
        let mut next = 0;
        while let Some(id) = found.get(next) {
            found.extend(children(*id));
            next += 1;
        }
        found
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

    /// Resident memory in bytes, with that of the processes that it started.
    pub(crate) fn resident(&self) -> Result<u64> {
        let own = resident(self.child.id())?;
        Ok(own + self.descendants().into_iter().filter_map(|id| resident(id).ok()).sum::<u64>())
    }
}

/// Of a process, and of its children that have ended.
fn cpu_ticks(id: u32) -> Result<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The second field is the name in parentheses, which may hold spaces; utime, stime, cutime and cstime are fields 14 to 17.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default().split_whitespace();
    Ok(fields.skip(11).take(4).filter_map(|field| field.parse::<u32>().ok()).sum())
}

fn resident(id: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024)
}

/// The children of all threads of a process; none when it has ended.
fn children(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>()).collect()
}

impl Drop for Process {
    /// Asks it to end, so that a build that counts what it does can write that down, and makes it end if it takes too long.
    fn drop(&mut self) {
        // Every shell has it, not every machine as a program.
        let asked = Command::new("sh").args(["-c", &format!("kill {}", self.child.id())]).status();
        let deadline = Instant::now() + END_TIMEOUT;
        while asked.is_ok() && Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a child says on either output.
fn lines_of(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(64);
    if let Some(stdout) = child.stdout.take() {
        forward_lines(stdout, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        forward_lines(stderr, sender);
    }
    lines
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
