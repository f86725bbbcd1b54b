//! What the next requests meet, built from a new configuration beside what goes on.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::super::build::{admits, bridge, recall_config, settings};
use super::super::keys::keys;
use super::super::routing::{providers_after, routes, timeouts};
use super::super::{App, BuildError};
use crate::config::{self, Config};
use crate::upstream::{Passthrough, Route, Routes};

impl App {
    /// The same process under another configuration, of which only that may differ which does not wait for a restart. Everything that was
    /// counted, learned, cached or connected stays where it is.
    ///
    /// # Errors
    /// See [`BuildError`]; then nothing has changed.
    pub(super) fn under(self: &Arc<Self>, config: Config) -> Result<Arc<Self>, BuildError> {
        let providers = Arc::new(providers_after(&config, Some((&self.config, &self.providers)))?);
        let routes = Arc::new(routes(&config, &providers, Some(&self.routes)));
        self.declare(&routes);

        // From here on nothing can fail.
        self.reseat(&config, &providers);
        let recall = recall_config(&config);
        self.recall.set_config(recall.clone());
        self.knowledge.set_config(recall);
        self.admit(config.server.max_concurrency);
        for (identity, pair) in [
            (&self.identities.data, config.server.tls.as_ref()),
            (&self.identities.admin, config.server.tls_of_admin()),
        ] {
            if let (Some(identity), Some(pair)) = (identity, pair) {
                identity.put(pair.clone());
            }
        }
        let timeouts = timeouts(&config);
        let services = crate::upstream::Services {
            summaries: bridge(self.summaries.as_ref(), &self.digests, &self.clock, &config, self.closed.is_none()),
            ..self.services.clone()
        };
        Ok(Arc::new(Self {
            generation: self.generation + 1,
            // Who may ask, for what, how much, and where it goes.
            keys: Arc::new(keys(&config, self.salt, self.stored_keys.clone())),
            admin_key: config.admin.key.as_ref().map(|key| config::Key::hash(key.expose())),
            limits: Arc::new(self.limits.under(config.limit_rules())),
            upstream: Route::new(Arc::clone(&routes), services.clone(), timeouts, config.retry.clone()),
            passthrough: Arc::new(Passthrough::new(Arc::clone(&routes), timeouts, config.server.max_body_bytes)),
            settings: settings(&config),
            routes,
            providers,
            services,
            config: Arc::new(config),
            // What goes on.
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            store: Arc::clone(&self.store),
            index: self.index.clone(),
            outbox: self.outbox.clone(),
            journal: self.journal.clone(),
            recall: Arc::clone(&self.recall),
            embedder: self.embedder.clone(),
            knowledge: Arc::clone(&self.knowledge),
            questions: self.questions.clone(),
            vectors: self.vectors.clone(),
            states: Arc::clone(&self.states),
            shared: self.shared.clone(),
            schemas: Arc::clone(&self.schemas),
            sweep: Arc::clone(&self.sweep),
            subjects: Arc::clone(&self.subjects),
            stored_keys: self.stored_keys.clone(),
            learned_of_targets: self.learned_of_targets.clone(),
            counter: Arc::clone(&self.counter),
            digests: Arc::clone(&self.digests),
            trails: Arc::clone(&self.trails),
            summaries: self.summaries.clone(),
            metrics: Arc::clone(&self.metrics),
            permits: Arc::clone(&self.permits),
            profiling: Arc::clone(&self.profiling),
            identities: self.identities.clone(),
            own_models: Arc::clone(&self.own_models),
            reloads: Arc::clone(&self.reloads),
            tracker: self.tracker.clone(),
            stop: self.stop.clone(),
            halt: self.halt.clone(),
            model_cap: self.model_cap,
            worker: Arc::clone(&self.worker),
            learner: Arc::clone(&self.learner),
            salt: self.salt,
            closed: self.closed.clone(),
        }))
    }

    /// Makes series for targets that are new; what is shown of the others stays.
    fn declare(&self, routes: &Routes) {
        let known: std::collections::HashSet<&str> = self.routes.targets().map(|target| &*target.label).collect();
        let new = || routes.targets().map(|target| &*target.label).filter(|label| !known.contains(label));
        self.metrics.targets.declare(new());
        self.metrics.books.declare(new());
        self.metrics.gen_ai.declare(new());
    }

    /// Has more or fewer requests run at a time. Where too many run already, none is cut: places go as they end.
    fn admit(&self, max_concurrency: usize) {
        let (before, after) = (admits(self.config.server.max_concurrency), admits(max_concurrency));
        if after > before {
            self.permits.add_permits(after - before);
        }
        let excess = before.saturating_sub(after);
        if excess > 0 {
            let permits: Arc<Semaphore> = Arc::clone(&self.permits);
            self.tracker.spawn(self.halt.clone().run_until_cancelled_owned(async move {
                // Whoever waits in line is served before those who only try: nobody new is let in until enough have left.
                let gone = permits.acquire_many_owned(u32::try_from(excess).unwrap_or(u32::MAX)).await;
                if let Ok(gone) = gone {
                    gone.forget();
                }
            }));
        }
    }
}
