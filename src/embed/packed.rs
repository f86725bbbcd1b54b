//! A vector as it is kept: one byte a number and one scale, under a seal that says whose it is.
//!
//! The seal is a hash over the generation, the text and the numbers. A row that was damaged, that belongs to another generation or to a
//! text that was changed since does not open: it is derived data, and is made again.

/// Bytes of the seal.
const SEAL: usize = 8;
/// Bytes before the numbers: the seal, and the scale.
const HEAD: usize = SEAL + 4;
/// The largest dimension that is kept.
const MAX_DIMENSION: usize = 65_536;

/// A vector of unit length, one byte a number.
///
/// The error of a cosine is about 0.001, a hundredth of what tells texts apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// What each number is multiplied by.
    pub scale: f32,
    /// The numbers, from -127 to 127.
    pub values: Box<[i8]>,
}

impl Packed {
    /// Packs a vector of any length but zero. `None` when it is empty or too large, has no direction, or holds what is no number.
    #[must_use]
    pub fn of(vector: &[f32]) -> Option<Self> {
        if vector.is_empty() || vector.len() > MAX_DIMENSION {
            return None;
        }
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        let largest = vector.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        // Also says no to what is no number, and to what is too large to square.
        if !(length.is_finite() && length > 0.0 && largest > 0.0) {
            return None;
        }
        let values = vector.iter().map(|x| (x * (127.0 / largest)).round() as i8).collect();
        Some(Self { scale: largest / 127.0 / length, values })
    }

    /// The vector, of about unit length.
    #[must_use]
    pub fn unpack(&self) -> Vec<f32> {
        self.values.iter().map(|&x| f32::from(x) * self.scale).collect()
    }

    /// Writes it down for a text of a generation.
    #[must_use]
    pub fn seal(&self, generation: &str, text: &str) -> Vec<u8> {
        let mut bytes = vec![0; SEAL];
        bytes.extend(self.scale.to_le_bytes());
        bytes.extend(self.values.iter().map(|&x| x.to_le_bytes()[0]));
        let seal = seal(generation, text, &bytes[SEAL..]);
        bytes[..SEAL].copy_from_slice(&seal);
        bytes
    }

    /// Reads what was written down for this text of this generation. `None` for anything else.
    #[must_use]
    pub fn open(bytes: &[u8], generation: &str, text: &str) -> Option<Self> {
        let (head, values) = bytes.split_at_checked(HEAD)?;
        if values.is_empty() || head[..SEAL] != seal(generation, text, &bytes[SEAL..]) {
            return None;
        }
        let scale = f32::from_le_bytes(head[SEAL..].try_into().ok()?);
        let values = values.iter().map(|&byte| i8::from_le_bytes([byte])).collect();
        scale.is_finite().then_some(Self { scale, values })
    }
}

fn seal(generation: &str, text: &str, rest: &[u8]) -> [u8; SEAL] {
    let mut hash = blake3::Hasher::new();
    for part in [generation.as_bytes(), text.as_bytes()] {
        hash.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let mut out = [0; SEAL];
    out.copy_from_slice(&hash.update(rest).finalize().as_bytes()[..SEAL]);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn length(vector: &[f32]) -> f32 {
        vector.iter().map(|x| x * x).sum::<f32>().sqrt()
    }

    proptest! {
        #[test]
        fn a_packed_vector_points_where_it_pointed(vector in prop::collection::vec(-1.0_f32..1.0, 8..400)) {
            prop_assume!(length(&vector) > 0.1);
            let unpacked = Packed::of(&vector).unwrap().unpack();
            let cosine = vector.iter().zip(&unpacked).map(|(a, b)| a * b).sum::<f32>() / length(&vector);
            prop_assert!((cosine - 1.0).abs() < 0.005, "{cosine}");
        }

        #[test]
        fn what_was_sealed_opens_for_its_text_and_generation_alone(
            vector in prop::collection::vec(-1.0_f32..1.0, 1..50), text in ".{0,40}", at in any::<prop::sample::Index>(), bit in 0..8_u8,
        ) {
            prop_assume!(length(&vector) > 0.01);
            let packed = Packed::of(&vector).unwrap();
            let bytes = packed.seal("g1", &text);
            prop_assert_eq!(Packed::open(&bytes, "g1", &text), Some(packed));
            prop_assert_eq!(Packed::open(&bytes, "g2", &text), None);
            prop_assert_eq!(Packed::open(&bytes, "g1", &format!("{text}.")), None);
            prop_assert_eq!(Packed::open(&bytes[..bytes.len() - 1], "g1", &text), None);
            let mut damaged = bytes.clone();
            let at = at.index(bytes.len());
            damaged[at] ^= 1 << bit;
            prop_assert_eq!(Packed::open(&damaged, "g1", &text), None);
        }
    }

    #[test]
    fn what_is_no_vector_is_not_packed() {
        for wrong in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0], &[f32::MAX, f32::MAX]] {
            assert_eq!(Packed::of(wrong), None, "{wrong:?}");
        }
        assert_eq!(Packed::open(&[], "g", ""), None);
    }
}
