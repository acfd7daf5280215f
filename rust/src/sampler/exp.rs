//! Exponentials in plain code that the compiler vectorises.

/// e^x for x ≤ 0, within 3e-7 of its value; below −87 that of −87, which adds nothing to sums that hold a 1.
#[inline]
pub(super) fn exp(x: f32) -> f32 {
    // Added and taken away again it leaves an f32 below 2^22 rounded, and the integer is in the bits meanwhile.
    const ROUNDING: f32 = 12_582_912.0;
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUNDING;
    let n = shifted - ROUNDING;
    // ln 2 in two parts, the first exact in any product with n (Cody, Waite 1980).
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let tail = 1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0)));
    let power = 1.0 + r * (1.0 + r * (0.5 + r * tail));
    let two_to_n = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    power * two_to_n
}

/// The sum of e^(x − best) over what has logits x, none of which is above `best`.
pub(super) fn exp_sum<T: Copy>(row: &[T], best: f32, logit: impl Fn(T) -> f32) -> f64 {
    const LANES: usize = 16;
    let mut sums = [0f64; LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
    for chunk in whole {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(exp(logit(*x) - best));
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|x| f64::from(exp(logit(*x) - best))).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential() {
        for i in 0..870_000 {
            let x = -(i as f32) * 1e-4;
            let want = f64::from(x).exp();
            assert!((f64::from(exp(x)) - want).abs() <= 3e-7 * want, "{x}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NEG_INFINITY) < 1e-37 && exp(f32::NAN).is_nan());
    }

    #[test]
    fn sums_are_of_all() {
        let row: Vec<f32> = (0..1003).map(|i| (i % 91) as f32 / 7.0).collect();
        let want: f64 = row.iter().map(|x| f64::from(x - 13.0).exp()).sum();
        assert!((exp_sum(&row, 13.0, |x| x) - want).abs() < 1e-6 * want);
    }
}
