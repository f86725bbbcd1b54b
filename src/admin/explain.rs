//! `POST /memory/v1/explain`: what would be sent for a chat request and why. Nobody is called, nothing is learned.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::Full;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::App;
use crate::base::{ErrorKind, ExchangeId, GatewayError, RequestId};
use crate::context::{Allowance, DigestBy, Fate, Fitted, Policy, Report};
use crate::exchange::{Authenticated, Kind, Recalled, Stamp};
use crate::layers::{Decode, Identify, Stage, context_header, memory_header, read_body, respond};
use crate::telemetry::{Outcome, Route};
use crate::upstream::Preview;
use crate::wire::Dialect;

/// Explains a request given as its headers and body; returns a JSON object. Without a word on its dialect the body's own members tell.
///
/// # Errors
/// As the request itself would be refused.
pub async fn explain(
    app: &App,
    headers: &HeaderMap,
    dialect: Option<Dialect>,
    body: Bytes,
) -> Result<String, GatewayError> {
    let dialect = dialect.unwrap_or_else(|| std::str::from_utf8(&body).map(Dialect::of_body).unwrap_or_default());
    let at = app.clock.now();
    let stamp = Stamp {
        id: RequestId::generate(at, &*app.random),
        exchange: ExchangeId::generate(at, &*app.random),
        at,
        started: Instant::now(),
        trace: None,
    };
    let (principal, credential) = app.keys.authenticate(headers).await?;
    let mut http = Request::new(Full::new(body));
    *http.headers_mut() = headers.clone();
    let decoded = Decode {
        kind: Kind::Chat(dialect),
        max_body_bytes: app.settings.max_body_bytes,
        patience: app.settings.patience,
    }
    .run(Authenticated { stamp, principal, credential, http })
    .await?;
    let call = Arc::new(
        Identify { policies: Arc::clone(&app.settings.policies), learn: app.settings.learn, subjects: None }
            .run(decoded)
            .await?,
    );
    let recall = Arc::new(app.recall_stage().ask(&call).await);
    let recalled = Recalled { call, reservation: (), recall };
    let preview = app.upstream.preview(&recalled).await?;
    let learned = learned(&preview);
    let Preview { fitted, target, .. } = preview;

    let request: Box<RawValue> = serde_json::from_slice(&fitted.body).map_err(GatewayError::internal)?;
    let why: Vec<Value> =
        recalled.recall.why.iter().map(|w| json!({"id": w.id, "score": w.score, "reason": w.reason})).collect();
    let explained = Explained {
        target: target.label.clone(),
        learned,
        memory: memory_header(&recalled.recall, Some(&fitted), false),
        context: context_header(&fitted),
        tokens: table(&fitted, &recalled.call.policy),
        digest: fitted.report.digest.to_string(),
        digest_by: match fitted.report.digest_by {
            DigestBy::None => "none",
            DigestBy::Extract => "extract",
            DigestBy::Summary => "summary",
        },
        recalled: json!({
            "profile": &*fitted.profile,
            "recollection": &*fitted.recollection,
            "earlier": fitted.earlier.iter().map(|block| &**block).collect::<Vec<_>>(),
            "facts": fitted.facts_shown,
            "episodes": fitted.episodes_shown,
            "passages": fitted.passages_shown,
            "why": why,
        }),
        request,
    };
    serde_json::to_string(&explained).map_err(GatewayError::internal)
}

/// The request is raw: it stands in the answer as it would be sent.
#[derive(serde::Serialize)]
struct Explained {
    target: String,
    learned: Value,
    memory: String,
    context: Option<String>,
    tokens: Value,
    digest: String,
    /// What the digest rests on.
    digest_by: &'static str,
    recalled: Value,
    request: Box<RawValue>,
}

/// What the target's answers have taught: how it counts, and how large its window is.
fn learned(preview: &Preview) -> Value {
    let Preview { target, known, .. } = preview;
    let window = target.window(known.window);
    let source = match window {
        None => "unknown",
        Some(_) if target.window_is_configured => "configured",
        Some(window) if target.fit.window == Some(window) => "table",
        Some(_) => "learned",
    };
    json!({
        "exact": target.exact,
        "correction": known.correction.ratio,
        "overhead": known.correction.overhead,
        "generation": known.correction.generation,
        "exchanges": known.n_samples,
        "window": window,
        "window_source": source,
    })
}

/// The token table: a row for each of the client's messages, and the sums.
fn table(fitted: &Fitted, policy: &Policy) -> Value {
    let report = &fitted.report;
    let rows: Vec<Value> = report
        .messages
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let fate = match row.fate {
                Fate::Pinned => "pinned",
                Fate::Kept => "kept",
                Fate::Cut => "cut",
            };
            let why = Some(row.why).filter(|why| !why.is_empty());
            json!({"message": index, "role": row.role.as_str(), "tokens": row.tokens, "sent": row.sent, "fate": fate, "why": why})
        })
        .collect();
    json!({
        "messages": rows,
        "fixed": report.fixed,
        "memory": report.memory_tokens,
        "profile": report.profile_tokens,
        "recollection": report.memory_tokens - report.profile_tokens - report.earlier_tokens,
        "earlier": report.earlier_tokens,
        "digest": report.digest_tokens,
        "counted": report.counted,
        "sent": report.sent,
        "cut": report.cut,
        "shortened": report.shortened,
        "budget": report.budget,
        "low_water": report.low_water,
        "allowance": allowance(&report.allowance, policy),
        "why": why_cut(report),
    })
}

/// How the budget came about.
fn allowance(allowance: &Allowance, policy: &Policy) -> Value {
    let mut of = Vec::new();
    if policy.max_input_tokens > 0 {
        of.push(format!("max_input_tokens {}", policy.max_input_tokens));
    }
    match allowance.window {
        Some(window) => {
            let Allowance { output_reserve, margin, .. } = *allowance;
            let left = window.saturating_sub(output_reserve + margin);
            of.push(format!("window {window} - reply {output_reserve} - margin {margin} = {left}"));
        }
        None => of.push("window unknown".to_owned()),
    }
    let budget = allowance.budget.map_or_else(|| "none".to_owned(), |budget| budget.to_string());
    json!({
        "window": allowance.window,
        "output_reserve": allowance.output_reserve,
        "margin": allowance.margin,
        "max_input_tokens": policy.max_input_tokens,
        "memory_tokens": policy.memory_tokens,
        "why": format!("{budget}: the smallest of {}", of.join(", ")),
    })
}

/// Why something was cut or shortened; nothing when nothing was.
fn why_cut(report: &Report) -> Option<String> {
    let (counted, budget) = (report.counted?, report.budget?);
    (report.cut + report.shortened > 0).then(|| {
        format!(
            "{counted} tokens are more than {budget}: {} messages left out, {} texts shortened, down to {} with room for memory and digest",
            report.cut, report.shortened, report.low_water
        )
    })
}

pub(super) async fn handle(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let explained = async {
        let dialect = asked_dialect(parts.uri.query())?;
        let body = read_body(&parts.headers, body, app.settings.max_body_bytes, app.settings.patience).await?;
        explain(&app, &parts.headers, dialect, body).await
    };
    let explained = explained.await;
    let reply = answer(explained);
    app.metrics.requests.inc(Route::Explain, Outcome::of_status(reply.status().as_u16()));
    reply
}

/// The dialect that a query names, as in `?dialect=messages`.
fn asked_dialect(query: Option<&str>) -> Result<Option<Dialect>, GatewayError> {
    let named = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("dialect="));
    let unknown = || {
        GatewayError::new(ErrorKind::BadRequest, "dialect must be `chat`, `messages` or `responses`")
            .with_param("dialect")
    };
    named.map(|name| Dialect::named(name).ok_or_else(unknown)).transpose()
}

/// A JSON text, or an error in OpenAI's envelope.
pub(super) fn answer(result: Result<String, GatewayError>) -> Response<Body> {
    match result {
        Ok(text) => {
            let mut reply = Response::new(Body::from(text));
            reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            reply
        }
        Err(error) => respond(&error, RequestId(0)).map(Body::new),
    }
}
