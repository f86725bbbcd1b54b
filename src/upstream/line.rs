//! A connection that knows whether a request was lost on it: sent where an answer had come before, and not a byte came since.
//!
//! A server may close a kept connection at the very moment at which it is taken. Only then is it sure enough that the request was not
//! read, and may be sent again: it may cost money, or do something, each time that it is.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use http::Extensions;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What went over a connection last.
#[derive(Clone, Debug, Default)]
struct Line(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The last bytes came from the server.
    came: AtomicBool,
    /// The last bytes went there, and some had come before.
    awaited: AtomicBool,
}

impl Line {
    fn sends(&self) {
        if self.0.came.swap(false, Ordering::Relaxed) {
            self.0.awaited.store(true, Ordering::Relaxed);
        }
    }

    fn receives(&self) {
        self.0.came.store(true, Ordering::Relaxed);
        self.0.awaited.store(false, Ordering::Relaxed);
    }
}

/// Whether the connection that a request went to was a kept one, and nothing has come over it since.
pub(super) fn was_kept_and_is_silent(captured: &CaptureConnection) -> bool {
    let mut extras = Extensions::new();
    if let Some(connected) = captured.connection_metadata().as_ref() {
        connected.get_extras(&mut extras);
    }
    extras.get::<Line>().is_some_and(|line| line.0.awaited.load(Ordering::Relaxed))
}

/// A plain connection that notes what goes over it.
#[derive(Debug)]
pub(super) struct Noted {
    stream: TcpStream,
    line: Line,
}

impl Noted {
    /// Notes what goes over this one from now on.
    pub(super) fn new(stream: TokioIo<TcpStream>) -> TokioIo<Self> {
        TokioIo::new(Self { stream: stream.into_inner(), line: Line::default() })
    }
}

impl Connection for Noted {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.line.clone())
    }
}

impl AsyncRead for Noted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.line.receives();
        }
        polled
    }
}

impl AsyncWrite for Noted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.line.sends();
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.line.sends();
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
