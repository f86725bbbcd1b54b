//! The fit itself: count, cut, digest, notes, patches.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::{EpisodeId, FactId};
use crate::conversation::Chain;
use crate::tokens::{Counter, RequestCount, Rules};
use crate::wire::{ChatRequest, Content, Patches, Role, Span};

use super::cut::{self, Cut, Limits};
use super::digest::{self, Digests};
use super::notes::Notes;
use super::place::{self, Place};
use super::policy::{Overflow, Policy, Profile, Target};
use super::render::{self, Blocks};
use super::shorten::{self, Shortened};
use super::strip::{self, Fenced};

/// Of the budget, this share at most is kept free for memory when something is cut.
const MEMORY_SHARE: usize = 8;
/// An error names so many of the largest parts.
const N_LARGEST: usize = 3;

/// All that a fit depends on.
#[derive(Clone, Copy, Debug)]
pub struct FitInput<'a> {
    /// The client's request.
    pub request: &'a ChatRequest,
    /// Its hash chain: finds the digest of what was cut again. Without it, a digest is made anew each time.
    pub chain: Option<&'a Chain>,
    /// What is known that bears on it.
    pub notes: &'a Notes,
    /// Where it goes.
    pub target: &'a Target,
    /// What is allowed.
    pub policy: &'a Policy,
    /// The request's own budget in tokens; it may only lower the policy's.
    pub budget_header: Option<usize>,
    /// Counts, and remembers counts.
    pub counter: &'a Counter,
    /// Remembers digests.
    pub digests: Option<&'a Digests>,
    /// Whether our own fence is taken out of the client's messages.
    pub strip_own_fence: bool,
    /// Whether someone wants the figures of the report. Without, and where the length in bytes proves that nothing can be
    /// over the budget, nothing is counted.
    pub figures: bool,
}

/// A request that fits.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// What is sent; the client's own bytes when there was nothing to do.
    pub body: Bytes,
    /// The figures.
    pub report: Report,
    /// The profile block that is shown, fence included; empty = none.
    pub profile: Arc<str>,
    /// The recollection block that is shown.
    pub recollection: Arc<str>,
    /// The facts that are shown. With pinned blocks none are named: whoever pinned them knows.
    pub facts_shown: Vec<FactId>,
    /// The episodes that are shown; as above.
    pub episodes_shown: Vec<EpisodeId>,
    /// The offset of the first changed byte of the client's body.
    pub first_change: Option<usize>,
}

/// The figures of a fit, in tokens of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of the client's request; `None` when nothing was counted.
    pub counted: Option<usize>,
    /// Of what is sent, memory and digest included.
    pub sent: Option<usize>,
    /// Messages that were dropped.
    pub cut: usize,
    /// What the request may have; `None` when nothing limits it.
    pub budget: Option<usize>,
    /// Of the blocks of memory.
    pub memory_tokens: usize,
    /// Facts shown.
    pub n_facts: usize,
    /// Episodes shown.
    pub n_episodes: usize,
    /// Texts that were shortened.
    pub shortened: usize,
    /// The digest that stands for what was cut; empty = none.
    pub digest: Arc<str>,
    /// Of tool schemas, `response_format` and what every request costs.
    pub fixed: usize,
    /// One row for each of the client's messages; none when nothing was counted.
    pub messages: Vec<MessageRow>,
}

/// What became of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Who speaks.
    pub role: Role,
    /// What it costs.
    pub tokens: usize,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It must stay: an instruction, or part of the newest turn.
    Pinned,
    /// It stays.
    Kept,
    /// It was dropped.
    Cut,
}

/// Why a request cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// It is over its budget, even when all was cut that may be.
    #[error("{message}")]
    ContextLength {
        /// Tokens of the client's request.
        counted: usize,
        /// What it may have.
        budget: usize,
        /// Its largest parts with their tokens, as in `messages[3]` or `tools`.
        largest: Vec<(String, usize)>,
        /// A sentence for the client.
        message: String,
    },
}

/// Fits a request to its target. Deterministic: the same input gives the same bytes.
///
/// # Errors
/// The request is over its budget and may not be cut, or is so even when cut.
pub fn fit(input: &FitInput<'_>) -> Result<Fitted, FitError> {
    let request = input.request;
    let text = request.text();
    let budget = super::budget::budget(request, input.target, input.policy, input.budget_header);
    let no_memory =
        input.policy.profile == Profile::Single || input.policy.memory_tokens == 0 || input.notes.is_empty();
    let fenced = if input.strip_own_fence { strip::find(request, text) } else { Vec::new() };
    if no_memory && !input.figures && fenced.is_empty() && proven_small(request, input.target, budget) {
        let mut patches = Patches::default();
        patch_members(input, &mut patches);
        let report = Report { budget, ..Report::default() };
        return Ok(finish(input, patches, report, Blocks::default()));
    }

    let rules = input.target.rules();
    let count = input.counter.request(rules, request);
    let fitting = Fitting { input, text, rules, budget, fenced: &fenced, count: &count };
    let mut tokens: Vec<usize> = count.messages.iter().map(|&n| n as usize).collect();
    for found in &fenced {
        let saved = found.tokens(text, input.counter, rules);
        tokens[found.message] = tokens[found.message].saturating_sub(saved);
    }
    let kept = fitting.reduce(tokens)?;

    let place = place::profile_place(request, kept.cut.first_kept, input.target.system_role);
    let mut room = fitting.budget_of_ours().map_or(usize::MAX, |budget| budget.saturating_sub(kept.tokens));
    if matches!(place, Some(Place::NewMessage(_))) {
        room = room.saturating_sub(place::NEW_MESSAGE_TOKENS);
    }
    let digest = if kept.cut.n_cut > 0 && place.is_some() { fitting.digest(&kept.cut, room) } else { Arc::default() };
    let digest_tokens = digest::tokens(&digest, input.counter, rules);
    room = room.saturating_sub(digest_tokens);
    let recollection_place = place::recollection_place(request);
    let blocks = if no_memory || place.is_none() || recollection_place.is_none() {
        Blocks::default()
    } else {
        let room = room.min(input.policy.memory_tokens);
        render::blocks(input.notes, room, input.target.max_sensitivity, input.counter, rules)
    };

    let report = Report {
        counted: Some(input.target.real(count.total)),
        sent: Some(
            input
                .target
                .real(kept.tokens + digest_tokens + blocks.tokens + new_message_tokens(place, &blocks, &digest)),
        ),
        cut: kept.cut.n_cut,
        budget,
        memory_tokens: input.target.real(blocks.tokens),
        n_facts: blocks.facts.len(),
        n_episodes: blocks.episodes.len(),
        shortened: kept.shortened.len(),
        digest,
        fixed: input.target.real(count.fixed()),
        messages: fitting.rows(kept.cut.first_kept),
    };
    let patches = fitting.patches(&kept, place, recollection_place, &blocks, &report.digest);
    Ok(finish(input, patches, report, blocks))
}

/// What a message of our own costs beside its text, where one is needed.
fn new_message_tokens(place: Option<Place>, blocks: &Blocks, digest: &str) -> usize {
    let needed = !(blocks.profile.is_empty() && digest.is_empty());
    if needed && matches!(place, Some(Place::NewMessage(_))) { place::NEW_MESSAGE_TOKENS } else { 0 }
}

/// What is left of the client's messages.
struct Kept {
    cut: Cut,
    shortened: Vec<Shortened>,
    /// What is left, in tokens as we count them.
    tokens: usize,
}

/// The parts of a fit that several steps read.
struct Fitting<'a> {
    input: &'a FitInput<'a>,
    text: &'a str,
    rules: Rules,
    budget: Option<usize>,
    fenced: &'a [Fenced],
    count: &'a RequestCount,
}

impl Fitting<'_> {
    /// The budget in tokens as we count them.
    fn budget_of_ours(&self) -> Option<usize> {
        let factor = self.input.target.factor();
        self.budget.map(|budget| if factor == 1.0 { budget } else { (budget as f64 / factor).floor() as usize })
    }

    fn limits(&self, budget: usize) -> Limits {
        let policy = self.input.policy;
        let memory =
            if policy.profile == Profile::Single { 0 } else { policy.memory_tokens.min(budget / MEMORY_SHARE) };
        let low_water = if policy.low_water.is_finite() { policy.low_water.clamp(0.1, 1.0) } else { 0.7 };
        Limits {
            fixed: self.count.fixed(),
            budget,
            low_water: (budget as f64 * low_water) as usize,
            reserve: memory + digest::max_tokens(budget),
        }
    }

    /// Brings the client's messages, of `tokens` each, down to the budget as the policy wants it.
    fn reduce(&self, mut tokens: Vec<usize>) -> Result<Kept, FitError> {
        let total = self.count.fixed() + tokens.iter().sum::<usize>();
        let mut kept = Kept { cut: Cut::default(), shortened: Vec::new(), tokens: total };
        let Some(budget) = self.budget_of_ours().filter(|&budget| total > budget) else { return Ok(kept) };
        if self.input.policy.overflow == Overflow::Reject {
            return Err(self.refuse(&tokens, 0));
        }
        if self.input.policy.profile == Profile::Task {
            kept.shortened = self.shorten_results(&mut tokens);
        }
        kept.cut = cut::replay(&cut::items(self.input.request, self.text, &tokens), self.limits(budget));
        kept.tokens = kept.cut.kept_tokens;
        if let Some(excess) = kept.tokens.checked_sub(budget).filter(|&excess| excess > 0) {
            let more = self.shorten(kept.cut.first_kept, excess, &kept.shortened);
            let more = more.ok_or_else(|| self.refuse(&tokens, kept.cut.first_kept))?;
            kept.tokens -= more.iter().map(|text| text.saved).sum::<usize>();
            kept.shortened.extend(more);
        }
        let first_kept = kept.cut.first_kept;
        kept.shortened.retain(|text| text.message >= first_kept);
        Ok(kept)
    }

    /// Writes it all down as changes of the client's body. Insertions come first: of two changes at one offset, the one
    /// that was made first stands first.
    fn patches(
        &self,
        kept: &Kept,
        place: Option<Place>,
        tail: Option<Place>,
        blocks: &Blocks,
        digest: &str,
    ) -> Patches {
        let request = self.input.request;
        let mut patches = Patches::default();
        patch_members(self.input, &mut patches);
        if let Some(place) = place {
            place::insert(request, self.text, place, &[&blocks.profile, digest], &mut patches);
        }
        if let Some(place) = tail {
            place::insert(request, self.text, place, &[&blocks.recollection], &mut patches);
        }
        place::remove(request, kept.cut.first_kept, &mut patches);
        let stays = |at: usize| at >= kept.cut.first_kept || request.messages()[at].role.is_instruction();
        for found in self.fenced.iter().filter(|found| stays(found.message)) {
            found.patch(&mut patches);
        }
        for text in &kept.shortened {
            text.patch(&mut patches);
        }
        patches
    }

    /// Shortens long results of tools, and takes what is saved off `tokens`.
    fn shorten_results(&self, tokens: &mut [usize]) -> Vec<Shortened> {
        let mut results = shorten::tool_results(self.input.request, self.text, (self.input.counter, self.rules));
        results.retain(|result| result.saved > 0 && !self.is_fenced(result.literal));
        for result in &results {
            tokens[result.message] = tokens[result.message].saturating_sub(result.saved);
        }
        results
    }

    /// Shortens the largest texts that are not shortened yet, where the policy wants that.
    fn shorten(&self, first_kept: usize, excess: usize, done: &[Shortened]) -> Option<Vec<Shortened>> {
        if self.input.policy.overflow != Overflow::Shorten {
            return None;
        }
        let skip = |literal| self.is_fenced(literal) || done.iter().any(|text| text.literal == literal);
        shorten::shorten(self.input.request, self.text, first_kept, excess, (self.input.counter, self.rules), skip)
    }

    /// Whether a literal is patched already.
    fn is_fenced(&self, literal: Span) -> bool {
        self.fenced.iter().any(|found| found.is_in(literal))
    }

    fn digest(&self, cut: &Cut, room: usize) -> Arc<str> {
        let FitInput { request, chain, counter, digests, .. } = *self.input;
        let most = self.budget_of_ours().map_or(0, digest::max_tokens);
        // In steps: what happens to be left just now must not show in the digest's bytes from turn to turn.
        let Some(most) = [most, most / 2, most / 4].into_iter().find(|&step| step <= room) else {
            return Arc::default();
        };
        let make = || digest::digest(request, cut.first_kept, most, counter, self.rules);
        match (digests, chain.and_then(|chain| chain.prefixes.get(cut.first_kept.checked_sub(1)?))) {
            (Some(digests), Some(&state)) => digests.get_or(state, most, self.rules, make),
            _ => make(),
        }
    }

    fn rows(&self, first_kept: usize) -> Vec<MessageRow> {
        let request = self.input.request;
        let newest = request.newest_user().unwrap_or(0);
        let fate = |at: usize, role: Role| {
            if role.is_instruction() || at >= newest {
                Fate::Pinned
            } else if at < first_kept {
                Fate::Cut
            } else {
                Fate::Kept
            }
        };
        let messages = request.messages().iter().zip(&self.count.messages).enumerate();
        messages
            .map(|(at, (message, &tokens))| MessageRow {
                role: message.role,
                tokens: self.input.target.real(tokens as usize),
                fate: fate(at, message.role),
            })
            .collect()
    }

    /// Says which parts of what must stay are how large.
    fn refuse(&self, tokens: &[usize], first_kept: usize) -> FitError {
        let target = self.input.target;
        let messages = self.input.request.messages().iter().enumerate();
        let mut parts: Vec<(String, usize)> = messages
            .filter(|(at, m)| *at >= first_kept || m.role.is_instruction())
            .map(|(at, m)| (format!("messages[{at}] ({})", m.role.as_str()), target.real(tokens[at])))
            .chain([("tools".to_owned(), target.real(self.count.tools))])
            .chain([("response_format".to_owned(), target.real(self.count.response_format))])
            .filter(|(_, tokens)| *tokens > 0)
            .collect();
        parts.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
        parts.truncate(N_LARGEST);
        let counted = target.real(self.count.total);
        let budget = self.budget.unwrap_or(0);
        let largest: Vec<String> = parts.iter().map(|(name, tokens)| format!("{name}: {tokens}")).collect();
        let cut = match self.input.policy.overflow {
            Overflow::Reject => "",
            Overflow::Trim | Overflow::Shorten => ", and what must stay of it does not fit",
        };
        let message = format!(
            "This request has {counted} tokens, its budget is {budget} tokens of input{cut}. Its largest parts: {}.",
            largest.join(", ")
        );
        FitError::ContextLength { counted, budget, largest: parts, message }
    }
}

/// Whether the length in bytes proves that the request is within its budget: no token is shorter than a byte, and the
/// overhead of a message is less than its own JSON. Parts are not proven by their length: a short URL may be a large image.
fn proven_small(request: &ChatRequest, target: &Target, budget: Option<usize>) -> bool {
    let Some(budget) = budget else { return true };
    let has_parts = request.messages().iter().any(|m| matches!(m.content, Content::Parts(_)));
    let tools = request.get("tools").or_else(|| request.get("functions")).is_some();
    !has_parts && !tools && target.real(request.body().len()) <= budget
}

/// Changes outside the messages: the model's name and the wish for usage.
fn patch_members(input: &FitInput<'_>, patches: &mut Patches) {
    if let Some(model) = input.target.model.as_deref().filter(|&model| model != input.request.model()) {
        input.request.set_model(model, patches);
    }
    if input.target.ask_usage && input.request.stream() && input.request.include_usage() != Some(true) {
        input.request.ask_usage(patches);
    }
}

fn finish(input: &FitInput<'_>, patches: Patches, report: Report, blocks: Blocks) -> Fitted {
    Fitted {
        body: patches.apply(input.request.body()),
        report,
        profile: blocks.profile,
        recollection: blocks.recollection,
        facts_shown: blocks.facts,
        episodes_shown: blocks.episodes,
        first_change: patches.first(),
    }
}
