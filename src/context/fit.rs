//! The fit itself: count, cut, digest, notes, patches. What is told of it is put together in `account`.

mod account;

use std::sync::Arc;

use crate::conversation::Chain;
use crate::tokens::{Counter, RequestCount, Rules};
use crate::wire::{ChatRequest, Content, Patches, Span};

use super::budget::Allowance;
use super::cut::{self, Cut, Item, Limits};
use super::digest::{self, DigestBy, Digests};
use super::notes::Notes;
use super::place::{self, Place};
use super::policy::{Overflow, Policy, Profile, Target};
use super::render::{self, Blocks};
use super::report::{FitError, Fitted, Report};
use super::shorten::{self, Shortened};
use super::sticky::{self, Stays};
use super::strip::{self, Fenced};
use super::trail::Trails;

/// Of the budget, this share at most is kept free for memory when something is cut.
const MEMORY_SHARE: usize = 8;

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
    /// Where the trail of what is sent is to go, if anywhere.
    pub trails: Option<&'a Trails>,
    /// Whether our own fence is taken out of the client's messages.
    pub strip_own_fence: bool,
    /// Whether someone wants the figures of the report. Without, and where the length in bytes proves that nothing can be
    /// over the budget, nothing is counted.
    pub figures: bool,
}

impl FitInput<'_> {
    /// Whether nothing that is known may be put in.
    fn has_no_memory(&self) -> bool {
        self.policy.profile == Profile::Single || self.policy.memory_tokens == 0 || self.notes.is_empty()
    }
}

/// Fits a request to its target. Deterministic: the same input gives the same bytes.
///
/// # Errors
/// The request is over its budget and may not be cut, or is so even when cut.
pub fn fit(input: &FitInput<'_>) -> Result<Fitted, FitError> {
    let request = input.request;
    let text = request.text();
    let allowance = super::budget::budget(request, input.target, input.policy, input.budget_header);
    let budget = allowance.budget;
    let no_memory = input.has_no_memory();
    let fenced = if input.strip_own_fence { strip::find(request, text) } else { Vec::new() };
    if no_memory && !input.figures && fenced.is_empty() && is_proven_small(request, input.target, budget) {
        let mut patches = Patches::default();
        patch_members(input, &mut patches);
        let report = Report { budget, allowance, ..Report::default() };
        return Ok(finish(input, &patches, report, Blocks::default()));
    }

    let rules = input.target.rules();
    let count = input.counter.request(rules, request);
    let fitting = Fitting { input, text, rules, allowance, fenced: &fenced, count: &count };
    let mut tokens: Vec<usize> = count.messages.iter().map(|&n| n as usize).collect();
    for found in &fenced {
        let saved = found.tokens(text, input.counter, rules);
        tokens[found.message] = tokens[found.message].saturating_sub(saved);
    }
    let kept = fitting.reduce(tokens)?;
    let placed = fitting.place(&kept, no_memory);
    let patches = fitting.patches(&kept, &placed);
    let report = fitting.report(&kept, &placed);
    let earlier = placed.earlier.iter().map(|stays| Arc::clone(&stays.block)).collect();
    let mut fitted = Fitted { earlier, ..finish(input, &patches, report, placed.blocks.clone()) };
    fitted.trail = input.trails.map(|trails| Arc::new(fitting.trail(&kept, &placed, &patches, &fitted.body, trails)));
    Ok(fitted)
}

/// Whether a fit is done as soon as an async thread should be free again: next to nothing is to be counted, and nothing to be cut.
#[must_use]
pub fn is_soon_done(input: &FitInput<'_>) -> bool {
    let FitInput { request, target, counter, .. } = *input;
    let budget = super::budget::budget(request, target, input.policy, input.budget_header).budget;
    if !input.figures && !input.strip_own_fence && input.has_no_memory() && is_proven_small(request, target, budget) {
        return true;
    }
    let Some(remembered) = counter.remembered(target.rules(), request) else { return false };
    budget.is_none_or(|budget| target.real_request(remembered.tokens + remembered.uncounted) <= budget)
}

/// What is left of the client's messages.
struct Kept {
    cut: Cut,
    shortened: Vec<Shortened>,
    /// What is left, in tokens as we count them.
    tokens: usize,
    /// What each of the client's messages costs as it is sent, cut or not.
    messages: Vec<usize>,
    /// Where the newest unit begins, all of which stays.
    newest: usize,
    /// Where the next cut will get to at least, when it is near.
    next: Option<usize>,
}

/// What we put into the request, and where.
struct Placed {
    /// Where profile and digest go.
    slow: Option<Place>,
    /// Where the recollection goes.
    tail: Option<Place>,
    digest: Arc<str>,
    digest_by: DigestBy,
    digest_tokens: usize,
    earlier: Vec<Stays>,
    earlier_tokens: usize,
    blocks: Blocks,
}

/// The parts of a fit that several steps read.
struct Fitting<'a> {
    input: &'a FitInput<'a>,
    text: &'a str,
    rules: Rules,
    allowance: Allowance,
    fenced: &'a [Fenced],
    count: &'a RequestCount,
}

impl Fitting<'_> {
    /// The budget in tokens as we count them.
    fn budget_of_ours(&self) -> Option<usize> {
        let factor = self.input.target.factor();
        let budget = self.allowance.budget.map(|budget| budget.saturating_sub(self.input.target.overhead));
        budget.map(|budget| if factor == 1.0 { budget } else { (budget as f64 / factor).floor() as usize })
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
    fn reduce(&self, tokens: Vec<usize>) -> Result<Kept, FitError> {
        let total = self.count.fixed() + tokens.iter().sum::<usize>();
        let newest = self.input.request.newest_user().unwrap_or(0);
        let mut kept =
            Kept { cut: Cut::default(), shortened: Vec::new(), tokens: total, messages: tokens, newest, next: None };
        let Some(budget) = self.budget_of_ours() else { return Ok(kept) };
        if total <= budget {
            let whole = Cut { kept_tokens: total, ..Cut::default() };
            kept.next = self.next(&whole, self.limits(budget), || self.items(&kept));
            return Ok(kept);
        }
        // What upstream keeps stands before what is here: to cut here would leave a hole in the middle.
        if self.input.policy.overflow == Overflow::Reject || self.input.request.kept_upstream().is_some() {
            return Err(self.refuse(&kept, budget));
        }
        if self.input.policy.profile == Profile::Task {
            kept.shortened = self.long_results();
        }
        let (items, limits) = (self.items(&kept), self.limits(budget));
        kept.newest = items.iter().rposition(|item| item.starts_unit).unwrap_or(newest).min(newest);
        kept.cut = cut::replay(&items, limits);
        kept.tokens = kept.cut.kept_tokens;
        kept.next = self.next(&kept.cut, limits, || items);
        let Cut { first_kept, first_whole, .. } = kept.cut;
        kept.shortened.retain(|text| (first_kept..first_whole).contains(&text.message));
        kept.spare();
        if let Some(excess) = kept.tokens.checked_sub(budget).filter(|&excess| excess > 0) {
            let more = self.shorten(first_kept, excess, &kept.shortened);
            let more = more.ok_or_else(|| self.refuse(&kept, budget))?;
            kept.tokens -= more.iter().map(|text| text.saved).sum::<usize>();
            let done = std::mem::replace(&mut kept.shortened, more);
            kept.spare();
            kept.shortened.splice(0..0, done);
        }
        Ok(kept)
    }

    fn items(&self, kept: &Kept) -> Vec<Item> {
        let mut spare = vec![0; if kept.shortened.is_empty() { 0 } else { kept.messages.len() }];
        for text in &kept.shortened {
            spare[text.message] += text.saved;
        }
        cut::items(self.input.request, self.text, &kept.messages, &spare)
    }

    /// Decides what we put in: the digest of what was cut, earlier recollections that stay, then profile and recollection, each in
    /// what room is left. The client's own messages come before all of it.
    fn place(&self, kept: &Kept, no_memory: bool) -> Placed {
        let FitInput { request, target, policy, counter, notes, .. } = *self.input;
        let slow = place::profile_place(request, kept.cut.first_kept, target.system_role);
        let tail = place::recollection_place(request);
        let mut room = self.budget_of_ours().map_or(usize::MAX, |budget| budget.saturating_sub(kept.tokens));
        if matches!(slow, Some(Place::NewMessage(_))) {
            room = room.saturating_sub(place::NEW_MESSAGE_TOKENS);
        }
        let (digest, digest_by) = if kept.cut.n_cut > 0 && slow.is_some() {
            self.digest(&kept.cut, room)
        } else {
            <(Arc<str>, DigestBy)>::default()
        };
        let digest_tokens = digest::tokens(&digest, counter, self.rules);
        room = room.saturating_sub(digest_tokens);
        // What bears on the newest message comes before what only keeps the prefix.
        let newest = match &notes.pinned {
            Some(pinned) => [&pinned.profile, &pinned.recollection]
                .map(|block| render::block_tokens(block, counter, self.rules))
                .iter()
                .sum(),
            None => policy.memory_tokens,
        };
        let spare = room.saturating_sub(newest);
        let earlier = if no_memory { Vec::new() } else { sticky::stays(self.input, self.count, &kept.cut, spare) };
        let earlier_tokens: usize = earlier.iter().map(|stays| stays.tokens).sum();
        // In a tool loop of a conversation that upstream keeps the recollection stands there, with the user's message.
        let is_told = notes.pinned.as_ref().is_some_and(|pinned| pinned.recollection.is_empty());
        let blocks = if no_memory || slow.is_none() || !(tail.is_some() || is_told) {
            Blocks::default()
        } else {
            render::blocks(
                notes,
                (room - earlier_tokens).min(policy.memory_tokens),
                policy.knowledge_share,
                target.max_sensitivity,
                counter,
                self.rules,
            )
        };
        Placed { slow, tail, digest, digest_by, digest_tokens, earlier, earlier_tokens, blocks }
    }

    /// Where the next cut will get to at least, when use has passed the soft mark.
    fn next(&self, cut: &Cut, limits: Limits, items: impl FnOnce() -> Vec<Item>) -> Option<usize> {
        let mark = self.input.policy.soft_mark.filter(|_| self.input.policy.overflow != Overflow::Reject)?;
        let reserve = if cut.n_cut > 0 { limits.reserve } else { 0 };
        let used = cut.kept_tokens + reserve;
        if (used as f64) < limits.budget as f64 * mark {
            return None;
        }
        cut::next(&items(), limits, cut)
    }

    /// Writes it all down as changes of the client's body. Insertions come first: of two changes at one offset, the one
    /// that was made first stands first.
    fn patches(&self, kept: &Kept, placed: &Placed) -> Patches {
        let request = self.input.request;
        let mut patches = Patches::default();
        patch_members(self.input, &mut patches);
        if let Some(place) = placed.slow {
            place::insert(request, self.text, place, &[&placed.blocks.profile, &placed.digest], &mut patches);
        }
        for stays in &placed.earlier {
            place::insert(request, self.text, stays.place, &[&stays.block], &mut patches);
        }
        if let Some(place) = placed.tail {
            place::insert(request, self.text, place, &[&placed.blocks.recollection], &mut patches);
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

    /// Long results of tools, as they would be when shortened.
    fn long_results(&self) -> Vec<Shortened> {
        let mut results = shorten::tool_results(self.input.request, self.text, (self.input.counter, self.rules));
        results.retain(|result| result.saved > 0 && !self.is_fenced(result.literal));
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

    fn digest(&self, cut: &Cut, room: usize) -> (Arc<str>, DigestBy) {
        let FitInput { request, chain, counter, digests, .. } = *self.input;
        let most = self.budget_of_ours().map_or(0, digest::max_tokens);
        // In steps: what happens to be left just now must not show in the digest's bytes from turn to turn.
        let Some(most) = [most, most / 2, most / 4].into_iter().find(|&step| step <= room) else {
            return Default::default();
        };
        let known = digests.zip(chain);
        digest::stand_in(request, cut.first_kept, most, known, counter, self.rules)
    }
}

impl Kept {
    /// Takes what the shortened texts save off what their messages cost.
    fn spare(&mut self) {
        for text in &self.shortened {
            self.messages[text.message] = self.messages[text.message].saturating_sub(text.saved);
        }
    }
}

impl Placed {
    /// What a message of our own costs beside its text, where one is needed.
    fn new_message_tokens(&self) -> usize {
        let needed = !(self.blocks.profile.is_empty() && self.digest.is_empty());
        if needed && matches!(self.slow, Some(Place::NewMessage(_))) { place::NEW_MESSAGE_TOKENS } else { 0 }
    }
}

/// Whether the length in bytes proves that the request is within its budget. Parts are not proven by their length: a short URL
/// may be a large image; nor are tools, whose overhead may be larger than they are.
#[must_use]
pub fn is_proven_small(request: &ChatRequest, target: &Target, budget: Option<usize>) -> bool {
    let Some(budget) = budget else { return true };
    let has_parts = request.messages().iter().any(|m| matches!(m.content, Content::Parts(_) | Content::Other(_)));
    let tools = request.get("tools").or_else(|| request.get("functions")).is_some();
    !has_parts && !tools && target.real_request(Counter::at_most(request)) <= budget
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

fn finish(input: &FitInput<'_>, patches: &Patches, report: Report, blocks: Blocks) -> Fitted {
    Fitted {
        body: patches.apply(input.request.body()),
        report,
        profile: blocks.profile,
        recollection: blocks.recollection,
        facts_shown: blocks.facts,
        episodes_shown: blocks.episodes,
        passages_shown: blocks.passages,
        earlier: Vec::new(),
        first_change: patches.first(),
        trail: None,
    }
}
