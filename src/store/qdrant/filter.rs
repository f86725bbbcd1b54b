//! Filters: the one place where they are made. Each begins with a scope, so there is no search without one.

use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::{Condition, FieldCondition, Filter, Match, PointId, Range};

use super::names::hex;
use super::point::{AT, ROLE, SCOPE, SENSITIVITY, TENANT, at, point_id, role, sensitivity};
use crate::base::{EpisodeId, Time};
use crate::memory::{Scope, Sensitivity, Speaker};
use crate::store::ScopeKey;

/// The points of a scope, or some of them.
#[derive(Clone, Debug)]
pub(super) struct Points {
    must: Vec<Condition>,
}

impl Points {
    /// Those of a scope. The tenant is said as well: a second wall, should two scopes ever write alike.
    pub(super) fn of(scope: &Scope) -> Self {
        Self::of_key(&scope.tenant, ScopeKey::of(scope))
    }

    /// The same of one whose names are not all known any more.
    pub(super) fn of_key(tenant: &str, scope: ScopeKey) -> Self {
        Self { must: vec![keyword(SCOPE, scope_key(scope)), keyword(TENANT, tenant.to_owned())] }
    }

    /// Of those the ones of episodes.
    pub(super) fn only(mut self, episodes: &[EpisodeId]) -> Self {
        self.must.push(Condition::has_id(episodes.iter().map(|id| point_id(*id)).collect::<Vec<PointId>>()));
        self
    }

    /// Of those the ones that are no more private.
    pub(super) fn at_most(mut self, max: Sensitivity) -> Self {
        // What all are need not be looked at.
        if max != Sensitivity::Sensitive {
            let lte = Some(f64::from(sensitivity(max)));
            self.must.push(Condition::range(SENSITIVITY, Range { lte, ..Range::default() }));
        }
        self
    }

    /// Of those the ones that one speaker said.
    pub(super) fn said_by(mut self, speaker: Option<Speaker>) -> Self {
        self.must.extend(speaker.map(|speaker| keyword(ROLE, role(speaker).to_owned())));
        self
    }

    /// Of those the ones that were said at `from` or later, and before `to`.
    pub(super) fn between(mut self, from: Option<Time>, to: Option<Time>) -> Self {
        if from.is_some() || to.is_some() {
            let range = Range { gte: from.map(edge), lt: to.map(edge), ..Range::default() };
            self.must.push(Condition::range(AT, range));
        }
        self
    }
}

impl From<Points> for Filter {
    fn from(points: Points) -> Self {
        Self::must(points.must)
    }
}

/// What a field is, to the letter. (`Condition::matches` takes a text with a space in it for words to look for: "tenant 1" would find "tenant 10".)
fn keyword(field: &str, text: String) -> Condition {
    FieldCondition {
        key: field.to_owned(),
        r#match: Some(Match { match_value: Some(MatchValue::Keyword(text)) }),
        ..FieldCondition::default()
    }
    .into()
}

/// A moment as ranges have it: what points hold of it is exact in it.
#[expect(clippy::cast_precision_loss, reason = "`at` keeps it within what is exact")]
fn edge(time: Time) -> f64 {
    at(time) as f64
}

/// How a point says whose it is.
pub(super) fn scope_key(scope: ScopeKey) -> String {
    hex(&scope.0)
}

#[cfg(test)]
mod tests {
    use qdrant_client::qdrant::condition::ConditionOneOf;

    use super::*;

    /// Names are never looked for as words, and there is always a scope.
    #[test]
    fn a_scope_is_matched_to_the_letter() {
        for tenant in ["acme", "tenant 1", "", "*", "租户 \t\n"] {
            let filter: Filter = Points::of(&Scope::new(tenant, "a b", "c d")).said_by(Some(Speaker::User)).into();
            let matched = |condition: &Condition| match condition.condition_one_of.as_ref().unwrap() {
                ConditionOneOf::Field(field) => match field.r#match.as_ref().unwrap().match_value.as_ref().unwrap() {
                    MatchValue::Keyword(text) => (field.key.clone(), text.clone()),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            let fields: Vec<_> = filter.must.iter().map(matched).collect();
            assert_eq!((fields[0].0.as_str(), fields[0].1.len()), (SCOPE, 64));
            assert_eq!(fields[1..], [(TENANT.to_owned(), tenant.to_owned()), (ROLE.to_owned(), "user".to_owned())]);
        }
    }
}
