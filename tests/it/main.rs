//! The gateway as its users meet it: a client in front, a scripted upstream behind, everything real in between.
//!
//! One binary, a module a subject. Each test starts a gateway of its own and is named after what is right; the comment
//! above it names the report that it guards against.

mod context;
mod erasure;
mod injection;
mod isolation;
mod limits;
mod memory;
mod properties;
mod routing;
mod stream;
mod support;
mod transparency;
