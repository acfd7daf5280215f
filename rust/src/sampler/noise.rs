//! Counter-based Gumbel noise: a pure function of (seed, purpose, choice, position, token).
//!
//! Sampling with temperature T is the argmax of `logit / T + gumbel` (the Gumbel-max trick, Gumbel 1954; Maddison et
//! al., "A* Sampling", 2014). Since the noise of a token depends on nothing but its key, the drawn token is a pure
//! function of the processed logits: batch-mates, chunking and speculation cannot change it.

use crate::types::Token;

/// No noise is above this: the largest value that a 32-bit uniform gives, rounded up.
pub(super) const MAX_NOISE: f32 = 22.9;

/// What the noise is for; draws for different purposes are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Drawing a token.
    Draw = 1,
    /// Drawing a token from a draft model's distribution, to be accepted or not.
    Draft = 2,
    /// Accepting it.
    Accept = 3,
    /// Drawing another one in its place.
    Recover = 4,
    /// Seeding the noise of an engine that draws by itself.
    Engine = 5,
}

/// The noise of one position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    a: u32,
    b: u32,
}

impl Noise {
    /// The noise of generated token number `position` of choice `choice`.
    pub(super) fn new(seed: u64, purpose: Purpose, choice: u32, position: u32) -> Self {
        let mut k = mix64(seed ^ 0x9e37_79b9_7f4a_7c15);
        k = mix64(k ^ (u64::from(choice) << 32 | u64::from(position)));
        k = mix64(k ^ purpose as u64);
        Noise { a: k as u32, b: (k >> 32) as u32 }
    }

    /// All of it that is hashed with tokens.
    pub(super) fn key(self) -> u64 {
        u64::from(self.b) << 32 | u64::from(self.a)
    }

    /// Uniform in (0, 1).
    pub(super) fn uniform(self) -> f64 {
        (f64::from(mix32(mix32(self.a) ^ self.b)) + 0.5) / 4_294_967_296.0
    }

    /// Standard Gumbel noise of one token.
    pub(super) fn gumbel(self, token: Token) -> f32 {
        gumbel_of(self.hash(token))
    }

    /// The uniform number that a token's noise is made from: the smaller, the larger the noise.
    #[inline]
    pub(super) fn hash(self, token: Token) -> u32 {
        mix32(mix32(token.wrapping_mul(0x9e37_79b1) ^ self.a) ^ self.b)
    }

    /// A bit for each of 32 tokens from `first` on whose hash is at most `limit`.
    pub(super) fn below(self, first: Token, limit: u32) -> u32 {
        let hashes: [u32; 32] = std::array::from_fn(|i| self.hash(first.wrapping_add(i as Token)));
        hashes.iter().enumerate().fold(0, |bits, (i, hash)| bits | u32::from(*hash <= limit) << i)
    }
}

/// The seed of request `number`, where requests have none of their own.
pub fn seed_of(seed: u64, number: u64) -> u64 {
    mix64(mix64(seed ^ 0x9e37_79b9_7f4a_7c15) ^ number)
}

/// The finaliser of SplitMix64 (Steele et al. 2014).
fn mix64(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A 32-bit integer hash with low bias: two rounds of multiply and xor-shift (constants by C. Wellons).
#[inline]
fn mix32(mut x: u32) -> u32 {
    x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}

/// `-ln(-ln(u))` for `u = 1 - (h + 0.5) / 2^32`, without branches so that loops over tokens vectorise.
///
/// The upper tail decides who wins, so `1 - u` (exact in f32 where it is small) is what the logarithm starts from.
#[inline]
fn gumbel_of(h: u32) -> f32 {
    const SCALE: f32 = 1.0 / 4_294_967_296.0;
    let v = (h as f32 + 0.5) * SCALE;
    let w = (!h as f32 + 0.5) * SCALE;
    let near = {
        // -ln(1 - v) = 2 atanh(v / (2 - v)); for v <= 1/2 the argument is at most 1/3.
        let s = v / (2.0 - v);
        let q = s * s;
        2.0 * s * (1.0 + q * (1.0 / 3.0 + q * (0.2 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q * (1.0 / 11.0))))))
    };
    let exponential = if v <= 0.5 { near } else { -ln(w) };
    -ln(exponential)
}

/// Natural logarithm of a positive normal number, within 1e-6 (relative, or absolute near 1).
#[inline]
fn ln(x: f32) -> f32 {
    const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
    let bits = x.to_bits().wrapping_sub(SQRT_HALF_BITS);
    let exponent = (bits as i32 >> 23) as f32;
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF_BITS));
    // m is in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m - 1) / (m + 1)), the argument is at most 0.172.
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let series = 2.0 * s * (1.0 + q * (1.0 / 3.0 + q * (0.2 + q * (1.0 / 7.0 + q * (1.0 / 9.0)))));
    exponent * std::f32::consts::LN_2 + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_right() {
        for i in 1..200_000u32 {
            let x = f32::from_bits(i.wrapping_mul(10_007) % 0x7f00_0000 + 0x0080_0000);
            let want = f64::from(x).ln();
            assert!((f64::from(ln(x)) - want).abs() <= 2e-6 * want.abs().max(1.0), "ln({x})");
        }
    }

    #[test]
    fn the_noise_is_gumbel_and_bounded() {
        let exact = |h: u32| {
            let v = (f64::from(h) + 0.5) / 4_294_967_296.0;
            -(-(-v).ln_1p()).ln()
        };
        for h in (0..=u32::MAX).step_by(65_537).chain([0, 1, 2, u32::MAX / 2, u32::MAX / 2 + 1, u32::MAX]) {
            let got = gumbel_of(h);
            assert!((f64::from(got) - exact(h)).abs() < 2e-5, "h = {h}: {got} instead of {}", exact(h));
            assert!(got <= MAX_NOISE);
        }
    }

    #[test]
    fn mean_and_variance_are_those_of_a_gumbel() {
        let n = 1_000_000u32;
        let (mut sum, mut squares) = (0.0, 0.0);
        for t in 0..n {
            let g = f64::from(Noise::new(u64::from(t / 1000), Purpose::Draw, 0, t % 10).gumbel(t % 1000));
            sum += g;
            squares += g * g;
        }
        let mean = sum / f64::from(n);
        let variance = squares / f64::from(n) - mean * mean;
        assert!((mean - 0.5772).abs() < 0.01, "mean {mean}");
        assert!((variance - 1.6449).abs() < 0.03, "variance {variance}");
    }

    #[test]
    fn every_part_of_the_key_matters() {
        let base = Noise::new(1, Purpose::Draw, 0, 0).gumbel(7);
        for other in [
            Noise::new(2, Purpose::Draw, 0, 0),
            Noise::new(1, Purpose::Draw, 1, 0),
            Noise::new(1, Purpose::Draw, 0, 1),
        ] {
            assert_ne!(base, other.gumbel(7));
        }
        assert_ne!(base, Noise::new(1, Purpose::Draw, 0, 0).gumbel(8));
    }
}
