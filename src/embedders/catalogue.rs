//! Embedding models that are known by name, and what their folders hold. Pure.

/// A model that is known by name.
#[derive(Clone, Copy, Debug)]
pub struct KnownModel {
    /// What people call it here.
    pub name: &'static str,
    /// Its repository on the hub.
    pub repository: &'static str,
    /// Which languages it knows.
    pub languages: &'static str,
    /// Its licence, as the repository names it.
    pub licence: &'static str,
    /// What is downloaded, in MB.
    pub megabytes: u32,
    /// What it was trained to see before a question.
    pub query_prefix: &'static str,
    /// The same before a stored text.
    pub document_prefix: &'static str,
    /// SHA-256 of `model.safetensors`, hexadecimal, where it is known here; else the hub tells it.
    pub sha256: Option<&'static str>,
}

/// All of them.
pub const KNOWN_MODELS: &[KnownModel] = &[
    KnownModel {
        name: "minilm",
        repository: "sentence-transformers/all-MiniLM-L6-v2",
        languages: "English",
        licence: "Apache-2.0",
        megabytes: 91,
        query_prefix: "",
        document_prefix: "",
        sha256: Some("53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    },
    KnownModel {
        name: "bge-small-en",
        repository: "BAAI/bge-small-en-v1.5",
        languages: "English",
        licence: "MIT",
        megabytes: 134,
        query_prefix: "Represent this sentence for searching relevant passages: ",
        document_prefix: "",
        sha256: None,
    },
    KnownModel {
        name: "e5-small",
        repository: "intfloat/multilingual-e5-small",
        languages: "100 languages, Chinese among them",
        licence: "MIT",
        megabytes: 488,
        query_prefix: "query: ",
        document_prefix: "passage: ",
        sha256: None,
    },
];

/// A file of a model's folder, and whether a model may be without it.
pub const MODEL_FILES: &[(&str, bool)] = &[
    ("config.json", false),
    ("tokenizer.json", false),
    ("modules.json", true),
    ("sentence_bert_config.json", true),
    ("1_Pooling/config.json", true),
    // The large one last, so that what is wrong with a small one is found at once.
    ("model.safetensors", false),
];

/// A file beside them that says which model it is: [`ModelSource::origin`].
pub const ORIGIN_FILE: &str = "ORIGIN";

/// Where the files of a model are.
#[derive(Clone, Debug)]
pub struct ModelSource {
    /// A name for exactly this model, whichever mirror of the hub it comes from.
    pub origin: String,
    /// A name for its folder.
    pub folder: String,
    /// What the names of the files are appended to.
    pub base_url: String,
    /// What is known of it.
    pub known: Option<&'static KnownModel>,
}

impl ModelSource {
    /// Reads what a person names: one of [`KNOWN_MODELS`], `hf:owner/name` with `@revision` or without, or the URL of a folder. `hub` is the
    /// base URL of the hub.
    ///
    /// # Errors
    /// A sentence that says what can be named.
    pub fn parse(name: &str, hub: &str) -> Result<Self, String> {
        let at = |repository: &str, revision: &str| {
            format!("{}/{repository}/resolve/{revision}/", hub.trim_end_matches('/'))
        };
        if let Some(known) = KNOWN_MODELS.iter().find(|known| known.name == name) {
            let base_url = at(known.repository, "main");
            let origin = origin_of(known.repository, "main");
            return Ok(Self { origin, folder: known.name.to_owned(), base_url, known: Some(known) });
        }
        if let Some(repository) = name.strip_prefix("hf:") {
            let (repository, revision) = repository.split_once('@').unwrap_or((repository, "main"));
            return match repository.split('/').collect::<Vec<_>>()[..] {
                [owner, model] if [owner, model, revision].iter().all(|part| is_plain(part)) => {
                    let (origin, base_url) = (origin_of(repository, revision), at(repository, revision));
                    Ok(Self { origin, folder: model.to_owned(), base_url, known: None })
                }
                _ => Err(format!("`{name}` is no repository: it is written hf:OWNER/NAME or hf:OWNER/NAME@REVISION")),
            };
        }
        if name.starts_with("https://") || name.starts_with("http://") {
            let base = name.trim_end_matches('/');
            let last = base.rsplit('/').next().unwrap_or_default();
            if base.contains(['?', '#']) || !is_plain(last) {
                return Err(format!(
                    "`{name}` is no folder of files: give the address that file names are appended to"
                ));
            }
            return Ok(Self {
                origin: base.to_owned(),
                folder: last.to_owned(),
                base_url: format!("{base}/"),
                known: None,
            });
        }
        let names: Vec<&str> = KNOWN_MODELS.iter().map(|known| known.name).collect();
        Err(format!(
            "no model is called `{name}`; known are {}; or give hf:OWNER/NAME, or the https:// address of a folder",
            names.join(", ")
        ))
    }
}

fn origin_of(repository: &str, revision: &str) -> String {
    format!("hf:{repository}@{revision}")
}

/// Whether a part of a path leads nowhere else.
fn is_plain(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('.')
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUB: &str = "https://hub.example/";

    #[test]
    fn a_model_is_named_in_three_ways() {
        let of = |name| ModelSource::parse(name, HUB).unwrap();
        assert_eq!(of("e5-small").base_url, "https://hub.example/intfloat/multilingual-e5-small/resolve/main/");
        let repository = of("hf:me/my-model@v2.1");
        assert_eq!(repository.base_url, "https://hub.example/me/my-model/resolve/v2.1/");
        assert_eq!((repository.folder.as_str(), repository.known.is_none()), ("my-model", true));
        // The folders of these are called the same, the models are not.
        assert_eq!(repository.origin, "hf:me/my-model@v2.1");
        assert_eq!(of("hf:you/my-model").origin, "hf:you/my-model@main");
        assert_eq!(of("e5-small").origin, of("hf:intfloat/multilingual-e5-small").origin);
        assert_eq!(of("https://files.example/models/one/").base_url, "https://files.example/models/one/");
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["minilmm", "hf:me", "hf:me/../other", "hf:a/b/c", "hf:a/b@../x", "https://h/x?y=z", "../etc"] {
            let said = ModelSource::parse(name, HUB).unwrap_err();
            assert!(said.contains(name), "{said}");
        }
    }

    #[test]
    fn names_are_unique_and_hashes_are_hashes() {
        for (at, known) in KNOWN_MODELS.iter().enumerate() {
            assert!(KNOWN_MODELS[..at].iter().all(|other| other.name != known.name));
            assert!(known.sha256.is_none_or(|hash| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit())));
        }
    }
}
