//! What one request holds of its limits, from the reservation to the settlement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::accounts::{Accounts, Shares};
use super::books::Books;
use super::ledger::Used;
use super::standing::Standing;
use crate::base::GatewayError;
use crate::exchange::{Reserved, ReservedTokens};
use crate::shared;
use crate::tokens::{Cost, Price};
use crate::wire::Usage;

/// What a request needs: known better and better on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Need {
    /// Tokens of the input.
    pub input: u64,
    /// Tokens kept for the reply.
    pub output: u64,
    /// What they cost; `None` = nobody knows, or nobody asks.
    pub price: Option<Price>,
}

/// What a request has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tokens, input and output together.
    pub tokens: u64,
    /// What they cost; `None` = nobody knows.
    pub cost: Option<Cost>,
}

/// What one request holds of its limits. Dropped without a word, nothing of the request was sent on: what it holds is given
/// back, but for the request itself.
#[derive(Debug, Default)]
pub struct Taken {
    hold: Option<Arc<Hold>>,
    running: Option<Running>,
    standing: Standing,
}

/// A request that runs: the slot is given back when this is dropped, at the end of the reply's body.
#[derive(Debug)]
pub struct Running {
    hold: Arc<Hold>,
    /// Its slot where replicas share how many run; given back with it.
    _slot: Option<shared::Slot>,
}

/// What a request holds of what replicas share.
#[derive(Debug, Default)]
pub(super) struct Across {
    pub(super) held: Option<shared::Held>,
    pub(super) slot: Option<shared::Slot>,
}

#[derive(Debug)]
pub(super) struct Hold {
    accounts: Accounts,
    books: Arc<Books>,
    /// What is held of what replicas share; `None` where it was taken here alone.
    shared: Option<shared::Held>,
    state: Mutex<Holding>,
}

#[derive(Debug)]
struct Holding {
    need: Need,
    /// What is held now.
    held: Used,
    shares: Shares,
    is_settled: bool,
}

impl Need {
    pub(super) fn used(&self) -> Used {
        let tokens = self.input.saturating_add(self.output);
        let usage = Usage { prompt_tokens: self.input, completion_tokens: self.output, ..Usage::default() };
        Used::new(tokens, self.price.map_or(0, |price| price.cost(&usage).nanos))
    }

    /// So many times as much.
    pub(super) fn times(&self, n: u64) -> Self {
        Self { input: self.input.saturating_mul(n), output: self.output.saturating_mul(n), ..*self }
    }
}

impl Taken {
    pub(super) fn new(
        accounts: Accounts,
        books: Arc<Books>,
        (need, shares): (Need, Shares),
        standing: Standing,
        across: Across,
    ) -> Self {
        let state = Mutex::new(Holding { need, held: need.used(), shares, is_settled: false });
        let hold = Arc::new(Hold { accounts, books, shared: across.held, state });
        let running = Running { hold: Arc::clone(&hold), _slot: across.slot };
        Self { running: Some(running), hold: Some(hold), standing }
    }

    /// What is left after it.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Takes the slot out, to be held for longer than the rest. Once.
    pub fn running(&mut self) -> Option<Running> {
        self.running.take()
    }

    /// The hold, for those who learn better what the request will use; `None` where tokens do not count.
    #[must_use]
    pub fn reserved(&self) -> ReservedTokens {
        let hold = self.hold.as_ref().filter(|hold| hold.accounts.count_tokens())?;
        Some(Arc::clone(hold) as Arc<_>)
    }

    /// Replaces what is held by what was used.
    pub fn settle(&mut self, spent: Spent) {
        if let Some(hold) = self.hold.take() {
            hold.settle(Used::new(spent.tokens, spent.cost.map_or(0, |cost| cost.nanos)));
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.settle(Spent::default());
    }
}

impl Hold {
    fn lock(&self) -> MutexGuard<'_, Holding> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, used: Used) {
        let mut holding = self.lock();
        if !std::mem::replace(&mut holding.is_settled, true) {
            self.change(&mut holding, used);
        }
    }

    fn change(&self, holding: &mut Holding, after: Used) {
        if holding.held == after {
            return;
        }
        let mut locked = self.accounts.lock();
        locked.change(&mut holding.shares, holding.held, after);
        let listed = locked.list();
        drop(locked);
        holding.held = after;
        self.books.list(listed);
        if let Some(shared) = &self.shared {
            shared.set(after.tokens);
        }
    }
}

impl Reserved for Hold {
    fn sending(&self, input: u64) -> Result<(), GatewayError> {
        let mut holding = self.lock();
        if holding.is_settled {
            return Ok(());
        }
        let need = Need { input, ..holding.need };
        let after = need.used();
        if after.tokens > holding.held.tokens || after.nanos > holding.held.nanos {
            let mut locked = self.accounts.lock();
            if let Some((of, shortage)) = locked.shortage_of_change(&holding.shares, holding.held, after) {
                let standing = locked.standing();
                return Err(self.books.refuse(of, &shortage, &standing));
            }
        }
        holding.need = need;
        self.change(&mut holding, after);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for account in self.hold.accounts.iter() {
            let mut state = account.meter.lock();
            state.running = state.running.saturating_sub(1);
        }
    }
}
