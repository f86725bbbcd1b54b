//! The suite of indexes on a Qdrant server, or the test server that `tests/qdrant` builds; what only Qdrant does; and what goes wrong with servers.
//!
//! `BACKSTORY_TEST_QDRANT` says where it is; without it these tests say that they were skipped.

mod collections;
mod faults;
mod proxy;
mod refusals;

use std::time::Duration;

use super::{Isolation, Options, Qdrant, Quantization};
use crate::base::{Random as _, SystemRandom};
use crate::store::VectorIndex;
use crate::store::contract::index::{GENERATIONS, index_suite, the_nearest_come_first_with_their_cosine};

/// Where the server is; none, and a word about it, where there is none.
fn server() -> Option<String> {
    crate::base::testing::server("BACKSTORY_TEST_QDRANT")
}

/// Options with names of their own.
fn options(url: &str) -> Options {
    Options {
        url: url.to_owned(),
        api_key: None,
        collection_prefix: format!("test_{:016x}", SystemRandom.next_u64()),
        isolation: Isolation::Payload,
        quantization: Quantization::Off,
        // A busy machine is no fault.
        timeout: Duration::from_secs(60),
        hnsw_ef: None,
    }
}

fn open(change: impl FnOnce(&mut Options)) -> Option<Box<dyn VectorIndex>> {
    let mut options = options(&server()?);
    change(&mut options);
    Some(Box::new(Qdrant::connect(&options).unwrap()))
}

async fn payload() -> Option<Box<dyn VectorIndex>> {
    open(|_| {})
}

async fn collection() -> Option<Box<dyn VectorIndex>> {
    open(|options| options.isolation = Isolation::Collection)
}

index_suite!(by_payload, crate::store::qdrant::tests::payload);
index_suite!(by_collection, crate::store::qdrant::tests::collection);

/// However small vectors are made, the nearest are compared as they are.
#[tokio::test]
async fn quantised_vectors_find_the_nearest_with_their_cosine() {
    for quantization in [Quantization::Scalar, Quantization::Binary] {
        let Some(index) = open(|options| (options.quantization, options.hnsw_ef) = (quantization, Some(64))) else {
            return;
        };
        the_nearest_come_first_with_their_cosine(index.as_ref()).await;
        for generation in GENERATIONS {
            index.drop_generation(generation).await.unwrap();
        }
    }
}
