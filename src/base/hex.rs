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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_lower_case_and_whole() {
        assert_eq!(hex(&[0x0a, 0xb0, 0xff]), "0ab0ff");
        assert_eq!(hex(&[0xab; 32]), "ab".repeat(32));
    }
}
