//! Randomness, taken from a [`Random`] that is passed in.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A source of random numbers.
pub trait Random: Send + Sync + fmt::Debug {
    /// Returns 64 random bits.
    fn next_u64(&self) -> u64;
}

/// The operating system's generator, through a per-thread CSPRNG; good enough for keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the generator")]
    fn next_u64(&self) -> u64 {
        rand::rng().next_u64()
    }
}

/// A repeatable generator; for tests.
#[derive(Debug)]
pub struct SeededRandom(Mutex<StdRng>);

impl SeededRandom {
    /// Makes a generator whose numbers follow from `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
