//! From when until when a certificate holds: the one thing that we want to know of it, and that rustls does not tell.
//!
//! X.509 is DER (X.690): elements of tag, length and content. Only the way to `validity` is walked (RFC 5280, section 4.1).

use crate::base::Time;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0]`, explicit: the version.
const VERSION: u8 = 0xa0;

/// 9999-12-30T00:00:00Z: what means "never ends" (RFC 5280, 4.1.2.5), and is beyond what can be printed.
const NEVER: Time = Time(253_402_128_000_000);

/// The first and the last moment in which a certificate holds; `None` when it cannot be read.
pub(super) fn validity(der: &[u8]) -> Option<(Time, Time)> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        (_, rest) = expect(rest, VERSION)?;
    }
    // Serial number, signature algorithm, issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        (_, rest) = expect(rest, tag)?;
    }
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (from, rest) = time(validity)?;
    let (until, _) = time(rest)?;
    Some((from, until))
}

/// The content of an element with this tag, and what stands behind it.
fn expect(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(input)?;
    (found == tag).then_some((content, rest))
}

fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let n_bytes = usize::from(first & 0x7f);
        // No length at all is BER, and four bytes are more than any certificate needs.
        if n_bytes == 0 || n_bytes > 4 {
            return None;
        }
        let (bytes, rest) = rest.split_at_checked(n_bytes)?;
        (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// A time, always in UTC and with seconds in a certificate.
fn time(input: &[u8]) -> Option<(Time, &[u8])> {
    let (tag, content, rest) = element(input)?;
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    let (year, text) = match tag {
        UTC_TIME => {
            let (year, text) = text.split_at_checked(2)?;
            let year: u32 = digits(year)?;
            (if year >= 50 { 1900 + year } else { 2000 + year }, text)
        }
        GENERALIZED_TIME => {
            let (year, text) = text.split_at_checked(4)?;
            (digits(year)?, text)
        }
        _ => return None,
    };
    digits(text).filter(|_| text.len() == 10)?;
    let part = |at: usize| &text[at..at + 2];
    let stamp = format!("{year:04}-{}-{}T{}:{}:{}Z", part(0), part(2), part(4), part(6), part(8));
    let time = Time::parse(&stamp).or_else(|| (year == 9999).then_some(NEVER))?;
    Some((time, rest))
}

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    fn of(name: &str) -> Vec<u8> {
        let path = format!("{}/tests/data/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"));
        CertificateDer::from_pem_slice(std::fs::read_to_string(path).unwrap().as_bytes()).unwrap().to_vec()
    }

    #[test]
    fn both_ends_are_read() {
        let (from, until) = validity(&of("expired")).unwrap();
        assert_eq!(
            (from.to_rfc3339(), until.to_rfc3339()),
            ("2020-01-01T00:00:00.000Z".to_owned(), "2020-02-01T00:00:00.000Z".to_owned())
        );
        // In a hundred years: no two digits can say that.
        let (from, until) = validity(&of("good")).unwrap();
        assert!(until.since(from) == 36_500 * 86_400_000, "{from} {until}");
    }

    #[test]
    fn a_certificate_that_never_ends_is_read() {
        let (time, _) = time(b"\x18\x0f99991231235959Z").unwrap();
        assert_eq!(time, NEVER);
        assert!(time.to_rfc3339().starts_with("9999-"));
    }

    proptest! {
        #[test]
        fn damage_is_no_panic(at in 0_usize..400, byte: u8, keep in 0_usize..700) {
            let mut der = of("good");
            let at = at % der.len();
            der[at] = byte;
            der.truncate(keep);
            let _ = validity(&der);
        }
    }
}
