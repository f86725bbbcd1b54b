//! Measures what the gateway costs, on loopback and in one go: direct, a bare hyper reverse proxy, Backstory with memory
//! off, the same in Anthropic's dialect, with 10,000 virtual keys and every limit on, and with memory on (10,000 episodes in the scope, durable
//! outbox).
//!
//!     cargo bench --bench gateway                          # everything, under five minutes
//!     cargo bench --bench gateway -- --quick               # a shorter look, under one minute
//!     cargo bench --bench gateway -- --systems direct,bare # some of the six
//!     cargo bench --bench gateway -- --keys 100            # fewer virtual keys behind the limits
//!     cargo bench --bench gateway -- --binary FILE         # another build in place of the release binary
//!     cargo bench --bench gateway -- --replicas            # one gateway and three over PostgreSQL and Redis: memory API and outbox
//!
//! Beside them gateways of others, which `benches/peers/run` installs and then calls this with `--systems …,litellm,portkey
//! --peers FOLDER`.
//!
//! Each system is a process of its own. The upstream and the bare proxy are this program, started again in another role;
//! Backstory is the release binary. `benches/README.md` says how to read the result.

mod backstory;
mod bare;
mod beside;
mod client;
#[path = "../made/exchange.rs"]
mod exchange;
mod goals;
mod load;
mod measure;
mod peers;
mod process;
mod prompts;
mod replicas;
mod report;
mod servers;
mod streams;
#[path = "../made/travel.rs"]
mod travel;
mod upstream;

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Every measurement is made this often, in turn over the systems, so that a disturbance hits all alike.
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) saturation: Duration,
    pub(crate) fixed_rate: Duration,
    pub(crate) streams: Duration,
    /// Requests a second in the open loop, as the goals say.
    pub(crate) rate: u32,
    /// Paced streams at a time, each with a token every 10 ms.
    pub(crate) streams_at_a_time: u32,
    /// Streams that are held open to see what memory they take.
    pub(crate) open_streams: usize,
    pub(crate) episodes: usize,
    /// Virtual keys of the system with limits, each of which has all of them.
    pub(crate) keys: usize,
}

impl Effort {
    const FULL: Self = Self {
        rounds: 3,
        warm_up: Duration::from_millis(500),
        saturation: Duration::from_secs(3),
        fixed_rate: Duration::from_secs(3),
        streams: Duration::from_secs(3),
        rate: 1_000,
        streams_at_a_time: 20,
        open_streams: 500,
        episodes: 10_000,
        keys: 10_000,
    };

    const QUICK: Self = Self {
        rounds: 1,
        warm_up: Duration::from_millis(300),
        saturation: Duration::from_millis(1_500),
        fixed_rate: Duration::from_secs(2),
        streams: Duration::from_millis(1_500),
        ..Self::FULL
    };

    /// What gateways that answer about a hundred requests a second can hold without a queue, and for longer, since fewer come.
    fn beside_peers(self) -> Self {
        let (fixed_rate, streams) = (self.fixed_rate * 2, self.streams * 2);
        Self { rate: 25, fixed_rate, streams, streams_at_a_time: 2, open_streams: 100, ..self }
    }
}

fn main() -> ExitCode {
    let outcome = match process::role().as_deref() {
        Some(upstream::ROLE) => upstream::serve(),
        Some(bare::ROLE) => bare::serve(),
        Some(other) => Err(format!("no such role: {other}").into()),
        None => run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("gateway bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut effort = Effort::FULL;
    let mut keys = None;
    let mut peers = None;
    let mut wanted = measure::System::OURS.to_vec();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--replicas" => return replicas::run(),
            "--quick" => effort = Effort::QUICK,
            "--systems" => wanted = measure::System::parse_list(&arguments.next().unwrap_or_default())?,
            "--keys" => keys = Some(arguments.next().unwrap_or_default().parse()?),
            "--peers" => peers = arguments.next().map(PathBuf::from),
            "--binary" => backstory::measure_instead(arguments.next().unwrap_or_default().into())?,
            // What cargo adds for every bench.
            "--bench" => {}
            other => {
                let known = "--replicas, --quick, --keys N, --systems LIST, --peers FOLDER, --binary FILE (systems also: \
                    memory-on-servers)";
                return Err(format!("unknown argument {other}; known: {known}").into());
            }
        }
    }
    effort.keys = keys.unwrap_or(effort.keys).max(1);
    if wanted.iter().any(|system| system.is_peer()) {
        effort = effort.beside_peers();
    }
    let results = measure::all(&wanted, peers, effort)?;
    say(&report::table(&results, effort));
    let path = report::write_json(&results, effort)?;
    say(&format!("the same as JSON: {}", path.display()));
    Ok(())
}

/// Prints a line. A closed pipe is no reason to stop measuring.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
