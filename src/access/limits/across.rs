//! The limits of the minute where several replicas share them.
//!
//! Redis decides, in one question for each request that has such limits; what it answers is taken over here, so that headers and
//! refusals are told as ever, and so that this process can go on from there by itself while Redis is away. Then each replica gives out a
//! whole minute's worth. Days and months are the store's, with or without.

use std::time::Duration;

use super::hold::Across;
use super::ledger::Used;
use super::meter::{Shortage, Wait};
use super::{AMPLE, Accounts, LimitTable, Need, Taken};
use crate::base::GatewayError;
use crate::shared::{Answer, Away, Shared, Slot, Verdict, Wanted};
use crate::telemetry::{Limit, LimitOf};

/// How long a client waits where room came up between the refusal and the reason for it.
const SOON: Duration = Duration::from_secs(1);

/// What a request asks for.
#[derive(Clone, Copy)]
struct Asked<'a> {
    least: Used,
    ample: Used,
    take: &'a Need,
}

impl LimitTable {
    /// Like [`take_if_ample`](Self::take_if_ample), of what all replicas together leave.
    ///
    /// # Errors
    /// As there.
    pub async fn take_of_all_if_ample(
        &self,
        accounts: &Accounts,
        least: &Need,
        most: &Need,
    ) -> Result<Option<Taken>, GatewayError> {
        let Some(shared) = self.shared_for(accounts) else {
            return self.take_if_ample(accounts, least, most);
        };
        let asked =
            Asked { least: least.used().at_least_one(), ample: most.times(AMPLE).used().at_least_one(), take: most };
        match self.take_across(shared, accounts, asked).await? {
            Asking::Answered(taken) => Ok(taken),
            Asking::Alone(across) => self.take_here_if_ample(accounts, least, most, across),
        }
    }

    /// Like [`take`](Self::take), of what all replicas together leave.
    ///
    /// # Errors
    /// As there.
    pub async fn take_of_all(&self, accounts: &Accounts, need: &Need) -> Result<Taken, GatewayError> {
        let Some(shared) = self.shared_for(accounts) else {
            return self.take(accounts, need);
        };
        let used = need.used().at_least_one();
        match self.take_across(shared, accounts, Asked { least: used, ample: used, take: need }).await? {
            Asking::Answered(Some(taken)) => Ok(taken),
            // What is ample is the least.
            Asking::Answered(None) => self.take(accounts, need),
            Asking::Alone(across) => self.take_here(accounts, need, across),
        }
    }

    fn shared_for(&self, accounts: &Accounts) -> Option<&Shared> {
        self.held.shared.as_deref().filter(|_| accounts.iter().any(|account| account.limits.of_minute()))
    }

    async fn take_across(
        &self,
        shared: &Shared,
        accounts: &Accounts,
        asked: Asked<'_>,
    ) -> Result<Asking, GatewayError> {
        // Nobody is asked about what is used up for today.
        let is_tight = {
            let locked = accounts.lock();
            if let Some((of, shortage)) = locked.lasting_shortage(asked.least) {
                return Err(self.held.books.refuse(of, &shortage, &locked.standing()));
            }
            locked.lasting_shortage(asked.ample).is_some()
        };
        if is_tight {
            return Ok(Asking::Answered(None));
        }
        let of = accounts.shared();
        let slot = shared.slot(&of);
        let wanted = Wanted { least: asked.least.tokens, ample: asked.ample.tokens, take: asked.take.used().tokens };
        match shared.take(&of, wanted, slot.as_ref()).await {
            Ok(answer) => self.follow(accounts, asked, answer, slot).map(Asking::Answered),
            Err(Away) => {
                self.held.books.metrics.limits_local.inc();
                // It runs as any other, and the others hear of it when Redis is there again.
                Ok(Asking::Alone(Across { held: None, slot }))
            }
        }
    }

    /// Does here what was decided there.
    fn follow(
        &self,
        accounts: &Accounts,
        asked: Asked<'_>,
        answer: Answer,
        slot: Option<Slot>,
    ) -> Result<Option<Taken>, GatewayError> {
        let mut locked = accounts.lock();
        let held = match answer.verdict {
            Verdict::Taken(held) => held,
            verdict => {
                locked.hear(&answer.figures);
                if matches!(verdict, Verdict::Tight) {
                    return Ok(None);
                }
                let (of, shortage) = locked.shortage(asked.least).unwrap_or_else(|| passing(accounts));
                return Err(self.held.books.refuse(of, &shortage, &locked.standing()));
            }
        };
        // Another request of this process may have used the day up meanwhile.
        if locked.lasting_shortage(asked.take.used().at_least_one()).is_some() {
            held.set(0);
            return match locked.lasting_shortage(asked.least) {
                Some((of, shortage)) => Err(self.held.books.refuse(of, &shortage, &locked.standing())),
                None => Ok(None),
            };
        }
        let across = Across { held: Some(held), slot };
        Ok(Some(self.take_locked(accounts, locked, asked.take, across, &answer.figures)))
    }
}

/// What came of asking.
enum Asking {
    /// It was decided: taken, or to be counted.
    Answered(Option<Taken>),
    /// Redis is away: this process decides.
    Alone(Across),
}

/// What is said where a request was refused, and a moment later there would have been room.
fn passing(accounts: &Accounts) -> (LimitOf, Shortage) {
    let of = accounts.iter().find(|account| account.limits.of_minute()).map_or(LimitOf::Key, |account| account.of);
    let wait = Wait::For(SOON);
    (of, Shortage { limit: Limit::RequestsPerMinute, max: 1, left: 0, needed: 1, wait })
}
