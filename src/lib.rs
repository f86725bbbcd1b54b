//! Backstory: an OpenAI-compatible gateway with a memory.
//!
//! The modules below are in reading order; each may use only those above it, which `tests/floors.rs` keeps.

pub mod admin;
pub mod app;
pub mod base;
pub mod cli;
pub mod config;
pub mod context;
pub mod conversation;
pub mod eval;
pub mod exchange;
pub mod extract;
pub mod jobs;
pub mod layers;
pub mod memory;
pub mod mock;
pub mod recall;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod tokens;
pub mod upstream;
pub mod wire;
