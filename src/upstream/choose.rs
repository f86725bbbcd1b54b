//! The order in which targets are tried: order by order, and within one order by weight or by latency.

use std::sync::Arc;

use super::latency::Rank;
use super::plan::Target;
use super::when::When;

/// Which target of one order goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// Drawn by weight.
    #[default]
    Weighted,
    /// The one that answered soonest lately; those that were never measured are tried, and weights decide among equals.
    LeastLatency,
}

/// A target and its place.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) target: Arc<Target>,
    pub(super) order: u32,
    pub(super) weight: u32,
    pub(super) when: When,
}

impl Placed {
    /// The only target of a name.
    pub(super) fn only(target: Arc<Target>) -> Self {
        Self { target, order: 0, weight: 1, when: When::default() }
    }
}

/// Arranges targets, which stand order by order. Those of weight 0 come last in their order. `spread` is a number that differs between requests.
pub(super) fn arranged(targets: &[&Placed], pick: Pick, stream: bool, spread: u64, now_ms: u64) -> Vec<Arc<Target>> {
    if let [only] = targets {
        return vec![Arc::clone(&only.target)];
    }
    let mut out = Vec::with_capacity(targets.len());
    let mut draw = spread;
    for group in targets.chunk_by(|a, b| a.order == b.order) {
        let drawn = by_weight(group, &mut draw);
        match pick {
            Pick::Weighted => out.extend(drawn.into_iter().map(|placed| Arc::clone(&placed.target))),
            Pick::LeastLatency => {
                let rank = |placed: &Placed| {
                    let latency = placed.target.latency.as_ref();
                    (placed.weight == 0, latency.map_or(Rank::Unmeasured, |latency| latency.rank(stream, now_ms)))
                };
                let mut ranked: Vec<((bool, Rank), &Placed)> = drawn.into_iter().map(|p| (rank(p), p)).collect();
                // Stable: among equals what was drawn first stays first.
                ranked.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
                out.extend(ranked.into_iter().map(|(_, placed)| Arc::clone(&placed.target)));
            }
        }
    }
    out
}

/// Draws all of a group by weight, without putting back; those of weight 0 last.
fn by_weight<'p>(group: &[&'p Placed], draw: &mut u64) -> Vec<&'p Placed> {
    let mut left: Vec<&Placed> = group.to_vec();
    let mut out = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let sum: u64 = left.iter().map(|t| u64::from(t.weight)).sum();
        let drawn = draw.checked_rem(sum).unwrap_or(0);
        let mut passed = 0;
        let at = left.iter().position(|t| {
            passed += u64::from(t.weight);
            passed > drawn
        });
        out.push(left.remove(at.unwrap_or(0)));
        *draw = draw.rotate_right(17);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::time::Duration;

    use crate::memory::Sensitivity;
    use crate::tokens::ModelTable;
    use crate::upstream::latency::Latency;
    use crate::upstream::provider::Provider;
    use crate::upstream::{Api, Auth, ProviderConfig};

    fn placed(model: &str, order: u32, weight: u32) -> Placed {
        let provider = Provider::new(ProviderConfig {
            api: Api::default(),
            name: "p".to_owned(),
            base_url: "http://127.0.0.1:1/v1".to_owned(),
            auth: Auth::None,
            headers: http::HeaderMap::new(),
            max_sensitivity: Sensitivity::Sensitive,
            connect_timeout: Duration::from_secs(1),
        })
        .unwrap();
        let target = Target::passing(Arc::new(provider), model, ModelTable::built_in());
        let target = Target { latency: Some(Arc::new(Latency::default())), ..target };
        Placed { order, weight, ..Placed::only(Arc::new(target)) }
    }

    fn latency(placed: &Placed) -> &Latency {
        placed.target.latency.as_ref().unwrap()
    }

    fn order_of(targets: &[Placed], pick: Pick, spread: u64, now_ms: u64) -> Vec<String> {
        let all: Vec<&Placed> = targets.iter().collect();
        arranged(&all, pick, true, spread, now_ms).iter().map(|t| t.label.clone()).collect()
    }

    #[test]
    fn weights_decide_within_an_order_and_no_target_is_left_out() {
        let targets = [placed("a", 0, 3), placed("b", 0, 1), placed("spare", 0, 0), placed("last", 1, 1)];
        let mut first: HashMap<String, u32> = HashMap::new();
        for spread in 0..400_u64 {
            let labels = order_of(&targets, Pick::Weighted, spread.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0);
            assert_eq!(labels.len(), 4);
            assert_eq!(labels[2..], ["p/spare", "p/last"]);
            *first.entry(labels[0].clone()).or_default() += 1;
        }
        assert!((260..340).contains(&first["p/a"]), "{first:?}");
    }

    #[test]
    fn the_fastest_goes_first_after_those_that_were_never_measured() {
        let targets = [placed("slow", 0, 1), placed("fast", 0, 1), placed("spare", 0, 0), placed("last", 1, 1)];
        for (at, millis) in [(0, 900), (1, 90), (2, 1)] {
            latency(&targets[at]).asked(true, 1_000);
            latency(&targets[at]).answered(true, Duration::from_millis(millis), 1_000);
        }
        for spread in 0..20 {
            let labels = order_of(&targets, Pick::LeastLatency, spread << 20, 1_001);
            assert_eq!(labels, ["p/fast", "p/slow", "p/spare", "p/last"], "whatever is drawn");
        }
        let more = [placed("new", 0, 1), targets.into_iter().nth(1).unwrap()];
        assert_eq!(order_of(&more, Pick::LeastLatency, 7, 1_001), ["p/new", "p/fast"]);
        latency(&more[0]).asked(true, 1_001);
        assert_eq!(order_of(&more, Pick::LeastLatency, 7, 1_002), ["p/fast", "p/new"], "one request at a time");
    }
}
