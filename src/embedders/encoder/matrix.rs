//! Matrices of whole numbers: 8 bits each, with one scale a row.
//!
//! What a forward pass costs is reading its weights: with a quarter of the bytes it is three times as fast as with `f32`, and the
//! vectors stay where they were (`benches/README.md` has the numbers). The inner loop is written for the vector registers of the
//! machine: `pulp` picks the widest kind at run time, and is safe to call.

use pulp::{Arch, Simd, WithSimd};

/// Vector registers that a panel is wide.
const WIDE: usize = 2;

/// Rows of 8-bit numbers, read one at a time: the embeddings of tokens.
pub(in crate::embedders) struct Rows {
    width: usize,
    numbers: Vec<i8>,
    scales: Vec<f32>,
}

impl Rows {
    /// No rows yet, of `width` numbers each.
    pub(in crate::embedders) fn of_width(width: usize) -> Self {
        Self { width, numbers: Vec::new(), scales: Vec::new() }
    }

    /// Takes one row more.
    pub(in crate::embedders) fn push(&mut self, row: &[f32]) {
        let scale = scale(row);
        self.scales.push(scale);
        self.numbers.extend(row.iter().map(|number| whole(*number, scale)));
    }

    /// How many rows there are.
    pub(in crate::embedders) fn len(&self) -> usize {
        self.scales.len()
    }

    /// Adds a row to `out`.
    pub(in crate::embedders) fn add(&self, row: usize, out: &mut [f32]) {
        let scale = self.scales[row];
        let numbers = &self.numbers[row * self.width..][..self.width];
        out.iter_mut().zip(numbers).for_each(|(out, number)| *out += f32::from(*number) * scale);
    }
}

/// `y = W x + b`, with the weights in panels: for each input the weights of as many outputs as two registers hold, side by side.
pub(in crate::embedders) struct Linear {
    inputs: usize,
    outputs: usize,
    /// Outputs of a panel.
    panel: usize,
    weights: Vec<i8>,
    scales: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// Takes weights of one row for each output, as files have them.
    pub(in crate::embedders) fn new(arch: Arch, weights: &[f32], bias: Vec<f32>) -> Self {
        let outputs = bias.len();
        let inputs = weights.len() / outputs;
        let panel = arch.dispatch(Lanes) * WIDE;
        // The last panel is filled up with zeros.
        let padded = outputs.next_multiple_of(panel);
        let mut packed = vec![0; padded * inputs];
        let mut scales = vec![0.0; outputs];
        for (output, row) in weights.chunks_exact(inputs).enumerate() {
            let scale = scale(row);
            scales[output] = scale;
            let start = output / panel * panel * inputs + output % panel;
            for (slot, weight) in packed[start..].iter_mut().step_by(panel).zip(row) {
                *slot = whole(*weight, scale);
            }
        }
        Self { inputs, outputs, panel, weights: packed, scales, bias }
    }

    /// Multiplies every row of `x`, and puts the results into `out`.
    pub(in crate::embedders) fn apply(&self, arch: Arch, x: &[f32], out: &mut Vec<f32>) {
        let rows = x.len() / self.inputs;
        out.clear();
        out.resize(rows * self.outputs, 0.0);
        if rows > 0 {
            arch.dispatch(Product { linear: self, x, rows, out });
        }
    }
}

/// The number that 127 stands for, divided by 127.
fn scale(row: &[f32]) -> f32 {
    row.iter().fold(0.0_f32, |most, number| most.max(number.abs())) / 127.0
}

fn whole(number: f32, scale: f32) -> i8 {
    if scale == 0.0 { 0 } else { (number / scale).round() as i8 }
}

/// How many numbers a register holds.
struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES
    }
}

struct Product<'p> {
    linear: &'p Linear,
    x: &'p [f32],
    rows: usize,
    out: &'p mut [f32],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // 32 registers where there are 16 lanes (AVX-512) or 4 (NEON); 16 with 8 lanes (AVX2); none to speak of without.
        let most = match S::F32_LANES {
            16 | 4 => 12,
            8 => 6,
            _ => 2,
        };
        let blocks = self.rows.div_ceil(most);
        match self.rows.div_ceil(blocks) {
            ..=2 => self.by_blocks::<S, 2>(simd),
            3 | 4 => self.by_blocks::<S, 4>(simd),
            5 | 6 => self.by_blocks::<S, 6>(simd),
            7 | 8 => self.by_blocks::<S, 8>(simd),
            9 | 10 => self.by_blocks::<S, 10>(simd),
            _ => self.by_blocks::<S, 12>(simd),
        }
    }
}

impl Product<'_> {
    /// Goes through the weights once, with blocks of `N` rows for each panel.
    #[inline(always)]
    fn by_blocks<S: Simd, const N: usize>(self, simd: S) {
        let Linear { inputs, outputs, panel, weights, scales, bias } = self.linear;
        let (inputs, outputs, panel) = (*inputs, *outputs, *panel);
        let blocks = interleaved::<N>(self.x, inputs);
        let mut numbers = vec![0.0; inputs * panel];
        for (at, packed) in weights.chunks_exact(inputs * panel).enumerate() {
            numbers.iter_mut().zip(packed).for_each(|(number, weight)| *number = f32::from(*weight));
            let first = at * panel;
            let width = panel.min(outputs - first);
            for (block, x) in blocks.chunks_exact(inputs).enumerate() {
                let sums = tile::<S, N>(simd, x, &numbers);
                let rows = self.out[block * N * outputs..].chunks_exact_mut(outputs);
                for (row, sums) in rows.zip(&sums) {
                    let sums = pulp::bytemuck::cast_slice::<S::f32s, f32>(sums);
                    let with = scales[first..][..width].iter().zip(&bias[first..][..width]);
                    for ((out, sum), (scale, bias)) in row[first..][..width].iter_mut().zip(sums).zip(with) {
                        *out = sum * scale + bias;
                    }
                }
            }
        }
    }
}

/// The inputs in blocks of `N` rows, those of one block side by side; the last block is filled up with zeros.
#[inline(always)]
fn interleaved<const N: usize>(x: &[f32], inputs: usize) -> Vec<[f32; N]> {
    let rows = x.len() / inputs;
    let mut out = vec![[0.0; N]; rows.div_ceil(N) * inputs];
    for (at, row) in x.chunks_exact(inputs).enumerate() {
        let block = &mut out[at / N * inputs..][..inputs];
        block.iter_mut().zip(row).for_each(|(slots, number)| slots[at % N] = *number);
    }
    out
}

/// `N` rows times one panel; the sums stay in registers.
#[inline(always)]
fn tile<S: Simd, const N: usize>(simd: S, x: &[[f32; N]], panel: &[f32]) -> [[S::f32s; WIDE]; N] {
    let mut sums = [[simd.splat_f32s(0.0); WIDE]; N];
    let (panel, _) = S::as_simd_f32s(panel);
    let (panel, _) = panel.as_chunks::<WIDE>();
    for (x, weights) in x.iter().zip(panel) {
        for (sums, x) in sums.iter_mut().zip(x) {
            let x = simd.splat_f32s(*x);
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = simd.mul_add_f32s(x, *weight, *sum);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_keeps_its_numbers_to_a_127th_of_the_largest() {
        let mut rows = Rows::of_width(3);
        rows.push(&[1.0, -2.0, 0.5]);
        rows.push(&[0.0; 3]);
        let mut out = vec![1.0; 3];
        rows.add(0, &mut out);
        for (found, wanted) in out.iter().zip([2.0, -1.0, 1.5]) {
            assert!((found - wanted).abs() < 2.0 / 127.0, "{out:?}");
        }
        rows.add(1, &mut out);
        assert_eq!(rows.len(), 2);
    }

    proptest! {
        /// Any shape, on every kind of register that this machine has.
        #[test]
        fn a_product_is_what_the_loops_of_a_textbook_give(
            (rows, inputs, outputs) in (0..30_usize, 1..40_usize, 1..70_usize),
            seed in any::<u32>(),
        ) {
            let mut state = seed | 1;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from((state >> 24) as u8 as i8) / 100.0
            };
            let weights: Vec<f32> = (0..inputs * outputs).map(|_| next()).collect();
            let bias: Vec<f32> = (0..outputs).map(|_| next()).collect();
            let x: Vec<f32> = (0..rows * inputs).map(|_| next()).collect();
            let mut out = Vec::new();
            let linear = Linear::new(Arch::new(), &weights, bias.clone());
            linear.apply(Arch::new(), &x, &mut out);
            prop_assert_eq!(out.len(), rows * outputs);
            for (at, found) in out.iter().enumerate() {
                let (row, output) = (at / outputs, at % outputs);
                let terms = x[row * inputs..][..inputs].iter().zip(&weights[output * inputs..][..inputs]);
                let wanted = terms.map(|(x, w)| x * w).sum::<f32>() + bias[output];
                prop_assert!((found - wanted).abs() < 0.02 * inputs as f32, "{found} for {wanted}");
            }
        }
    }
}
