//! Products of one vector with many.

use pulp::{Arch, Simd, WithSimd};

/// The dot product of `asked` with each row of `rows`, one after the other; `asked` is as long as a row.
///
/// With the widest instructions that the machine has: compiled for each kind, chosen at run time.
pub(super) fn dots(asked: &[i16], rows: &[i8], mut each: impl FnMut(i32)) {
    // A few at a time, so that what is done with them is not compiled once for each kind of machine.
    let mut out = [0; CHUNK];
    let arch = Arch::new();
    for rows in rows.chunks(CHUNK * asked.len().max(1)) {
        let n = arch.dispatch(Dots { asked, rows, out: &mut out });
        out[..n].iter().for_each(|&dot| each(dot));
    }
}

const CHUNK: usize = 256;

struct Dots<'a> {
    asked: &'a [i16],
    rows: &'a [i8],
    out: &'a mut [i32; CHUNK],
}

impl WithSimd for Dots<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        let mut n = 0;
        for (row, out) in self.rows.chunks_exact(self.asked.len()).zip(self.out) {
            // No overflow: 65,536 products of at most 127 × 127 stay below 2^31.
            *out = row.iter().zip(self.asked).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
            n += 1;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn products_are_exact_for_any_length(dimension in 1..100_usize, n in 0..600_usize, seed in any::<u64>()) {
            let byte = |at: usize| ((seed.wrapping_mul(at as u64 + 1) >> 24) % 255) as i16 - 127;
            let rows: Vec<i8> = (0..n * dimension).map(|at| byte(at) as i8).collect();
            let asked: Vec<i16> = (0..dimension).map(|at| byte(at + 7)).collect();
            let mut found = Vec::new();
            dots(&asked, &rows, |dot| found.push(dot));
            let expected: Vec<i32> = rows
                .chunks(dimension)
                .map(|row| row.iter().zip(&asked).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum())
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
