//! One scope in memory: its facts, its episodes and the index over them.

use std::collections::HashMap;
use std::sync::Arc;

use super::facts::Known;
use super::index::{Filling, Index, Studied};
use super::source::{ScopeData, Since};
use crate::base::{EpisodeId, FactId, Time};
use crate::memory::text;
use crate::memory::{Episode, Fact, Sensitivity};
use crate::store::{Changed, Learned};

/// A growth of more than this is told to the cache, in bytes.
const SAY_BYTES: usize = 256 << 10;

/// So many episodes are read before they are taken in: it bounds what that takes in memory.
const PIECE: usize = 8_192;
/// From so many on, several threads read them.
const SHARED_FROM: usize = 1_024;
/// No more threads than this, so that one large scope leaves room for what else is to be done.
const MAX_THREADS: usize = 4;

/// A scope as it stands at one revision.
#[derive(Debug, Default)]
pub(super) struct Scoped {
    /// The revision.
    pub(super) revision: i64,
    /// The last change that is in it, where the source can tell what follows.
    pub(super) change: Option<i64>,
    /// The same before it was last brought up to date.
    change_before: Option<i64>,
    /// How often it was said that something changed here, and how often of that it was brought up to date.
    told: u64,
    followed: u64,
    /// Facts that stand: what a question is held against.
    facts: HashMap<FactId, Known>,
    /// Facts that stand no more.
    past: HashMap<FactId, Arc<Fact>>,
    /// The index over the episodes.
    pub(super) index: Index,
    max_episodes: usize,
    /// What it took in memory when that was last said to the cache.
    said_bytes: usize,
}

impl Scoped {
    /// Holds the newest `max_episodes`, now and later; the store keeps the others.
    pub(super) fn build(data: ScopeData, max_episodes: usize) -> Self {
        let mut scoped = Self {
            revision: data.revision,
            change: data.change,
            change_before: data.change,
            max_episodes,
            ..Self::default()
        };
        for fact in data.facts {
            scoped.put_fact(fact);
        }
        let mut left = data.episodes.into_iter();
        let mut filling = Filling::default();
        loop {
            let piece: Vec<Episode> = left.by_ref().take(PIECE).collect();
            if piece.is_empty() {
                break;
            }
            study(piece).into_iter().for_each(|studied| filling.add(studied));
        }
        scoped.index = filling.finish();
        scoped.index.shrink(max_episodes);
        scoped
    }

    /// Takes in what was stored at `revision`; `studied` are its episodes, whose texts are read before the scope is locked for it. `false` when
    /// something was missed in between, or cannot be told: read the scope again.
    pub(super) fn follow(&mut self, revision: i64, learned: &Learned, studied: Vec<Studied>) -> bool {
        if revision <= self.revision {
            return true;
        }
        if revision > self.revision + 1 {
            return false;
        }
        // What is taken in here may be gone again by a change that was followed already, since a revision is read before the changes: those are
        // gone through once more.
        self.change = self.change_before;
        for change in &learned.changes {
            self.put_fact(change.fact.clone());
        }
        self.index.insert_all(studied);
        self.index.shrink(self.max_episodes);
        for (episode, fact) in &learned.marks {
            self.mark(*episode, *fact);
        }
        self.revision = revision;
        true
    }

    /// Says that something changed here by other means than [`Scoped::follow`].
    pub(super) fn tell(&mut self) {
        self.told += 1;
    }

    /// How often that was said, to be handed to [`Scoped::catch_up`] with what is read afterwards.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// Whether that was said and it was not brought up to date since.
    pub(super) fn is_outdated(&self) -> bool {
        self.followed < self.told
    }

    /// Takes in what changed behind the last change that is known here; some of it may be known already. Returns the episodes that are new;
    /// `None` when the scope was erased meanwhile: read it again.
    pub(super) fn catch_up(&mut self, since: Since, told: u64) -> Option<Vec<EpisodeId>> {
        let mut new = Vec::new();
        self.change_before = self.change;
        for change in since.changes {
            if self.change.is_some_and(|known| change.seq <= known) {
                continue;
            }
            match change.what {
                Changed::Fact(entry) => self.put_fact(entry.fact),
                Changed::FactGone(id) => {
                    self.facts.remove(&id);
                    self.past.remove(&id);
                }
                Changed::Episode(episode) => new.extend(self.put_episode(*episode)),
                Changed::EpisodeGone(id) => self.index.remove(id),
                Changed::Erased => return None,
            }
            self.change = Some(change.seq);
        }
        self.index.shrink(self.max_episodes);
        self.revision = self.revision.max(since.revision);
        self.followed = self.followed.max(told);
        Some(new)
    }

    /// Returns its id when its text is new here.
    fn put_episode(&mut self, episode: Episode) -> Option<EpisodeId> {
        let id = episode.id;
        let known = self.index.number(id).and_then(|number| self.index.doc(number)).map(|doc| &doc.episode);
        if known.is_some_and(|known| is_indexed_alike(known, &episode)) {
            self.index.amend(id, |known| *known = episode);
            return None;
        }
        self.index.insert(Arc::new(episode));
        self.index.number(id).map(|_| id)
    }

    fn put_fact(&mut self, fact: Fact) {
        let known = self.facts.get(&fact.id).map(|known| &known.fact).or_else(|| self.past.get(&fact.id));
        if known.is_some_and(|known| known.version > fact.version) {
            return;
        }
        if fact.is_current() {
            self.past.remove(&fact.id);
            self.facts.insert(fact.id, Known::new(fact));
        } else {
            self.facts.remove(&fact.id);
            self.past.insert(fact.id, Arc::new(fact));
        }
    }

    fn mark(&mut self, episode: EpisodeId, fact: FactId) {
        self.index.amend(episode, |episode| {
            if !episode.retired_facts.contains(&fact) {
                episode.retired_facts.push(fact);
            }
        });
    }

    /// Facts that hold now and may be shown at this sensitivity, in no order.
    pub(super) fn current(&self, max: Sensitivity, now: Time) -> impl Iterator<Item = &Known> {
        self.facts.values().filter(move |known| {
            let fact = &known.fact;
            fact.sensitivity <= max && fact.valid_to.is_none_or(|end| now < end)
        })
    }

    /// Whether a fact is known here and holds now.
    pub(super) fn is_current(&self, id: FactId, now: Time) -> bool {
        let current = |known: &Known| known.fact.is_current() && known.fact.valid_to.is_none_or(|end| now < end);
        self.facts.get(&id).is_some_and(current)
    }

    /// Episodes in which a value occurs word for word.
    pub(super) fn mentioning(&self, value: &str) -> Vec<EpisodeId> {
        let value = text::fold(value.trim().into()).into_owned();
        if value.is_empty() {
            return Vec::new();
        }
        let holds = |episode: &&Arc<Episode>| has_words(&text::fold(episode.text.as_str().into()), &value);
        self.index.episodes().filter(holds).map(|episode| episode.id).collect()
    }

    /// What it takes in memory, in bytes, estimated.
    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + (self.facts.len() + self.past.len()) * 1_000 + 1_000
    }

    /// Whether it takes so much more or less than was last said that the cache should know, by a 32nd or by 256 KiB; then that is said.
    pub(super) fn has_grown(&mut self) -> bool {
        let bytes = self.bytes();
        let grown = bytes.abs_diff(self.said_bytes) > (bytes / 32).min(SAY_BYTES);
        if grown {
            self.said_bytes = bytes;
        }
        grown
    }

    /// All facts, by id.
    pub(super) fn facts(&self) -> Vec<Arc<Fact>> {
        let standing = self.facts.values().map(|known| &known.fact);
        let mut facts: Vec<_> = standing.chain(self.past.values()).cloned().collect();
        facts.sort_unstable_by_key(|fact| fact.id);
        facts
    }
}

/// Whether two states of an episode agree in all that the index and the vector are made of; the rest is looked at when it is shown.
fn is_indexed_alike(one: &Episode, other: &Episode) -> bool {
    (&one.text, &one.session, one.position, one.status) == (&other.text, &other.session, other.position, other.status)
        && (&one.speaker, &one.tags, &one.entities) == (&other.speaker, &other.tags, &other.entities)
}

/// Whether `value` stands in `text` and is no piece of a longer word or number.
fn has_words(text: &str, value: &str) -> bool {
    let glued = |inside: Option<char>, outside: Option<char>| matches!((inside, outside), (Some(a), Some(b)) if a.is_alphanumeric() && b.is_alphanumeric() && a.is_ascii() && b.is_ascii());
    text.match_indices(value).any(|(at, _)| {
        !glued(value.chars().next(), text[..at].chars().next_back())
            && !glued(value.chars().next_back(), text[at + value.len()..].chars().next())
    })
}

/// Reads the texts of episodes, many of them on several threads; in their order.
pub(super) fn study(episodes: Vec<Episode>) -> Vec<Studied> {
    // How many threads there may be is read from files.
    let is_shared = episodes.len() >= SHARED_FROM;
    let threads =
        if is_shared { std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS)) } else { 1 };
    if threads < 2 {
        return episodes.into_iter().map(|episode| Studied::of(Arc::new(episode))).collect();
    }
    let share = episodes.len().div_ceil(threads);
    let mut left = episodes.into_iter();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|_| {
                let share: Vec<Episode> = left.by_ref().take(share).collect();
                scope.spawn(|| share.into_iter().map(|episode| Studied::of(Arc::new(episode))).collect::<Vec<_>>())
            })
            .collect();
        let join = |reader: std::thread::ScopedJoinHandle<'_, Vec<Studied>>| {
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        readers.into_iter().flat_map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::tests::episode;

    #[test]
    fn what_several_threads_read_is_taken_in_as_it_came() {
        let text = |n: u128| format!("lantern {} beside violin {}", n % 7, n % 11);
        let episodes: Vec<Episode> =
            (0..2_500).map(|n| episode(n, &format!("s{}", n / 9), n as i64, &text(n))).collect();
        let built = Scoped::build(ScopeData { episodes: episodes.clone(), ..ScopeData::default() }, usize::MAX);
        let mut alone = Index::default();
        for episode in episodes {
            alone.insert(Arc::new(episode));
        }
        let all =
            |index: &Index| index.episodes().map(|episode| (episode.id, index.number(episode.id))).collect::<Vec<_>>();
        assert_eq!(all(&built.index), all(&alone));
        assert_eq!((built.index.total_len, built.index.total_window), (alone.total_len, alone.total_window));
    }
}
