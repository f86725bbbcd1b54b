//! Documents and their passages.

use super::fixtures::NOW;
use crate::memory::Namespace;
use crate::memory::knowledge::{Document, DocumentId, Format, Passage};
use crate::store::{Page, PutDocument, Shelf, ShelfLimits, Store};

const LIMITS: ShelfLimits = ShelfLimits { documents: 3, passages: 10 };

fn support() -> Namespace {
    Namespace::new("acme", "support")
}

fn id(name: &str) -> DocumentId {
    name.parse().unwrap()
}

fn document(name: &str, text: &str) -> (Document, Vec<Passage>) {
    let passages: Vec<Passage> = (0..)
        .zip(text.split('|'))
        .map(|(number, text)| Passage { number, headings: vec!["Rules".to_owned()], text: text.to_owned() })
        .collect();
    let document = Document {
        id: id(name),
        title: format!("About {name}"),
        format: Format::Markdown,
        source: Some("handbook.md".to_owned()),
        tags: vec!["rules".to_owned()],
        version: 1,
        created_at: NOW,
        updated_at: NOW,
        characters: text.chars().count(),
        passages: passages.len(),
    };
    (document, passages)
}

async fn put(store: &dyn Store, namespace: &Namespace, name: &str, text: &str) -> PutDocument {
    let (document, passages) = document(name, text);
    store.put_document(namespace, &document, text, &passages, LIMITS).await.unwrap()
}

pub(crate) async fn a_document_comes_back_as_it_was_put(store: &dyn Store) {
    let (mut expected, passages) = document("returns", "\"30\" days|not on 促销");
    expected.version = 9;
    let kept = store.put_document(&support(), &expected, "\"30\" days|not on 促销", &passages, LIMITS).await.unwrap();
    expected.version = 1;
    assert_eq!(kept, PutDocument::Kept(expected.clone()), "the store counts versions");
    let found = store.document(&support(), &id("returns")).await.unwrap();
    assert_eq!(found, Some((expected.clone(), "\"30\" days|not on 促销".to_owned())));
    assert_eq!(store.passages(&support(), &id("returns")).await.unwrap(), passages);
    let shelf = store.shelf(&support()).await.unwrap();
    assert_eq!(shelf, Shelf { revision: 1, documents: vec![(expected, passages)] });
    assert_eq!(store.document(&support(), &id("other")).await.unwrap(), None);
    assert!(store.passages(&support(), &id("other")).await.unwrap().is_empty());
}

pub(crate) async fn a_replaced_document_loses_its_old_passages_at_once(store: &dyn Store) {
    put(store, &support(), "returns", "one|two|three").await;
    let (mut newer, passages) = document("returns", "four");
    (newer.created_at, newer.updated_at) = (NOW.plus_seconds(60), NOW.plus_seconds(60));
    let kept = store.put_document(&support(), &newer, "four", &passages, LIMITS).await.unwrap();
    let expected = Document { version: 2, created_at: NOW, ..newer };
    assert_eq!(kept, PutDocument::Kept(expected.clone()));
    let shelf = store.shelf(&support()).await.unwrap();
    assert_eq!(shelf, Shelf { revision: 2, documents: vec![(expected, passages)] });
    assert_eq!(store.shelf_revision(&support()).await.unwrap(), 2);
}

pub(crate) async fn documents_are_listed_in_order_and_by_page(store: &dyn Store) {
    for name in ["b", "c", "a"] {
        put(store, &support(), name, "x").await;
    }
    let names = |found: Vec<Document>| found.into_iter().map(|d| d.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(store.list_documents(&support(), &Page::first(2)).await.unwrap()), ["a", "b"]);
    let after = Page { after: Some("b".to_owned()), limit: 9 };
    assert_eq!(names(store.list_documents(&support(), &after).await.unwrap()), ["c"]);
}

pub(crate) async fn a_deleted_document_is_gone_with_its_passages(store: &dyn Store) {
    put(store, &support(), "returns", "one|two").await;
    assert!(store.delete_document(&support(), &id("returns")).await.unwrap());
    assert!(!store.delete_document(&support(), &id("returns")).await.unwrap());
    assert_eq!(store.document(&support(), &id("returns")).await.unwrap(), None);
    assert_eq!(store.shelf(&support()).await.unwrap(), Shelf { revision: 2, documents: Vec::new() });
    assert!(matches!(put(store, &support(), "returns", "three").await, PutDocument::Kept(d) if d.version == 1));
}

pub(crate) async fn a_namespace_holds_no_more_than_it_may(store: &dyn Store) {
    put(store, &support(), "a", "1|2|3|4|5").await;
    put(store, &support(), "b", "1|2|3").await;
    assert_eq!(put(store, &support(), "c", "1|2|3").await, PutDocument::Full, "too many passages");
    assert!(matches!(put(store, &support(), "a", "1|2|3|4|5|6|7").await, PutDocument::Kept(_)), "replaced, not added");
    assert_eq!(put(store, &support(), "a", "1|2|3|4|5|6|7|8").await, PutDocument::Full);
    assert_eq!(store.passages(&support(), &id("a")).await.unwrap().len(), 7, "nothing was changed");
    put(store, &support(), "a", "1").await;
    put(store, &support(), "c", "1").await;
    assert_eq!(put(store, &support(), "d", "1").await, PutDocument::Full, "too many documents");
    assert_eq!(store.shelf_revision(&support()).await.unwrap(), 5);
}

/// getzep/graphiti#1659: tenant and namespace are walls, for documents as for memories.
pub(crate) async fn documents_are_not_seen_across_namespaces(store: &dyn Store) {
    put(store, &support(), "returns", "one").await;
    let others = [
        Namespace::new("acme", "sales"),
        Namespace::new("globex", "support"),
        Namespace::new("acmes", "upport"),
        Namespace::new("acme", ""),
    ];
    for other in &others {
        assert_eq!(store.document(other, &id("returns")).await.unwrap(), None);
        assert!(store.passages(other, &id("returns")).await.unwrap().is_empty());
        assert!(store.list_documents(other, &Page::first(9)).await.unwrap().is_empty());
        assert_eq!(store.shelf(other).await.unwrap(), Shelf::default());
        assert_eq!(store.shelf_revision(other).await.unwrap(), 0);
        assert!(!store.delete_document(other, &id("returns")).await.unwrap());
        put(store, other, "returns", "theirs|own").await;
    }
    assert_eq!(store.passages(&support(), &id("returns")).await.unwrap().len(), 1);
    assert_eq!(store.shelf_revision(&support()).await.unwrap(), 1);
}
