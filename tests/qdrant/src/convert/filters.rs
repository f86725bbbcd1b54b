//! Filters.

use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue as MatchKind;
use qdrant_client::qdrant::{self};
use qdrant_edge::external::ordered_float::OrderedFloat;
use qdrant_edge::{Condition, FieldCondition, Filter, JsonPath, Match, MatchValue, Range, ValueVariants};

use super::point_id;
use crate::refuse::{Refused, unsupported, wrong};

pub(crate) fn filter(filter: qdrant::Filter) -> Result<Filter, Refused> {
    if filter.min_should.is_some() {
        return Err(unsupported("min_should"));
    }
    let all = |conditions: Vec<qdrant::Condition>| {
        let conditions = conditions.into_iter().map(condition).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Refused>((!conditions.is_empty()).then_some(conditions))
    };
    Ok(Filter {
        should: all(filter.should)?,
        min_should: None,
        must: all(filter.must)?,
        must_not: all(filter.must_not)?,
    })
}

fn condition(condition: qdrant::Condition) -> Result<Condition, Refused> {
    match condition.condition_one_of {
        Some(ConditionOneOf::Field(one)) => Ok(Condition::Field(field(one)?)),
        Some(ConditionOneOf::HasId(ids)) => {
            let ids = ids.has_id.into_iter().map(point_id).collect::<Result<Vec<_>, _>>()?;
            Ok(Condition::HasId(ids.into_iter().collect()))
        }
        Some(ConditionOneOf::Filter(inner)) => Ok(Condition::Filter(filter(inner)?)),
        _ => Err(unsupported("that condition")),
    }
}

fn field(condition: qdrant::FieldCondition) -> Result<FieldCondition, Refused> {
    let key = path(&condition.key)?;
    let rest = qdrant::FieldCondition { key: String::new(), r#match: None, range: None, ..condition.clone() };
    if rest != qdrant::FieldCondition::default() {
        return Err(unsupported("that condition on a field"));
    }
    match (condition.r#match, condition.range) {
        (Some(matches), None) => Ok(FieldCondition::new_match(key, match_value(matches)?)),
        (None, Some(range)) => {
            let [lt, gt, gte, lte] = [range.lt, range.gt, range.gte, range.lte].map(|edge| edge.map(OrderedFloat));
            Ok(FieldCondition::new_range(key, Range { lt, gt, gte, lte }))
        }
        _ => Err(wrong("a condition on a field is a match or a range")),
    }
}

fn match_value(matches: qdrant::Match) -> Result<Match, Refused> {
    let value = match matches.match_value {
        Some(MatchKind::Keyword(text)) => ValueVariants::String(text),
        Some(MatchKind::Integer(integer)) => ValueVariants::Integer(integer),
        Some(MatchKind::Boolean(bool)) => ValueVariants::Bool(bool),
        _ => return Err(unsupported("that match")),
    };
    Ok(Match::Value(MatchValue { value }))
}

/// Reads the name of a field.
pub(crate) fn path(text: &str) -> Result<JsonPath, Refused> {
    text.parse().map_err(|()| wrong(format_args!("{text:?} is no name of a field")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_taken_whole_or_refused() {
        let range = qdrant::Range { gte: Some(1.0), lt: Some(2.0), ..Default::default() };
        let known = [
            qdrant::Condition::matches("scope", "ab".to_owned()),
            qdrant::Condition::range("at", range),
            qdrant::Condition::has_id([qdrant::PointId::from(7)]),
        ];
        let taken = filter(qdrant::Filter::must(known)).expect("all of it is known");
        assert_eq!(taken.must.map(|conditions| conditions.len()), Some(3));
        for unknown in [qdrant::Condition::is_empty("a"), qdrant::Condition::matches_text("a", "b")] {
            let refused = filter(qdrant::Filter::must([unknown])).expect_err("it is not known");
            assert_eq!(refused.code(), tonic::Code::Unimplemented);
        }
    }
}
