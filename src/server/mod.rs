//! The listener and what stands behind it: `stack` decides the order of the layers, `routes` the paths, `serve` accepts and drains.

mod guard;
mod models;
mod routes;
mod serve;
mod stack;

pub use routes::routes;
pub use serve::{Drained, serve};
pub use stack::{Gateway, gateway};
