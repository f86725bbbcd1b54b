//! Bytes as text.

/// Writes bytes in hexadecimal digits, in lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = vec![0; 2 * bytes.len()];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    String::from_utf8(digits).expect("digits are ASCII")
}

/// Reads 32 bytes in hexadecimal digits of either case; `None` when they are anything else.
#[must_use]
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |c: u8| char::from(c).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_lower_case_and_whole() {
        assert_eq!(hex(&[0x0a, 0xb0, 0xff]), "0ab0ff");
        assert_eq!(hex(&[0xab; 32]), "ab".repeat(32));
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let bytes = std::array::from_fn(|n| n as u8 * 7);
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!(unhex(&hex(&bytes).to_uppercase()), Some(bytes));
        for wrong in [String::new(), "ab".repeat(31), "ab".repeat(33), "xb".repeat(32), "é".repeat(32)] {
            assert_eq!(unhex(&wrong), None, "{wrong}");
        }
    }
}
