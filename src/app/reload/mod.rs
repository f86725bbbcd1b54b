//! Takes a new configuration into a running process: all of it or nothing, one at a time, by a task of its own.
//!
//! `load` reads the file with everything that it names and checks it whole; what has a mistake is refused, and the last good one stays in
//! force. `App::under` (`again.rs`) builds what the next requests meet. Who asks for it: a signal, the admin API, or a file that changed
//! (`watch`). Requests that run keep what they began with.
//!
//! It is the same when a store that could not be opened at the start is there (`late`): the process goes over to it.

mod again;
mod load;
mod report;
mod watch;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

pub use load::Source;
pub use report::{Report, Why};

use load::{Loaded, load};
use watch::Watch;

use super::App;
use super::records::Opened;
use crate::base::Time;
use crate::certificates::{EXPIRY_WARNING, Pair};
use crate::config::Config;
use crate::telemetry::{Listener, ReloadOutcome};

/// Who asks waits for its turn; further ones wait to ask.
const WAITING: usize = 8;
/// How often it is looked how long certificates still hold.
const LOOK_AT_CERTIFICATES: Duration = Duration::from_secs(6 * 3_600);

/// Has those who answer requests go over to another configuration.
type Follow = Box<dyn Fn(&Arc<App>) + Send>;

/// What is asked, and where the answer goes.
type Wish = (Why, oneshot::Sender<Report>);

/// How to ask for it, and how it went; one for all configurations of a process.
#[derive(Debug, Default)]
pub struct Reloads {
    wishes: OnceLock<mpsc::Sender<Wish>>,
    last: Mutex<Option<(Report, Time)>>,
}

impl Reloads {
    /// Has the configuration read again and waits for what became of it; `None` where this process cannot: it is stopping, or nobody started the task.
    pub async fn ask(&self, why: Why) -> Option<Report> {
        let (answer, report) = oneshot::channel();
        self.wishes.get()?.send((why, answer)).await.ok()?;
        report.await.ok()
    }

    /// What became of the last one, and when; `None` = there was none since the start.
    #[must_use]
    pub fn last(&self) -> Option<(Report, Time)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts the task that takes configurations from `source` into the process of `app`, until it stops. `follow` is called with what is in
/// force from then on, before anyone is told.
pub fn start(app: &Arc<App>, source: Source, follow: impl Fn(&Arc<App>) + Send + 'static) {
    let (ask, wishes) = mpsc::channel(WAITING);
    if app.reloads.wishes.set(ask).is_err() {
        // One task is enough: it is there already.
        return;
    }
    app.note_config(None);
    let begun = Config::clone(&app.config);
    let (comes, store) = oneshot::channel();
    if let Some(closed) = app.closed.clone() {
        let (waits, env) = (Arc::clone(app), Arc::clone(&source.env));
        let waiting = async move {
            // Nobody takes it at the end of the process.
            let _ = comes.send(waits.store_comes(&closed, &*env).await);
        };
        app.tracker.spawn(app.stop.clone().run_until_cancelled_owned(waiting));
    }
    let reloader = Reloader { app: Arc::clone(app), begun, source, follow: Box::new(follow), watch: Watch::default() };
    app.tracker.spawn(app.stop.clone().run_until_cancelled_owned(reloader.run(wishes, store)));
}

struct Reloader {
    app: Arc<App>,
    /// What the process was started with: what waits for a restart is told by it.
    begun: Config,
    source: Source,
    follow: Follow,
    watch: Watch,
}

impl Reloader {
    async fn run(mut self, mut wishes: mpsc::Receiver<Wish>, mut store: oneshot::Receiver<Opened>) {
        let mut waits = self.app.closed.is_some();
        self.watch.begin(&self.source, &self.begun.marks).await;
        let mut certificates = tokio::time::interval(LOOK_AT_CERTIFICATES);
        loop {
            let pause = self.app.config.server.watch;
            tokio::select! {
                wish = wishes.recv() => {
                    let Some((why, answer)) = wish else { return };
                    // Who asked may have left; it is done all the same.
                    let _ = answer.send(self.reload(why).await);
                }
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {
                    if self.watch.has_changed().await {
                        self.reload(Why::File).await;
                    }
                }
                opened = &mut store, if waits => {
                    waits = false;
                    if let Ok(opened) = opened {
                        self.go_over(opened).await;
                    }
                }
                _ = certificates.tick() => self.look_at_certificates(),
            }
        }
    }

    /// Has everybody go over to a store that is there now.
    async fn go_over(&mut self, opened: Opened) {
        match self.app.over(opened).await {
            Ok(app) => {
                (self.follow)(&app);
                self.app = app;
                tracing::info!("the memory store is there: requests have memory from now on");
            }
            Err(error) => self.app.cannot_go_over(&error),
        }
    }

    async fn reload(&mut self, why: Why) -> Report {
        let loaded = load(&self.source, why).await;
        self.watch.loaded(&loaded);
        let report = match self.take(loaded) {
            Ok(report) => report,
            Err(errors) => {
                // What waited goes on waiting.
                let restart = self.app.reloads.last().map(|(last, _)| last.restart).unwrap_or_default();
                Report { restart, ..Report::refused(self.app.generation, errors) }
            }
        };
        report.log(why);
        let at = self.app.clock.now();
        self.app.metrics.edges.reloads.inc(report.outcome);
        *self.app.reloads.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((report.clone(), at));
        self.app.note_config(Some((&report, at)));
        report
    }

    /// Puts a configuration in force, or says what is wrong with it.
    fn take(&mut self, loaded: Loaded) -> Result<Report, Vec<String>> {
        let next = loaded.config?;
        let running = Arc::clone(&self.app.config);
        let mut errors = next.unsupported();
        errors.extend(running.hinders(&next));
        errors.extend(self.certificate_that_ended(&next));
        if !errors.is_empty() {
            return Err(errors);
        }
        let waits = |key: &String| self.begun.waits_for_restart(key, &next);
        let mut restart: Vec<String> = self.begun.marks.changed(&next.marks).into_iter().filter(waits).collect();
        restart.extend(self.begun.own_models_wait(&next));
        let changed: Vec<String> = running.marks.changed(&next.marks);
        if changed.is_empty() {
            return Ok(Report {
                outcome: ReloadOutcome::Unchanged,
                generation: self.app.generation,
                restart,
                ..Report::default()
            });
        }
        let applied = changed.into_iter().filter(|key| !waits(key)).collect();
        let app = self.app.under(running.followed_by(next)).map_err(|error| vec![error.to_string()])?;
        (self.follow)(&app);
        self.app = app;
        self.look_at_certificates();
        Ok(Report {
            outcome: ReloadOutcome::Applied,
            generation: self.app.generation,
            applied,
            restart,
            errors: Vec::new(),
        })
    }

    /// A certificate that has ended does not take the place of one that holds.
    fn certificate_that_ended(&self, next: &Config) -> Vec<String> {
        let now = self.app.clock.now();
        let pairs = |config: &Config| [config.server.tls.clone(), config.server.admin_tls.clone()];
        let both = pairs(&self.app.config).into_iter().zip(pairs(next)).zip(["tls_cert", "admin_tls_cert"]);
        let ended = |pair: &Pair| pair.not_after <= now;
        both.filter_map(|((old, new), key)| {
            let (old, new) = (old?, new?);
            (ended(&new) && !ended(&old)).then(|| {
                format!("server.{key}: the certificate ended at {}; the one in force still holds", new.not_after)
            })
        })
        .collect()
    }

    /// Says it in time when a certificate ends.
    fn look_at_certificates(&self) {
        let now = self.app.clock.now();
        let server = &self.app.config.server;
        let shown = [
            (Listener::Data, server.tls.as_ref()),
            (Listener::Admin, server.tls_of_admin().filter(|_| server.admin_listen.is_some())),
        ];
        for (listener, pair) in shown {
            let Some(pair) = pair else { continue };
            self.app.metrics.edges.set_certificate_end(listener, pair.not_after.0.div_euclid(1000));
            let ends = pair.not_after;
            if ends <= now {
                tracing::error!(?listener, %ends, "the certificate has ended: clients refuse it; put a renewed one in its place");
            } else if ends.since(now) < EXPIRY_WARNING {
                tracing::warn!(?listener, %ends, "the certificate ends soon; put a renewed one in its place");
            } else if pair.not_before > now {
                tracing::warn!(?listener, begins = %pair.not_before, "the certificate does not hold yet");
            }
        }
    }
}

impl App {
    /// Shows the configuration in force, and how the last reading went, to whoever looks at the metrics.
    fn note_config(&self, last: Option<(&Report, Time)>) {
        let (at, succeeded) = last
            .map_or_else(|| (self.clock.now(), true), |(report, at)| (at, report.outcome != ReloadOutcome::Refused));
        self.metrics.edges.set_config(self.generation, at.0.div_euclid(1000), succeeded);
    }
}
