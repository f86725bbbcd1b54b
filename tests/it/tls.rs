//! TLS on our own addresses, with a test authority (`scripts/test-certificates`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstory::mock::{MockHandle, Raw, Script};
use backstory::server::Drained;
use backstory::telemetry::ReloadOutcome;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::sse::{DONE, healthy};
use crate::support::{ADMIN_KEY, Live, PATIENCE, eventually};

const KEY: &str = "bk-tls-0123456789abcdef";

fn pem(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/data/tls/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Puts a certificate and its key where the configuration looks for them.
fn install(folder: &Path, name: &str) {
    std::fs::write(folder.join("cert.pem"), pem(&format!("{name}.pem"))).unwrap();
    std::fs::write(folder.join("key.pem"), pem(&format!("{name}.key"))).unwrap();
}

async fn upstream(script: Script) -> MockHandle {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    backstory::mock::start(listener, script, &TaskTracker::new(), CancellationToken::new()).await
}

async fn live(mock: &MockHandle, certificate: &str, server: &str) -> Live {
    let folder: TempDir = tempfile::tempdir().unwrap();
    install(folder.path(), certificate);
    Live::start(folder, &text(mock, server)).await
}

fn text(mock: &MockHandle, server: &str) -> String {
    format!(
        "[server]\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\nwatch_seconds = 0\n{server}\n[admin]\nkey = \"{ADMIN_KEY}\"\n\
         [[keys]]\nkey = \"{KEY}\"\nmemory = \"off\"\n[[providers]]\nname = \"up\"\nbase_url = \"{}\"\ndefault = true\n",
        mock.base_url()
    )
}

fn client(protocols: &[&str]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem("ca.pem").as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

async fn connect(addr: std::net::SocketAddr, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(addr).await?;
    client(protocols).connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
}

/// Asks over a connection of its own, reads all of the answer, and returns the server's certificate with it.
async fn ask(addr: std::net::SocketAddr, head: &str, body: &str) -> (String, CertificateDer<'static>) {
    let mut stream = connect(addr, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let request =
        format!("{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    let request = format!("{request}authorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = String::new();
    let reading = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut said));
    // `read_to_string` fails when the connection ends without saying so: cut, or attacked.
    reading.await.unwrap().unwrap();
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
    (said, shown)
}

fn chat(stream: bool) -> String {
    json!({"model": "mock", "stream": stream, "messages": [{"role": "user", "content": "Hello there"}]}).to_string()
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem(&format!("{name}.pem")).as_bytes()).unwrap()
}

async fn metrics(live: &Live) -> String {
    ask(live.admin, "GET /metrics", "").await.0
}

#[tokio::test]
async fn chats_and_streams_pass_over_tls_on_both_addresses() {
    let mock = upstream(Script::Raw(Raw::stream(healthy()))).await;
    let live = live(&mock, "good", "admin_listen = \"127.0.0.1:0\"").await;
    let (said, shown) = ask(live.addr, "POST /v1/chat/completions", &chat(true)).await;
    assert!(said.starts_with("HTTP/1.1 200 ") && said.contains(DONE), "{said}");
    assert_eq!(shown, certificate("good"));
    let said = metrics(&live).await;
    assert!(said.contains("backstory_tls_not_after_timestamp_seconds{listener=\"data\"}"), "{said}");
    // Plain HTTP, and a client that speaks HTTP/2 alone, are no clients.
    let mut plain = TcpStream::connect(live.addr).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said).await;
    assert!(!said.starts_with(b"HTTP/"), "nothing is said in the clear");
    assert!(connect(live.addr, &["h2"]).await.is_err());
    eventually("both are counted", || async {
        metrics(&live).await.contains("backstory_tls_handshakes_failed_total{reason=\"failed\"} 2").then_some(())
    })
    .await;
    live.stop().await;
}

// Issue 7, point 4: files reloaded. A renewed certificate is shown; a bad one never is.
#[tokio::test]
async fn renewed_files_are_shown_to_who_connects_and_bad_ones_are_not() {
    let mut raw = Raw::stream(healthy());
    raw.pieces[2].0 = Duration::from_millis(300);
    let mock = upstream(Script::Raw(raw)).await;
    let live = live(&mock, "good", "").await;
    let folder = live.path("");
    let body = chat(true);
    let running = ask(live.addr, "POST /v1/chat/completions", &body);
    let renewing = async {
        install(&folder, "other");
        live.reload(&text(&mock, "")).await
    };
    let ((said, _), report) = tokio::join!(running, renewing);
    assert!(said.contains(DONE), "a connection that stands goes on");
    assert_eq!(
        (report.outcome, report.applied.as_slice()),
        (ReloadOutcome::Applied, &["server.tls_cert".to_owned(), "server.tls_key".to_owned()][..])
    );
    assert_eq!(ask(live.addr, "GET /livez", "").await.1, certificate("other"));
    for (cert, key, said) in [
        (pem("good.pem"), pem("other.key"), "does not belong"),
        (pem("good.pem")[..200].to_owned(), pem("good.key"), "certificate"),
        (pem("good.pem"), String::new(), "no private key"),
        (pem("expired.pem"), pem("expired.key"), "ended at 2020-02-01"),
    ] {
        std::fs::write(folder.join("cert.pem"), cert).unwrap();
        std::fs::write(folder.join("key.pem"), key).unwrap();
        let report = live.reload(&text(&mock, "")).await;
        assert_eq!(report.outcome, ReloadOutcome::Refused, "{said}");
        assert!(report.errors.iter().any(|error| error.contains(said)), "{said} in {:?}", report.errors);
        assert_eq!(ask(live.addr, "GET /livez", "").await.1, certificate("other"));
    }
    std::fs::remove_file(folder.join("key.pem")).unwrap();
    assert_eq!(live.reload(&text(&mock, "")).await.outcome, ReloadOutcome::Refused);
    live.stop().await;
}

#[tokio::test]
async fn at_the_end_a_stream_over_tls_ends_as_it_should() {
    let mut raw = Raw::stream(healthy());
    raw.pieces[2].0 = Duration::from_millis(300);
    let mock = upstream(Script::Raw(raw)).await;
    let live = live(&mock, "good", "admin_listen = \"127.0.0.1:0\"").await;
    // One that has not shaken hands yet, and one that is idle, hold nobody up.
    let _silent = TcpStream::connect(live.addr).await.unwrap();
    let _idle = connect(live.addr, &[]).await.unwrap();
    let addr = live.addr;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { ask(addr, "POST /v1/chat/completions", &chat(true)).await.0 });
    eventually("it is under way", || async { (mock.accepted() == 1).then_some(()) }).await;
    let stopped =
        tokio::time::timeout(Duration::from_secs(20), live.stop()).await.expect("nobody is waited for in vain");
    assert_eq!(stopped, Drained::All);
    assert!(tasks.join_next().await.unwrap().unwrap().contains(DONE));
}

// Bad input: expired certificates. A gateway that does not start is worse than one that clients complain about.
#[tokio::test]
async fn with_a_certificate_that_has_ended_it_starts_and_says_so() {
    let mock = upstream(Script::Model).await;
    let live = live(&mock, "expired", "").await;
    let refused = connect(live.addr, &[]).await.unwrap_err().to_string();
    assert!(refused.contains("xpired"), "{refused}");
    // A renewed one is taken.
    install(&live.path(""), "good");
    assert_eq!(live.reload(&text(&mock, "")).await.outcome, ReloadOutcome::Applied);
    assert!(ask(live.addr, "GET /livez", "").await.0.starts_with("HTTP/1.1 200 "));
    live.stop().await;
}
