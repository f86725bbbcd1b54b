//! The documents of a namespace.

use async_trait::async_trait;

use super::{Page, StoreError};
use crate::memory::Namespace;
use crate::memory::knowledge::{Document, DocumentId, Passage};

/// What a namespace may hold at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShelfLimits {
    /// Documents.
    pub documents: u64,
    /// Passages of all of them.
    pub passages: u64,
}

/// What became of a document that was to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutDocument {
    /// It is kept as this: version and time of making are those of the one it replaced.
    Kept(Document),
    /// The namespace would hold more than it may; nothing was changed.
    Full,
}

/// Everything on a shelf that recall needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shelf {
    /// Grows with every change of a document; 0 = there never was one.
    pub revision: i64,
    /// Every document with its passages in order; documents in order of id.
    pub documents: Vec<(Document, Vec<Passage>)>,
}

/// Documents and their passages, by namespace. They belong to no subject.
#[async_trait]
pub trait KnowledgeStore: Send + Sync {
    /// Keeps a document with its text and its passages, in place of the one with its id, in one step: whoever reads sees the passages of
    /// the one or of the other. Its `version` and `created_at` are decided here.
    async fn put_document(
        &self,
        namespace: &Namespace,
        document: &Document,
        text: &str,
        passages: &[Passage],
        limits: ShelfLimits,
    ) -> Result<PutDocument, StoreError>;

    /// Returns one document with its text.
    async fn document(&self, namespace: &Namespace, id: &DocumentId) -> Result<Option<(Document, String)>, StoreError>;

    /// Returns the passages of one document, in order; empty when there is no such document.
    async fn passages(&self, namespace: &Namespace, id: &DocumentId) -> Result<Vec<Passage>, StoreError>;

    /// Lists documents in order of id, a page at a time.
    async fn list_documents(&self, namespace: &Namespace, page: &Page) -> Result<Vec<Document>, StoreError>;

    /// Deletes a document with its passages. `false` when there is no such document.
    async fn delete_document(&self, namespace: &Namespace, id: &DocumentId) -> Result<bool, StoreError>;

    /// Returns the revision of a namespace's documents; 0 when there never was one.
    async fn shelf_revision(&self, namespace: &Namespace) -> Result<i64, StoreError>;

    /// Reads all documents of a namespace with their passages, as they stand at one moment.
    async fn shelf(&self, namespace: &Namespace) -> Result<Shelf, StoreError>;
}
