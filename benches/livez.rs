//! Whether counting stalls others: how long `/livez` takes while twenty requests of 1 MB are counted.
//!
//! Everything runs in this process, on as many workers as there are cores; the clients have threads of their own. Compare the two
//! lines that it prints: the first is the machine's own noise.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use backstory::app::{Parts, build};
use backstory::base::{SystemClock, SystemRandom};
use backstory::config::{Config, Env, Overrides};
use backstory::mock::{self, Script};
use backstory::server::{Front, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const REQUESTS: usize = 20;
const BYTES: usize = 1_000_000;
/// Between two looks.
const PAUSE: Duration = Duration::from_micros(500);
const IDLE: Duration = Duration::from_secs(2);

/// No variables, no files.
struct Nothing;

impl Env for Nothing {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &Path) -> std::io::Result<String> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = runtime.block_on(start(folder.path()));

    let until = Instant::now() + IDLE;
    print("idle", look(gateway, || Instant::now() < until));
    let left = Arc::new(AtomicUsize::new(REQUESTS));
    let began = Instant::now();
    let clients: Vec<_> = (0..REQUESTS)
        .map(|n| {
            let left = Arc::clone(&left);
            thread::spawn(move || {
                large_request(gateway, n);
                left.fetch_sub(1, Ordering::Relaxed);
            })
        })
        .collect();
    print("counting", look(gateway, || left.load(Ordering::Relaxed) > 0));
    for client in clients {
        client.join().expect("a client");
    }
    println!("{REQUESTS} requests of {BYTES} bytes in {:?}", began.elapsed());
}

/// Starts a gateway with memory on, before a mock.
async fn start(data: &Path) -> SocketAddr {
    // Fails when one is installed already.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let upstream = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let upstream = mock::start(upstream, Script::As("mock-fixed"), &tracker, stop).await;
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\ndata = {:?}\n[[providers]]\nname = \"upstream\"\nbase_url = \"{}\"\napi_key = \"client\"\n",
        data.display().to_string(),
        upstream.base_url()
    );
    let config =
        Config::parse(&text, Path::new("bench.toml"), &Nothing, &Overrides::default()).expect("a configuration");
    let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) };
    let app = build(&config, &Nothing, parts).await.expect("a gateway");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    app.tracker.spawn(serve(listener, Front::new(&app), app.stop.clone(), app.settings.drain));
    // Nothing is stopped here: the process ends.
    std::mem::forget((app, upstream));
    address
}

/// Asks `/livez` again and again over one connection; returns the times, sorted.
fn look(gateway: SocketAddr, mut go_on: impl FnMut() -> bool) -> Vec<Duration> {
    let mut stream = TcpStream::connect(gateway).expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let ask = format!("GET /livez HTTP/1.1\r\nhost: {gateway}\r\n\r\n");
    let mut times = Vec::new();
    let mut buffer = [0; 1024];
    while go_on() {
        let began = Instant::now();
        stream.write_all(ask.as_bytes()).expect("a request");
        let mut seen = Vec::new();
        while !seen.ends_with(b"ok\n") {
            let n = stream.read(&mut buffer).expect("a reply");
            assert!(n > 0, "the gateway closed the connection");
            seen.extend_from_slice(&buffer[..n]);
        }
        times.push(began.elapsed());
        thread::sleep(PAUSE);
    }
    times.sort_unstable();
    times
}

/// Sends a request whose text no cache has seen, and reads the reply.
fn large_request(gateway: SocketAddr, number: usize) {
    let mut text = String::with_capacity(BYTES + 64);
    let mut state = number as u64 + 1;
    while text.len() < BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(
            ["order ", "Rome ", "shipment ", "please ", "database ", "2026 ", "tea, ", "question. "]
                [(state >> 61) as usize],
        );
    }
    let body = format!(r#"{{"model":"mock","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let mut stream = TcpStream::connect(gateway).expect("a connection");
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {gateway}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("a head");
    stream.write_all(body.as_bytes()).expect("a body");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

fn print(name: &str, times: Vec<Duration>) {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (p50, p99, most) = (at(0.5), at(0.99), at(1.0));
    let over = times.iter().filter(|time| **time > Duration::from_millis(1)).count();
    println!("/livez {name:>9}: {} times, p50 {p50:?}, p99 {p99:?}, max {most:?}, over 1 ms: {over}", times.len());
}
