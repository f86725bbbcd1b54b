//! What one decision costs against 1,000 facts: of many keys, of one key that holds a set, and of one key with a long history.
//!
//! The promise is 20 µs for each candidate.

use std::hint::black_box;
use std::sync::Arc;

use backstory::base::{ExchangeId, Random, SeededRandom, Time};
use backstory::memory::arbitrate::{ArbitrateCx, arbitrate};
use backstory::memory::{Actor, Candidate, Evidence, Fact, Intent, KeySchema, Speaker};
use criterion::{Criterion, criterion_group, criterion_main};

const N_FACTS: i64 = 1_000;

fn candidate(key: &str, value: &str, at: i64) -> Candidate {
    let evidence = Evidence {
        exchange: Some(ExchangeId(at.unsigned_abs().into())),
        message_hash: String::new(),
        quote: format!("it is {value}"),
        role: Speaker::User,
        said_at: Time(at),
    };
    Candidate::stated(key, value, evidence)
}

/// Two made-up words: what people remember of themselves has few words in common.
fn value(ids: &SeededRandom) -> String {
    let word = |n: u32| -> String {
        let bits = ids.next_u64();
        (0..n).map(|at| char::from(b'a' + (bits >> (8 * at)) as u8 % 26)).collect()
    };
    format!("{} {}", word(5), word(7))
}

fn learn(facts: &mut Vec<Arc<Fact>>, candidate: &Candidate, ids: &SeededRandom) {
    let mut cx = ArbitrateCx { now: candidate.evidence.said_at, ids, actor: Actor::Rules, exchange: None };
    for change in arbitrate(facts, candidate, KeySchema::builtin(), &mut cx).changes {
        let fact = Arc::new(change.fact);
        match facts.iter_mut().find(|f| f.id == fact.id) {
            Some(old) => *old = fact,
            None => facts.push(fact),
        }
    }
}

fn decisions(c: &mut Criterion) {
    let ids = SeededRandom::new(7);
    let many_keys = |n: i64| format!("preference.topic_{n}");
    let set = |_: i64| "diet.allergy".to_owned();
    let history = |_: i64| "location.home".to_owned();
    let shapes: [(&str, &dyn Fn(i64) -> String); 3] =
        [("1000 keys", &many_keys), ("a set of 1000", &set), ("1000 former values", &history)];
    for (shape, key) in shapes {
        let mut facts = Vec::new();
        let mut known = String::new();
        for n in 0..N_FACTS {
            known = value(&ids);
            learn(&mut facts, &candidate(&key(n), &known, n * 1000), &ids);
        }
        let later = N_FACTS * 2000;
        let new = candidate(&key(N_FACTS), &value(&ids), later);
        let same = candidate(&key(N_FACTS - 1), &known, later);
        let mut gone = same.clone();
        gone.intent = Intent::Retract;
        for (what, said) in [("a new value", new), ("a known one", same), ("taken back", gone)] {
            c.bench_function(&format!("{shape}: {what}"), |b| {
                b.iter(|| {
                    let mut cx = ArbitrateCx { now: Time(later), ids: &ids, actor: Actor::Rules, exchange: None };
                    arbitrate(black_box(&facts), black_box(&said), KeySchema::builtin(), &mut cx)
                });
            });
        }
    }
}

criterion_group!(benches, decisions);
criterion_main!(benches);
