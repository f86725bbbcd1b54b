//! `backstory fill`: has a running gateway take made-up memories of many people, to see how it does when it holds so many.
//!
//! What is made follows from the number of the person alone, and an import takes nothing twice: after an interruption the same command goes on where
//! it was. The people are called `fill-0000001` and so on; `DELETE /memory/v1/subject` takes each out again.

use std::process::ExitCode;

use clap::Args;
use futures_util::{StreamExt, stream};

use super::bar::Bar;
use super::{complain, say};
use crate::base::{Clock, Random, Secret, SeededRandom, SystemClock, Time};
use crate::memory::Speaker;
use crate::memory::export::{Line, VERSION};
use crate::upstream::OwnGateway;

/// Episodes that are sent at once.
const BATCH: u32 = 1_000;
/// Turns of a conversation, and the time between two.
const TURNS: u32 = 20;
const APART_SECONDS: i64 = 90;
/// When everyone's first turn was: the beginning of 2026. An import tells by what was said when whether it has it already.
const BEGAN: Time = Time(1_767_225_600_000);

/// Arguments of `fill`.
#[derive(Debug, Args)]
pub(super) struct FillArgs {
    /// Address of the running gateway
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// The gateway key, where keys are configured; it must be one that may name users
    #[arg(long, env = "BACKSTORY_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,
    /// How many people
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    users: u32,
    /// How many episodes of each
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    episodes: u32,
    /// How many imports at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
}

/// Fills it.
pub(super) async fn run(args: FillArgs) -> ExitCode {
    let key = args.key.clone().map(Secret::from);
    let gateway = match OwnGateway::new(&args.url, key.as_ref(), None, None) {
        Ok(gateway) => gateway,
        Err(problem) => {
            complain(&problem);
            return ExitCode::FAILURE;
        }
    };
    let (mut bar, mut done, all) = (Bar::new("episodes"), 0, u64::from(args.users) * u64::from(args.episodes));
    let now = SystemClock.now();
    let mut people = stream::iter(1..=args.users)
        .map(|person| fill(&gateway, person, args.episodes, now))
        .buffer_unordered(usize::from(args.parallel));
    while let Some(filled) = people.next().await {
        match filled {
            Ok(taken) => {
                done += taken;
                bar.tell(done, all, "");
            }
            Err(problem) => {
                bar.end();
                complain(&format!("the gateway at {}: {problem}; the same command goes on from here", args.url));
                return ExitCode::FAILURE;
            }
        }
    }
    bar.end();
    say(&format!("{} people have {} episodes each", args.users, args.episodes));
    ExitCode::SUCCESS
}

/// Has the memories of one person taken; returns how many they are.
async fn fill(gateway: &OwnGateway, person: u32, episodes: u32, now: Time) -> Result<u64, String> {
    let gateway = gateway.for_user(&format!("fill-{person:07}"))?;
    let header =
        Line::Header { format: "backstory".to_owned(), version: VERSION, origin: String::new(), exported_at: now };
    let story = Story::of(person);
    for first in (0..episodes).step_by(BATCH as usize) {
        let mut text = header.encode();
        for n in first..episodes.min(first + BATCH) {
            text += &story.line(n).encode();
        }
        let answer = gateway.send("/memory/v1/import", text.into_bytes()).await?;
        let refused = answer["refused"].as_u64().unwrap_or_default();
        if refused > 0 {
            return Err(format!("{refused} lines were refused: {}", answer["problems"][0]["reason"]));
        }
    }
    Ok(u64::from(episodes))
}

/// What a person did and said: sentences of usual length, with names, places, amounts and words that are as frequent as words are.
#[derive(Debug)]
struct Story {
    person: u32,
}

const DID: [&str; 8] =
    ["I bought", "I sold", "I repaired", "I borrowed", "I found", "I painted", "We visited", "We cooked"];
const WITH: [&str; 8] =
    ["with Anna", "with my brother", "for Tom", "at work", "at home", "alone", "with the team", "for Eve"];
const PLACES: [&str; 10] = ["Oslo", "Rome", "Lyon", "Turin", "Ghent", "Porto", "Cork", "Basel", "Graz", "Riga"];
const SYLLABLES: [&str; 16] =
    ["ba", "do", "ke", "li", "mu", "na", "po", "ri", "sa", "te", "vo", "wi", "zu", "fa", "ge", "hi"];
/// Words there are beside those above.
const WORDS: f64 = 50_000.0;

impl Story {
    fn of(person: u32) -> Self {
        Self { person }
    }

    /// The turn `n`: the same whenever it is asked for.
    fn line(&self, n: u32) -> Line {
        let random = SeededRandom::new(u64::from(self.person) << 32 | u64::from(n));
        let pick = |list: &[&'static str]| list[below(&random, list.len() as u64) as usize];
        Line::Said {
            role: if n.is_multiple_of(2) { Speaker::User } else { Speaker::Assistant },
            text: format!(
                "{} the {} and a {} {} in {} for {} euros, because the {} {} was {}.",
                pick(&DID),
                word(&random),
                word(&random),
                pick(&WITH),
                pick(&PLACES),
                3 + below(&random, 997),
                word(&random),
                word(&random),
                word(&random),
            ),
            said_at: Some(BEGAN.plus_seconds(i64::from(n) * APART_SECONDS)),
            session: format!("fill-{}", n / TURNS),
            position: i64::from(n % TURNS),
        }
    }
}

fn below(random: &SeededRandom, bound: u64) -> u64 {
    random.next_u64() % bound
}

/// A word: the n-th most frequent one about n times as seldom as the first.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "below 50,000"
)]
fn word(random: &SeededRandom) -> String {
    let share = random.next_u64() as f64 / u64::MAX as f64;
    let mut rank = WORDS.powf(share) as usize;
    let mut word = String::new();
    while rank > 0 {
        word += SYLLABLES[rank % SYLLABLES.len()];
        rank /= SYLLABLES.len();
    }
    word
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_person_says_the_same_again_and_others_something_else() {
        let said = |person| (0..100).map(|n| Story::of(person).line(n).encode()).collect::<Vec<_>>();
        assert_eq!(said(7), said(7));
        let all: BTreeSet<_> = (1..=20).flat_map(said).collect();
        assert_eq!(all.len(), 2_000, "nothing is said twice");
    }

    #[test]
    fn words_are_as_frequent_as_words_are() {
        let random = SeededRandom::new(8);
        let all: Vec<_> = (0..20_000).map(|_| word(&random)).collect();
        let kinds: BTreeSet<_> = all.iter().collect();
        let first = all.iter().filter(|word| *word == "do").count();
        assert!(kinds.len() > 4_000 && (900..2_000).contains(&first), "{} kinds, the first {first} times", kinds.len());
    }
}
