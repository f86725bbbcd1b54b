//! The forward pass of models of the BERT family: ids of tokens to one vector.
//!
//! `matrix` holds the weights and multiplies, `maths` is what stands between the products, [`Encoder`] puts them in order. It knows nothing
//! of texts and files, and never fails: what a file can have wrong is found when it is read (`super::folder`).
//!
//! Texts of a batch stand one behind the other, without filling up the shorter ones: only attention asks where one ends, so nothing has
//! to be masked.

mod maths;
mod matrix;

use std::fmt;
use std::ops::Range;

use pulp::Arch;

pub(super) use matrix::{Linear, Rows};

/// How the states of a text's tokens become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Their mean.
    Mean,
    /// That of the first token.
    First,
}

/// A layer norm's numbers.
pub(super) struct Norm {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

/// One layer.
pub(super) struct Layer {
    pub(super) query: Linear,
    pub(super) key: Linear,
    pub(super) value: Linear,
    pub(super) attention: Linear,
    pub(super) attention_norm: Norm,
    pub(super) up: Linear,
    pub(super) down: Linear,
    pub(super) norm: Norm,
}

/// A model, ready to run.
pub(super) struct Encoder {
    pub(super) arch: Arch,
    pub(super) words: Rows,
    /// The embedding of each place in a text, that of the token type added to it.
    pub(super) places: Vec<f32>,
    pub(super) norm: Norm,
    pub(super) layers: Vec<Layer>,
    pub(super) heads: usize,
    pub(super) hidden: usize,
    pub(super) epsilon: f32,
    pub(super) pooling: Pooling,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layers, hidden, heads, pooling, .. } = self;
        write!(
            f,
            "Encoder({} layers of {hidden}, {heads} heads, {pooling:?}, {:?} words)",
            layers.len(),
            self.words.len()
        )
    }
}

/// What a pass writes into, kept from layer to layer.
#[derive(Default)]
struct Buffers {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    mixed: Vec<f32>,
    wide: Vec<f32>,
    out: Vec<f32>,
}

impl Encoder {
    /// One vector for each text, of any length but zero. A text must have tokens, no more than the model has places, and ids of its vocabulary.
    pub(super) fn encode(&self, texts: &[&[u32]]) -> Vec<Vec<f32>> {
        let spans = spans(texts);
        let mut states = self.embedded(texts);
        let mut buffers = Buffers::default();
        for layer in &self.layers {
            self.attend(layer, &spans, &mut states, &mut buffers);
            layer.up.apply(self.arch, &states, &mut buffers.wide);
            self.arch.dispatch(|| maths::gelu(&mut buffers.wide));
            layer.down.apply(self.arch, &buffers.wide, &mut buffers.out);
            self.add_and_norm(&mut states, &buffers.out, &layer.norm);
        }
        spans.into_iter().map(|span| self.pooled(&states, span)).collect()
    }

    fn embedded(&self, texts: &[&[u32]]) -> Vec<f32> {
        let mut states = Vec::with_capacity(texts.iter().map(|text| text.len()).sum::<usize>() * self.hidden);
        for text in texts {
            let start = states.len();
            states.extend_from_slice(&self.places[..text.len() * self.hidden]);
            for (row, id) in states[start..].chunks_exact_mut(self.hidden).zip(*text) {
                self.words.add(*id as usize, row);
            }
        }
        self.each_normed(&mut states, &self.norm);
        states
    }

    fn attend(&self, layer: &Layer, spans: &[Range<usize>], states: &mut [f32], buffers: &mut Buffers) {
        layer.query.apply(self.arch, states, &mut buffers.query);
        layer.key.apply(self.arch, states, &mut buffers.key);
        layer.value.apply(self.arch, states, &mut buffers.value);
        buffers.mixed.clear();
        buffers.mixed.resize(states.len(), 0.0);
        for span in spans {
            let rows = span.start * self.hidden..span.end * self.hidden;
            let (query, key) = (&buffers.query[rows.clone()], &buffers.key[rows.clone()]);
            let (value, mixed) = (&buffers.value[rows.clone()], &mut buffers.mixed[rows]);
            let (hidden, heads) = (self.hidden, self.heads);
            self.arch.dispatch(
                #[inline(always)]
                || mix(query, key, value, mixed, hidden, heads),
            );
        }
        layer.attention.apply(self.arch, &buffers.mixed, &mut buffers.out);
        self.add_and_norm(states, &buffers.out, &layer.attention_norm);
    }

    fn add_and_norm(&self, states: &mut [f32], change: &[f32], norm: &Norm) {
        states.iter_mut().zip(change).for_each(|(state, change)| *state += change);
        self.each_normed(states, norm);
    }

    fn each_normed(&self, states: &mut [f32], norm: &Norm) {
        let (hidden, epsilon) = (self.hidden, self.epsilon);
        self.arch.dispatch(
            #[inline(always)]
            || {
                for row in states.chunks_exact_mut(hidden) {
                    maths::layer_norm(row, &norm.weight, &norm.bias, epsilon);
                }
            },
        );
    }

    fn pooled(&self, states: &[f32], span: Range<usize>) -> Vec<f32> {
        let rows = &states[span.start * self.hidden..span.end * self.hidden];
        match self.pooling {
            Pooling::First => rows[..self.hidden].to_vec(),
            // Not divided by their number: only the direction counts.
            Pooling::Mean => rows.chunks_exact(self.hidden).fold(vec![0.0; self.hidden], |mut sum, row| {
                sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                sum
            }),
        }
    }
}

/// Where each text stands among the rows.
fn spans(texts: &[&[u32]]) -> Vec<Range<usize>> {
    let mut end = 0;
    let next = |text: &&[u32]| {
        let start = end;
        end += text.len();
        start..end
    };
    texts.iter().map(next).collect()
}

/// Attention within one text: each token takes from the values of all, as much as its query agrees with their keys.
#[inline(always)]
fn mix(query: &[f32], key: &[f32], value: &[f32], mixed: &mut [f32], hidden: usize, heads: usize) {
    let (count, width) = (query.len() / hidden, hidden / heads);
    let scale = 1.0 / (width as f32).sqrt();
    // The keys of a head turned on their side, so that the scores of one query for all of them are sums of rows.
    let mut keys = vec![0.0; width * count];
    let mut scores = vec![0.0; count];
    for head in (0..heads).map(|head| head * width) {
        for (at, row) in key.chunks_exact(hidden).enumerate() {
            for (dimension, number) in row[head..][..width].iter().enumerate() {
                keys[dimension * count + at] = *number;
            }
        }
        for (query, mixed) in query.chunks_exact(hidden).zip(mixed.chunks_exact_mut(hidden)) {
            scores.fill(0.0);
            for (number, keys) in query[head..][..width].iter().zip(keys.chunks_exact(count)) {
                let number = number * scale;
                scores.iter_mut().zip(keys).for_each(|(score, key)| *score += number * key);
            }
            maths::softmax(&mut scores);
            let mixed = &mut mixed[head..][..width];
            for (share, value) in scores.iter().zip(value.chunks_exact(hidden)) {
                mixed.iter_mut().zip(&value[head..][..width]).for_each(|(out, value)| *out += share * value);
            }
        }
    }
}
