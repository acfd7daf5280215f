//! Types whose weights are -1, 0 or 1, times a scale: IQ1 finds them in a grid, TQ1_0 has five in a byte.

use super::formats::{CHUNKS, Rows, Take};
use super::grids::{BIAS, MOST, ONE, entries, four, odd, read_grid, scale, split, with_high, words};
use super::lanes::Lanes;
use super::superblocks::{Scales, SuperBlock, fetch};
use llama_cpp_sys_2 as sys;
use std::array::from_fn;
use std::sync::LazyLock;

/// Bytes count eighths, and have the bias. IQ1 adds an eighth to weights, or subtracts one. Here it is added.
static IQ1: LazyLock<[u64; 2048]> = LazyLock::new(|| {
    read_grid((sys::GGML_TYPE_IQ1_S, Iq1S::BYTES), (2, 34), ONE, |w| 8.0 * w + f32::from(1u8 << BIAS))
});

/// Two eighths less where the lane's highest bit is set.
#[inline(always)]
unsafe fn lessened<L: Lanes>(bytes: L::Ints, set: L::Ints) -> L::Ints {
    unsafe { L::add_ints(bytes, L::and(L::signed_right(set, 31), L::splat(-four(2)))) }
}

/// The 16 bits of a chunk, as the low bits of lanes. Four lanes have those of all chunks.
#[inline(always)]
unsafe fn sixteen<L: Lanes>(four: [L::Ints; 4], c: usize) -> L::Ints {
    if c.is_multiple_of(2) { four[c / 2] } else { unsafe { L::right(four[c / 2], 16) } }
}

pub(super) struct Iq1S;

impl SuperBlock for Iq1S {
    const BYTES: usize = 50;
    const GROUP: usize = 32;
    const MOST: i32 = MOST;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let (low, high) = (words::<L, 2>(rows, 2), L::transposed(rows.first.add(34), rows.stride));
            // 12 bits of numbers, 3 of the scale, a sign.
            let high: [_; CHUNKS] = from_fn(|c| sixteen::<L>(high, c));
            scale::<L>(rows, 0, 0.125, to.scales());
            Scales::<L>::whole(to.scales(), BIAS, high.map(|x| odd::<L>(L::right(x, 12), 7)));
            for (c, high) in high.into_iter().enumerate() {
                fetch::<Self, L>(rows, c..c + 1);
                let numbers = with_high::<L, _>(3, split::<L>(low[c / 4][c % 4]), high);
                let weights = entries::<L, _, _>(&IQ1, numbers);
                to.take(c, weights.map(|x| lessened::<L>(x, L::left(high, 16))));
            }
        }
    }
}

pub(super) struct Iq1M;

impl SuperBlock for Iq1M {
    const BYTES: usize = 56;
    const GROUP: usize = 16;
    const MOST: i32 = MOST;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let (low, high) = (words::<L, 2>(rows, 0), L::transposed(rows.first.add(32), rows.stride));
            // 16 bits have the scales of two chunks and four bits of the block's.
            let [.., a, b] = L::transposed(rows.first.add(40), rows.stride);
            let top = |x, at: i32| L::and(x, L::splat(15 << at));
            let half = L::or(
                L::or(top(L::right(a, 12), 0), top(L::right(a, 24), 4)),
                L::or(top(L::right(b, 4), 8), top(L::right(b, 16), 12)),
            );
            let unit = 0.125;
            (*to.scales()).scale = L::mul(L::from_half(half), L::splat_float(unit));
            for (two, x) in [a, L::right(a, 16), b, L::right(b, 16)].into_iter().enumerate() {
                let scales = [x, L::right(x, 3), L::right(x, 6), L::right(x, 9)];
                let scales = scales.map(|x| odd::<L>(x, 7));
                Scales::<L>::biased(to.scales(), BIAS, 2 * two..2 * two + 2, scales);
            }
            for c in 0..CHUNKS {
                fetch::<Self, L>(rows, c..c + 1);
                // Each entry has three bits of its number here, then a sign.
                let high = sixteen::<L>(high, c);
                let numbers = with_high::<L, _>(4, split::<L>(low[c / 4][c % 4]), high);
                let weights = entries::<L, _, _>(&IQ1, numbers);
                let signs = [L::left(high, 28), L::left(high, 24), L::left(high, 20), L::left(high, 16)];
                to.take(c, from_fn(|j| lessened::<L>(weights[j], signs[j / 2])));
            }
        }
    }
}

/// A byte is a number with five digits of base 3, the weights and 1 each, which is scaled from 0..243 to 0..256.
pub(super) struct Tq1_0;

impl Tq1_0 {
    /// The next digits of all bytes as weights. Even and odd bytes are apart, in 16 bits each.
    #[inline(always)]
    unsafe fn digits<L: Lanes, const N: usize>(bytes: &mut [[L::Ints; 2]; N]) -> [L::Ints; N] {
        unsafe {
            let mut digits = [L::splat(0); N];
            for (digits, bytes) in digits.iter_mut().zip(bytes) {
                let [even, odd] = bytes.map(|x| L::add_ints(x, L::left(x, 1)));
                *bytes = [even, odd].map(|x| L::and(x, L::splat(0x00ff_00ff)));
                let both = L::or(
                    L::and(L::right(even, 8), L::splat(0x0003_0003)),
                    L::and(odd, L::splat(0x0300_0300)),
                );
                *digits = L::add_ints(both, L::splat(four((1 << BIAS) - 1)));
            }
            digits
        }
    }

    #[inline(always)]
    unsafe fn apart<L: Lanes, const N: usize>(bytes: [L::Ints; N]) -> [[L::Ints; 2]; N] {
        unsafe { bytes.map(|x| [x, L::right(x, 8)].map(|x| L::and(x, L::splat(0x00ff_00ff)))) }
    }
}

impl SuperBlock for Tq1_0 {
    const BYTES: usize = 54;
    const GROUP: usize = 32;
    const MOST: i32 = MOST;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            scale::<L>(rows, 52, 1.0, to.scales());
            Scales::<L>::whole(to.scales(), BIAS, [L::splat(1); CHUNKS]);
            let [first, second, third] = words::<L, 3>(rows, 0);
            let mut wide = Self::apart::<L, 8>(from_fn(|i| if i < 4 { first[i] } else { second[i - 4] }));
            for c in 0..5 {
                fetch::<Self, L>(rows, c..c + 1);
                to.take(c, Self::digits::<L, 8>(&mut wide));
            }
            let mut half = Self::apart::<L, 4>(third);
            let [.., last] = L::transposed(rows.first.add(36), rows.stride);
            let mut last = Self::apart::<L, 1>([last]);
            for c in 5..CHUNKS {
                fetch::<Self, L>(rows, c..c + 1);
                let [a, b, c0, d] = Self::digits::<L, 4>(&mut half);
                let [e, f, g, h] = if c < 7 {
                    Self::digits::<L, 4>(&mut half)
                } else {
                    from_fn(|_| Self::digits::<L, 1>(&mut last)[0])
                };
                to.take(c, [a, b, c0, d, e, f, g, h]);
            }
        }
    }
}
