//! The systems, and what is measured of each.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::backstory::{Backstory, KeyStore, Store};
use crate::client::{KeyRing, Target};
use crate::peers::{self, Peer};
use crate::process::Process;
use crate::prompts::{Dialect, Prompts};
use crate::servers::Servers;
use crate::{Effort, Result, bare, load, say, streams, upstream};

/// Open streams of the system with limits, as its goal says.
pub(crate) const OPEN_STREAMS_LIMITED: usize = 1_000;
const PEER_WARM_UP: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Direct,
    Bare,
    MemoryOff,
    /// Memory off, asked in Anthropic's dialect.
    Messages,
    Limits,
    MemoryOn,
    /// The same over the PostgreSQL and the Redis of `scripts/servers`.
    Servers,
    Of(Peer),
}

impl System {
    /// What is measured when nothing else is said.
    pub(crate) const OURS: [Self; 6] =
        [Self::Direct, Self::Bare, Self::MemoryOff, Self::Messages, Self::Limits, Self::MemoryOn];
    pub(crate) const PEERS: [Self; 2] = [Self::Of(Peer::LiteLlm), Self::Of(Peer::Portkey)];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Bare => "bare",
            Self::MemoryOff => "memory-off",
            Self::Messages => "messages",
            Self::Limits => "limits",
            Self::MemoryOn => "memory-on",
            Self::Servers => "memory-on-servers",
            Self::Of(Peer::LiteLlm) => "litellm",
            Self::Of(Peer::Portkey) => "portkey",
        }
    }

    /// How it is asked.
    fn dialect(self) -> Dialect {
        if self == Self::Messages { Dialect::Messages } else { Dialect::Chat }
    }

    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Self::Of(_))
    }

    /// Reads `direct,bare,…`.
    pub(crate) fn parse_list(list: &str) -> Result<Vec<Self>> {
        let find = |name: &str| {
            Self::OURS.into_iter().chain([Self::Servers]).chain(Self::PEERS).find(|system| system.name() == name)
        };
        list.split(',').map(|name| find(name).ok_or_else(|| format!("no such system: {name}").into())).collect()
    }
}

/// What is made once, before anything is measured.
#[derive(Debug, Default)]
struct Prepared {
    episodes: Option<Store>,
    keys: Option<KeyStore>,
    /// Where the gateways of others are installed.
    peers: Option<PathBuf>,
}

/// One system while it runs.
#[derive(Debug)]
enum Running {
    Direct(Target),
    Bare(Process, Target),
    Backstory(Backstory),
    /// The database is dropped once the gateway has ended.
    OnServers {
        gateway: Backstory,
        _servers: Servers,
    },
    Peer(peers::Started),
}

impl Running {
    fn start(system: System, upstream: &str, prepared: &Prepared) -> Result<Self> {
        let keys = KeyRing::one("sk-bench");
        Ok(match system {
            System::Direct => Self::Direct(Target::new(upstream, keys)),
            System::Bare => {
                let process = Process::start_role(bare::ROLE, &[upstream])?;
                let target = Target::new(&process.address, keys);
                Self::Bare(process, target)
            }
            System::MemoryOff | System::Messages => Self::Backstory(Backstory::start(upstream, "off", None)?),
            System::Limits => {
                let keys = prepared.keys.as_ref().ok_or("the keys were not prepared")?;
                Self::Backstory(Backstory::start_limited(upstream, Some(keys))?)
            }
            System::MemoryOn => {
                let data = prepared.episodes.as_ref().ok_or("the store was not prepared")?.data();
                Self::Backstory(Backstory::start(upstream, "on", Some(&data))?)
            }
            System::Servers => {
                let data = prepared.episodes.as_ref().ok_or("the store was not prepared")?.data();
                let servers = Servers::with_copy_of(&data)?;
                Self::OnServers { gateway: Backstory::start_on(&servers, upstream)?, _servers: servers }
            }
            System::Of(peer) => {
                let installed =
                    prepared.peers.as_deref().ok_or("where the gateways of others are is not said: --peers FOLDER")?;
                Self::Peer(peer.start(installed, upstream)?)
            }
        })
    }

    fn target(&self) -> &Target {
        match self {
            Self::Direct(target) | Self::Bare(_, target) => target,
            Self::Backstory(gateway) | Self::OnServers { gateway, .. } => &gateway.target,
            Self::Peer(peer) => &peer.target,
        }
    }

    /// The process that stands between client and upstream.
    fn process(&self) -> Option<&Process> {
        match self {
            Self::Direct(_) => None,
            Self::Bare(process, _) => Some(process),
            Self::Backstory(gateway) | Self::OnServers { gateway, .. } => Some(&gateway.process),
            Self::Peer(peer) => Some(&peer.process),
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

/// Durations, by round: a percentile is taken within each round, and the median of those is what counts. One disturbance
/// of the machine then spoils one round, while what a system does to itself shows in all.
pub(crate) type Rounds = Vec<Vec<Duration>>;

/// All that was measured of one system.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) system: System,
    pub(crate) small: Saturation,
    pub(crate) history: Saturation,
    pub(crate) latency: Rounds,
    pub(crate) first_token: Rounds,
    pub(crate) token: Rounds,
    /// Resident memory in bytes: after the start (episodes loaded), and while many streams were open.
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

/// What is measured in one go. Each starts on a fresh process, so that no measurement pays for what another has left
/// behind: with memory on, every request adds to the scope. Gateways of others keep nothing and take half a minute to start,
/// so they are started once, and idle while others have their turn.
#[derive(Clone, Copy, Debug)]
enum Block {
    Small,
    History,
    FixedRate,
    Streams,
}

impl Block {
    const ALL: [Self; 4] = [Self::Small, Self::History, Self::FixedRate, Self::Streams];
}

/// Measures the systems in turn.
pub(crate) fn all(systems: &[System], peers: Option<PathBuf>, effort: Effort) -> Result<Vec<Measured>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let upstream = Process::start_role(upstream::ROLE, &[])?;
    let mut prepared = Prepared { peers, ..Prepared::default() };
    if systems.contains(&System::MemoryOn) || systems.contains(&System::Servers) {
        say(&format!("adding {} episodes", effort.episodes));
        prepared.episodes = Some(runtime.block_on(Store::with_episodes(&upstream.address, effort.episodes))?);
    }
    if systems.contains(&System::Limits) {
        say(&format!("making {} keys", effort.keys));
        prepared.keys = Some(runtime.block_on(KeyStore::with_keys(&upstream.address, effort.keys))?);
    }
    let mut results: Vec<Measured> = systems.iter().copied().map(Measured::new).collect();
    let mut kept: Vec<Option<Running>> = Vec::new();
    for measured in &mut results {
        kept.push(match measured.system.is_peer() {
            true => Some(start_peer(&runtime, measured, &upstream.address, &prepared)?),
            false => None,
        });
    }
    for round in 1..=effort.rounds {
        for block in Block::ALL {
            for (measured, kept) in results.iter_mut().zip(&kept) {
                say(&format!("round {round} of {}: {block:?}, {}", effort.rounds, measured.system.name()));
                let fresh = match kept {
                    Some(_) => None,
                    None => Some(Running::start(measured.system, &upstream.address, &prepared)?),
                };
                if let Some(running) = fresh.as_ref().or(kept.as_ref()) {
                    measure(block, &runtime, running, effort, measured)?;
                }
            }
        }
    }
    Ok(results)
}

/// Its memory is looked at now: later it is no longer as after the start. Then it is given time to load and compile what it
/// needs, so that its first requests are not taken for what all cost.
fn start_peer(runtime: &Runtime, measured: &mut Measured, upstream: &str, prepared: &Prepared) -> Result<Running> {
    say(&format!("starting {}", measured.system.name()));
    let running = Running::start(measured.system, upstream, prepared)?;
    settle(&running)?;
    measured.idle_bytes = running.process().map(Process::resident).transpose()?;
    let prompts = Arc::new(Prompts::small(Dialect::Chat, "fixed"));
    runtime.block_on(load::saturate(running.target(), &prompts, PEER_WARM_UP))?;
    settle(&running)?;
    Ok(running)
}

fn measure(block: Block, runtime: &Runtime, system: &Running, effort: Effort, into: &mut Measured) -> Result<()> {
    let target = system.target();
    let dialect = into.system.dialect();
    if target.keys.len() > 1 {
        // A key's first request reads it and its accounts from the store. That is no part of what a request costs.
        runtime.block_on(load::send(target, &Arc::new(Prompts::small(dialect, "fixed")), target.keys.len()))?;
    }
    match block {
        Block::Small => {
            saturation(runtime, system, &Arc::new(Prompts::small(dialect, "fixed")), effort, &mut into.small)
        }
        Block::History => {
            let prompts = Arc::new(Prompts::with_history(dialect, "fixed"));
            saturation(runtime, system, &prompts, effort, &mut into.history)
        }
        Block::FixedRate => {
            let prompts = Arc::new(Prompts::small(dialect, "fixed"));
            runtime.block_on(load::fixed_rate(target, &prompts, effort.rate, effort.warm_up))?;
            let latencies = runtime.block_on(load::fixed_rate(target, &prompts, effort.rate, effort.fixed_rate))?;
            into.latency.push(latencies);
            Ok(())
        }
        Block::Streams => {
            memory(runtime, system, effort, into)?;
            let prompts = Arc::new(Prompts::small(dialect, "stream-50-10"));
            let delays =
                runtime.block_on(streams::delays(target, &prompts, effort.streams_at_a_time, effort.streams))?;
            into.first_token.push(delays.first);
            into.token.push(delays.token);
            Ok(())
        }
    }
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
    let start = Instant::now();
    let requests = runtime.block_on(load::saturate(system.target(), prompts, effort.saturation))? as f64;
    // A slow system answers its last requests long after the end.
    into.requests_per_second.push(requests / start.elapsed().as_secs_f64());
    settle(system)?;
    if let (Some(process), Some(before)) = (system.process(), before) {
        into.cpu_micros.push((process.cpu()? - before).as_secs_f64() * 1e6 / requests);
    }
    Ok(())
}

/// Resident memory before any load, then with open streams.
fn memory(runtime: &Runtime, system: &Running, effort: Effort, into: &mut Measured) -> Result<()> {
    let Some(process) = system.process() else { return Ok(()) };
    settle(system)?;
    if !into.system.is_peer() {
        into.idle_bytes = Some(process.resident()?);
    }
    let prompts = Arc::new(Prompts::small(into.system.dialect(), "hold"));
    let count = if into.system == System::Limits { OPEN_STREAMS_LIMITED } else { effort.open_streams };
    let open = runtime.block_on(streams::hold_open(system.target(), &prompts, count))?;
    into.streaming_bytes = Some(process.resident()?);
    drop(open);
    settle(system)
}

fn settle(system: &Running) -> Result<()> {
    system.process().map_or(Ok(()), Process::settle)
}
