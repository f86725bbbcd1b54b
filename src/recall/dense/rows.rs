//! The vectors of one scope, by the numbers of its documents.

use std::sync::Arc;

use super::dot::dots;
use super::space::Space;
use crate::embed::Packed;

/// The vectors of one scope, all of one generation, as [`Space::place`] leaves them.
#[derive(Debug, Default)]
pub(in crate::recall) struct Rows {
    generation: Option<Arc<str>>,
    dimension: usize,
    values: Vec<i8>,
    /// What the numbers of each document are multiplied by; 0 = it has no vector.
    scales: Vec<f32>,
    /// How long the sum of each document's vector and its neighbours' is.
    lengths: Vec<f32>,
    /// How many documents have one.
    len: usize,
}

impl Rows {
    /// Gives a document a vector. What there was of another generation goes. `false` when it is not of this space.
    pub(in crate::recall) fn put(&mut self, doc: u32, space: &Space, stored: &Packed) -> bool {
        let Some(placed) = space.place(stored) else { return false };
        if !self.is_of(space) {
            *self = Self {
                generation: Some(Arc::clone(space.generation())),
                dimension: space.dimension(),
                ..Self::default()
            };
        }
        let doc = doc as usize;
        if self.scales.len() <= doc {
            self.scales.resize(doc + 1, 0.0);
            self.lengths.resize(doc + 1, 1.0);
            self.values.resize((doc + 1) * self.dimension, 0);
        }
        self.len += usize::from(self.scales[doc] == 0.0);
        self.scales[doc] = placed.scale;
        self.values[doc * self.dimension..][..self.dimension].copy_from_slice(&placed.values);
        true
    }

    /// Takes a document's vector away.
    pub(in crate::recall) fn clear(&mut self, doc: u32) {
        if let Some(scale) = self.scales.get_mut(doc as usize).filter(|scale| **scale > 0.0) {
            *scale = 0.0;
            self.len -= 1;
        }
    }

    /// Brings up to date what is known of a document together with those beside it, as far as they have vectors.
    pub(in crate::recall) fn measure(&mut self, doc: u32, beside: [u32; 2]) {
        let rows: Vec<(&[i8], f32)> = [doc, beside[0], beside[1]].into_iter().filter_map(|doc| self.row(doc)).collect();
        let mut square = rows.len() as f32;
        for (at, &(a, a_scale)) in rows.iter().enumerate() {
            for &(b, b_scale) in &rows[at + 1..] {
                let dot: i32 = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
                square += 2.0 * dot as f32 * a_scale * b_scale;
            }
        }
        if let Some(length) = self.lengths.get_mut(doc as usize) {
            // Those that point away from each other say nothing together: it is not divided by nothing.
            *length = square.max(1.0).sqrt();
        }
    }

    /// How long the sum of a document's vector and its neighbours' is.
    pub(super) fn length(&self, doc: u32) -> f32 {
        self.lengths.get(doc as usize).copied().unwrap_or(1.0)
    }

    fn row(&self, doc: u32) -> Option<(&[i8], f32)> {
        let scale = self.scales.get(doc as usize).copied().filter(|&scale| scale > 0.0)?;
        Some((&self.values[doc as usize * self.dimension..][..self.dimension], scale))
    }

    /// Whether a document has a vector of this space.
    pub(in crate::recall) fn has(&self, doc: u32, space: &Space) -> bool {
        self.is_of(space) && self.scales.get(doc as usize).is_some_and(|&scale| scale > 0.0)
    }

    /// How many documents have a vector of this space.
    pub(super) fn len(&self, space: &Space) -> usize {
        if self.is_of(space) { self.len } else { 0 }
    }

    fn is_of(&self, space: &Space) -> bool {
        self.generation.as_ref() == Some(space.generation())
    }

    /// The cosine of a question, placed in the same space, with each document, into `out` by number; `NaN` where there is no vector.
    pub(super) fn cosines(&self, asked: &Asked, out: &mut Vec<f32>) {
        out.clear();
        out.reserve(self.scales.len());
        let mut scales = self.scales.iter();
        dots(&asked.values, &self.values, |dot| {
            let scale = scales.next().copied().unwrap_or(0.0);
            out.push(if scale > 0.0 { dot as f32 * scale * asked.scale } else { f32::NAN });
        });
    }

    /// What they take in memory.
    pub(in crate::recall) fn bytes(&self) -> usize {
        self.values.capacity() + (self.scales.capacity() + self.lengths.capacity()) * size_of::<f32>()
    }
}

/// A question's vector, ready to be compared.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    scale: f32,
    values: Box<[i16]>,
}

impl Asked {
    /// Of a placed vector.
    pub(super) fn of(placed: &[f32]) -> Option<Self> {
        let packed = Packed::of(placed)?;
        Some(Self { scale: packed.scale, values: packed.values.iter().map(|&x| x.into()).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{embed, space, space_named};
    use super::*;

    fn cosines(rows: &Rows, space: &Space, text: &str) -> Vec<f32> {
        let asked = Asked::of(&space.place_question(&embed(text)).unwrap()).unwrap();
        let mut out = Vec::new();
        rows.cosines(&asked, &mut out);
        out
    }

    fn packed(text: &str) -> Packed {
        Packed::of(&embed(text)).unwrap()
    }

    #[test]
    fn the_likest_is_nearest_and_what_was_taken_away_is_none() {
        let space = space();
        let mut rows = Rows::default();
        for (doc, text) in [(0, "the harbour at night"), (3, "a violin out of tune"), (1, "pepper soup")] {
            assert!(rows.put(doc, &space, &packed(text)));
        }
        let found = cosines(&rows, &space, "is the violin in tune");
        assert_eq!((found.len(), rows.len(&space)), (4, 3));
        assert!(found[2].is_nan() && found[3] > found[0] && found[3] > found[1], "{found:?}");
        rows.clear(3);
        rows.clear(3);
        rows.clear(99);
        assert_eq!((rows.len(&space), rows.has(3, &space), rows.has(1, &space)), (2, false, true));
        assert!(cosines(&rows, &space, "violin")[3].is_nan());
    }

    #[test]
    fn a_sum_is_as_long_as_its_vectors_agree() {
        let space = space();
        let mut rows = Rows::default();
        for (doc, text) in [(0, "pepper soup"), (1, "pepper soup"), (2, "a violin out of tune")] {
            rows.put(doc, &space, &packed(text));
        }
        let length = |rows: &mut Rows, doc, beside| {
            rows.measure(doc, beside);
            rows.length(doc)
        };
        assert!((length(&mut rows, 0, [u32::MAX, 1]) - 2.0).abs() < 0.02, "two alike");
        let unlike = length(&mut rows, 1, [0, 2]);
        assert!(unlike > 2.0 && unlike < 2.7, "{unlike}");
        assert!((length(&mut rows, 2, [u32::MAX, 9]) - 1.0).abs() < 1e-3, "beside nothing that has a vector");
    }

    // ruvnet/RuVector#973, mem0ai/mem0#3065, petabridge/memorizer#17: sizes and models never mix.
    #[test]
    fn vectors_of_another_generation_give_way() {
        let (one, two) = (space(), space_named("another"));
        let mut rows = Rows::default();
        rows.put(0, &one, &packed("pepper soup"));
        assert!(!rows.put(1, &one, &Packed::of(&[1.0, 2.0]).unwrap()), "of another dimension");
        assert_eq!((rows.len(&one), rows.len(&two), rows.has(0, &two)), (1, 0, false));
        rows.put(1, &two, &packed("pepper soup"));
        assert_eq!((rows.len(&one), rows.len(&two), rows.has(0, &two)), (0, 1, false));
    }
}
