//! The log of the whole test process, caught in memory.

use std::io;
use std::sync::{Mutex, Once, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ONCE: Once = Once::new();

/// Catches everything that an operator can make the gateway log. All tests share it, so look for words of your own.
pub(crate) fn capture() {
    ONCE.call_once(|| {
        let installed = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("backstory=trace,sqlx=debug,info"))
            .with_span_events(FmtSpan::CLOSE)
            .with_ansi(false)
            .with_writer(Writer)
            .try_init();
        assert!(installed.is_ok(), "nobody else installs a subscriber");
    });
}

/// Whether a text was logged by any test so far.
pub(crate) fn contains(text: &str) -> bool {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    memchr::memmem::find(&log, text.as_bytes()).is_some()
}

/// Whether any test so far logged a line that has all of these.
pub(crate) fn has_line_with(texts: &[&str]) -> bool {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.split(|&byte| byte == b'\n')
        .any(|line| texts.iter().all(|text| memchr::memmem::find(line, text.as_bytes()).is_some()))
}

/// How long the log is, in bytes: whoever measures memory has to know.
pub(crate) fn len() -> usize {
    LOG.lock().unwrap_or_else(PoisonError::into_inner).len()
}

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Writer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}
