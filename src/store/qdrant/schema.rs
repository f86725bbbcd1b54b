//! What a collection is made of, and whether one that is there is such a one.
//!
//! Searches are of one scope, and most scopes are small among very many. So there is no graph over all points (`m` = 0) but one for each scope that is
//! large enough to need it (`payload_m`; smaller ones are compared one by one, exactly), and points of a scope lie side by side (`is_tenant`). That is
//! what Qdrant advises for many tenants. Other fields have an index to be filtered by, but no graphs.

use std::collections::HashMap;

use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_client::qdrant::quantization_config::Quantization as Quantized;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    BinaryQuantization, CollectionInfo, CreateCollection, CreateFieldIndexCollection, Distance, FieldType,
    HnswConfigDiff, IntegerIndexParams, KeywordIndexParams, Modifier, PayloadIndexParams, QuantizationConfig,
    QuantizationType, ScalarQuantization, SparseIndexConfig, SparseVectorConfig, SparseVectorParams, VectorParams,
    VectorParamsMap, VectorsConfig,
};

use super::point::{AT, DENSE, ROLE, SCOPE, SENSITIVITY, TENANT, WORDS};
use super::{Isolation, Options, Quantization};

/// Links of a point in the graph of its scope.
const LINKS: u64 = 16;

/// Of the collection's metadata: the generation's id, since its name holds a hash of it only.
const GENERATION: &str = "generation";
/// Of the collection's metadata: how tenants are kept apart.
const ISOLATION: &str = "tenant_isolation";

/// How the collection of a generation is made. Dimension 0: of words alone.
#[expect(deprecated, reason = "`on_disk` is what all servers understand; `memory`, which replaces it, is new in 1.20")]
pub(super) fn collection(name: &str, generation: &str, dimension: u32, options: &Options) -> CreateCollection {
    let dense = VectorParams {
        size: u64::from(dimension),
        distance: Distance::Cosine.into(),
        on_disk: Some(true),
        quantization_config: quantization(options.quantization),
        ..VectorParams::default()
    };
    let map = if dimension == 0 { HashMap::new() } else { HashMap::from([(DENSE.to_owned(), dense)]) };
    let words = SparseVectorParams {
        index: Some(SparseIndexConfig { on_disk: Some(true), ..SparseIndexConfig::default() }),
        modifier: Some(Modifier::Idf.into()),
    };
    let metadata = [(GENERATION, generation), (ISOLATION, isolation(options.isolation))];
    CreateCollection {
        collection_name: name.to_owned(),
        hnsw_config: Some(HnswConfigDiff { m: Some(0), payload_m: Some(LINKS), ..HnswConfigDiff::default() }),
        on_disk_payload: Some(true),
        vectors_config: Some(VectorsConfig { config: Some(Config::ParamsMap(VectorParamsMap { map })) }),
        sparse_vectors_config: Some(SparseVectorConfig { map: HashMap::from([(WORDS.to_owned(), words)]) }),
        metadata: metadata.map(|(key, value)| (key.to_owned(), value.into())).into(),
        ..CreateCollection::default()
    }
}

#[expect(
    deprecated,
    reason = "`always_ram` is what all servers understand; `memory`, which replaces it, is new in 1.20"
)]
fn quantization(quantization: Quantization) -> Option<QuantizationConfig> {
    let quantization = match quantization {
        Quantization::Off => return None,
        Quantization::Scalar => Quantized::Scalar(ScalarQuantization {
            r#type: QuantizationType::Int8.into(),
            always_ram: Some(true),
            ..ScalarQuantization::default()
        }),
        Quantization::Binary => {
            Quantized::Binary(BinaryQuantization { always_ram: Some(true), ..BinaryQuantization::default() })
        }
    };
    Some(QuantizationConfig { quantization: Some(quantization) })
}

fn isolation(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Payload => "payload",
        Isolation::Collection => "collection",
    }
}

/// The indexes of a collection that it does not have yet.
pub(super) fn missing_indexes(name: &str, info: &CollectionInfo) -> impl Iterator<Item = CreateFieldIndexCollection> {
    let scope = KeywordIndexParams { is_tenant: Some(true), ..KeywordIndexParams::default() };
    let keyword = KeywordIndexParams { enable_hnsw: Some(false), ..KeywordIndexParams::default() };
    let range = IntegerIndexParams {
        lookup: Some(false),
        range: Some(true),
        enable_hnsw: Some(false),
        ..IntegerIndexParams::default()
    };
    let fields = [
        (SCOPE, FieldType::Keyword, IndexParams::KeywordIndexParams(scope)),
        (TENANT, FieldType::Keyword, IndexParams::KeywordIndexParams(keyword.clone())),
        (ROLE, FieldType::Keyword, IndexParams::KeywordIndexParams(keyword)),
        (AT, FieldType::Integer, IndexParams::IntegerIndexParams(range.clone())),
        (SENSITIVITY, FieldType::Integer, IndexParams::IntegerIndexParams(range)),
    ];
    fields.into_iter().filter(|(field, ..)| !info.payload_schema.contains_key(*field)).map(|(field, kind, params)| {
        CreateFieldIndexCollection {
            collection_name: name.to_owned(),
            wait: Some(true),
            field_name: field.to_owned(),
            field_type: Some(kind.into()),
            field_index_params: Some(PayloadIndexParams { index_params: Some(params) }),
            ..CreateFieldIndexCollection::default()
        }
    })
}

/// The dimension of a collection; 0: of words alone.
pub(super) fn dimension(info: &CollectionInfo) -> u32 {
    dense(info).and_then(|params| u32::try_from(params.size).ok()).unwrap_or(0)
}

/// Says what is wrong with a collection that is there already; none: nothing.
pub(super) fn problem(info: &CollectionInfo, generation: &str, wanted: u32, options: &Options) -> Option<String> {
    if let Some(other) = text(info, GENERATION).filter(|other| *other != generation) {
        return Some(format!("it belongs to the generation {other}"));
    }
    if dimension(info) != wanted {
        return Some(format!("it has dimension {}, not {wanted}", dimension(info)));
    }
    if dense(info).is_some_and(|params| params.distance() != Distance::Cosine) {
        return Some("it does not compare by cosine".to_owned());
    }
    if words(info).is_none_or(|params| params.modifier() != Modifier::Idf) {
        return Some(format!("it has no sparse vector `{WORDS}` with the modifier `idf`"));
    }
    let now = isolation(options.isolation);
    let made = text(info, ISOLATION).filter(|made| *made != now)?;
    Some(format!("it was made with tenant_isolation = \"{made}\", and that is \"{now}\" now"))
}

fn dense(info: &CollectionInfo) -> Option<&VectorParams> {
    match info.config.as_ref()?.params.as_ref()?.vectors_config.as_ref()?.config.as_ref()? {
        Config::ParamsMap(map) => map.map.get(DENSE),
        Config::Params(_) => None,
    }
}

fn words(info: &CollectionInfo) -> Option<&SparseVectorParams> {
    info.config.as_ref()?.params.as_ref()?.sparse_vectors_config.as_ref()?.map.get(WORDS)
}

/// A text of the metadata. Servers before 1.16 keep none, and have nothing to say.
fn text<'a>(info: &'a CollectionInfo, key: &str) -> Option<&'a str> {
    match info.config.as_ref()?.metadata.get(key)?.kind.as_ref()? {
        Kind::StringValue(text) => Some(text),
        _ => None,
    }
}
