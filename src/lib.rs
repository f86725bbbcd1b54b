//! Backstory: an OpenAI-compatible gateway with a memory.
//!
//! The modules stand in reading order, a group a floor; each may use only those of the groups above it, which
//! `tests/floors.rs` keeps.

// Floor 0: what everyone uses.
pub mod base;

pub mod telemetry;

// Floor 1: values and pure functions.
pub mod ask;
pub mod embed;
pub mod memory;
pub mod rerank;
pub mod wire;

pub mod tokens;

pub mod conversation;

pub mod context;

pub mod exchange;

// Floor 2: records.
pub mod store;

// Between records and services: what replicas share.
pub mod shared;

// Floor 3: services.
pub mod access;
pub mod certificates;
pub mod embedders;
pub mod jobs;
pub mod recall;
pub mod states;
pub mod upstream;

pub mod extract;

// Floor 4: the stack's layers.
pub mod layers;

// Floor 5: what wires it all.
pub mod config;

pub mod app;

// Floor 6: what listens.
pub mod admin;

pub mod server;

// Floor 7: what people run.
pub mod mock;

pub mod eval;

pub mod cli;
