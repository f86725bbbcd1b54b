//! What people and apps ask of the gateway beside chat: explain, recall, the memory API, keys, and what was used.
//!
//! Handlers only translate: who may do what is decided in `access`, what a change does in `memory::edit`, how it is kept in `store`.

mod explain;
mod identity;
pub mod keys;
pub mod memory;
mod profile;
mod recall;
mod reload;
pub mod usage;

use std::sync::Arc;

use axum::Router;
use axum::routing::post;

pub use explain::explain;

use crate::app::App;

/// The routes under `/admin/v1`: for holders of the admin key, on the admin listener where there is one.
pub fn admin_routes(app: &Arc<App>) -> Router {
    keys::routes(app).merge(usage::routes(app)).merge(reload::routes(app)).merge(profile::routes(app))
}

/// The routes under `/memory/v1` and all else that people and apps ask with keys of their own.
pub fn routes(app: &Arc<App>) -> Router {
    let state = memory::MemoryApi {
        store: Arc::clone(&app.store),
        index: app.index.clone(),
        identify: Arc::new(identity::ByKey(Arc::clone(app))),
        changed: Arc::new(identity::Caches(Arc::clone(app))),
        clock: Arc::clone(&app.clock),
        random: Arc::clone(&app.random),
        tasks: app.tracker.clone(),
        schemas: Arc::clone(&app.schemas),
    };
    Router::new()
        .route("/memory/v1/explain", post(explain::handle))
        .route("/memory/v1/recall", post(recall::handle))
        .with_state(Arc::clone(app))
        .merge(memory::router(state))
}
