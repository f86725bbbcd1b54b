//! The listener and what stands behind it.
//!
//! `stack` decides the order of the layers and is the place to start; `routes` lists every path, `front` is
//! what a connection talks to, `serve` accepts connections and drains them. What a request is allowed or told is not decided here.

mod bounds;
mod count;
mod entrance;
mod front;
mod guard;
mod models;
mod named;
mod routes;
mod serve;
mod stack;

pub use entrance::Entrance;
pub use front::Front;
pub use serve::{Drained, serve};
pub use stack::{Gateway, gateway};
