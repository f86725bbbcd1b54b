//! An embedder for tests: a direction for each word, and one that all texts have in common, as real models have.

use super::Space;

/// Words that mean the same.
const SYNONYMS: [(&str, &str); 4] =
    [("bicycle", "bike"), ("velocipede", "bike"), ("puncture", "flat"), ("tyre", "tire")];

/// Texts that share words, or words that mean the same, are near each other.
pub(in crate::recall) fn embed(text: &str) -> Vec<f32> {
    const DIMENSION: usize = 128;
    let mut sum = vec![1.5_f32; DIMENSION];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = SYNONYMS.iter().find(|(one, _)| *one == word).map_or(word, |(_, other)| other);
        let mut bytes = [0_u8; DIMENSION];
        blake3::Hasher::new().update(word.as_bytes()).finalize_xof().fill(&mut bytes);
        sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum += (f32::from(byte) - 127.5) / 127.5);
    }
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    sum.iter_mut().for_each(|x| *x /= length);
    sum
}

pub(in crate::recall) fn space() -> Space {
    space_named("one")
}

pub(in crate::recall) fn space_named(generation: &str) -> Space {
    let texts = Space::texts();
    let vectors = |texts: &[&str]| texts.iter().map(|text| embed(text)).collect::<Vec<_>>();
    let bytes = Space::write(&vectors(&texts.documents), &vectors(&texts.questions)).unwrap();
    Space::read(generation, &bytes).unwrap()
}
