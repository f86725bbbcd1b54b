//! Messages of the interface as values of the engine, and back. What has no counterpart is refused by name.

mod filters;
mod queries;

pub(crate) use filters::{filter, path};
pub(crate) use queries::query;

use std::collections::HashMap;

use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::vector::Vector as VectorKind;
use qdrant_client::qdrant::vectors::VectorsOptions;
use qdrant_client::qdrant::with_payload_selector::SelectorOptions;
use qdrant_client::qdrant::{self, PayloadIndexParams, PointStruct, RetrievedPoint, WithPayloadSelector};
use qdrant_edge::external::serde_json::{Map, Value};
use qdrant_edge::external::uuid::Uuid;
use qdrant_edge::{
    IntegerIndexParams, KeywordIndexParams, Payload, PayloadFieldSchema, PayloadSchemaParams, PayloadSchemaType,
    PointId, PointStructPersisted, Record, ScoredPoint, SparseVector, VectorPersisted, VectorStructPersisted,
    WithPayloadInterface,
};

use crate::refuse::{Refused, unsupported, wrong};

pub(crate) fn point(point: PointStruct) -> Result<PointStructPersisted, Refused> {
    let id = point_id(point.id.ok_or_else(|| wrong("a point has no id"))?)?;
    let vectors = match point.vectors.and_then(|vectors| vectors.vectors_options) {
        None => HashMap::new(),
        Some(VectorsOptions::Vectors(named)) => {
            named.vectors.into_iter().map(|(name, one)| Ok((name, vector(one)?))).collect::<Result<_, Refused>>()?
        }
        Some(VectorsOptions::Vector(_)) => return Err(unsupported("a vector without a name")),
    };
    let payload = point.payload.into_iter().map(|(key, value)| Ok((key, json(value)?)));
    let payload = Some(Payload(payload.collect::<Result<Map<_, _>, Refused>>()?));
    Ok(PointStructPersisted { id, vector: VectorStructPersisted::Named(vectors), payload })
}

fn vector(vector: qdrant::Vector) -> Result<VectorPersisted, Refused> {
    match vector.vector {
        Some(VectorKind::Dense(dense)) => Ok(VectorPersisted::Dense(dense.data)),
        Some(VectorKind::Sparse(sparse)) => Ok(VectorPersisted::Sparse(sparse_vector(sparse)?)),
        _ => Err(unsupported("that kind of vector")),
    }
}

fn sparse_vector(sparse: qdrant::SparseVector) -> Result<SparseVector, Refused> {
    SparseVector::new(sparse.indices, sparse.values).map_err(wrong)
}

pub(crate) fn point_id(id: qdrant::PointId) -> Result<PointId, Refused> {
    match id.point_id_options {
        Some(PointIdOptions::Num(number)) => Ok(PointId::NumId(number)),
        Some(PointIdOptions::Uuid(text)) => Uuid::parse_str(&text).map(PointId::Uuid).map_err(wrong),
        None => Err(wrong("a point has no id")),
    }
}

pub(crate) fn id(id: PointId) -> qdrant::PointId {
    let options = match id {
        PointId::NumId(number) => PointIdOptions::Num(number),
        PointId::Uuid(uuid) => PointIdOptions::Uuid(uuid.to_string()),
    };
    qdrant::PointId { point_id_options: Some(options) }
}

pub(crate) fn scored(point: ScoredPoint) -> qdrant::ScoredPoint {
    qdrant::ScoredPoint {
        id: Some(id(point.id)),
        payload: payload(point.payload),
        score: point.score,
        version: point.version,
        ..Default::default()
    }
}

pub(crate) fn record(record: Record) -> RetrievedPoint {
    RetrievedPoint { id: Some(id(record.id)), payload: payload(record.payload), ..Default::default() }
}

pub(crate) fn with_payload(selector: Option<WithPayloadSelector>) -> Result<WithPayloadInterface, Refused> {
    match selector.map(|selector| selector.selector_options) {
        None | Some(None) => Ok(WithPayloadInterface::Bool(false)),
        Some(Some(SelectorOptions::Enable(enable))) => Ok(WithPayloadInterface::Bool(enable)),
        Some(Some(_)) => Err(unsupported("a part of the payload")),
    }
}

/// Reads what an index is to be like; kinds that nobody here asks for are refused.
pub(crate) fn index(kind: Option<i32>, params: Option<PayloadIndexParams>) -> Result<PayloadFieldSchema, Refused> {
    match params.and_then(|params| params.index_params) {
        Some(IndexParams::KeywordIndexParams(params)) => {
            Ok(PayloadFieldSchema::FieldParams(PayloadSchemaParams::Keyword(KeywordIndexParams {
                is_tenant: params.is_tenant,
                enable_hnsw: params.enable_hnsw,
                ..Default::default()
            })))
        }
        Some(IndexParams::IntegerIndexParams(params)) => {
            Ok(PayloadFieldSchema::FieldParams(PayloadSchemaParams::Integer(IntegerIndexParams {
                lookup: params.lookup,
                range: params.range,
                is_principal: params.is_principal,
                enable_hnsw: params.enable_hnsw,
                ..Default::default()
            })))
        }
        Some(_) => Err(unsupported("that kind of index")),
        None => match kind.map(qdrant::FieldType::try_from) {
            Some(Ok(qdrant::FieldType::Keyword)) => Ok(PayloadFieldSchema::FieldType(PayloadSchemaType::Keyword)),
            Some(Ok(qdrant::FieldType::Integer)) => Ok(PayloadFieldSchema::FieldType(PayloadSchemaType::Integer)),
            _ => Err(unsupported("that kind of index")),
        },
    }
}

fn json(value: qdrant::Value) -> Result<Value, Refused> {
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(bool)) => bool.into(),
        Some(Kind::IntegerValue(integer)) => integer.into(),
        Some(Kind::DoubleValue(double)) => double.into(),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(json).collect::<Result<Vec<_>, _>>()?.into(),
        Some(Kind::StructValue(object)) => {
            let members = object.fields.into_iter().map(|(key, value)| Ok((key, json(value)?)));
            Value::Object(members.collect::<Result<Map<_, _>, Refused>>()?)
        }
    })
}

fn payload(payload: Option<Payload>) -> HashMap<String, qdrant::Value> {
    payload.into_iter().flat_map(|payload| payload.0).map(|(key, member)| (key, value(member))).collect()
}

fn value(value: Value) -> qdrant::Value {
    match value {
        Value::Null => qdrant::Value { kind: None },
        Value::Bool(bool) => bool.into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.into(),
        Value::Array(values) => values.into_iter().map(self::value).collect::<Vec<_>>().into(),
        Value::Object(members) => {
            let fields = members.into_iter().map(|(key, member)| (key, self::value(member))).collect();
            qdrant::Value { kind: Some(Kind::StructValue(qdrant::Struct { fields })) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_comes_back_as_it_was() {
        let before: HashMap<String, qdrant::Value> = HashMap::from([
            ("text".to_owned(), "租户".into()),
            ("number".to_owned(), (1_i64 << 53).into()),
            ("half".to_owned(), 0.5.into()),
            ("list".to_owned(), vec![qdrant::Value::from(true), qdrant::Value { kind: None }].into()),
        ]);
        let there = before.clone().into_iter().map(|(key, value)| (key, json(value).expect("it is plain"))).collect();
        assert_eq!(payload(Some(Payload(there))), before);
    }

    #[test]
    fn an_id_comes_back_as_it_was() {
        for before in [qdrant::PointId::from(7), qdrant::PointId::from("00000000-0000-0000-0000-0000000000ff")] {
            assert_eq!(id(point_id(before.clone()).expect("it is an id")), before);
        }
        assert!(point_id(qdrant::PointId::from("no uuid")).is_err());
    }
}
