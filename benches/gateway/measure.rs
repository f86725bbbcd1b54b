//! The four systems, and what is measured of each.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::backstory::Backstory;
use crate::client::Target;
use crate::process::Process;
use crate::prompts::Prompts;
use crate::{Effort, Result, bare, load, say, streams, upstream};

/// Requests a second in the open loop, as the goals say.
pub(crate) const RATE: u32 = 1_000;
pub(crate) const OPEN_STREAMS: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Direct,
    Bare,
    MemoryOff,
    MemoryOn,
}

impl System {
    pub(crate) const ALL: [Self; 4] = [Self::Direct, Self::Bare, Self::MemoryOff, Self::MemoryOn];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Bare => "bare",
            Self::MemoryOff => "memory-off",
            Self::MemoryOn => "memory-on",
        }
    }

    /// Reads `direct,bare,…`.
    pub(crate) fn parse_list(list: &str) -> Result<Vec<Self>> {
        let find = |name: &str| Self::ALL.into_iter().find(|system| system.name() == name);
        list.split(',').map(|name| find(name).ok_or_else(|| format!("no such system: {name}").into())).collect()
    }
}

/// One system while it runs.
#[derive(Debug)]
enum Running {
    Direct(Target),
    Bare(Process, Target),
    Backstory(Backstory),
}

impl Running {
    fn start(system: System, upstream: &str, runtime: &Runtime, effort: Effort) -> Result<Self> {
        let key = "sk-bench".to_owned();
        Ok(match system {
            System::Direct => Self::Direct(Target { address: upstream.to_owned(), key }),
            System::Bare => {
                let process = Process::start_role(bare::ROLE, &[upstream])?;
                let target = Target { address: process.address.clone(), key };
                Self::Bare(process, target)
            }
            System::MemoryOff => Self::Backstory(Backstory::start(upstream, "off")?),
            System::MemoryOn => {
                let backstory = Backstory::start(upstream, "on")?;
                runtime.block_on(backstory.load_episodes(effort.episodes))?;
                Self::Backstory(backstory)
            }
        })
    }

    fn target(&self) -> &Target {
        match self {
            Self::Direct(target) | Self::Bare(_, target) => target,
            Self::Backstory(backstory) => &backstory.target,
        }
    }

    /// The process that stands between client and upstream.
    fn process(&self) -> Option<&Process> {
        match self {
            Self::Direct(_) => None,
            Self::Bare(process, _) => Some(process),
            Self::Backstory(backstory) => Some(&backstory.process),
        }
    }
}

/// What was measured with one kind of request at saturation. One value a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saturation {
    pub(crate) requests_per_second: Vec<f64>,
    /// CPU of the system's own process for one request, in microseconds, with all work that goes on after the reply.
    pub(crate) cpu_micros: Vec<f64>,
}

/// All that was measured of one system.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) system: System,
    pub(crate) small: Saturation,
    pub(crate) history: Saturation,
    pub(crate) latency: Vec<Duration>,
    pub(crate) first_token: Vec<Duration>,
    pub(crate) token: Vec<Duration>,
    /// Resident memory in bytes: after the start (episodes loaded), and while 500 streams were open.
    pub(crate) idle_bytes: Option<u64>,
    pub(crate) streaming_bytes: Option<u64>,
}

impl Measured {
    fn new(system: System) -> Self {
        Self {
            system,
            small: Saturation::default(),
            history: Saturation::default(),
            latency: Vec::new(),
            first_token: Vec::new(),
            token: Vec::new(),
            idle_bytes: None,
            streaming_bytes: None,
        }
    }
}

/// Starts the systems and measures them, in turn.
pub(crate) fn all(systems: &[System], effort: Effort) -> Result<Vec<Measured>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let upstream = Process::start_role(upstream::ROLE, &[])?;
    let mut running = Vec::new();
    for &system in systems {
        say(&format!("starting {}", system.name()));
        running.push((Running::start(system, &upstream.address, &runtime, effort)?, Measured::new(system)));
    }
    memory(&runtime, &mut running)?;

    let small = Arc::new(Prompts::small("fixed"));
    let history = Arc::new(Prompts::with_history("fixed"));
    let paced = Arc::new(Prompts::small("stream-50-10"));
    for round in 1..=effort.rounds {
        for (system, measured) in &mut running {
            say(&format!("round {round} of {}: {}", effort.rounds, measured.system.name()));
            saturation(&runtime, system, &small, effort, &mut measured.small)?;
            saturation(&runtime, system, &history, effort, &mut measured.history)?;
            let latencies = load::fixed_rate(system.target(), &small, RATE, effort.fixed_rate);
            measured.latency.extend(runtime.block_on(latencies)?);
            let delays = runtime.block_on(streams::delays(system.target(), &paced, effort.streams))?;
            measured.first_token.extend(delays.first);
            measured.token.extend(delays.token);
            settle(system)?;
        }
    }
    Ok(running.into_iter().map(|(_, measured)| measured).collect())
}

fn saturation(
    runtime: &Runtime,
    system: &Running,
    prompts: &Arc<Prompts>,
    effort: Effort,
    into: &mut Saturation,
) -> Result<()> {
    runtime.block_on(load::saturate(system.target(), prompts, effort.warm_up))?;
    settle(system)?;
    let before = system.process().map(Process::cpu).transpose()?;
    let requests = runtime.block_on(load::saturate(system.target(), prompts, effort.saturation))? as f64;
    into.requests_per_second.push(requests / effort.saturation.as_secs_f64());
    settle(system)?;
    if let (Some(process), Some(before)) = (system.process(), before) {
        into.cpu_micros.push((process.cpu()? - before).as_secs_f64() * 1e6 / requests);
    }
    Ok(())
}

/// Resident memory before any load, then with open streams.
fn memory(runtime: &Runtime, running: &mut [(Running, Measured)]) -> Result<()> {
    let held = Arc::new(Prompts::small("hold"));
    for (system, measured) in running {
        settle(system)?;
        measured.idle_bytes = system.process().map(Process::resident).transpose()?;
        let open = runtime.block_on(streams::hold_open(system.target(), &held, OPEN_STREAMS))?;
        measured.streaming_bytes = system.process().map(Process::resident).transpose()?;
        drop(open);
    }
    Ok(())
}

fn settle(system: &Running) -> Result<()> {
    system.process().map_or(Ok(()), Process::settle)
}
