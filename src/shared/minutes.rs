//! Limits of the minute and of requests at a time, as all replicas together use them.
//!
//! One script looks at all accounts of a request and takes of all of them, or of none, by the clock of Redis. What was taken is corrected
//! later, behind the request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, Script};

use super::later::Later;
use super::slots::Slot;
use super::{Away, Shared};
use crate::telemetry::RedisCommand;

/// Of each account the script tells so many values.
const TOLD: usize = 5;

/// One account of a request, by its name in the store, and what it may use; `None` = not limited.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// Its name: no person's or key's, but a salted hash.
    pub name: &'a str,
    /// Requests a minute.
    pub requests: Option<u64>,
    /// Tokens a minute.
    pub tokens: Option<u64>,
    /// Requests at a time.
    pub slots: Option<u64>,
}

/// How many tokens a request wants.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// If there is no room for so many, there is none.
    pub least: u64,
    /// If there is room for so many, nobody need count exactly.
    pub ample: u64,
    /// So many are taken then.
    pub take: u64,
}

/// What became of it.
#[derive(Debug)]
pub enum Verdict {
    /// Something is short of the least.
    Refused,
    /// There is room, but not amply so: count exactly, and ask again.
    Tight,
    /// It is taken.
    Taken(Held),
}

/// What all replicas together use of an account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// When it was so, by the clock of Redis, in milliseconds.
    pub at: f64,
    /// Requests of this minute that have not drained.
    pub requests: f64,
    /// Tokens of this minute that have not drained.
    pub tokens: f64,
    /// Requests that run; 0 where that is not limited.
    pub running: u64,
}

/// The answer of Redis.
#[derive(Debug)]
pub struct Answer {
    /// What became of it.
    pub verdict: Verdict,
    /// Of each account that was asked about, in order: how it stands after that.
    pub figures: Vec<Figure>,
}

/// The tokens that a request took of the minute, to be corrected by what it really uses. Nothing is given back by dropping it.
#[derive(Debug)]
pub struct Held {
    /// `None`: tokens are not limited, so there is nothing to correct.
    holding: Option<Arc<Holding>>,
    later: Later,
}

/// What is held, as far as Redis was told, and what it is to be told.
#[derive(Debug)]
pub(super) struct Holding {
    wanted: AtomicU64,
    is_queued: AtomicBool,
    parts: Mutex<Parts>,
}

#[derive(Debug)]
struct Parts {
    held: u64,
    of: Vec<Part>,
}

/// What is held of one account.
#[derive(Clone, Debug)]
struct Part {
    key: String,
    per_minute: u64,
    left: String,
    turned: String,
    born: String,
}

/// The scripts.
pub(super) struct Scripts {
    take: Script,
    settle: Script,
    pub(super) hold: Script,
    pub(super) keep: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            take: Script::new(include_str!("take.lua")),
            settle: Script::new(include_str!("settle.lua")),
            hold: Script::new(include_str!("hold.lua")),
            keep: Script::new(include_str!("keep.lua")),
        }
    }
}

impl Shared {
    /// Takes what a request needs of all accounts, or nothing. `slot` is held by it where any of them limits how many run at a time.
    ///
    /// # Errors
    /// Redis is away. It may have been taken nevertheless, which drains by itself.
    pub async fn take(&self, accounts: &[Account<'_>], wanted: Wanted, slot: Option<&Slot>) -> Result<Answer, Away> {
        let mut call = self.scripts.take.prepare_invoke();
        for account in accounts {
            call.key(self.minutes_key(account.name)).key(self.slots_key(account.name));
        }
        call.arg(wanted.least).arg(wanted.ample).arg(wanted.take);
        call.arg(slot.map_or("", Slot::name)).arg(self.hold_millis());
        for account in accounts {
            for max in [account.requests, account.tokens, account.slots] {
                call.arg(max.map_or(-1, |max| i64::try_from(max).unwrap_or(i64::MAX)));
            }
        }
        let ask = async |connection: &mut MultiplexedConnection| {
            let told: Vec<String> = call.invoke_async(connection).await?;
            read(accounts, wanted.take, &told, |name| self.minutes_key(name))
        };
        let (code, figures, parts) = self.link.ask(RedisCommand::Take, ask).await?;
        let verdict = match code {
            2 => {
                let holding = (!parts.is_empty()).then(|| Arc::new(Holding::new(wanted.take, parts)));
                Verdict::Taken(Held { holding, later: self.later.clone() })
            }
            1 => Verdict::Tight,
            _ => Verdict::Refused,
        };
        Ok(Answer { verdict, figures })
    }

    /// Corrects what is held by several requests.
    pub(super) async fn settle(&self, all: &[Arc<Holding>]) {
        let mut call = self.scripts.settle.prepare_invoke();
        let mut asked = Vec::with_capacity(all.len());
        for holding in all {
            // What is wanted from here on is told the next time.
            holding.is_queued.store(false, Ordering::SeqCst);
            let after = holding.wanted.load(Ordering::SeqCst);
            let parts = holding.parts.lock().unwrap_or_else(PoisonError::into_inner);
            if parts.held == after {
                continue;
            }
            for part in &parts.of {
                call.key(&part.key);
                call.arg(part.per_minute).arg(parts.held).arg(after);
                call.arg(&part.left).arg(&part.turned).arg(&part.born);
            }
            asked.push((holding, after, parts.of.len()));
        }
        if asked.is_empty() {
            return;
        }
        let ask = async |connection: &mut MultiplexedConnection| call.invoke_async::<Vec<String>>(connection).await;
        // Without an answer what was held stays held, and drains within a minute.
        let Ok(told) = self.link.ask(RedisCommand::Settle, ask).await else { return };
        let mut told = told.chunks_exact(3);
        for (holding, after, n) in asked {
            let mut parts = holding.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.held = after;
            for (part, told) in parts.of.iter_mut().zip(told.by_ref().take(n)) {
                [&mut part.left, &mut part.turned, &mut part.born]
                    .into_iter()
                    .zip(told)
                    .for_each(|(is, now)| is.clone_from(now));
            }
        }
    }
}

impl Held {
    /// Says how many tokens are to be held from now on; Redis is told behind the request.
    pub fn set(&self, tokens: u64) {
        let Some(holding) = &self.holding else { return };
        holding.wanted.store(tokens, Ordering::SeqCst);
        if !holding.is_queued.swap(true, Ordering::SeqCst) {
            self.later.settle(Arc::clone(holding));
        }
    }
}

impl Holding {
    fn new(held: u64, of: Vec<Part>) -> Self {
        let (wanted, is_queued) = (AtomicU64::new(held), AtomicBool::new(false));
        Self { wanted, is_queued, parts: Mutex::new(Parts { held, of }) }
    }
}

type Read = (u8, Vec<Figure>, Vec<Part>);

/// Reads what the script says.
fn read(accounts: &[Account<'_>], take: u64, told: &[String], key: impl Fn(&str) -> String) -> RedisResult<Read> {
    let strange = || RedisError::from((ErrorKind::UnexpectedReturnType, "a script answered with something else"));
    let number = |text: &String| text.parse::<f64>().map_err(|_| strange());
    let [verdict, at, rest @ ..] = told else { return Err(strange()) };
    if rest.len() != accounts.len() * TOLD {
        return Err(strange());
    }
    let at = number(at)?;
    let (mut figures, mut parts) = (Vec::with_capacity(accounts.len()), Vec::new());
    for (account, told) in accounts.iter().zip(rest.chunks_exact(TOLD)) {
        let running = told[2].parse().map_err(|_| strange())?;
        figures.push(Figure { at, requests: number(&told[0])?, tokens: number(&told[1])?, running });
        if let Some(per_minute) = account.tokens {
            let (turned, born) = (told[3].clone(), told[4].clone());
            parts.push(Part { key: key(account.name), per_minute, left: take.to_string(), turned, born });
        }
    }
    Ok((verdict.parse().map_err(|_| strange())?, figures, parts))
}
