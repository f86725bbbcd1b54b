//! Ties telemetry to the network: what is exported, where to, and until when.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{App, BuildError};
use crate::base::{Clock, Random};
use crate::config::Otlp;
use crate::telemetry::otlp::{ExportSettings, Exporter, Numbers, Traces};
use crate::upstream::{HttpCollector, Proxy, Reach};

/// How often numbers would be sent where they are not.
const NEVER: Duration = Duration::from_secs(86_400);

/// A running export. It outlives the rest of the app, so that what that does last is told, too.
#[derive(Debug)]
pub struct Exporting {
    tracker: TaskTracker,
    stop: CancellationToken,
    numbers: Arc<Counted>,
}

impl Exporting {
    /// Where the numbers come from, to have them follow a new configuration.
    #[must_use]
    pub fn numbers(&self) -> Arc<Counted> {
        Arc::clone(&self.numbers)
    }

    /// Sends what is left, for at most `within`: a collector that does not take it keeps nobody from ending. Whether all of it was sent, or
    /// given up.
    pub async fn finish(self, within: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(within, self.tracker.wait()).await.is_ok()
    }
}

/// Begins to export the spans of `traces` and the numbers of `app`.
///
/// # Errors
/// The collector's address or a header cannot be used.
pub fn export(app: &Arc<App>, otlp: &Otlp, traces: &Traces) -> Result<Exporting, BuildError> {
    let collector = collector(otlp, Arc::clone(&app.clock));
    let collector = collector.map_err(|reason| BuildError::Collector { endpoint: otlp.endpoint.clone(), reason })?;
    app.metrics.gen_ai.switch_on();
    let settings = ExportSettings {
        metrics: otlp.metrics_every.is_some(),
        metrics_every: otlp.metrics_every.unwrap_or(NEVER),
        timeout: otlp.timeout,
        service_name: otlp.service_name.clone(),
        resource: otlp.resource.clone(),
    };
    let (clock, random): (Arc<dyn Clock>, &dyn Random) = (Arc::clone(&app.clock), &*app.random);
    let numbers = Arc::new(Counted(RwLock::new(Arc::clone(app))));
    let metrics = Arc::clone(&app.metrics);
    let read = Arc::clone(&numbers) as Arc<_>;
    let exporter = Exporter::new(traces.queue(), read, Arc::new(collector), metrics, (clock, random), settings);
    let exporting = Exporting { tracker: TaskTracker::new(), stop: CancellationToken::new(), numbers };
    exporting.tracker.spawn(exporter.run(exporting.stop.clone()));
    Ok(exporting)
}

/// The collector that the configuration names.
///
/// # Errors
/// A sentence: its address or a header cannot be used.
pub fn collector(otlp: &Otlp, clock: Arc<dyn Clock>) -> Result<HttpCollector, String> {
    let reach = Reach { proxy: Proxy::Environment, ca: otlp.ca.clone() };
    HttpCollector::new(&otlp.endpoint, otlp.protocol, &otlp.headers, &reach, clock)
}

/// The metrics of the app in force.
#[derive(Debug)]
pub struct Counted(RwLock<Arc<App>>);

impl Counted {
    /// Goes over to another configuration.
    pub fn follow(&self, app: &Arc<App>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(app);
    }

    fn app(&self) -> Arc<App> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Numbers for Counted {
    async fn text(&self) -> String {
        let app = self.app();
        app.observe().await;
        app.metrics.render()
    }
}
