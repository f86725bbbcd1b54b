//! Ranks by words and vectors together.
//!
//! What words say is scored as it is without vectors. The two channels of the vectors, the turn and the turn with its neighbours, are
//! measured by their best and added. An episode is found by either: by words that clear the floor, or by standing out from texts that have
//! nothing to do with the question.

use super::super::index::Index;
use super::super::query::RecallConfig;
use super::super::rank::{Asked, Floors, Found, Fusion, Purpose, Top, clears_floor, may_show, reads, role_weight};
use super::super::score::{Best, Hit, Reads, Scored};
use super::channel::{Channel, Closeness, Near};
use crate::memory::{EpisodeScores, RecalledEpisode, Speaker};

/// One index with what is known of it.
struct Searched<'a> {
    index: &'a Index,
    reads: Option<Reads<'a>>,
    words: Scored,
    channel: Option<Channel>,
}

/// A hit of words, of vectors, or of both.
#[derive(Clone, Copy)]
struct Both {
    hit: Hit,
    close: Option<Closeness>,
}

/// The episodes of several scopes that clear the floor, strongest first, at most `limit`.
///
/// `channels` tells of each index how near its episodes are. `None` when no episode has a vector of the question's space: words alone find then.
pub(in crate::recall) fn ranked(
    indexes: &[&Index],
    channels: Vec<Option<Channel>>,
    asked: &Asked<'_>,
    near: &Near<'_>,
    config: &RecallConfig,
    purpose: Purpose,
    limit: usize,
) -> Option<Vec<Found>> {
    if channels.iter().all(Option::is_none) {
        return None;
    }
    let floors = Floors::of(indexes, asked, config, purpose);
    let searched = indexes.iter().zip(channels).map(|(&index, channel)| {
        let reads = reads(index, indexes, asked);
        let words = reads.as_ref().map(|reads| reads.score(floors.least(), None)).unwrap_or_default();
        Searched { index, reads, words, channel }
    });
    let mut searched: Vec<Searched<'_>> = searched.collect();
    let mut best = searched.iter().fold(Best::default(), |best, searched| best.max(searched.words.best));
    for Searched { reads, words, .. } in &mut searched {
        if let Some(reads) = reads.as_ref().filter(|_| words.is_short_of(&best)) {
            *words = reads.score(0.0, None);
            best = best.max(words.best);
        }
    }
    let channels = searched.iter().filter_map(|searched| searched.channel.as_ref());
    let nearest = channels.fold(Closeness::default(), |nearest, channel| nearest.max(channel.nearest));
    let is_shown = purpose == Purpose::Show;
    let stands_out = near.stands_out(nearest.turn, asked.is_personal, is_shown);
    let clears = |hit: &Hit| clears_floor(hit, floors.floor, floors.lenient);
    if !stands_out && !searched.iter().any(|searched| searched.words.hits.iter().any(clears)) {
        return Some(Vec::new());
    }
    let mut top = Top::new(limit);
    for (number, searched) in searched.iter().enumerate() {
        let fusion = Fusion::new(searched.index, asked, &config.weights, best);
        let blend = Blend { asked, near, config, beside: floors.beside, is_shown, nearest, fusion };
        searched.rank(&blend, number, &mut top);
    }
    let found = top
        .into_ranked()
        .into_iter()
        .filter_map(|(fused, number, _, both)| found(searched[number].index, both, fused, config));
    Some(found.collect())
}

/// What is wanted of the episodes of one index.
struct Blend<'a> {
    asked: &'a Asked<'a>,
    near: &'a Near<'a>,
    config: &'a RecallConfig,
    /// What each must cover of the question to be found by its words.
    beside: f64,
    is_shown: bool,
    nearest: Closeness,
    fusion: Fusion<'a>,
}

impl Blend<'_> {
    fn is_found_by_words(&self, hit: &Hit) -> bool {
        f64::from(hit.coverage) >= self.beside && (!self.is_shown || hit.telling > 0)
    }

    fn is_found_by_meaning(&self, close: Closeness) -> bool {
        if self.is_shown {
            self.near.stands_out(close.turn, self.asked.is_personal, true)
        } else {
            self.near.is_beside(close)
        }
    }

    /// What vectors add, before any boost and whoever spoke. One without a vector is taken for unrelated.
    fn meant(&self, close: Option<Closeness>) -> f64 {
        let close = close.unwrap_or_default();
        self.fusion.dense[0] * self.near.share(close.turn, self.nearest.turn)
            + self.fusion.dense[1] * self.near.share(close.neighbours, self.nearest.neighbours)
    }
}

impl Searched<'_> {
    /// Offers every episode that words or vectors find.
    fn rank(&self, blend: &Blend<'_>, number: usize, top: &mut Top<Both>) {
        let mut offer = |hit: Hit, close: Option<Closeness>| {
            let place = &self.index.places[hit.doc as usize];
            let plain = blend.fusion.plain(&hit, place)
                + blend.meant(close) * role_weight(place.is_reply, &blend.config.weights);
            if blend.fusion.most_boosted(plain) >= top.bar() && may_show(place, blend.asked) {
                top.offer(blend.fusion.boosted(plain, place), number, hit.doc, Both { hit, close });
            }
        };
        let Some(channel) = &self.channel else {
            self.words.hits.iter().filter(|hit| blend.is_found_by_words(hit)).for_each(|&hit| offer(hit, None));
            return;
        };
        let mut by_words = vec![false; self.index.places.len()];
        for &hit in &self.words.hits {
            by_words[hit.doc as usize] = true;
            let close = channel.closeness(hit.doc);
            if blend.is_found_by_words(&hit) || close.is_some_and(|close| blend.is_found_by_meaning(close)) {
                offer(hit, close);
            }
        }
        // A session scores the same for all that is said in it.
        let sessions = self.reads.as_ref().map(Reads::sessions).unwrap_or_default();
        for (close, doc) in channel.all().zip(0..) {
            // Also says no to what has no vector.
            if blend.is_found_by_meaning(close) && !by_words[doc as usize] {
                let session = sessions.get(self.index.places[doc as usize].session as usize).copied();
                offer(Hit { doc, session: session.unwrap_or_default(), ..Hit::default() }, Some(close));
            }
        }
    }
}

fn found(index: &Index, Both { hit, close }: Both, fused: f64, config: &RecallConfig) -> Option<Found> {
    let doc = index.doc(hit.doc)?;
    let scores = EpisodeScores {
        turn: hit.turn.into(),
        neighbours: hit.window.into(),
        session: hit.session.into(),
        coverage: hit.coverage.into(),
        dense_turn: close.map(|close| close.turn.into()),
        dense_neighbours: close.map(|close| close.neighbours.into()),
        fused,
        rerank: None,
    };
    Some(Found {
        hit: RecalledEpisode { episode: doc.episode.clone(), scores },
        sketch: doc.sketch,
        strength: fused / role_weight(doc.episode.role == Speaker::Assistant, &config.weights),
    })
}
