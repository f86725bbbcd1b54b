//! `Reserve`: one accepted request = one reservation = one outcome.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Semaphore;

use super::books::{self, Course, Figures, Past};
use super::estimate;
use super::stage::Stage;
use crate::access::{Accounts, Asking, LimitTable, Need, Running, Taken};
use crate::base::GatewayError;
use crate::exchange::{Call, Funded, Payload};
use crate::jobs::{Journal, Line, Outbox, Slot};
use crate::tokens::{Counter, Price};
use crate::upstream::{Routes, Target};

/// So many large requests are counted at a time; the others wait.
const COUNTING: usize = 2;
/// Of so many models it is said that their price is not known; the metric counts all.
const MAX_UNPRICED: usize = 100;
/// Longer names are no names of models.
const MAX_MODEL_BYTES: usize = 256;

/// A place in the outbox, where the request needs one. Dropping it gives the place back.
#[derive(Debug)]
pub struct Reservation {
    /// The place.
    pub slot: Option<Slot>,
    /// There was no place: the exchange passes unremembered.
    pub full: bool,
    /// What it took of the limits that it touches.
    pub taken: Taken,
    /// For what leaves nothing in the outbox; `None` = no books are kept.
    pub booking: Option<Booking>,
    /// Its place among the requests that run at a time; to be held until the reply's body ends.
    pub running: Option<Running>,
}

/// A line of the journal, for one exchange. Dropped as it is, it says that the client left before anything was sent on.
#[derive(Debug)]
pub struct Booking {
    line: Option<Line>,
    call: Arc<Call>,
    counter: Arc<Counter>,
}

impl Booking {
    /// The line, for whoever knows what became of the exchange.
    pub(super) fn into_line(mut self) -> Option<Line> {
        self.line.take()
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            let figures = Figures::of(&self.call, Course::Gone, &self.counter);
            let past = Past { call: &self.call, recall: None, course: Course::Gone, now: Instant::now() };
            line.write(Box::new(books::row(&past, figures)));
        }
    }
}

/// Takes what the request needs of the limits that it touches, and a place in the outbox, before any work is done: so the
/// end of the reply can be recorded without waiting. Refuses with 429, and with 503 where limits cannot be kept.
#[derive(Debug)]
pub struct Reserve {
    outbox: Option<Outbox>,
    limits: Arc<LimitTable>,
    journal: Option<Journal>,
    routes: Arc<Routes>,
    counter: Arc<Counter>,
    counting: Arc<Semaphore>,
    /// Models of which it was said that nobody knows what they cost.
    unpriced: Mutex<HashSet<String>>,
}

impl Reserve {
    /// Reserves in `outbox` (nothing is recorded where there is none) and of what `limits` leave, and a line of `journal`. What a request needs is
    /// counted by `counter` for the target that `routes` name first, where there is so little left that it matters.
    #[must_use]
    pub fn new(
        outbox: Option<Outbox>,
        limits: Arc<LimitTable>,
        journal: Option<Journal>,
        routes: Arc<Routes>,
        counter: Arc<Counter>,
    ) -> Self {
        let counting = Arc::new(Semaphore::new(COUNTING));
        Self { outbox, limits, journal, routes, counter, counting, unpriced: Mutex::default() }
    }

    async fn take(&self, call: &Arc<Call>) -> Result<Taken, GatewayError> {
        let asking = Asking {
            principal: &call.principal,
            subject: call.identity.scope.as_ref().map(|scope| &*scope.subject),
            model: Some(call.payload.model()),
            now: call.stamp.started,
            at: call.stamp.at,
        };
        let Some(accounts) = self.limits.accounts(&asking).await? else {
            return Ok(Taken::default());
        };
        if !accounts.count_tokens() {
            return self.limits.take_of_all(&accounts, &Need::default()).await;
        }
        let price = if accounts.count_money() { self.price(call) } else { None };
        let least = Need { price, ..estimate::least(call) };
        let most = Need { price, ..estimate::most(call, self.max_output(call), accounts.fewest_tokens()) };
        match self.limits.take_of_all_if_ample(&accounts, &least, &most).await? {
            Some(taken) => Ok(taken),
            None => {
                let need = Need { price, ..self.count(call, &accounts, most).await? };
                self.limits.take_of_all(&accounts, &need).await
            }
        }
    }

    /// Counts what a request needs.
    async fn count(&self, call: &Arc<Call>, accounts: &Accounts, most: Need) -> Result<Need, GatewayError> {
        let Payload::Chat(chat) = &call.payload else {
            return Ok(most);
        };
        // A name that leads nowhere is refused further down, in its own words.
        let targets = self.targets(call);
        let Some(target) = targets.first() else {
            return Ok(most);
        };
        let (rules, max_output) = (target.fit.rules(), target.fit.max_output);
        let input = if self.counter.remembered(rules, chat).is_some() {
            self.counter.request(rules, chat).total
        } else {
            let turn = Arc::clone(&self.counting).acquire_owned().await.map_err(GatewayError::internal)?;
            let (counter, call) = (Arc::clone(&self.counter), Arc::clone(call));
            let count = move || {
                let _turn = turn;
                call.payload.chat().map_or(0, |chat| counter.request(rules, chat).total)
            };
            tokio::task::spawn_blocking(count).await.map_err(GatewayError::internal)?
        };
        Ok(estimate::with_input(call, input as u64, self.max_output(call), accounts.fewest_tokens(), max_output))
    }

    /// The most output that is asked of any target: parameter rules may set another limit than the client.
    fn max_output(&self, call: &Call) -> Option<u64> {
        let chat = call.payload.chat()?;
        self.targets(call).iter().filter_map(|target| target.max_output(chat)).max()
    }

    /// What a request costs at most; `None` where nobody knows, which is said once for each model.
    fn price(&self, call: &Call) -> Option<Price> {
        let targets = self.targets(call);
        let price = dearest(&targets);
        if price.is_none() && !targets.is_empty() {
            let model = call.payload.model();
            let mut unpriced = self.unpriced.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = unpriced.len() < MAX_UNPRICED && !unpriced.contains(model);
            if is_new && model.len() <= MAX_MODEL_BYTES {
                unpriced.insert(model.to_owned());
                tracing::warn!(
                    model,
                    "a limit of money cannot be kept for this model: its price is not known. It counts in tokens alone; \
                     give its target price_input_per_million and price_output_per_million"
                );
            }
        }
        price
    }

    fn targets(&self, call: &Call) -> Vec<Arc<Target>> {
        let model = self.routes.model(&call.principal, call.payload.model());
        model.map(|model| model.targets().cloned().collect()).unwrap_or_default()
    }
}

/// A price that none of the targets is above; `None` where that of any is not known.
fn dearest(targets: &[Arc<Target>]) -> Option<Price> {
    let mut prices = targets.iter().map(|target| target.price);
    let first = prices.next()??;
    prices.try_fold(first, |most, price| {
        let price = price?;
        Some(Price { input: most.input.max(price.input), output: most.output.max(price.output), ..most })
    })
}

impl Stage<Call> for Reserve {
    type Out = Funded<Reservation>;

    async fn run(&self, call: Call) -> Result<Self::Out, GatewayError> {
        let mut call = Arc::new(call);
        let mut taken = self.take(&call).await?;
        Arc::get_mut(&mut call).expect("whoever counted it is done").reserved = taken.reserved();
        let memory = call.identity.memory;
        let wanted = call.identity.scope.is_some() && (memory.read || memory.write);
        let outbox = self.outbox.as_ref().filter(|_| wanted);
        let slot = outbox.and_then(Outbox::reserve);
        let full = outbox.is_some() && slot.is_none();
        let running = taken.running();
        let booking = self.journal.as_ref().map(|journal| Booking {
            line: Some(journal.reserve()),
            call: Arc::clone(&call),
            counter: Arc::clone(&self.counter),
        });
        Ok(Funded { call, reservation: Reservation { slot, full, taken, booking, running } })
    }
}
