//! The gateway as its users meet it: a client in front, a scripted upstream behind, everything real in between.
//!
//! One binary, a module a subject. Each test starts a gateway of its own and is named after what is right; the comment
//! above it names the report that it guards against.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing where something should be has failed")]

mod aborted;
mod ask;
mod bad_input;
mod budget;
mod context;
mod deploy;
mod digest;
mod download;
mod edges;
mod embedder;
mod erasure;
mod extraction;
mod index;
mod injection;
mod isolation;
mod keys;
mod knowledge;
mod learning;
mod limits;
mod memory;
mod memory_api;
mod messages;
mod odd_queries;
mod otlp;
mod prefix;
mod process;
mod profile;
mod properties;
mod providers;
mod quality;
mod recall;
mod reload;
mod replicas;
mod replicas_faults;
mod rerank;
mod responses;
mod responses_kept;
mod routing;
mod routing_attempts;
mod routing_faults;
mod routing_late;
mod routing_targets;
mod store_faults;
mod stream;
mod support;
mod tls;
mod transparency;
mod usage;
mod use_limits;
mod vectors;
