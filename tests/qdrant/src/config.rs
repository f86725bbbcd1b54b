//! How a collection is made, for the engine; and what is told of it.

use std::collections::HashMap;

use qdrant_client::qdrant::quantization_config::Quantization;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    self, CollectionConfig, CollectionInfo, CollectionParams, CollectionStatus, CreateCollection, HnswConfigDiff,
    OptimizerStatus, PayloadSchemaInfo,
};
use qdrant_edge::{
    BinaryQuantizationConfig, Distance, EdgeConfig, EdgeOptimizersConfig, EdgeSparseVectorParams, EdgeVectorParams,
    HnswIndexConfig, Modifier, PayloadSchemaType, QuantizationConfig, ScalarQuantizationConfig, ScalarType, WalOptions,
};

use crate::refuse::{Refused, unsupported, wrong};
use crate::shelf::Collection;

/// Reads how a collection is to be made. Hints about memory and disk are left out: this server is small.
pub(crate) fn read(created: &CreateCollection) -> Result<EdgeConfig, Refused> {
    if created.collection_name.is_empty() || created.collection_name.contains(['/', '\\', '\0', '*', '?', ':']) {
        return Err(wrong("collection name holds characters that it may not"));
    }
    let dense = match created.vectors_config.as_ref().and_then(|config| config.config.as_ref()) {
        None => HashMap::new(),
        Some(Config::ParamsMap(map)) => map.map.clone(),
        Some(Config::Params(_)) => return Err(unsupported("a vector without a name")),
    };
    let sparse = created.sparse_vectors_config.as_ref().map(|config| config.map.clone()).unwrap_or_default();
    Ok(EdgeConfig {
        on_disk_payload: false,
        vectors: dense
            .into_iter()
            .map(|(name, params)| Ok((name, vector(&params)?)))
            .collect::<Result<_, Refused>>()?,
        sparse_vectors: sparse.into_iter().map(|(name, params)| (name, sparse_vector(&params))).collect(),
        hnsw_config: hnsw(created.hnsw_config.as_ref()),
        quantization_config: created.quantization_config.as_ref().map(quantization).transpose()?,
        optimizers: EdgeOptimizersConfig::default(),
        // Tests make many small collections.
        wal_options: Some(WalOptions { segment_capacity: 4 << 20, ..WalOptions::default() }),
    })
}

fn vector(params: &qdrant::VectorParams) -> Result<EdgeVectorParams, Refused> {
    if params.multivector_config.is_some() {
        return Err(unsupported("several vectors of one name"));
    }
    let distance = match params.distance() {
        qdrant::Distance::Cosine => Distance::Cosine,
        qdrant::Distance::Dot => Distance::Dot,
        qdrant::Distance::Euclid => Distance::Euclid,
        qdrant::Distance::Manhattan => Distance::Manhattan,
        qdrant::Distance::UnknownDistance => return Err(wrong("unknown distance")),
    };
    Ok(EdgeVectorParams {
        size: usize::try_from(params.size).map_err(wrong)?,
        distance,
        on_disk: None,
        multivector_config: None,
        datatype: None,
        quantization_config: params.quantization_config.as_ref().map(quantization).transpose()?,
        hnsw_config: None,
    })
}

fn sparse_vector(params: &qdrant::SparseVectorParams) -> EdgeSparseVectorParams {
    let modifier = match params.modifier() {
        qdrant::Modifier::Idf => Modifier::Idf,
        qdrant::Modifier::None => Modifier::None,
    };
    EdgeSparseVectorParams { full_scan_threshold: None, on_disk: None, modifier: Some(modifier), datatype: None }
}

fn hnsw(diff: Option<&HnswConfigDiff>) -> HnswIndexConfig {
    let (default, diff) = (HnswIndexConfig::default(), diff.copied().unwrap_or_default());
    let or = |given: Option<u64>, default: usize| given.and_then(|n| usize::try_from(n).ok()).unwrap_or(default);
    HnswIndexConfig {
        m: or(diff.m, default.m),
        ef_construct: or(diff.ef_construct, default.ef_construct),
        full_scan_threshold: or(diff.full_scan_threshold, default.full_scan_threshold),
        payload_m: diff.payload_m.and_then(|n| usize::try_from(n).ok()),
        ..default
    }
}

fn quantization(config: &qdrant::QuantizationConfig) -> Result<QuantizationConfig, Refused> {
    match config.quantization {
        Some(Quantization::Scalar(scalar)) => Ok(QuantizationConfig::from(ScalarQuantizationConfig {
            r#type: ScalarType::Int8,
            quantile: scalar.quantile,
            always_ram: Some(true),
        })),
        Some(Quantization::Binary(_)) => Ok(QuantizationConfig::from(BinaryQuantizationConfig {
            always_ram: Some(true),
            encoding: None,
            query_encoding: None,
        })),
        Some(Quantization::Product(_) | Quantization::Turboquant(_)) | None => Err(unsupported("that quantization")),
    }
}

/// What is told of a collection.
pub(crate) fn info(collection: &Collection) -> CollectionInfo {
    let (created, shard) = (&collection.created, collection.shard.info());
    let params = CollectionParams {
        shard_number: 1,
        vectors_config: created.vectors_config.clone(),
        sparse_vectors_config: created.sparse_vectors_config.clone(),
        ..CollectionParams::default()
    };
    let schema = shard.payload_schema.iter().map(|(field, index)| {
        let info = PayloadSchemaInfo {
            data_type: data_type(index.data_type).into(),
            params: None,
            points: Some(index.points as u64),
        };
        (field.to_string(), info)
    });
    CollectionInfo {
        status: CollectionStatus::Green.into(),
        optimizer_status: Some(OptimizerStatus { ok: true, error: String::new() }),
        segments_count: shard.segments_count as u64,
        config: Some(CollectionConfig {
            params: Some(params),
            hnsw_config: created.hnsw_config,
            quantization_config: created.quantization_config,
            metadata: created.metadata.clone(),
            ..CollectionConfig::default()
        }),
        payload_schema: schema.collect(),
        points_count: Some(shard.points_count as u64),
        indexed_vectors_count: Some(shard.indexed_vectors_count as u64),
        ..CollectionInfo::default()
    }
}

fn data_type(kind: PayloadSchemaType) -> qdrant::PayloadSchemaType {
    match kind {
        PayloadSchemaType::Keyword => qdrant::PayloadSchemaType::Keyword,
        PayloadSchemaType::Integer => qdrant::PayloadSchemaType::Integer,
        PayloadSchemaType::Float => qdrant::PayloadSchemaType::Float,
        PayloadSchemaType::Geo => qdrant::PayloadSchemaType::Geo,
        PayloadSchemaType::Text => qdrant::PayloadSchemaType::Text,
        PayloadSchemaType::Bool => qdrant::PayloadSchemaType::Bool,
        PayloadSchemaType::Datetime => qdrant::PayloadSchemaType::Datetime,
        PayloadSchemaType::Uuid => qdrant::PayloadSchemaType::Uuid,
    }
}
