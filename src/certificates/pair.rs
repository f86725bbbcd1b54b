//! A certificate chain and its private key, from PEM.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::validity::validity;
use crate::base::Time;

/// A chain and its key that belong together.
#[derive(Clone)]
pub struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    /// When the server's own certificate begins to hold, and when it ends.
    pub not_before: Time,
    /// See `not_before`.
    pub not_after: Time,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("not_before", &self.not_before).field("not_after", &self.not_after).finish()
    }
}

/// Why two PEM texts are no pair. The texts show nothing of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// There is no certificate.
    #[error(
        "the certificate file holds no certificate: it must be PEM, the server's own certificate first, then those that lead to its authority"
    )]
    NoCertificate,
    /// One of the certificates cannot be read.
    #[error("the certificate file cannot be read: a certificate in it is damaged")]
    BadCertificate,
    /// There is no key.
    #[error("the key file holds no private key: it must be PEM (PKCS #8, PKCS #1 or SEC 1)")]
    NoKey,
    /// The key wants a password.
    #[error(
        "the private key is encrypted, and there is nobody to ask for its password: store it decrypted (`openssl pkey -in KEY -out PLAIN`), readable by this user alone"
    )]
    EncryptedKey,
    /// The key is damaged or of a kind that is not supported.
    #[error(
        "the private key cannot be used: it is damaged, or of a kind that is not supported (RSA, ECDSA P-256 or P-384, Ed25519)"
    )]
    BadKey,
    /// The two do not belong together.
    #[error(
        "the private key does not belong to the certificate: each certificate has a key of its own, and the server's must come first in its file"
    )]
    Mismatch,
}

impl PairError {
    /// Whether it is the file with the key that has to be looked at.
    #[must_use]
    pub fn is_of_the_key(self) -> bool {
        !matches!(self, Self::NoCertificate | Self::BadCertificate)
    }
}

/// Pairs with one chain are one: a key that belongs to it is its own.
impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

impl Eq for Pair {}

impl Pair {
    /// Reads a chain and its key. Whether the certificate holds today is not asked: see [`Pair::not_after`].
    ///
    /// # Errors
    /// See [`PairError`].
    pub fn read(certificates: &str, key: &str) -> Result<Self, PairError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|_| PairError::BadCertificate)?;
        let own = chain.first().ok_or(PairError::NoCertificate)?;
        let (not_before, not_after) = validity(own).ok_or(PairError::BadCertificate)?;
        // `BEGIN ENCRYPTED PRIVATE KEY`, and `Proc-Type: 4,ENCRYPTED` of OpenSSL's old form.
        if key.contains("ENCRYPTED") {
            return Err(PairError::EncryptedKey);
        }
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| match error {
            pem::Error::NoItemsFound => PairError::NoKey,
            _ => PairError::BadKey,
        })?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => PairError::Mismatch,
            rustls::Error::InvalidCertificate(_) => PairError::BadCertificate,
            _ => PairError::BadKey,
        })?;
        Ok(Self { certified: Arc::new(certified), not_before, not_after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> String {
        std::fs::read_to_string(format!("{}/tests/data/tls/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn a_chain_and_its_key_are_a_pair() {
        let chain = file("good.pem") + &file("ca.pem");
        let pair = Pair::read(&chain, &file("good.key")).unwrap();
        assert_eq!(pair.certified.cert.len(), 2);
        // Whether it holds today is for others to judge.
        assert!(Pair::read(&file("expired.pem"), &file("expired.key")).unwrap().not_after < pair.not_before);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let (pem, key) = (file("good.pem"), file("good.key"));
        let cut = pem.replace("MII", "AII");
        for (pem, key, wrong) in [
            ("", &*key, PairError::NoCertificate),
            (&*key, &*key, PairError::NoCertificate),
            (&*cut, &*key, PairError::BadCertificate),
            (&*pem, "", PairError::NoKey),
            (&*pem, &*pem, PairError::NoKey),
            (
                &*pem,
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
                PairError::EncryptedKey,
            ),
            (&*pem, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", PairError::BadKey),
            (&*pem, &*file("expired.key"), PairError::Mismatch),
            // The authority first: a common mistake.
            (&*(file("ca.pem") + &pem), &*key, PairError::Mismatch),
        ] {
            assert_eq!(Pair::read(pem, key).unwrap_err(), wrong);
        }
    }
}
