//! Keeps the floors of `src/`: a module may use those on lower floors, never one on its own floor or a higher one.
//!
//! One package has no borders that the compiler keeps, so this test reads the source as text. That is why each module is
//! named in a `use` of its own: a nested `use crate::{…}` would hide names from the search, and is refused.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The floors, lowest first: the groups of module declarations in `src/lib.rs`, which stand apart by empty lines.
fn floors() -> Vec<Vec<String>> {
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let text = fs::read_to_string(lib).expect("src/lib.rs can be read");
    let names = |group: &str| {
        let lines = group.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    text.split("\n\n").map(names).filter(|floor| !floor.is_empty()).collect()
}

/// Modules of plain values, which may use `base` and nothing else, whatever stands below them.
const VALUES: &[&str] = &["wire", "memory"];

/// Outside crates that belong to one module: the module, and how its crate is named in code.
const OWNED_CRATES: &[(&str, &str)] = &[("store", "sqlx::"), ("store", "qdrant_client::"), ("shared", "redis::")];

/// Doc lines with which a `mod.rs` says what the module is for, what it never does and where to start reading.
const MODULE_DOC_LINES: usize = 3;

struct Source {
    path: PathBuf,
    /// The top-level module that the file belongs to.
    module: String,
    text: String,
}

impl Source {
    /// The lines of code with their numbers: comments may name any module.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

/// Reads every file below `src/` that belongs to a module; `lib.rs` and `main.rs` stand above all floors.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("src/ can be read") {
            let path = entry.expect("src/ can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("src/ can be read");
                let path = path.strip_prefix(&root).expect("src/ can be read").to_path_buf();
                let module = path
                    .iter()
                    .next()
                    .expect("src/ can be read")
                    .to_str()
                    .expect("src/ can be read")
                    .trim_end_matches(".rs")
                    .to_owned();
                if module != "lib" && module != "main" {
                    sources.push(Source { path, module, text });
                }
            }
        }
    }
    assert!(sources.len() > 20, "only {} files found below src/", sources.len());
    sources
}

/// The floor that a module is on; none for one that `src/lib.rs` does not declare.
fn floor(floors: &[Vec<String>], module: &str) -> Option<usize> {
    floors.iter().position(|floor| floor.iter().any(|name| name == module))
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The modules that a line of code names by a path from the root of the crate.
fn named_modules(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("crate::").map(|(start, path)| identifier(&line[start + path.len()..]))
}

#[track_caller]
fn assert_none(faults: &[String], rule: &str) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}

#[test]
fn every_module_has_a_floor() {
    let floors = floors();
    assert!(floors.len() > 10, "src/lib.rs groups its modules by floors");
    let unknown: BTreeSet<String> =
        sources().into_iter().map(|source| source.module).filter(|module| floor(&floors, module).is_none()).collect();
    assert_none(&unknown.into_iter().collect::<Vec<_>>(), "these modules are not declared in src/lib.rs");
}

#[test]
fn no_module_names_one_on_its_own_or_a_higher_floor() {
    let floors = floors();
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in source.code() {
            for named in named_modules(line).filter(|named| *named != source.module) {
                // What is not a module is an item of lib.rs, and there is none.
                let above = floor(&floors, named) >= floor(&floors, &source.module);
                if above || VALUES.contains(&source.module.as_str()) && named != "base" {
                    faults.push(format!("{}: `{}` names `{named}`", source.at(number), source.module));
                }
            }
        }
    }
    assert_none(&faults, "a module may use lower floors only");
}

#[test]
fn no_use_groups_modules() {
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in source.code() {
            if named_modules(line).any(str::is_empty) {
                faults.push(source.at(number));
            }
        }
    }
    assert_none(&faults, "write one `use crate::module::…` for each module, without `crate::{…}` or `crate::*`");
}

#[test]
fn only_its_owner_speaks_to_an_outside_crate() {
    let mut faults = Vec::new();
    for source in sources() {
        for (owner, path) in OWNED_CRATES.iter().filter(|(owner, _)| *owner != source.module) {
            for (number, _) in source.code().filter(|(_, line)| line.contains(path)) {
                faults.push(format!("{}: `{path}` belongs to `{owner}`", source.at(number)));
            }
        }
    }
    assert_none(&faults, "an outside crate is used by its owner only");
}

#[test]
fn every_mod_file_says_what_the_module_is_for() {
    let mut faults = Vec::new();
    for source in sources().into_iter().filter(|source| source.path.ends_with("mod.rs")) {
        let documented = source.text.lines().take_while(|line| line.starts_with("//!")).count();
        // A module without any code has nothing to say yet.
        if documented < MODULE_DOC_LINES && source.code().next().is_some() {
            faults.push(format!("{}: {documented} lines of `//!`", source.path.display()));
        }
    }
    assert_none(&faults, "a mod.rs begins with three lines or more of module docs");
}
