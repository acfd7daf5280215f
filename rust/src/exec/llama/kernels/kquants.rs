//! Types with blocks of 256 weights, "K-quants": scales of chunks have few bits and are scaled themselves.

use super::formats::{Format, Rows, Scales, Scheme, Take, chunk, halves, high, low, signed};
use super::lanes::Lanes;
use std::ops::Range;

/// A quarter of a block's bytes in all rows, as they lie.
fn quarter<F: Format, L: Lanes>(quarter: usize) -> Range<usize> {
    let bytes = F::BYTES * L::ROWS / 4;
    quarter * bytes..(quarter + 1) * bytes
}

/// Byte j of each lane, for j = 0 to 3, as integers without sign.
#[inline(always)]
unsafe fn unsigned<L: Lanes>(x: L::Ints) -> [L::Floats; 4] {
    unsafe {
        [
            L::to_floats(L::right::<24>(L::left::<24>(x))),
            L::to_floats(L::right::<24>(L::left::<16>(x))),
            L::to_floats(L::right::<24>(L::left::<8>(x))),
            L::to_floats(L::right::<24>(x)),
        ]
    }
}

/// Scales and minima of the two types that begin alike: f16 of both, then 12 bytes with 6 bits for each of 8 chunks.
#[inline(always)]
unsafe fn six_bits<L: Lanes>(block: *const u8, stride: usize, to: *mut Scales<L>) {
    unsafe {
        let [both, a, b, c] = L::transposed(block, stride);
        let scale = L::from_half(both);
        let minimum = L::neg(L::from_half(L::right::<16>(both)));
        let six = |x| L::and(x, L::bytes(0x3f));
        let top = |x| L::left::<4>(L::and(L::right::<6>(x), L::bytes(0x03)));
        let scales = [six(a), L::or(low::<L>(c), top(a))];
        let minima = [six(b), L::or(high::<L>(c), top(b))];
        for half in 0..2 {
            let scales = unsigned::<L>(scales[half]);
            let minima = unsigned::<L>(minima[half]);
            for c in 0..4 {
                (*to).scales[4 * half + c][0] = L::mul(scale, scales[c]);
                (*to).mins[4 * half + c] = L::mul(minimum, minima[c]);
            }
        }
    }
}

pub(super) struct Q4K;

impl Format for Q4K {
    const BYTES: usize = 144;
    const CHUNKS: usize = 8;
    const SCHEME: Scheme = Scheme::Minimum;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, _: usize, to: &mut impl Take<L>) {
        unsafe {
            let Rows { first, stride, .. } = *rows;
            six_bits::<L>(first, stride, to.scales());
            for pair in 0..4 {
                rows.fetch(quarter::<Self, L>(pair));
                let both = chunk::<L>(first.add(16 + 32 * pair), stride);
                to.take(2 * pair, both.map(|x| low::<L>(x)));
                to.take(2 * pair + 1, both.map(|x| high::<L>(x)));
            }
        }
    }
}

pub(super) struct Q5K;

impl Q5K {
    /// Bit `c` of each byte as its bit 4.
    #[inline(always)]
    unsafe fn fifth<L: Lanes>(x: L::Ints, c: usize) -> L::Ints {
        unsafe {
            let moved = match c {
                0 => L::left::<4>(x),
                1 => L::left::<3>(x),
                2 => L::left::<2>(x),
                3 => L::left::<1>(x),
                4 => x,
                5 => L::right::<1>(x),
                6 => L::right::<2>(x),
                _ => L::right::<3>(x),
            };
            L::and(moved, L::bytes(0x10))
        }
    }
}

impl Format for Q5K {
    const BYTES: usize = 176;
    const CHUNKS: usize = 8;
    const SCHEME: Scheme = Scheme::Minimum;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, _: usize, to: &mut impl Take<L>) {
        unsafe {
            let Rows { first, stride, .. } = *rows;
            six_bits::<L>(first, stride, to.scales());
            let bits = chunk::<L>(first.add(16), stride);
            for pair in 0..4 {
                rows.fetch(quarter::<Self, L>(pair));
                let both = chunk::<L>(first.add(48 + 32 * pair), stride);
                let fifth = |j: usize, c: usize| Self::fifth::<L>(bits[j], c);
                let c = 2 * pair;
                to.take(c, std::array::from_fn(|j| L::or(low::<L>(both[j]), fifth(j, c))));
                to.take(c + 1, std::array::from_fn(|j| L::or(high::<L>(both[j]), fifth(j, c + 1))));
            }
        }
    }
}

pub(super) struct Q6K;

impl Format for Q6K {
    const BYTES: usize = 210;
    const CHUNKS: usize = 8;
    const SCHEME: Scheme = Scheme::Halves(32);

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, _: usize, to: &mut impl Take<L>) {
        unsafe {
            let Rows { first: block, stride, .. } = *rows;
            let scale = halves::<L>(block.add(208), stride);
            let scales = to.scales();
            for (two, x) in L::transposed(block.add(192), stride).into_iter().enumerate() {
                let [a, b, c, d] = signed::<L>(x).map(|s| L::mul(scale, s));
                ((*scales).scales[2 * two], (*scales).scales[2 * two + 1]) = ([a, b], [c, d]);
            }
            for half in 0..2 {
                rows.fetch(quarter::<Self, L>(2 * half));
                let first = chunk::<L>(block.add(64 * half), stride);
                let second = chunk::<L>(block.add(64 * half + 32), stride);
                rows.fetch(quarter::<Self, L>(2 * half + 1));
                let bits = chunk::<L>(block.add(128 + 32 * half), stride);
                let six = |x| L::and(x, L::bytes(0x30));
                let c = 4 * half;
                to.take(c, std::array::from_fn(|j| L::or(low::<L>(first[j]), six(L::left::<4>(bits[j])))));
                to.take(
                    c + 1,
                    std::array::from_fn(|j| L::or(low::<L>(second[j]), six(L::left::<2>(bits[j])))),
                );
                to.take(c + 2, std::array::from_fn(|j| L::or(high::<L>(first[j]), six(bits[j]))));
                to.take(
                    c + 3,
                    std::array::from_fn(|j| L::or(high::<L>(second[j]), six(L::right::<2>(bits[j])))),
                );
            }
        }
    }
}
