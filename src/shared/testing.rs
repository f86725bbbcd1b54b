//! A real Redis for tests, and ways to make it slow or gone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Change, Follow, Options, Shared};
use crate::base::{Random, Secret, SystemClock, SystemRandom};
use crate::telemetry::Metrics;

/// Long enough for a busy machine; no test waits for it.
const GENEROUS: Duration = Duration::from_secs(5);

/// The Redis of the tests, as an address; `None` where there is none, which is said.
pub(crate) fn server() -> Option<String> {
    crate::base::testing::server("BACKSTORY_TEST_REDIS")
}

/// Options under a prefix that nobody else has.
pub(crate) fn options(url: &str) -> Options {
    Options {
        url: Secret::from(url),
        prefix: format!("test-{:016x}:", SystemRandom.next_u64()),
        timeout: GENEROUS,
        hold: Duration::from_secs(30),
        secret: [7; 32],
    }
}

/// A replica.
pub(crate) struct Replica {
    pub(crate) shared: Arc<Shared>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) heard: Arc<Heard>,
    tasks: TaskTracker,
    halt: CancellationToken,
}

impl Replica {
    /// One that has reached Redis, and is started.
    pub(crate) async fn start(options: &Options) -> Self {
        let replica = Self::new(options);
        replica.shared.reach().await.unwrap().unwrap();
        replica.run();
        replica
    }

    /// One that does not know Redis yet.
    pub(crate) fn new(options: &Options) -> Self {
        let metrics = Arc::new(Metrics::new());
        let shared = Shared::new(options.clone(), Arc::new(SystemClock), &SystemRandom, Arc::clone(&metrics)).unwrap();
        let (tasks, halt) = (TaskTracker::new(), CancellationToken::new());
        Self { shared: Arc::new(shared), metrics, heard: Arc::default(), tasks, halt }
    }

    pub(crate) fn run(&self) {
        self.shared.start(Arc::clone(&self.heard) as Arc<_>, &self.tasks, &self.halt);
    }

    /// Ends as the process does.
    pub(crate) async fn stop(self) {
        self.halt.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// What a replica heard.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) changes: std::sync::Mutex<Vec<Change>>,
    pub(crate) missed: AtomicU64,
}

impl Follow for Heard {
    fn follow(&self, change: &Change) {
        self.changes.lock().unwrap().push(change.clone());
    }

    fn missed(&self) {
        self.missed.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits for what comes soon.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), waiting).await.is_ok(), "waited in vain: {what}");
}

/// Stands between a client and a server, and can be slow or gone.
pub(crate) struct Proxy {
    addr: SocketAddr,
    way: Arc<Way>,
}

#[derive(Default)]
struct Way {
    millis: AtomicU64,
    cut: std::sync::Mutex<CancellationToken>,
}

impl Proxy {
    pub(crate) async fn start(url: &str) -> Self {
        let server = url.strip_prefix("redis://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, way) = (listener.local_addr().unwrap(), Arc::new(Way::default()));
        let proxy = Self { addr, way: Arc::clone(&way) };
        let tasks = TaskTracker::new();
        let connections = tasks.clone();
        tasks.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, way) = (server.clone(), Arc::clone(&way));
                let cut = way.cut.lock().unwrap().clone();
                connections.spawn(async move {
                    if !cut.is_cancelled() {
                        tokio::select! {
                            () = pass(client, &server, &way) => {}
                            () = cut.cancelled() => {}
                        }
                    }
                });
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Every answer takes so much longer.
    pub(crate) fn slow_down(&self, time: Duration) {
        self.way.millis.store(time.as_millis() as u64, Ordering::SeqCst);
    }

    /// Cuts all connections, and takes no new ones.
    pub(crate) fn cut(&self) {
        self.way.cut.lock().unwrap().cancel();
    }

    /// Takes connections again.
    pub(crate) fn mend(&self) {
        *self.way.cut.lock().unwrap() = CancellationToken::new();
    }
}

async fn pass(client: TcpStream, server: &str, way: &Way) {
    let server = TcpStream::connect(server).await.unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let there = tokio::io::copy(&mut from_client, &mut to_server);
    let back = async {
        let mut buffer = [0; 16 * 1024];
        while let Ok(n @ 1..) = from_server.read(&mut buffer).await {
            tokio::time::sleep(Duration::from_millis(way.millis.load(Ordering::SeqCst))).await;
            if to_client.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = there => {}
        () = back => {}
    }
}
