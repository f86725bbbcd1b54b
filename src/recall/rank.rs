//! Fuses the channels, boosts within bounds, and holds what remains against the floor.

use super::exclude::Exclude;
use super::index::{Index, NONE, Place};
use super::prune::Prune;
use super::query::{Query, RecallConfig, Weights};
use super::score::{Best, Hit, Reads, Scored};
use super::sketch::Sketch;
use super::terms::QueryTerm;
use super::when::{self, Span};
use crate::base::Time;
use crate::memory::text::{self, Term};
use crate::memory::{EpisodeScores, RecalledEpisode, Sensitivity, Speaker};

/// From here up, turns say enough by themselves; from the lower bound down they lean wholly on their neighbours. In terms.
const SHORT_TURN: f32 = 15.0;
const LONG_TURN: f32 = 60.0;
/// What came before a short question weighs this much beside it.
const BEFORE_SHARE: f32 = 0.4;
/// Of what came before, so many terms are read.
const BEFORE_TERMS: usize = 12;
/// A question that speaks of the person asks this memory and no encyclopedia: it need cover only this share of the floor.
const PERSONAL: f64 = 0.5;
/// A question that names one of the speakers all the more so.
const NAMED: f64 = 0.25;
/// What is shown beside a memory that clears the floor must reach this share of the floor itself.
const BESIDE: f64 = 0.12;
/// To be shown to a model rather than listed, it must reach this share of it.
const HALF: f64 = 0.4;
/// A single telling word in common must be this share of the question.
const ALONE: f64 = 0.45;
/// Fresh memories gain at most this share, half of it after [`FRESH_HALF_LIFE`].
const FRESH: f64 = 0.03;
/// What a whole point of hindsight score is worth, as a share.
const HINDSIGHT: f64 = 0.2;
/// Milliseconds in which the gain of a fresh memory halves: 30 days.
const FRESH_HALF_LIFE: f64 = 30.0 * 86_400_000.0;

/// A question, made ready for scoring.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// Terms of the question, and of what came before it when it has little to go by.
    pub(super) terms: Vec<QueryTerm>,
    /// All terms of the question itself.
    pub(super) own: Vec<Term>,
    /// The question, folded: what Chinese labels are looked up in.
    pub(super) folded: String,
    pub(super) is_personal: bool,
    when: Option<Span>,
    now: Time,
    max_sensitivity: Sensitivity,
    exclude: &'a Exclude,
}

impl<'a> Asked<'a> {
    pub(super) fn new(query: &'a Query) -> Self {
        let folded = text::fold(query.text.as_str().into()).into_owned();
        let own = text::analyse_folded(&folded);
        let mut terms = QueryTerm::distinct(&own, 1.0);
        let telling = terms.iter().filter(|term| term.form.is_telling()).count();
        // A bare greeting has no terms at all, and what came before it must not speak for it.
        if let Some(before) = query.before.as_deref().filter(|_| telling < 2 && !terms.is_empty()) {
            let mut more = QueryTerm::distinct(&text::analyse(before), BEFORE_SHARE);
            more.retain(|term| term.form.is_telling() && terms.iter().all(|known| known.id != term.id));
            more.truncate(BEFORE_TERMS);
            terms.extend(more);
        }
        Self {
            terms,
            own,
            is_personal: is_personal(&folded),
            when: when::parse(&folded, query.now),
            folded,
            now: query.now,
            max_sensitivity: query.max_sensitivity,
            exclude: &query.exclude,
        }
    }
}

impl Asked<'_> {
    /// The same question to documents, which know neither the person who asks nor when something was said.
    pub(super) fn of_documents(self) -> Self {
        Self { is_personal: false, when: None, ..self }
    }
}

/// An episode that was found, and the sketch by which its likes are told.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) hit: RecalledEpisode,
    pub(super) sketch: Sketch,
    /// What it scores before the assistant's words are weighed down: a reply is judged with the turn that it answers.
    pub(super) strength: f64,
}

/// What a ranking is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be shown to a model: each must share a telling word with the question, by itself or beside its neighbours.
    Show,
    /// To be listed.
    List,
}

/// The episodes of several scopes that clear the floor, strongest first, at most `limit`.
pub(super) fn rank(
    indexes: &[&Index],
    asked: &Asked<'_>,
    config: &RecallConfig,
    purpose: Purpose,
    limit: usize,
) -> Vec<Found> {
    // What is left out is told by the best of one index, so it takes one index.
    ranked(indexes, asked, config, purpose, limit, indexes.len() == 1)
}

/// Prunes or does not, with the same result.
fn ranked(
    indexes: &[&Index],
    asked: &Asked<'_>,
    config: &RecallConfig,
    purpose: Purpose,
    limit: usize,
    prune: bool,
) -> Vec<Found> {
    let floors = Floors::of(indexes, asked, config, purpose);
    let Floors { floor, beside, lenient } = floors;
    let least = floors.least();
    let mut found: Vec<(&Index, Option<Reads<'_>>, Scored)> = Vec::with_capacity(indexes.len());
    for &index in indexes {
        let reads = reads(index, indexes, asked);
        let wanted = prune.then(|| {
            let Fusion { most_boost, least_boost, .. } = Fusion::new(index, asked, &config.weights, Best::default());
            Prune {
                index,
                asked,
                shares: Shares::new(index, &config.weights),
                boost: (least_boost as f32, most_boost as f32),
                floor,
                lenient,
                beside: beside as f32,
                telling: purpose == Purpose::Show,
                limit,
            }
        });
        let scored = reads.as_ref().map(|reads| reads.score(least, wanted.as_ref())).unwrap_or_default();
        found.push((index, reads, scored));
    }
    if !found.iter().flat_map(|(.., scored)| &scored.hits).any(|hit| clears_floor(hit, floor, lenient)) {
        return Vec::new();
    }
    let mut best = found.iter().fold(Best::default(), |best, (.., scored)| best.max(scored.best));
    for (_, reads, scored) in &mut found {
        if let Some(reads) = reads.as_ref().filter(|_| scored.is_short_of(&best)) {
            *scored = reads.score(0.0, None);
            best = best.max(scored.best);
        }
    }
    let mut top = Top::new(limit);
    for (number, (index, _, scored)) in found.iter().enumerate() {
        let fusion = Fusion::new(index, asked, &config.weights, best);
        for hit in scored.hits.iter().filter(|hit| f64::from(hit.coverage) >= beside) {
            let place = &index.places[hit.doc as usize];
            if (purpose == Purpose::List || hit.telling > 0)
                && fusion.most_boosted(fusion.plain(hit, place)) >= top.bar()
                && may_show(place, asked)
            {
                top.offer(fusion.fuse(hit, place), number, hit.doc, *hit);
            }
        }
    }
    let shown = top.into_ranked().into_iter().filter_map(|(fused, number, doc, hit)| {
        let doc = found[number].0.doc(doc)?;
        let scores = EpisodeScores {
            turn: hit.turn.into(),
            neighbours: hit.window.into(),
            session: hit.session.into(),
            coverage: hit.coverage.into(),
            dense_turn: None,
            dense_neighbours: None,
            fused,
            rerank: None,
        };
        Some(Found {
            hit: RecalledEpisode { episode: doc.episode.clone(), scores },
            sketch: doc.sketch,
            strength: fused / role_weight(doc.episode.role == Speaker::Assistant, &config.weights),
        })
    });
    shown.collect()
}

/// What must be covered of a question, as a share of its information.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floors {
    /// By one memory at least, or nothing is known.
    pub(super) floor: f64,
    /// By each; a second memory often holds just the other half of the answer.
    pub(super) beside: f64,
    /// Whether one telling word in common may be enough.
    pub(super) lenient: bool,
}

impl Floors {
    pub(super) fn of(indexes: &[&Index], asked: &Asked<'_>, config: &RecallConfig, purpose: Purpose) -> Self {
        let share = if indexes.iter().any(|index| index.speakers.is_in(&asked.own)) {
            NAMED
        } else if asked.is_personal {
            PERSONAL
        } else {
            1.0
        };
        let beside = config.floor * if purpose == Purpose::Show { HALF } else { BESIDE };
        Self { floor: config.floor * share, beside, lenient: share < 1.0 }
    }

    /// What covers less is of no use.
    pub(super) fn least(self) -> f32 {
        self.floor.min(self.beside) as f32
    }
}

/// The strongest hits so far, strongest first; of equals, the first that came.
pub(super) struct Top<T> {
    limit: usize,
    /// Score, number of the index, document.
    ranked: Vec<(f64, usize, u32, T)>,
}

impl<T> Top<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ranked: Vec::with_capacity(limit.min(256) + 1) }
    }

    /// What scores less is not among them.
    pub(super) fn bar(&self) -> f64 {
        if self.limit == 0 {
            return f64::INFINITY;
        }
        self.ranked.get(self.limit - 1).map_or(f64::NEG_INFINITY, |last| last.0)
    }

    pub(super) fn offer(&mut self, fused: f64, number: usize, doc: u32, item: T) {
        let at = self.ranked.partition_point(|known| {
            known.0.total_cmp(&fused).then_with(|| (number, doc).cmp(&(known.1, known.2))).is_gt()
        });
        if at < self.limit {
            self.ranked.truncate(self.limit - 1);
            self.ranked.insert(at, (fused, number, doc, item));
        }
    }

    pub(super) fn into_ranked(self) -> Vec<(f64, usize, u32, T)> {
        self.ranked
    }
}

/// What an index knows of the question. A speaker's name picks turns by who said them, which is a boost: as a word it is what *others* say to
/// that speaker. Unless nothing else is asked.
pub(super) fn reads<'a>(index: &'a Index, all: &[&Index], asked: &Asked<'_>) -> Option<Reads<'a>> {
    let others: Vec<QueryTerm> =
        asked.terms.iter().copied().filter(|term| index.speakers.named(term.id).is_none()).collect();
    Reads::of(index, all, if others.is_empty() { &asked.terms } else { &others })
}

pub(super) fn may_show(place: &Place, asked: &Asked<'_>) -> bool {
    place.sensitivity <= asked.max_sensitivity && !place.is_retired && !asked.exclude.has(place.message)
}

/// Whether a hit shares enough with the question to be about the same thing at all. One word in common is an accident, unless it is
/// most of what was asked or the question is about the person.
pub(super) fn clears_floor(hit: &Hit, floor: f64, personal: bool) -> bool {
    clears(hit.own, hit.coverage, hit.telling, floor, personal)
}

/// The same, of what is known of a hit: more can only help it.
pub(super) fn clears(own: f32, coverage: f32, telling: u32, floor: f64, personal: bool) -> bool {
    let covered = f64::from(own).max(0.9 * f64::from(coverage));
    covered >= floor && (telling >= 2 || telling == 1 && (personal || covered >= ALONE))
}

/// Whether a question speaks of the one who asks: "my", "did I", 我的. "How do I …" and 帮我 ask for help with anything.
fn is_personal(folded: &str) -> bool {
    let mut before = ["", ""];
    for word in folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let personal = match word {
            "my" | "mine" | "our" | "ours" | "myself" => true,
            "i" | "we" => {
                matches!(before[1], "did" | "was" | "were" | "have" | "had" | "am" | "do") && before[0] != "how"
            }
            "me" => !matches!(
                before[1],
                "give"
                    | "tell"
                    | "help"
                    | "show"
                    | "teach"
                    | "write"
                    | "make"
                    | "get"
                    | "let"
                    | "send"
                    | "find"
                    | "to"
                    | "for"
            ),
            _ => false,
        };
        if personal {
            return true;
        }
        before = [before[1], word];
    }
    folded.match_indices('我').any(|(at, _)| !folded[..at].ends_with(['帮', '给', '教', '请', '让', '告']))
}

pub(super) fn role_weight(is_reply: bool, weights: &Weights) -> f64 {
    // Never zero: it divides.
    if is_reply { weights.assistant.max(0.01) } else { 1.0 }
}

/// What each channel counts in one index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) turn: f32,
    pub(super) window: f32,
    pub(super) session: f32,
    reply: f32,
    only_add: bool,
}

impl Shares {
    /// Where turns are long they say enough by themselves, where they are short they lean on what stands around them.
    fn new(index: &Index, weights: &Weights) -> Self {
        let [turn, window, session] = Self::exact(index, weights);
        Self {
            turn: turn as f32,
            window: window as f32,
            session: session as f32,
            reply: role_weight(true, weights) as f32,
            only_add: [turn, window, session, weights.speaker, weights.boost].iter().all(|&share| share >= 0.0),
        }
    }

    fn exact(index: &Index, weights: &Weights) -> [f64; 3] {
        let average = index.total_len as f32 / index.len().max(1) as f32;
        let long = f64::from(((average - SHORT_TURN) / (LONG_TURN - SHORT_TURN)).clamp(0.0, 1.0));
        [
            weights.turn,
            weights.neighbours + long * (weights.neighbours_long - weights.neighbours),
            weights.session + long * (weights.session_long - weights.session),
        ]
    }

    /// Whether a higher score in any channel never makes a lower score in all.
    pub(super) fn only_add(&self) -> bool {
        self.only_add
    }

    pub(super) fn role(&self, is_reply: bool) -> f32 {
        if is_reply { self.reply } else { 1.0 }
    }
}

pub(super) struct Fusion<'a> {
    asked: &'a Asked<'a>,
    weights: &'a Weights,
    best: Best,
    shares: [f64; 3],
    /// What the channels of vectors count: the turn, and it with its neighbours.
    pub(super) dense: [f64; 2],
    speakers: Vec<u32>,
    /// No boost is more or less than these for this question, as a share.
    most_boost: f64,
    least_boost: f64,
}

impl<'a> Fusion<'a> {
    pub(super) fn new(index: &Index, asked: &'a Asked<'a>, weights: &'a Weights, best: Best) -> Self {
        let speakers: Vec<u32> = asked.own.iter().filter_map(|term| index.speakers.named(term.id)).collect();
        let named = if speakers.is_empty() { 0.0 } else { weights.speaker.max(0.0) };
        let asked_for = if asked.when.is_some() { weights.boost } else { 0.0 };
        let (lowest, highest) = index.hindsight;
        let bounded = |boost: f64| boost.clamp(-weights.boost, weights.boost);
        let most_boost = bounded(FRESH + named + asked_for + HINDSIGHT * f64::from(highest));
        let least_boost = bounded(HINDSIGHT * f64::from(lowest));
        let shares = Shares::exact(index, weights);
        let leaning = if weights.neighbours > 0.0 { shares[1] / weights.neighbours } else { 1.0 };
        let dense = [weights.dense_turn, weights.dense_neighbours * leaning];
        Self { asked, weights, best, shares, dense, speakers, most_boost, least_boost }
    }

    /// The score before any boost.
    pub(super) fn plain(&self, hit: &Hit, place: &Place) -> f64 {
        let [turn, window, session] = self.shares;
        let sum = turn * f64::from(hit.turn / self.best.turn)
            + window * f64::from(hit.window / self.best.window)
            + session * f64::from(hit.session / self.best.session);
        sum * role_weight(place.is_reply, self.weights)
    }

    /// What no boost lifts a score above.
    pub(super) fn most_boosted(&self, plain: f64) -> f64 {
        plain * (1.0 + self.most_boost)
    }

    fn fuse(&self, hit: &Hit, place: &Place) -> f64 {
        self.boosted(self.plain(hit, place), place)
    }

    /// A score with its boosts.
    pub(super) fn boosted(&self, plain: f64, place: &Place) -> f64 {
        let named = place.speaker != NONE && self.speakers.contains(&place.speaker);
        let mut boost = if named { self.weights.speaker } else { 0.0 };
        boost += FRESH * (-(self.asked.now.since(place.said_at) as f64) / FRESH_HALF_LIFE).exp2();
        boost += HINDSIGHT * f64::from(place.hindsight);
        if let Some(span) = self.asked.when {
            boost += if span.holds(place.said_at) { self.weights.boost } else { 0.0 };
        }
        plain * (1.0 + boost.clamp(-self.weights.boost, self.weights.boost))
    }
}

#[cfg(test)]
pub(super) mod tests;
