//! Downloads files of a model: in pieces that survive a break, and never a file that is not what it should be.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, StatusCode};
use reqwest::{Response, Url};
use sha2::{Digest, Sha256};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::attempt::root_cause;
use super::provider;

/// The largest file that is taken, in bytes.
const MAX_BYTES: u64 = 16 << 30;
/// A download goes on after so many breaks; pieces that came in between count for nothing.
const BREAKS: u32 = 5;
/// The pause after the first break; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long nothing may come.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(30);
/// A hub tells the SHA-256 of a large file in this header of its redirect.
const LINKED_HASH: &str = "x-linked-etag";

/// Fetches files over HTTP, by way of the proxy that the environment names.
#[derive(Debug)]
pub struct Downloads {
    client: reqwest::Client,
    /// The same, but a redirect is an answer.
    direct: reqwest::Client,
    first_pause: Duration,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Downloaded {
    /// The server has none of this name.
    NotThere,
    /// It is where it should be.
    Done {
        /// Its SHA-256, hexadecimal.
        sha256: String,
        /// Whether somebody had told what that must be.
        checked: bool,
    },
}

/// How far a download is, in bytes: what is there, and all of it where that is known.
pub type Progress<'p> = dyn FnMut(u64, Option<u64>) + Send + 'p;

impl Downloads {
    /// Makes the clients. A base on this machine is asked without a proxy.
    ///
    /// # Errors
    /// A sentence: TLS cannot be set up, or the base is no URL.
    pub fn new(base: &str) -> Result<Self, String> {
        let url = Url::parse(base).map_err(|error| format!("{base} is no address: {error}"))?;
        let build = |policy: Option<reqwest::redirect::Policy>| {
            let mut client = provider::client().connect_timeout(CONNECT).read_timeout(SILENCE);
            if provider::is_loopback(&url) {
                client = client.no_proxy();
            }
            if let Some(policy) = policy {
                client = client.redirect(policy);
            }
            client.build().map_err(root_cause)
        };
        Ok(Self {
            client: build(None)?,
            direct: build(Some(reqwest::redirect::Policy::none()))?,
            first_pause: FIRST_PAUSE,
        })
    }

    /// The same with another pause after the first break.
    #[must_use]
    pub fn with_first_pause(mut self, pause: Duration) -> Self {
        self.first_pause = pause;
        self
    }

    /// Fetches one file. What came of it stands in `FILE.part` until it is complete and its hash is right, then it gets its name. What a run
    /// before has left there is gone on with. `sha256` = what the hash must be; else the hub is asked for it.
    ///
    /// # Errors
    /// A sentence about what went wrong. What came stays, unless it is wrong.
    pub async fn fetch(
        &self,
        url: &str,
        to: &Path,
        sha256: Option<&str>,
        progress: &mut Progress<'_>,
    ) -> Result<Downloaded, String> {
        let told = match sha256 {
            Some(hash) => Some(hash.to_owned()),
            None => self.linked_hash(url).await,
        };
        let part = Part { path: beside(to, "part"), tag: beside(to, "part.etag") };
        let mut pause = self.first_pause;
        for left in (0..BREAKS).rev() {
            match self.go_on(url, &part, progress).await {
                Ok(false) => return Ok(Downloaded::NotThere),
                Ok(true) => return part.finish(to, told).await,
                Err(Broken::Final(reason)) => return Err(reason),
                Err(Broken::Passing(reason)) if left == 0 => {
                    return Err(format!("{reason}; what came is kept: run it again to go on"));
                }
                Err(Broken::Passing(_)) => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        Err("it broke off again and again".to_owned())
    }

    /// One request for what is missing; whether there is such a file.
    async fn go_on(&self, url: &str, part: &Part, progress: &mut Progress<'_>) -> Result<bool, Broken> {
        let (have, tag) = part.there().await;
        let mut request = self.client.get(url);
        if let Some(tag) = tag.as_ref().filter(|_| have > 0) {
            // If it changed since, all of it comes.
            request = request.header(RANGE, format!("bytes={have}-")).header(IF_RANGE, tag);
        }
        let mut answer = request.send().await.map_err(|error| Broken::Passing(root_cause(error)))?;
        let status = answer.status();
        let from = match status {
            StatusCode::NOT_FOUND => return Ok(false),
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT if begins_at(answer.headers(), have) => have,
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                part.remove().await;
                return Err(Broken::Passing("what was there does not fit to what the server has".to_owned()));
            }
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(Broken::Passing(format!("the server answers {}", status.as_u16())));
            }
            _ => return Err(Broken::Final(format!("the server answers {}", status.as_u16()))),
        };
        if is_page(answer.headers()) {
            return Err(Broken::Final("the server answers with a web page, not with a file".to_owned()));
        }
        let total = answer.content_length().map(|rest| from.saturating_add(rest));
        if total.is_some_and(|total| total > MAX_BYTES) {
            return Err(Broken::Final(format!("the file is larger than {} GB", MAX_BYTES >> 30)));
        }
        part.note_tag(answer.headers()).await?;
        self.receive(&mut answer, part, from, total, progress).await?;
        Ok(true)
    }

    async fn receive(
        &self,
        answer: &mut Response,
        part: &Part,
        from: u64,
        total: Option<u64>,
        progress: &mut Progress<'_>,
    ) -> Result<(), Broken> {
        let mut file = part.open(from).await?;
        let mut have = from;
        loop {
            let piece = match answer.chunk().await {
                Ok(piece) => piece,
                Err(error) => {
                    // What came is kept, also the last piece of it.
                    file.flush().await.map_err(|error| part.unwritable(&error))?;
                    return Err(Broken::Passing(root_cause(error)));
                }
            };
            let Some(piece) = piece else { break };
            have += piece.len() as u64;
            if have > MAX_BYTES {
                return Err(Broken::Final(format!("the file is larger than {} GB", MAX_BYTES >> 30)));
            }
            file.write_all(&piece).await.map_err(|error| part.unwritable(&error))?;
            progress(have, total);
        }
        file.sync_all().await.map_err(|error| part.unwritable(&error))?;
        if total.is_some_and(|total| have < total) {
            return Err(Broken::Passing("the server broke off".to_owned()));
        }
        Ok(())
    }

    /// The SHA-256 that a hub tells of a large file; nothing where it does not.
    async fn linked_hash(&self, url: &str) -> Option<String> {
        let answer = self.direct.head(url).send().await.ok()?;
        let tag = answer.headers().get(LINKED_HASH)?.to_str().ok()?.trim_matches('"').to_ascii_lowercase();
        (tag.len() == 64 && tag.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(tag)
    }
}

/// Why a file is not there yet.
enum Broken {
    /// Trying again may help.
    Passing(String),
    /// It would not.
    Final(String),
}

/// A file that is not complete.
struct Part {
    path: PathBuf,
    /// The server's name for the version that it is of.
    tag: PathBuf,
}

impl Part {
    async fn there(&self) -> (u64, Option<String>) {
        let size = fs::metadata(&self.path).await.map_or(0, |found| found.len());
        (size, fs::read_to_string(&self.tag).await.ok())
    }

    async fn open(&self, from: u64) -> Result<File, Broken> {
        let opened =
            OpenOptions::new().create(true).append(from > 0).write(true).truncate(from == 0).open(&self.path).await;
        opened.map_err(|error| self.unwritable(&error))
    }

    async fn note_tag(&self, headers: &HeaderMap) -> Result<(), Broken> {
        // A weak tag says only that two versions mean the same.
        match headers.get(ETAG).and_then(|tag| tag.to_str().ok()).filter(|tag| !tag.starts_with("W/")) {
            Some(tag) => fs::write(&self.tag, tag).await.map_err(|error| self.unwritable(&error)),
            None => {
                // Without one, nothing tells whether a rest would fit: the next run begins anew.
                let _ = fs::remove_file(&self.tag).await;
                Ok(())
            }
        }
    }

    async fn remove(&self) {
        // Where there is none, that is what was wanted.
        let _ = fs::remove_file(&self.path).await;
        let _ = fs::remove_file(&self.tag).await;
    }

    async fn finish(&self, to: &Path, told: Option<String>) -> Result<Downloaded, String> {
        let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", self.path.display());
        let mut file = File::open(&self.path).await.map_err(unreadable)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = file.read(&mut buffer).await.map_err(unreadable)?;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
        }
        let sha256: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(told) = told.as_ref().filter(|told| **told != sha256) {
            self.remove().await;
            return Err(format!(
                "what came is not what it should be: its SHA-256 is {sha256}, not {told}; it was removed"
            ));
        }
        let moved = fs::rename(&self.path, to).await;
        moved.map_err(|error| format!("{} cannot be written: {error}", to.display()))?;
        self.remove().await;
        Ok(Downloaded::Done { sha256, checked: told.is_some() })
    }

    fn unwritable(&self, error: &std::io::Error) -> Broken {
        Broken::Final(format!("{} cannot be written: {error}", self.path.display()))
    }
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    file.with_file_name(name)
}

/// `bytes 5-99/100`.
fn begins_at(headers: &HeaderMap, start: u64) -> bool {
    let range = headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default();
    range.strip_prefix("bytes ").and_then(|range| range.split('-').next()).is_some_and(|from| from.parse() == Ok(start))
}

fn is_page(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}
