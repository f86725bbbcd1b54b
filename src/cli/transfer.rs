//! `backstory export` and `backstory import`: memories out of a running gateway and into it.
//!
//! Both call the gateway instead of opening its store: so the key decides whose memories they are, caches follow, and it works
//! with any store.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::{complain, say};
use crate::base::Secret;
use crate::memory::export::{Line, VERSION};
use crate::memory::import::foreign;
use crate::upstream::OwnGateway;

/// Lines that are sent at once, and their bytes.
const MAX_LINES: usize = 1_000;
const MAX_BYTES: usize = 8 << 20;
/// The largest document of another product, in bytes: it is read whole.
const MAX_DOCUMENT_BYTES: u64 = 1 << 30;

/// Which gateway, and whose memories.
#[derive(Debug, Args)]
pub(super) struct GatewayArgs {
    /// Address of the running gateway
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// The gateway key, where keys are configured
    #[arg(long, env = "BACKSTORY_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
    /// Whose memories (header x-backstory-user)
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// In which namespace (header x-backstory-namespace)
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
}

impl GatewayArgs {
    pub(super) fn gateway(&self) -> Result<OwnGateway, String> {
        let key = self.key.clone().map(Secret::from);
        OwnGateway::new(&self.url, key.as_ref(), self.user.as_deref(), self.namespace.as_deref())
    }

    pub(super) fn explain(&self, problem: &str) -> String {
        format!("the gateway at {}: {problem}", self.url)
    }
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Where to write it [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Of a list of memories of several users: whose to take
    #[arg(long, value_name = "ID")]
    user_id: Option<String>,
    /// An export of ours, ChatGPT's conversations.json, or a list of memories as of mem0; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Writes an export. A file appears only when it is whole.
pub(super) async fn export(args: ExportArgs) -> ExitCode {
    let written = match &args.output {
        None => write(&args.gateway, io::stdout().lock()).await,
        Some(path) => to_file(&args.gateway, path).await,
    };
    match written {
        Ok(lines) => {
            complain(&format!("exported {} memories", lines.saturating_sub(2)));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
        }
    }
}

async fn to_file(gateway: &GatewayArgs, path: &Path) -> Result<u64, String> {
    let failed = |error: io::Error| format!("{} cannot be written: {error}", path.display());
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let file = File::create(&part).map_err(failed)?;
    let lines = write(gateway, &file).await?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)?;
    Ok(lines)
}

/// Passes an export on to `out`; returns how many lines it had.
async fn write(args: &GatewayArgs, mut out: impl Write) -> Result<u64, String> {
    let gateway = args.gateway()?;
    let (mut lines, mut tail) = (0_u64, Vec::new());
    let mut told = Progress::default();
    let took = |piece: &[u8]| {
        out.write_all(piece).map_err(|error| format!("cannot write: {error}"))?;
        lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        keep_last_line(&mut tail, piece);
        told.at(lines, "lines");
        Ok(())
    };
    gateway.read("/memory/v1/export", took).await.map_err(|problem| args.explain(&problem))?;
    out.flush().map_err(|error| format!("cannot write: {error}"))?;
    match serde_json::from_slice::<Line>(&tail) {
        Ok(Line::End { .. }) => Ok(lines),
        _ => Err(args.explain("the export was cut short")),
    }
}

/// Keeps what stands behind the last line break but one.
fn keep_last_line(tail: &mut Vec<u8>, piece: &[u8]) {
    tail.extend_from_slice(piece);
    let end = tail.len().saturating_sub(1);
    if let Some(at) = tail[..end].iter().rposition(|byte| *byte == b'\n') {
        tail.drain(..=at);
    }
}

/// Sends a file in pieces. Fails when a line was refused, after all others were taken.
pub(super) async fn import(args: ImportArgs) -> ExitCode {
    match send(&args).await {
        Ok(sum) => {
            say(&format!(
                "imported {} facts, {} episodes, {} notes; {} were there already, {} held nothing to keep, {} were refused",
                sum.facts, sum.episodes, sum.notes, sum.already, sum.nothing, sum.refused
            ));
            if sum.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, Default)]
struct Sum {
    facts: u64,
    episodes: u64,
    notes: u64,
    already: u64,
    nothing: u64,
    refused: u64,
}

async fn send(args: &ImportArgs) -> Result<Sum, String> {
    let shown = args.file.display();
    let unreadable = |error: io::Error| format!("{shown} cannot be read: {error}");
    let source: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(&args.file).map_err(unreadable)?)
    };
    let mut source = BufReader::new(source);
    let mut first = String::new();
    source.by_ref().take(MAX_BYTES as u64).read_line(&mut first).map_err(unreadable)?;
    let mut sending = Sending {
        gateway: args.gateway.gateway()?,
        args,
        header: String::new(),
        sum: Sum::default(),
        told: Progress::default(),
    };
    if matches!(serde_json::from_str(&first), Ok(Line::Header { .. })) {
        sending.header = first;
        sending.pieces(source.lines().map(|line| line.map_err(unreadable)), 1).await?;
    } else {
        let mut text = first;
        let read = source.take(MAX_DOCUMENT_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        if read as u64 == MAX_DOCUMENT_BYTES {
            return Err(format!("{shown} is larger than {MAX_DOCUMENT_BYTES} bytes"));
        }
        let document: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|error| format!("{shown} is neither an export of ours nor one JSON document: {error}"))?;
        let lines =
            foreign::lines(&document, args.user_id.as_deref()).map_err(|problem| format!("{shown}: {problem}"))?;
        sending.header = Line::Header {
            format: "backstory".to_owned(),
            version: VERSION,
            origin: String::new(),
            exported_at: crate::base::Time::default(),
        }
        .encode();
        sending.pieces(lines.iter().map(|line| Ok(line.encode())), 0).await?;
    }
    Ok(sending.sum)
}

struct Sending<'a> {
    gateway: OwnGateway,
    args: &'a ImportArgs,
    header: String,
    sum: Sum,
    told: Progress,
}

impl Sending<'_> {
    /// Sends lines, the first of which stands behind `number` others in the file.
    async fn pieces(
        &mut self,
        lines: impl Iterator<Item = Result<String, String>>,
        mut number: u64,
    ) -> Result<(), String> {
        let mut piece = self.header.clone();
        let (mut held, mut before) = (0, number);
        for line in lines {
            let line = line?;
            number += 1;
            held += 1;
            piece.push_str(line.trim_end_matches(['\n', '\r']));
            piece.push('\n');
            if held >= MAX_LINES || piece.len() >= MAX_BYTES {
                self.piece(std::mem::replace(&mut piece, self.header.clone()), before).await?;
                (held, before) = (0, number);
                self.told.at(number, "lines");
            }
        }
        if held > 0 {
            self.piece(piece, before).await?;
        }
        Ok(())
    }

    async fn piece(&mut self, text: String, before: u64) -> Result<(), String> {
        let answer = self.gateway.send("/memory/v1/import", text.into_bytes()).await;
        let answer = answer.map_err(|problem| {
            format!(
                "{}; the first {before} lines are taken: it is safe to import again",
                self.args.gateway.explain(&problem)
            )
        })?;
        let count = |name: &str| answer[name].as_u64().unwrap_or_default();
        self.sum.facts += count("facts");
        self.sum.episodes += count("episodes");
        self.sum.notes += count("notes");
        self.sum.already += count("already");
        self.sum.nothing += count("nothing_to_keep");
        self.sum.refused += count("refused");
        for problem in answer["problems"].as_array().into_iter().flatten() {
            // Its first line is the header, which is not counted again for each piece.
            let line = before + problem["line"].as_u64().unwrap_or_default().saturating_sub(1);
            complain(&format!("line {line}: {}", problem["reason"].as_str().unwrap_or("refused")));
        }
        Ok(())
    }
}

/// Says now and then how far it is.
#[derive(Debug, Default)]
struct Progress {
    said: u64,
}

impl Progress {
    const EVERY: u64 = 5_000;

    fn at(&mut self, done: u64, what: &str) {
        if done >= self.said + Self::EVERY {
            self.said = done;
            complain(&format!("{done} {what} so far"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_found_however_the_pieces_fall() {
        let text = b"one\ntwo\nthree\n";
        for size in 1..text.len() {
            let mut tail = Vec::new();
            text.chunks(size).for_each(|piece| keep_last_line(&mut tail, piece));
            assert_eq!(tail, b"three\n", "{size}");
        }
    }
}
