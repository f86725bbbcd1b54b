//! What a server holds, seen by Qdrant's own client.

use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{CreateCollection, Distance, VectorParams, VectorParamsMap, VectorsConfig};

use super::{Isolation, Options, Qdrant, options, server};
use crate::memory::Scope;
use crate::store::contract::fixtures::scope;
use crate::store::contract::index::{ids, near, point};
use crate::store::{ScopeKey, StoreError, VectorIndex};

const A: &str = "model-a/3/x";
const B: &str = "model-b/3/y";
const X: [f32; 3] = [1.0, 0.0, 0.0];

fn with(options: &Options, change: impl FnOnce(&mut Options)) -> Qdrant {
    let mut options = options.clone();
    change(&mut options);
    Qdrant::connect(&options).unwrap()
}

async fn ours(index: &Qdrant) -> Vec<String> {
    let all = index.client.list_collections().await.unwrap().collections;
    let mut names: Vec<_> =
        all.into_iter().map(|one| one.name).filter(|name| index.names.read(name).is_some()).collect();
    names.sort();
    names
}

async fn alias(index: &Qdrant) -> Option<String> {
    let aliases = index.client.list_aliases().await.unwrap().aliases;
    let of =
        |name: &str| aliases.iter().find(|alias| alias.alias_name == name).map(|alias| alias.collection_name.clone());
    of(index.names.alias())
}

#[tokio::test]
async fn the_alias_stands_for_the_generation_that_serves() {
    let Some(url) = server() else { return };
    let index = Qdrant::connect(&options(&url)).unwrap();
    for generation in [A, B] {
        index.prepare(generation, 3).await.unwrap();
    }
    assert_eq!(alias(&index).await, None);
    for generation in [A, B] {
        index.serve(generation).await.unwrap();
        assert_eq!(alias(&index).await, Some(index.names.generation(generation)));
    }
    index.drop_generation(A).await.unwrap();
    assert_eq!(ours(&index).await, [index.names.generation(B)]);
    index.drop_generation(B).await.unwrap();
    assert_eq!((alias(&index).await, ours(&index).await.len()), (None, 0));
}

#[tokio::test]
async fn a_tenant_has_a_collection_of_its_own_where_that_is_asked_for() {
    let Some(url) = server() else { return };
    let index = with(&options(&url), |options| options.isolation = Isolation::Collection);
    index.prepare(A, 3).await.unwrap();
    let (acme, globex) = (scope("ann"), Scope::new("globex", "support", "ann"));
    assert!(
        index.search(A, &near(&acme, &X)).await.unwrap().near.is_empty(),
        "nothing was put yet, and that is no error"
    );
    assert!(index.list(A, &acme, None, 9).await.unwrap().is_empty());
    assert_eq!(ours(&index).await, [index.names.generation(A)]);
    index.put(A, &[point(&acme, 1, X), point(&globex, 2, X), point(&acme, 3, X)]).await.unwrap();
    let of = |tenant| index.names.tenant(A, tenant);
    let mut expected = [index.names.generation(A), of("acme"), of("globex")];
    expected.sort();
    assert_eq!(ours(&index).await, expected);
    assert_eq!(index.count_in(of("acme"), None).await.unwrap(), Some(2));
    assert_eq!(
        index.count_in(index.names.generation(A), None).await.unwrap(),
        Some(0),
        "it only stands for the generation"
    );
    assert_eq!(index.count(A).await.unwrap(), 3);
    index.drop_generation(A).await.unwrap();
    assert!(ours(&index).await.is_empty());
}

#[tokio::test]
async fn erasure_finds_what_was_put_while_tenants_were_kept_apart_otherwise() {
    let Some(url) = server() else { return };
    let options = options(&url);
    let ann = scope("ann");
    let (apart, together) =
        (with(&options, |o| o.isolation = Isolation::Collection), Qdrant::connect(&options).unwrap());
    apart.prepare(A, 3).await.unwrap();
    apart.put(A, &[point(&ann, 1, X)]).await.unwrap();
    together.prepare(B, 3).await.unwrap();
    together.put(B, &[point(&ann, 1, X), point(&ann, 2, X)]).await.unwrap();
    match together.prepare(A, 3).await {
        Err(StoreError::Unusable(text)) => assert!(text.contains("tenant_isolation"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(together.erase(&ann.tenant, ScopeKey::of(&ann)).await.unwrap(), 3);
    for generation in [A, B] {
        together.drop_generation(generation).await.unwrap();
    }
}

#[tokio::test]
async fn another_installation_on_the_same_server_is_not_seen() {
    let Some(url) = server() else { return };
    let (one, other) = (Qdrant::connect(&options(&url)).unwrap(), Qdrant::connect(&options(&url)).unwrap());
    let ann = scope("ann");
    for index in [&one, &other] {
        index.prepare(A, 3).await.unwrap();
        index.put(A, &[point(&ann, 1, X)]).await.unwrap();
    }
    assert_eq!(one.erase(&ann.tenant, ScopeKey::of(&ann)).await.unwrap(), 1);
    assert_eq!(ids(&other.search(A, &near(&ann, &X)).await.unwrap().near), [1]);
    one.drop_generation(A).await.unwrap();
    assert_eq!(other.count(A).await.unwrap(), 1);
    other.drop_generation(A).await.unwrap();
}

#[tokio::test]
async fn a_collection_that_was_made_otherwise_is_refused_and_left_alone() {
    let Some(url) = server() else { return };
    let index = Qdrant::connect(&options(&url)).unwrap();
    let name = index.names.generation(A);
    let dense = VectorParams { size: 3, distance: Distance::Dot.into(), ..VectorParams::default() };
    let map = VectorParamsMap { map: [("dense".to_owned(), dense)].into() };
    let foreign = CreateCollection {
        collection_name: name.clone(),
        vectors_config: Some(VectorsConfig { config: Some(Config::ParamsMap(map)) }),
        ..CreateCollection::default()
    };
    index.client.create_collection(foreign).await.unwrap();
    match index.prepare(A, 3).await {
        Err(StoreError::Unusable(text)) => assert!(text.contains(&name) && text.contains("cosine"), "{text}"),
        other => panic!("{other:?}"),
    }
    let info = index.client.collection_info(&name).await.unwrap().result.unwrap();
    assert!(info.payload_schema.is_empty(), "nothing was added to it");
    index.client.delete_collection(name).await.unwrap();
}

#[tokio::test]
async fn a_name_that_is_taken_is_no_alias() {
    let Some(url) = server() else { return };
    let index = Qdrant::connect(&options(&url)).unwrap();
    index.prepare(A, 3).await.unwrap();
    let taken = CreateCollection { collection_name: index.names.alias().to_owned(), ..CreateCollection::default() };
    index.client.create_collection(taken).await.unwrap();
    match index.serve(A).await {
        Err(StoreError::Unusable(text)) => assert!(text.contains("taken"), "{text}"),
        other => panic!("{other:?}"),
    }
    index.client.delete_collection(index.names.alias()).await.unwrap();
    index.drop_generation(A).await.unwrap();
}

/// It is nobody's fault when it happens, and nothing is put into the void.
#[tokio::test]
async fn what_was_dropped_by_another_process_says_so_until_it_is_prepared_anew() {
    let Some(url) = server() else { return };
    for isolation in [Isolation::Payload, Isolation::Collection] {
        let options = options(&url);
        let (one, other) = (with(&options, |o| o.isolation = isolation), with(&options, |o| o.isolation = isolation));
        let ann = scope("ann");
        one.prepare(A, 3).await.unwrap();
        one.put(A, &[point(&ann, 1, X)]).await.unwrap();
        other.drop_generation(A).await.unwrap();
        let put = one.put(A, &[point(&ann, 2, X)]).await;
        let searched = one.search(A, &near(&ann, &X)).await.map(|_| ());
        for result in [put, searched] {
            match result {
                Err(StoreError::Unusable(text)) => assert!(text.contains(A) && text.contains("--reindex"), "{text}"),
                other => panic!("{other:?}"),
            }
        }
        one.prepare(A, 3).await.unwrap();
        one.put(A, &[point(&ann, 2, X)]).await.unwrap();
        assert_eq!(other.count(A).await.unwrap(), 1);
        other.drop_generation(A).await.unwrap();
    }
}
