//! `backstory models pull`, from a server of files on this machine.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstory::mock::{End, MockHandle, Raw, Recorded, Script, start};
use backstory::upstream::{Downloaded, Downloads};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::support::binary::run;

/// Serves what `answer` says, under `/v1/`.
async fn server(answer: impl Fn(&Recorded) -> Raw + Send + Sync + 'static) -> (MockHandle, DropGuard) {
    let stop = CancellationToken::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let script = Script::from_fn(move |request| Script::Raw(answer(request)));
    let mock = start(listener, script, &TaskTracker::new(), stop.clone()).await;
    (mock, stop.drop_guard())
}

fn file(bytes: &[u8]) -> Raw {
    let mut raw = Raw::json(200, bytes.to_vec());
    raw.headers =
        vec![("content-type", "application/octet-stream".to_owned()), ("content-length", bytes.len().to_string())];
    raw
}

fn tiny() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/embed/tiny-wordpiece")
}

async fn fetch(url: &str, to: &Path, sha256: Option<&str>) -> Result<Downloaded, String> {
    let downloads = Downloads::new(url).unwrap().with_first_pause(Duration::from_millis(1));
    downloads.fetch(url, to, sha256, &mut |_, _| {}).await
}

#[tokio::test]
async fn a_download_that_breaks_off_goes_on_where_it_was() {
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ranges);
    let (mock, _stop) = server(move |request| {
        if request.method == http::Method::HEAD {
            return Raw::error(404, "no");
        }
        let whole = b"0123456789".repeat(1000);
        let from = request.header("range").map_or(0, |range| {
            let from = range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')).unwrap();
            from.parse::<usize>().unwrap()
        });
        let mut seen = seen.lock().unwrap();
        seen.push((from, request.header("if-range").map(str::to_owned)));
        let mut raw = file(&whole[from..]).with_header("etag", "\"one\"");
        if from > 0 {
            raw.status = 206;
            raw = raw.with_header("content-range", format!("bytes {from}-9999/10000"));
        }
        if seen.len() < 3 {
            raw.pieces[0].1.truncate(3000);
            raw.end = End::Reset;
        }
        raw
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model.bin");
    let done = fetch(&format!("{}/model.bin", mock.base_url()), &to, None).await.unwrap();
    assert!(matches!(done, Downloaded::Done { checked: false, .. }));
    assert_eq!(fs::read(&to).unwrap(), b"0123456789".repeat(1000));
    let asked = ranges.lock().unwrap().clone();
    assert!(asked.len() >= 3 && asked[1..].iter().all(|(_, tag)| tag.as_deref() == Some("\"one\"") || tag.is_none()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
}

#[tokio::test]
async fn a_file_that_is_not_what_it_should_be_is_never_kept() {
    let (mock, _stop) = server(|_| file(b"something else")).await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model.bin");
    let url = format!("{}/model.bin", mock.base_url());
    let error = fetch(&url, &to, Some(&"0".repeat(64))).await.unwrap_err();
    assert!(error.contains("SHA-256") && fs::read_dir(folder.path()).unwrap().count() == 0, "{error}");
    let (mock, _stop) = server(|_| {
        let mut page = file(b"<html>sign in</html>");
        page.headers[0].1 = "text/html; charset=utf-8".to_owned();
        page
    })
    .await;
    let error = fetch(&format!("{}/model.bin", mock.base_url()), &to, None).await.unwrap_err();
    assert!(error.contains("web page"), "{error}");
}

#[tokio::test]
async fn the_hash_that_a_hub_tells_is_checked() {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let (mock, _stop) = server(move |request| {
        let raw = if request.path().ends_with("good") { file(b"test") } else { file(b"toast") };
        if request.method == http::Method::HEAD {
            let mut head = raw.with_header("x-linked-etag", format!("\"{hash}\""));
            head.pieces.clear();
            return head;
        }
        raw
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let get = |name: &str| (format!("{}/{name}", mock.base_url()), folder.path().join(name));
    let (url, to) = get("good");
    let good = fetch(&url, &to, None).await.unwrap();
    assert_eq!(good, Downloaded::Done { sha256: hash.to_owned(), checked: true });
    let (url, to) = get("bad");
    assert!(fetch(&url, &to, None).await.is_err() && !to.exists());
}

#[tokio::test]
async fn a_missing_file_and_a_refusal_are_told_apart() {
    let (mock, _stop) = server(|request| {
        let status = if request.path().ends_with("private") { 401 } else { 404 };
        Raw::error(status, "no")
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("x");
    assert_eq!(fetch(&format!("{}/x", mock.base_url()), &to, None).await, Ok(Downloaded::NotThere));
    let refused = fetch(&format!("{}/private", mock.base_url()), &to, None).await.unwrap_err();
    assert!(refused.contains("401"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_pulled_once_and_says_how_it_is_configured() {
    let (mock, _stop) = server(|request| {
        let name = request.path().trim_start_matches("/v1/me/tiny/resolve/main/").to_owned();
        match fs::read(tiny().join(name)) {
            Ok(bytes) => file(&bytes),
            Err(_) => Raw::error(404, "no"),
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("deep/tiny");
    let pull = async |name: &str| {
        let args = ["models", "pull", name, "--hub", &mock.base_url(), "--to", to.to_str().unwrap()];
        run(&args, &[]).await
    };
    let (code, said, complaint) = pull("hf:me/tiny").await;
    assert_eq!(code, 0, "{said}{complaint}");
    assert!(said.contains("24 numbers") && said.contains("engine = \"local\""), "{said}");
    let asked = mock.accepted();
    assert!(to.join("model.safetensors").exists() && to.join("1_Pooling/config.json").exists());
    assert!(fs::read_to_string(to.join("SHA256SUMS")).unwrap().contains("tokenizer.json"));
    assert!(!folder.path().join("deep/tiny.part").exists());
    assert_eq!((pull("hf:me/tiny").await.0, mock.accepted()), (0, asked));
    // Another model, or another version, of which the folder would be called the same.
    let (code, _, complaint) = pull("hf:me/tiny@v2").await;
    assert!(code != 0 && complaint.contains("hf:me/tiny@main") && complaint.contains("--to"), "{complaint}");
    fs::rename(&to, to.with_extension("part")).unwrap();
    let (code, _, complaint) = pull("hf:you/tiny").await;
    assert!(code != 0 && complaint.contains("hf:me/tiny@main") && !to.exists(), "{complaint}");
    let (code, _, complaint) = pull("hf:me/tiny").await;
    assert!(code == 0 && to.exists(), "its own is gone on with: {complaint}");
    let (code, _, complaint) = pull("no-such-model").await;
    assert!(code != 0 && complaint.contains("e5-small"), "{complaint}");
}
