//! What exchanges used, by target. The names of targets are configured; all that clients make up counts as `other`.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{PoisonError, RwLock};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{Direction, Label};

/// The label of targets that are not configured.
const OTHER: &str = "other";

type LabelSet = Vec<(&'static str, String)>;
type Dollars = Counter<f64, AtomicU64>;

/// Counters of usage.
#[derive(Debug)]
pub struct BookCounters {
    /// Rows that are in the books.
    pub booked: Counter,
    /// Exchanges that are in no book.
    pub lost: Counter,
    tokens: Family<LabelSet, Counter>,
    cost: Family<LabelSet, Dollars>,
    unpriced: Family<LabelSet, Counter>,
    /// By target; made once, since a look-up by labels would cost more than all the counting.
    cells: RwLock<HashMap<String, Cells>>,
}

/// The counters of one target.
#[derive(Debug)]
struct Cells {
    tokens: Vec<Counter>,
    cost: Dollars,
    unpriced: Counter,
}

/// What one exchange used, as far as it is counted here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used<'a> {
    /// The target, as `provider/model`; `None` = nobody was asked.
    pub target: Option<&'a str>,
    /// Tokens, each by what they were.
    pub tokens: &'a [(Direction, u64)],
    /// What it cost, in billionths of a US dollar; `None` = not known.
    pub cost_nanos: Option<u64>,
}

impl BookCounters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (booked, lost) = (Counter::default(), Counter::default());
        registry.register("usage_booked", "Exchanges whose usage was written down beside the outbox", booked.clone());
        registry.register("usage_lost", "Exchanges that are in no book of usage", lost.clone());
        let counters = Self {
            booked,
            lost,
            tokens: Family::default(),
            cost: Family::default(),
            unpriced: Family::default(),
            cells: RwLock::default(),
        };
        registry.register("target_tokens", "Tokens by target and what they were for", counters.tokens.clone());
        registry.register("target_cost_dollars", "What exchanges cost, by target", counters.cost.clone());
        registry.register(
            "target_unpriced",
            "Exchanges whose price is not known, by target",
            counters.unpriced.clone(),
        );
        counters.declare([OTHER]);
        counters
    }

    /// Names the targets that are told apart; makes their series.
    pub fn declare<'a>(&self, targets: impl IntoIterator<Item = &'a str>) {
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        for target in targets {
            let labels = || vec![("target", target.to_owned())];
            let of = |direction: &Direction| {
                let labels = vec![("target", target.to_owned()), (Direction::NAME, direction.text().to_owned())];
                self.tokens.get_or_create_owned(&labels)
            };
            let made = Cells {
                tokens: Direction::ALL.iter().map(of).collect(),
                cost: self.cost.get_or_create_owned(&labels()),
                unpriced: self.unpriced.get_or_create_owned(&labels()),
            };
            cells.insert(target.to_owned(), made);
        }
    }

    /// Counts an exchange.
    pub fn add(&self, used: &Used<'_>) {
        let Some(target) = used.target else { return };
        let cells = self.cells.read().unwrap_or_else(PoisonError::into_inner);
        let Some(cells) = cells.get(target).or_else(|| cells.get(OTHER)) else { return };
        for (direction, n) in used.tokens.iter().filter(|(_, n)| *n > 0) {
            cells.tokens[direction.index()].inc_by(*n);
        }
        match used.cost_nanos {
            #[expect(clippy::cast_precision_loss, reason = "metrics are rounded, the books are not")]
            Some(nanos) => {
                cells.cost.inc_by(nanos as f64 / 1e9);
            }
            None => {
                cells.unpriced.inc();
            }
        }
    }
}
