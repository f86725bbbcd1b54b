//! Secrets that do not show themselves.

use secrecy::{ExposeSecret, SecretString};

/// A key or password: wiped on drop, `Debug` prints `[REDACTED]`, no `Serialize`.
#[derive(Clone, Debug)]
pub struct Secret(SecretString);

impl Secret {
    /// Returns the text itself; call it only where it goes on the wire or into a hash.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// In a time that depends on the lengths alone.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq(self.expose().as_bytes(), other.expose().as_bytes())
    }
}

impl Eq for Secret {}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(SecretString::from(text))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(SecretString::from(text.to_owned()))
    }
}

/// Compares two byte strings in a time that depends on their lengths alone.
#[must_use]
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    // `black_box` keeps the optimiser from leaving the loop at the first difference.
    a.len() == b.len() && a.iter().zip(b).fold(0_u8, |seen, (x, y)| std::hint::black_box(seen | (x ^ y))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::from("sk-very-secret");
        assert!(!format!("{secret:?}").contains("very"));
        assert_eq!(secret.expose(), "sk-very-secret");
    }

    #[test]
    fn equality_needs_every_byte() {
        assert!(constant_time_eq(b"abc", b"abc"));
        assert!(!constant_time_eq(b"abc", b"abd"));
        assert!(!constant_time_eq(b"abc", b"ab"));
    }
}
