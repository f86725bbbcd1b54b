//! Ranks by words and vectors together.
//!
//! What words say is scored as it is without vectors. The two channels of the vectors, the turn and the turn with its neighbours, are
//! measured by their best and added. An episode is found by either: by words that clear the floor, or by standing out from texts that have
//! nothing to do with the question.

use std::collections::HashMap;

use super::super::index::Index;
use super::super::query::RecallConfig;
use super::super::rank::{Asked, Floors, Found, Fusion, Purpose, clears_floor, may_show, role_weight, scored};
use super::super::score::{Best, Hit, Scored};
use super::channel::{Channel, Closeness, Near};
use crate::memory::{EpisodeScores, RecalledEpisode, Speaker};

/// A hit of words, of vectors, or of both.
#[derive(Clone, Copy)]
struct Both {
    hit: Hit,
    close: Option<Closeness>,
}

/// One index with what is known of it.
struct Searched<'a> {
    index: &'a Index,
    words: Scored,
    channel: Option<Channel>,
}

/// The episodes of several scopes that clear the floor, strongest first, at most `limit`.
///
/// `None` when no episode has a vector of the question's space: words alone find then.
pub(in crate::recall) fn ranked(
    indexes: &[&Index],
    asked: &Asked<'_>,
    near: &Near<'_>,
    config: &RecallConfig,
    purpose: Purpose,
    limit: usize,
) -> Option<Vec<Found>> {
    let channels: Vec<Option<Channel>> = indexes.iter().map(|index| near.channel(index)).collect();
    if channels.iter().all(Option::is_none) {
        return None;
    }
    let floors = Floors::of(indexes, asked, config, purpose);
    let mut searched: Vec<Searched<'_>> = indexes
        .iter()
        .zip(channels)
        .map(|(&index, channel)| Searched {
            index,
            words: scored(index, indexes, asked, floors.least(), None),
            channel,
        })
        .collect();
    let mut best = searched.iter().fold(Best::default(), |best, searched| best.max(searched.words.best));
    for searched in &mut searched {
        if searched.words.is_short_of(&best) {
            searched.words = scored(searched.index, indexes, asked, 0.0, None);
            best = best.max(searched.words.best);
        }
    }
    let both: Vec<Vec<Both>> = searched.iter().map(Searched::join).collect();
    let all = || both.iter().flatten();
    let is_shown = purpose == Purpose::Show;
    let stands_out =
        |both: &Both| both.close.is_some_and(|close| near.stands_out(close.turn, asked.is_personal, is_shown));
    if !all().any(|both| clears_floor(&both.hit, floors.floor, floors.lenient) || stands_out(both)) {
        return Some(Vec::new());
    }
    let highest = |of: fn(Closeness) -> f32| all().filter_map(|both| both.close.map(of)).fold(0.0, f32::max);
    let nearest = Closeness { turn: highest(|close| close.turn), neighbours: highest(|close| close.neighbours) };
    let mut ranked: Vec<(f64, usize, Both)> = Vec::new();
    for (number, (searched, both)) in searched.iter().zip(&both).enumerate() {
        let fusion = Fusion::new(searched.index, asked, &config.weights, best);
        for both in both {
            let by_words = f64::from(both.hit.coverage) >= floors.beside && (!is_shown || both.hit.telling > 0);
            let place = &searched.index.places[both.hit.doc as usize];
            let by_meaning =
                if is_shown { stands_out(both) } else { both.close.is_some_and(|close| near.is_beside(close)) };
            if (by_words || by_meaning) && may_show(place, asked) {
                // One without a vector is taken for unrelated.
                let close = both.close.unwrap_or_default();
                let meant = fusion.dense[0] * near.share(close.turn, nearest.turn)
                    + fusion.dense[1] * near.share(close.neighbours, nearest.neighbours);
                let plain = fusion.plain(&both.hit, place) + meant * role_weight(place.is_reply, &config.weights);
                ranked.push((fusion.boosted(plain, place), number, *both));
            }
        }
    }
    ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2.hit.doc).cmp(&(b.1, b.2.hit.doc))));
    ranked.truncate(limit);
    let found =
        ranked.into_iter().filter_map(|(fused, number, both)| found(searched[number].index, both, fused, config));
    Some(found.collect())
}

impl Searched<'_> {
    /// Puts the hits of words and the nearest beside each other, each document once.
    fn join(&self) -> Vec<Both> {
        let hits = &self.words.hits;
        let close = |doc| self.channel.as_ref().and_then(|channel| channel.closeness(self.index, doc));
        let mut both: Vec<Both> = hits.iter().map(|&hit| Both { hit, close: close(hit.doc) }).collect();
        let Some(channel) = &self.channel else { return both };
        both.sort_unstable_by_key(|both| both.hit.doc);
        let (by_words, session) = (both.len(), |doc: u32| self.index.places[doc as usize].session);
        // A session scores the same for all that is said in it.
        let sessions: HashMap<u32, f32> = hits.iter().map(|hit| (session(hit.doc), hit.session)).collect();
        for &doc in &channel.nearest {
            if both[..by_words].binary_search_by_key(&doc, |both| both.hit.doc).is_err() {
                let session = sessions.get(&session(doc)).copied().unwrap_or(0.0);
                both.push(Both { hit: Hit { doc, session, ..Hit::default() }, close: close(doc) });
            }
        }
        both
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
