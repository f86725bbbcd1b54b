//! What stands between the matrices. Plain loops without branches, which the compiler turns into those of the machine's registers when
//! they are called within `Arch::dispatch`.

/// Numbers that are summed side by side: a sum in one line would wait for each addition.
const LANES: usize = 16;

#[inline(always)]
fn sum(numbers: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, number)| *sum += term(*number));
    }
    sums.iter().sum::<f32>() + rest.iter().map(|number| term(*number)).sum::<f32>()
}

/// Brings a row to mean 0 and deviation 1, then scales and shifts it.
#[inline(always)]
pub(super) fn layer_norm(row: &mut [f32], weight: &[f32], bias: &[f32], epsilon: f32) {
    let count = row.len() as f32;
    let mean = sum(row, |x| x) / count;
    let variance = sum(row, |x| (x - mean) * (x - mean)) / count;
    let scale = 1.0 / (variance + epsilon).sqrt();
    for ((x, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
        *x = (*x - mean) * scale * weight + bias;
    }
}

/// The activation of BERT: `x Φ(x)`.
#[inline(always)]
pub(super) fn gelu(numbers: &mut [f32]) {
    numbers.iter_mut().for_each(|x| *x = 0.5 * *x * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2)));
}

/// Turns scores into shares of 1.
#[inline(always)]
pub(super) fn softmax(scores: &mut [f32]) {
    let most = scores.iter().fold(f32::NEG_INFINITY, |most, score| if *score > most { *score } else { most });
    scores.iter_mut().for_each(|score| *score = exp(*score - most));
    let scale = 1.0 / sum(scores, |x| x);
    scores.iter_mut().for_each(|score| *score *= scale);
}

/// Abramowitz and Stegun, 7.1.26; off by 1.5e-7 at most.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let size = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * size);
    let series = ((((1.061_405_4 * t - 1.453_152) * t + 1.421_413_7) * t - 0.284_496_74) * t + 0.254_829_6) * t;
    (1.0 - series * exp(-size * size)).copysign(x)
}

/// `e` to the power of a number that is not above 0: 2 to a whole number, which goes into the exponent, times 2 to what is left.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Added to a number it leaves the nearest whole one in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    // Below this nothing is left in an f32.
    let power = x.max(-87.0) * std::f32::consts::LOG2_E;
    let rounded = power + ROUND;
    let rest = power - (rounded - ROUND);
    // Taylor's series of 2^x: off by 1.2e-7 at most between -0.5 and 0.5.
    let series = 1.540_353e-4;
    let series = series * rest + 1.333_355_8e-3;
    let series = series * rest + 9.618_129e-3;
    let series = series * rest + 5.550_411e-2;
    let series = series * rest + 2.402_265e-1;
    let series = series * rest + std::f32::consts::LN_2;
    let series = series * rest + 1.0;
    series * f32::from_bits(rounded.to_bits().wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_and_gelu_are_those_of_the_books() {
        for step in 0..2000 {
            let x = -f64::from(step) * 0.04;
            let found = f64::from(exp(x as f32));
            // The power has the 24 bits of an f32, its whole part included.
            assert!((found - x.exp()).abs() <= 1e-5 * x.exp() + 1e-37, "exp({x}) = {found}");
        }
        // Values of Φ from tables.
        for (x, phi) in
            [(0.0, 0.5), (0.5, 0.691_462), (1.0, 0.841_345), (-1.0, 0.158_655), (-2.5, 0.006_21), (9.0, 1.0)]
        {
            let mut found = [x];
            gelu(&mut found);
            assert!((found[0] - x * phi).abs() < 2e-6, "{x}: {}", found[0]);
        }
        let mut extreme = [-1e30, -300.0, 300.0];
        gelu(&mut extreme);
        assert_eq!(extreme, [0.0, 0.0, 300.0]);
    }

    #[test]
    fn shares_sum_to_one_whatever_the_scores() {
        for mut scores in [vec![0.0; 7], vec![1e4, -1e4, 3.0], (0..100).map(|x| x as f32).collect()] {
            softmax(&mut scores);
            assert!((scores.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{scores:?}");
            assert!(scores.iter().all(|share| (0.0..=1.0).contains(share)));
        }
    }

    #[test]
    fn a_normalised_row_has_mean_zero_and_deviation_one() {
        let mut row: Vec<f32> = (0..37).map(|x| (x * x % 11) as f32).collect();
        layer_norm(&mut row, &[1.0; 37], &[0.0; 37], 1e-12);
        assert!(row.iter().sum::<f32>().abs() < 1e-4);
        assert!((row.iter().map(|x| x * x).sum::<f32>() / 37.0 - 1.0).abs() < 1e-4);
    }
}
