//! What people say of themselves: name, ways to reach them, home, work, family, diet, health, preferences, language.
//!
//! A clause comes in the form "I …"; the first rule that matches takes it. One file a subject.

mod health;
mod identity;
mod living;
mod taste;

use health::{diet, health};
use identity::identity;
pub(super) use identity::named_relative;
use living::{home, work};
use taste::{favourite, preference};

use regex::Regex;

use super::lists::{CONDITIONS, DIETS, FOODS, MEDICINES, QUALIFIED, RELATIVES, ROLES};
use crate::memory::propose::standing::LANGUAGES;
use crate::memory::propose::{Finding, captures};

/// Adverbs between a subject and its verb.
const ADVERBS: &str = r"(?:(?:really|also|just|actually|still|now|currently|always|usually|mostly|mainly|generally|typically|personally|absolutely|truly|do|strictly|both|simply|definitely|certainly|recently|finally|only|totally|especially|already|normally|often|have|severely|deathly|highly|mildly|extremely|terribly|very|quite|slightly|seriously|life-threateningly)\s)*";

/// Compiles a pattern, its lists filled in.
fn compile(pattern: &str) -> Regex {
    let pattern = pattern
        .replace("ADV", ADVERBS)
        .replace("ROLES", ROLES)
        .replace("DIETS", DIETS)
        .replace("FOODS", FOODS)
        .replace("QUALIFIED", QUALIFIED)
        .replace("CONDITIONS", CONDITIONS)
        .replace("MEDICINES", MEDICINES)
        .replace("RELATIVES", RELATIVES)
        .replace("LANGUAGES", LANGUAGES);
    Regex::new(&format!("(?xi){pattern}")).expect("tested")
}

/// Patterns that are compiled when they are first needed.
macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: std::sync::LazyLock<regex::Regex> = std::sync::LazyLock::new(|| super::compile($pattern));)*
    };
}
use patterns;

type Out<'a> = &'a mut Vec<Finding>;

pub(super) fn find(clause: &str, out: Out<'_>) {
    let first = clause.split(' ').next().unwrap_or("").to_ascii_lowercase();
    match first.as_str() {
        "i" | "we" => {
            diet(clause, out);
            if out.is_empty() {
                health(clause, out);
            }
            if out.is_empty() {
                home(clause, out);
            }
            if out.is_empty() {
                work(clause, out);
            }
            if out.is_empty() {
                preference(clause, out);
            }
            if out.is_empty() {
                identity(clause, out);
            }
        }
        "my" | "our" => {
            identity(clause, out);
            if out.is_empty() {
                home(clause, out);
            }
            if out.is_empty() {
                work(clause, out);
            }
            if out.is_empty() {
                diet(clause, out);
            }
            if out.is_empty() {
                preference(clause, out);
            }
        }
        "call" | "please" | "just" | "you" | "people" | "everyone" | "friends" | "they" | "this" | "reach"
        | "email" | "e-mail" => identity(clause, out),
        "home" => home(clause, out),
        _ if clause.len() < 90 => favourite(clause, out),
        _ => {}
    }
}

/// The first group that took part in a match.
fn group<'t>(pattern: &Regex, clause: &'t str) -> Option<&'t str> {
    let found = captures(pattern, clause)?;
    found.iter().skip(1).flatten().next().map(|m| m.as_str())
}

/// Words that point at something in the talk, so that the value says nothing on its own.
fn is_pronoun(text: &str) -> bool {
    let first = text.split(' ').next().unwrap_or(text).to_lowercase();
    [
        "it",
        "this",
        "that",
        "these",
        "those",
        "them",
        "you",
        "your",
        "him",
        "her",
        "his",
        "one",
        "something",
        "nothing",
        "anything",
        "everything",
        "what",
        "how",
        "when",
        "where",
        "who",
        "both",
        "either",
        "being",
        "to",
        "my",
    ]
    .contains(&first.as_str())
}

fn put(key: &str, value: Option<String>, out: Out<'_>) {
    if let Some(value) = value {
        out.push(Finding::new(key, value));
    }
}
