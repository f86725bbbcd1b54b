//! Metrics of the process's edges: the configuration in force, connections, certificates.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{HandshakeFailure, Label, Listener, ReloadOutcome};
use super::metrics::{Counters, Held};

/// See the module.
#[derive(Debug)]
pub struct EdgeMetrics {
    /// Configurations that were read while running.
    pub reloads: Counters<ReloadOutcome>,
    /// TLS handshakes that came to nothing.
    pub handshakes_failed: Counters<HandshakeFailure>,
    generation: Gauge,
    reloaded_at: Gauge,
    reload_succeeded: Gauge,
    connections: Vec<Gauge>,
    certificate_ends: Family<Vec<(&'static str, &'static str)>, Gauge>,
}

impl EdgeMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let connections = Family::<Vec<(&'static str, &'static str)>, Gauge>::default();
        let labels = |listener: &Listener| vec![(Listener::NAME, listener.text())];
        let this = Self {
            reloads: Counters::register(registry, "config_reloads", "Configurations read while running"),
            handshakes_failed: Counters::register(
                registry,
                "tls_handshakes_failed",
                "TLS handshakes that came to nothing",
            ),
            generation: Gauge::default(),
            reloaded_at: Gauge::default(),
            reload_succeeded: Gauge::default(),
            connections: Listener::ALL.iter().map(|l| connections.get_or_create_owned(&labels(l))).collect(),
            certificate_ends: Family::default(),
        };
        registry.register("connections", "Connections that are open", connections);
        registry.register(
            "config_generation",
            "Number of the configuration in force: 1 at the start, one more with each that was taken over",
            this.generation.clone(),
        );
        registry.register(
            "config_last_reload_timestamp_seconds",
            "When a configuration was last read, taken over or not",
            this.reloaded_at.clone(),
        );
        registry.register(
            "config_last_reload_successful",
            "0 while the configuration file is not what is in force, because it has mistakes",
            this.reload_succeeded.clone(),
        );
        registry.register(
            "tls_not_after_timestamp_seconds",
            "When the certificate that an address shows ends; no series = no TLS",
            this.certificate_ends.clone(),
        );
        this
    }

    /// Says which configuration is in force, when one was last read (seconds since the Unix epoch), and whether that one was taken.
    pub fn set_config(&self, generation: u64, read_at: i64, succeeded: bool) {
        self.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        self.reloaded_at.set(read_at);
        self.reload_succeeded.set(i64::from(succeeded));
    }

    /// Says when the certificate of an address ends, in seconds since the Unix epoch.
    pub fn set_certificate_end(&self, listener: Listener, at: i64) {
        self.certificate_ends.get_or_create(&vec![(Listener::NAME, listener.text())]).set(at);
    }

    /// Counts a connection while it lasts.
    pub fn connection(&self, listener: Listener) -> Held {
        Held::new(&self.connections[listener.index()])
    }
}
