//! `backstory knowledge`: documents into a running gateway, and out of it.
//!
//! It calls the gateway, so the key decides what may be written and where. A file that is given again replaces what it gave before.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::transfer::GatewayArgs;
use super::{complain, say};

/// Arguments of `knowledge`.
#[derive(Debug, Args)]
pub(super) struct KnowledgeArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Writes files as documents: Markdown by its name (.md, .markdown), any other as plain text
    Add {
        #[command(flatten)]
        gateway: GatewayArgs,
        /// Text files
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Lists the documents of the namespace
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Deletes documents
    Delete {
        #[command(flatten)]
        gateway: GatewayArgs,
        /// Their ids
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

/// Does it. Fails when one of several failed, after all others were tried.
pub(super) async fn run(args: KnowledgeArgs) -> ExitCode {
    let results = match args.what {
        What::Add { gateway, files } => {
            if let Some((first, second, id)) = same_id(&files) {
                let (first, second) = (first.display(), second.display());
                complain(&format!("{first} and {second} would both be the document {id:?}; give one another name"));
                return ExitCode::FAILURE;
            }
            let mut results = Vec::new();
            for file in &files {
                results.push(add(&gateway, file).await);
            }
            results
        }
        What::List { gateway } => vec![list(&gateway).await],
        What::Delete { gateway, ids } => {
            let mut results = Vec::new();
            for id in &ids {
                results.push(delete(&gateway, id).await);
            }
            results
        }
    };
    let mut code = ExitCode::SUCCESS;
    for result in results {
        match result {
            Ok(text) if text.is_empty() => {}
            Ok(text) => say(&text),
            Err(problem) => {
                complain(&problem);
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

async fn add(args: &GatewayArgs, file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let body = document(file, &text);
    let answer = args.gateway()?.send("/memory/v1/knowledge", body.to_string().into_bytes()).await;
    let kept = answer.map_err(|problem| format!("{}: {}", file.display(), args.explain(&problem)))?;
    Ok(format!(
        "{}: version {}, {} passages",
        kept["id"].as_str().unwrap_or_default(),
        kept["version"],
        kept["passages"]
    ))
}

async fn list(args: &GatewayArgs) -> Result<String, String> {
    let gateway = args.gateway()?;
    let mut lines = Vec::new();
    let mut path = "/memory/v1/knowledge?limit=500".to_owned();
    loop {
        let mut body = Vec::new();
        let take = |piece: &[u8]| {
            body.extend_from_slice(piece);
            Ok(())
        };
        gateway.read(&path, take).await.map_err(|problem| args.explain(&problem))?;
        let page: Value =
            serde_json::from_slice(&body).map_err(|_| args.explain("it does not answer as Backstory does"))?;
        for document in page["data"].as_array().into_iter().flatten() {
            let (id, title) = (document["id"].as_str(), document["title"].as_str());
            let (version, passages) = (&document["version"], &document["passages"]);
            let (id, title) = (id.unwrap_or_default(), title.unwrap_or_default());
            lines.push(format!("{id}  {title}  (version {version}, {passages} passages)"));
        }
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/memory/v1/knowledge?limit=500&cursor={next}");
    }
    Ok(lines.join("\n"))
}

async fn delete(args: &GatewayArgs, id: &str) -> Result<String, String> {
    let deleted = args.gateway()?.delete(&format!("/memory/v1/knowledge/{id}")).await;
    deleted.map_err(|problem| format!("{id}: {}", args.explain(&problem)))?;
    Ok(format!("{id}: deleted"))
}

/// Two files of which the second would take the place of the first. The same file twice is one.
fn same_id(files: &[PathBuf]) -> Option<(&Path, &Path, String)> {
    let mut known: HashMap<String, &Path> = HashMap::new();
    files.iter().find_map(|file| {
        let id = id_of(&stem_of(file));
        let first = *known.entry(id.clone()).or_insert(file);
        (first != file).then_some((first, file.as_path(), id))
    })
}

fn stem_of(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A file as the gateway takes it: named after the file, so that the same file is the same document.
fn document(file: &Path, text: &str) -> Value {
    let name =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
    let (stem, whole) = (stem_of(file), name(file.file_name()));
    let is_markdown = matches!(name(file.extension()).to_ascii_lowercase().as_str(), "md" | "markdown");
    let heading = text.lines().find_map(|line| line.strip_prefix("# ")).map(str::trim).filter(|_| is_markdown);
    json!({
        "id": id_of(&stem),
        "title": heading.filter(|title| !title.is_empty()).unwrap_or(&stem),
        "text": text,
        "format": if is_markdown { "markdown" } else { "text" },
        "source": whole,
    })
}

/// What of a name may stand in an id; of a name in another script, its hash.
fn id_of(stem: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let id: String = stem.chars().map(|c| if safe(c) { c.to_ascii_lowercase() } else { '-' }).take(100).collect();
    let id = id.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if stem.is_ascii() && !id.is_empty() {
        return id.to_owned();
    }
    format!("file-{}", &blake3::hash(stem.as_bytes()).to_hex()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::knowledge::DocumentId;

    #[test]
    fn files_that_would_be_one_document_are_named() {
        let files = ["a/policy.md", "other.md", "b/Policy.txt", "other.md"].map(PathBuf::from);
        let (first, second, id) = same_id(&files).unwrap();
        assert_eq!((first, second, id.as_str()), (Path::new("a/policy.md"), Path::new("b/Policy.txt"), "policy"));
        assert!(same_id(&["other.md", "other.md", "more.md"].map(PathBuf::from)).is_none());
    }

    #[test]
    fn a_file_names_its_document() {
        let body = document(Path::new("docs/Refund Policy.md"), "intro\n# Returns and refunds\ntext");
        assert_eq!(body["id"], "refund-policy");
        assert_eq!(body["title"], "Returns and refunds");
        assert_eq!((&body["format"], &body["source"]), (&json!("markdown"), &json!("Refund Policy.md")));
        let plain = document(Path::new("notes.txt"), "# not a heading here");
        assert_eq!((&plain["title"], &plain["format"]), (&json!("notes"), &json!("text")));
        for stem in ["退货政策", "-", "", "..", "a b/c", "Ünter", &"x".repeat(300)] {
            assert!(id_of(stem).parse::<DocumentId>().is_ok(), "{stem}");
        }
        assert_ne!(id_of("退货政策"), id_of("价格"));
    }
}
