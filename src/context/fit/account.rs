//! What is told of a fit: its figures, the trail of what is sent, and why a request does not fit.

use std::sync::Arc;

use super::{Fitting, Kept, Placed};
use crate::context::place::Place;
use crate::context::policy::Overflow;
use crate::context::report::{Fate, FitError, MessageRow, Report};
use crate::context::trail::{Sent, Trail, Trails};
use crate::wire::{Message, Patches, Role};

/// An error names so many of the largest parts.
const N_LARGEST: usize = 3;

impl Fitting<'_> {
    pub(super) fn report(&self, kept: &Kept, placed: &Placed) -> Report {
        let target = self.input.target;
        let memory = placed.blocks.tokens + placed.earlier_tokens;
        let sent = kept.tokens + placed.digest_tokens + memory + placed.new_message_tokens();
        Report {
            counted: Some(target.real_request(self.count.total)),
            sent: Some(target.real_request(sent)),
            sent_uncorrected: Some(sent),
            cut: kept.cut.n_cut,
            budget: self.allowance.budget,
            allowance: self.allowance,
            low_water: self.budget_of_ours().map_or(0, |budget| target.real(self.limits(budget).low_water)),
            memory_tokens: target.real(memory),
            profile_tokens: target.real(placed.blocks.profile_tokens),
            earlier_tokens: target.real(placed.earlier_tokens),
            digest_tokens: target.real(placed.digest_tokens),
            n_facts: placed.blocks.facts.len(),
            n_episodes: placed.blocks.episodes.len(),
            n_passages: placed.blocks.passages.len(),
            shortened: kept.shortened.len(),
            digest: Arc::clone(&placed.digest),
            digest_by: placed.digest_by,
            first_kept: kept.cut.first_kept,
            next_first_kept: kept.next,
            fixed: target.real_request(self.count.fixed()),
            messages: self.rows(kept),
            partial: self.input.request.partial(),
        }
    }

    pub(super) fn trail(&self, kept: &Kept, placed: &Placed, patches: &Patches, body: &[u8], trails: &Trails) -> Trail {
        let target = self.input.target;
        let mut tokens = kept.messages.clone();
        let slow = placed.blocks.profile_tokens + placed.digest_tokens;
        let tail = placed.blocks.tokens - placed.blocks.profile_tokens;
        let ours = placed.earlier.iter().map(|stays| (Some(stays.place), stays.tokens));
        for (place, n) in ours.chain([(placed.slow, slow), (placed.tail, tail)]) {
            if let Some(Place::Head(at) | Place::End(at)) = place {
                tokens[at] += n;
            }
        }
        tokens.iter_mut().for_each(|n| *n = target.real(*n));
        let new_message = match placed.new_message_tokens() {
            0 => 0,
            own => target.real(own + slow),
        };
        let sent = Sent {
            request: self.input.request,
            chain: self.input.chain,
            patches,
            body,
            tokens: &tokens,
            new_message,
            fixed: target.real(self.count.fixed()),
            n_cut: kept.cut.n_cut,
        };
        Trail::of(&sent, trails.keys())
    }

    fn rows(&self, kept: &Kept) -> Vec<MessageRow> {
        let shortened = |at: usize| kept.shortened.iter().any(|text| text.message == at);
        let fenced = |at: usize| self.fenced.iter().any(|found| found.message == at);
        let fate = |at: usize, role: Role| match () {
            () if role.is_instruction() => (Fate::Pinned, "instructions stay"),
            () if at >= kept.newest => (Fate::Pinned, "newest turn stays"),
            () if at < kept.cut.first_kept => (Fate::Cut, "oldest turns go first"),
            () => (Fate::Kept, ""),
        };
        let messages = self.input.request.messages().iter().zip(&self.count.messages).enumerate();
        messages
            .map(|(at, (message, &tokens))| {
                let (fate, why) = fate(at, message.role);
                let why = match fate {
                    Fate::Cut => why,
                    _ if shortened(at) => "shortened in its middle",
                    _ if fenced(at) => "our own notes taken out",
                    _ => why,
                };
                let target = self.input.target;
                let sent = if fate == Fate::Cut { 0 } else { target.real(kept.messages[at]) };
                MessageRow { role: message.role, tokens: target.real(tokens as usize), sent, fate, why }
            })
            .collect()
    }

    /// What a message is called in an error.
    fn name_of(&self, at: usize, message: &Message) -> String {
        let request = self.input.request;
        let (member, role) = (request.dialect().conversation_member(), message.role.as_str());
        // Not all dialects have all messages in one list.
        match request.get_span(member).filter(|span| span.contains(message.span)) {
            None => "instructions".to_owned(),
            Some(span) => {
                let before = request.messages().iter().filter(|other| !span.contains(other.span)).count();
                format!("{member}[{}] ({role})", at - before.min(at))
            }
        }
    }

    /// Says which parts of what must stay are how large. Memory has no part in it: it gives way before anything else.
    pub(super) fn refuse(&self, kept: &Kept, budget: usize) -> FitError {
        let target = self.input.target;
        let messages = self.input.request.messages();
        let (mut system, mut history, mut newest) = (0, 0, 0);
        let mut parts: Vec<(String, usize)> = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let tokens = target.real(kept.messages[at]);
            let part = match () {
                () if message.role.is_instruction() => &mut system,
                () if at >= kept.newest => &mut newest,
                () if at >= kept.cut.first_kept => &mut history,
                () => continue,
            };
            *part += tokens;
            parts.push((self.name_of(at, message), tokens));
        }
        let (tools, format) = (target.real(self.count.tools), target.real(self.count.response_format));
        parts.extend([("tools".to_owned(), tools), ("response_format".to_owned(), format)]);
        parts.retain(|(_, tokens)| *tokens > 0);
        parts.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
        parts.truncate(N_LARGEST);
        let counted = target.real_request(self.count.total);
        let largest: Vec<String> = parts.iter().map(|(name, tokens)| format!("{name}: {tokens}")).collect();
        let cut = match self.input.policy.overflow {
            Overflow::Reject => "",
            Overflow::Trim | Overflow::Shorten => ", and what must stay of it does not fit",
        };
        let limit = self.allowance.budget.unwrap_or(budget);
        let message = format!(
            "This request has {counted} tokens, its budget is {limit} tokens of input{cut}. By part: system {system}, tools {tools}, \
             response_format {format}, history {history}, newest turn {newest}, memory 0. Its largest parts: {}.",
            largest.join(", ")
        );
        FitError::ContextLength { counted, budget: limit, largest: parts, message }
    }
}
