//! Documents of a namespace: list, read, write, replace, delete.
//!
//! They are the operator's, and about no person: no subject is needed, and writing takes a key with `may_edit`, or the admin key.

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Caller, Filter, Id, body_error, caller_who_may};
use super::episodes::check_labels;
use super::error::{Answer, ApiError};
use super::listing::{self, Listing};
use super::{ApiAccess, Shared, render};
use crate::base::{ErrorKind, ExchangeId, GatewayError};
use crate::memory::Namespace;
use crate::memory::knowledge::{Document, DocumentId, Format, cut};
use crate::memory::redact::redact;
use crate::store::{PutDocument, ShelfLimits};

/// The longest text of a document, in bytes.
const MAX_TEXT_BYTES: usize = 2 << 20;
/// The largest body, in bytes: of the longest text, every second byte may be escaped.
const MAX_BODY_BYTES: usize = 4 << 20;
/// The most passages that one document is cut in.
const MAX_PASSAGES: usize = 10_000;
/// What a namespace holds at most: about 16 MB of text.
const LIMITS: ShelfLimits = ShelfLimits { documents: 2_000, passages: 50_000 };
/// The longest title, in characters: it is cited with every passage.
const MAX_TITLE_CHARS: usize = 200;
/// The longest source, in bytes.
const MAX_SOURCE_BYTES: usize = 2_000;

/// Who reads documents, and of which namespace.
#[derive(Debug)]
pub(super) struct Reader {
    namespace: Namespace,
}

/// Who writes them.
#[derive(Debug)]
pub(super) struct Librarian {
    namespace: Namespace,
}

fn namespace_of(caller: &Caller) -> Namespace {
    Namespace::new(caller.tenant.clone(), caller.namespace.clone())
}

impl FromRequestParts<Shared> for Reader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        let caller = caller_who_may(&parts.headers, api, ApiAccess::Read).await?;
        Ok(Self { namespace: namespace_of(&caller) })
    }
}

impl FromRequestParts<Shared> for Librarian {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        let caller = caller_who_may(&parts.headers, api, ApiAccess::Write).await?;
        if !caller.is_operator() {
            let public = "documents are the operator's: writing them takes a key with may_edit, or the admin key";
            return Err(ApiError::new(ErrorKind::Forbidden, public));
        }
        Ok(Self { namespace: namespace_of(&caller) })
    }
}

/// A document as it is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewDocument {
    id: Option<String>,
    title: String,
    text: String,
    #[serde(default)]
    format: Option<String>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
}

impl FromRequest<Shared> for NewDocument {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        check_type(&parts.headers)?;
        let bytes = to_bytes(body, MAX_BODY_BYTES).await.map_err(|error| body_error(&error, MAX_BODY_BYTES))?;
        if bytes.starts_with(b"%PDF-") {
            return Err(no_pdf());
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| ApiError::new(ErrorKind::BadRequest, format!("cannot read the body: {error}")))
    }
}

fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    if essence.eq_ignore_ascii_case("application/pdf") {
        return Err(no_pdf());
    }
    let public =
        "the body must be application/json, as in {\"title\": TITLE, \"text\": TEXT, \"format\": \"markdown\"}";
    Err(ApiError::new(ErrorKind::UnsupportedMedia, public))
}

fn no_pdf() -> ApiError {
    ApiError::new(ErrorKind::UnsupportedMedia, "PDF is not read: send its text, with format \"text\" or \"markdown\"")
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DocumentQuery {
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /knowledge`.
pub(super) async fn list(State(api): State<Shared>, call: Reader, Filter(query): Filter<DocumentQuery>) -> Answer {
    let listing = Listing::new::<DocumentId>(query.limit, query.cursor.as_deref())?;
    let rows = api.store.list_documents(&call.namespace, &listing.page()).await?;
    Ok(listing.answer(rows, |document| document.id.to_string(), |document| Some(render::object(document))))
}

/// `GET /knowledge/{id}`.
pub(super) async fn read(State(api): State<Shared>, call: Reader, Id(id): Id<DocumentId>) -> Answer {
    let (document, text) = api.store.document(&call.namespace, &id).await?.ok_or_else(no_such)?;
    let mut body = render::object(&document);
    body["text"] = Value::String(text);
    Ok(render::ok(&body))
}

/// `GET /knowledge/{id}/passages`: how it was cut.
pub(super) async fn passages(State(api): State<Shared>, call: Reader, Id(id): Id<DocumentId>) -> Answer {
    let passages = api.store.passages(&call.namespace, &id).await?;
    if passages.is_empty() {
        // An empty document has none either.
        api.store.document(&call.namespace, &id).await?.ok_or_else(no_such)?;
    }
    Ok(listing::whole(passages.iter().map(render::object).collect()))
}

/// `POST /knowledge`: a new document, or, with the id of one that is there, its next version.
pub(super) async fn create(State(api): State<Shared>, call: Librarian, new: NewDocument) -> Answer {
    let id = match &new.id {
        Some(id) => id.parse().map_err(|error| ApiError::bad("id", format!("{error}")))?,
        None => fresh_id(&api),
    };
    put(&api, &call.namespace, id, new).await
}

/// `PUT /knowledge/{id}`.
pub(super) async fn replace(
    State(api): State<Shared>,
    call: Librarian,
    Id(id): Id<DocumentId>,
    new: NewDocument,
) -> Answer {
    if new.id.as_ref().is_some_and(|named| *named != id.to_string()) {
        return Err(ApiError::bad("id", "is another one than that of the path"));
    }
    put(&api, &call.namespace, id, new).await
}

/// `DELETE /knowledge/{id}`.
pub(super) async fn delete(State(api): State<Shared>, call: Librarian, Id(id): Id<DocumentId>) -> Answer {
    if !api.store.delete_document(&call.namespace, &id).await? {
        return Err(no_such());
    }
    api.changed.documents(&call.namespace);
    Ok(render::ok(&json!({ "id": id, "deleted": true })))
}

async fn put(api: &Shared, namespace: &Namespace, id: DocumentId, new: NewDocument) -> Answer<Response> {
    let format = format_of(new.format.as_deref())?;
    let title = checked_title(&new.title)?;
    check_labels("tags", &new.tags)?;
    if let Some(source) = &new.source
        && (source.len() > MAX_SOURCE_BYTES || source.chars().any(char::is_control))
    {
        return Err(ApiError::bad("source", format!("must be one line of at most {MAX_SOURCE_BYTES} bytes")));
    }
    check_text(&new.text)?;
    let text = redact(&new.text).into_owned();
    // Cutting a long text takes a while.
    let (text, passages) = tokio::task::spawn_blocking(move || {
        let passages = cut(&text, format);
        (text, passages)
    })
    .await
    .map_err(GatewayError::internal)?;
    if passages.is_empty() {
        return Err(ApiError::bad("text", "has no words in it"));
    }
    if passages.len() > MAX_PASSAGES {
        let public = format!("is cut in {} passages, and a document may have {MAX_PASSAGES}; part it", passages.len());
        return Err(too_large(public));
    }
    let now = api.clock.now();
    let document = Document {
        id,
        title,
        format,
        source: new.source,
        tags: new.tags,
        version: 1,
        created_at: now,
        updated_at: now,
        characters: text.chars().count(),
        passages: passages.len(),
    };
    match api.store.put_document(namespace, &document, &text, &passages, LIMITS).await? {
        PutDocument::Full => Err(too_large(format!(
            "the namespace would hold more than {} documents or {} passages; delete some first",
            LIMITS.documents, LIMITS.passages
        ))),
        PutDocument::Kept(kept) => {
            api.changed.documents(namespace);
            let body = render::object(&kept);
            Ok(if kept.version == 1 { render::created(&body) } else { render::ok(&body) })
        }
    }
}

/// A name of ours: what no operator would choose, and sorted by time.
fn fresh_id(api: &Shared) -> DocumentId {
    let id = ExchangeId::generate(api.clock.now(), &*api.random).to_string();
    let digits = id.rsplit('_').next().unwrap_or(&id);
    format!("doc_{digits}").parse().expect("digits of base 32 may stand in an id")
}

fn format_of(name: Option<&str>) -> Answer<Format> {
    match name {
        None | Some("text") => Ok(Format::Text),
        Some("markdown") => Ok(Format::Markdown),
        Some("pdf") => Err(ApiError::bad("format", "PDF is not read: send its text, as \"text\" or \"markdown\"")),
        Some(_) => Err(ApiError::bad("format", "must be \"text\" or \"markdown\"")),
    }
}

fn checked_title(title: &str) -> Answer<String> {
    let title = title.trim();
    let fits = !title.is_empty() && title.chars().count() <= MAX_TITLE_CHARS && !title.chars().any(char::is_control);
    if !fits {
        return Err(ApiError::bad("title", format!("must be one line of 1 to {MAX_TITLE_CHARS} characters")));
    }
    Ok(redact(title).into_owned())
}

fn check_text(text: &str) -> Answer<()> {
    if text.len() > MAX_TEXT_BYTES {
        let public = format!("has {} bytes, and a document may have {MAX_TEXT_BYTES}; part it", text.len());
        return Err(too_large(public));
    }
    if text.starts_with("%PDF-") {
        return Err(ApiError::bad("text", "is a PDF file, which is not read: send the words in it"));
    }
    if text.contains('\0') {
        return Err(ApiError::bad("text", "is no text: there are NUL characters in it"));
    }
    Ok(())
}

fn too_large(public: String) -> ApiError {
    GatewayError::new(ErrorKind::TooLarge, public).with_param("text").into()
}

fn no_such() -> ApiError {
    ApiError::not_found("document")
}
