//! The "K-quants", and types with blocks like theirs.

use super::blocks::{Block, Iq4Nl, nibbles};
use super::formats::{CHUNKS, Rows, Take, chunk, halves, high, integers, low};
use super::lanes::Lanes;
use super::superblocks::{Scales, SuperBlock, pair};
use std::ops::Range;

/// A quarter of a block's bytes in all rows, as they lie.
fn quarter<B: SuperBlock, L: Lanes>(quarter: usize) -> Range<usize> {
    let bytes = B::BYTES * L::ROWS / 4;
    quarter * bytes..(quarter + 1) * bytes
}

/// Scales and minima of the two types that begin alike: f16 of both, then 12 bytes with 6 bits for each of 8 chunks.
#[inline(always)]
unsafe fn six_bits<L: Lanes>(block: *const u8, stride: usize, to: *mut Scales<L>) {
    unsafe {
        let [both, a, b, c] = L::transposed(block, stride);
        (*to).scale = L::from_half(both);
        (*to).minimum = L::from_half(L::right::<16>(both));
        let six = |x| L::and(x, L::bytes(0x3f));
        let top = |x| L::left::<4>(L::and(L::right::<6>(x), L::bytes(0x03)));
        let scales = [six(a), L::or(low::<L>(c), top(a))];
        let minima = [six(b), L::or(high::<L>(c), top(b))];
        for half in 0..2 {
            for (c, scale) in integers::<L>(scales[half]).into_iter().enumerate() {
                (*to).groups[4 * half + c][0] = L::scale(scale);
            }
            let [a, b, c, d] = integers::<L>(minima[half]);
            (*to).sums[2 * half] = pair::<L>(a, b);
            (*to).sums[2 * half + 1] = pair::<L>(c, d);
        }
    }
}

pub(super) struct Q4K;

impl SuperBlock for Q4K {
    const BYTES: usize = 144;
    const GROUP: usize = 32;
    const MINIMUM: bool = true;
    const MOST: i32 = 15;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
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

impl SuperBlock for Q5K {
    const BYTES: usize = 176;
    const GROUP: usize = 32;
    const MINIMUM: bool = true;
    const MOST: i32 = 31;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let Rows { first, stride, .. } = *rows;
            six_bits::<L>(first, stride, to.scales());
            let bits = chunk::<L>(first.add(16), stride);
            for pair in 0..4 {
                rows.fetch(quarter::<Self, L>(pair));
                let both = chunk::<L>(first.add(48 + 32 * pair), stride);
                let fifth = |j: usize, c: usize| bit::<L, 4>(bits[j], c);
                let c = 2 * pair;
                to.take(c, std::array::from_fn(|j| L::or(low::<L>(both[j]), fifth(j, c))));
                to.take(c + 1, std::array::from_fn(|j| L::or(high::<L>(both[j]), fifth(j, c + 1))));
            }
        }
    }
}

/// Bit `c` of each byte as its bit `TO`.
#[inline(always)]
unsafe fn bit<L: Lanes, const TO: usize>(x: L::Ints, c: usize) -> L::Ints {
    unsafe {
        let moved = match TO.cast_signed() - c.cast_signed() {
            4 => L::left::<4>(x),
            3 => L::left::<3>(x),
            2 => L::left::<2>(x),
            1 => L::left::<1>(x),
            0 => x,
            -1 => L::right::<1>(x),
            -2 => L::right::<2>(x),
            -3 => L::right::<3>(x),
            -4 => L::right::<4>(x),
            _ => L::right::<5>(x),
        };
        L::and(moved, L::bytes(1 << TO))
    }
}

pub(super) struct Q6K;

impl SuperBlock for Q6K {
    const BYTES: usize = 210;
    const GROUP: usize = 16;
    const MOST: i32 = 63;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let Rows { first: block, stride, .. } = *rows;
            let scales = to.scales();
            (*scales).scale = halves::<L>(block.add(208), stride);
            for (two, x) in L::transposed(block.add(192), stride).into_iter().enumerate() {
                Scales::<L>::biased::<5>(scales, 2 * two..2 * two + 2, integers::<L>(x));
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

/// Bits 2c and 2c + 1 of each byte, for c = 0 to 3.
#[inline(always)]
unsafe fn two_bits<L: Lanes>(x: L::Ints, c: usize) -> L::Ints {
    unsafe {
        let moved = match c {
            0 => x,
            1 => L::right::<2>(x),
            2 => L::right::<4>(x),
            _ => L::right::<6>(x),
        };
        L::and(moved, L::bytes(3))
    }
}

pub(super) struct Q2K;

impl SuperBlock for Q2K {
    const BYTES: usize = 84;
    const GROUP: usize = 16;
    const MINIMUM: bool = true;
    const MOST: i32 = 3;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let Rows { first: block, stride, .. } = *rows;
            let scales = to.scales();
            (*scales).scale = halves::<L>(block.add(80), stride);
            (*scales).minimum = halves::<L>(block.add(82), stride);
            for (two, x) in L::transposed(block, stride).into_iter().enumerate() {
                let [a, b, c, d] = integers::<L>(low::<L>(x)).map(|x| L::scale(x));
                ((*scales).groups[2 * two], (*scales).groups[2 * two + 1]) = ([a, b], [c, d]);
                let [a, b, c, d] = integers::<L>(high::<L>(x));
                ((*scales).sums[2 * two], (*scales).sums[2 * two + 1]) = (pair::<L>(a, b), pair::<L>(c, d));
            }
            take_two_bits::<L, Self>(rows, 16, to);
        }
    }
}

/// Takes weights of two bits, which begin at a byte of the block: each quarter of 32 bytes has the bits of a chunk.
#[inline(always)]
unsafe fn take_two_bits<L: Lanes, B: SuperBlock>(rows: &Rows, at: usize, to: &mut impl Take<L, Scales<L>>) {
    unsafe {
        for half in 0..2 {
            rows.fetch(quarter::<B, L>(2 * half));
            rows.fetch(quarter::<B, L>(2 * half + 1));
            let bits = chunk::<L>(rows.first.add(at + 32 * half), rows.stride);
            for c in 0..4 {
                to.take(4 * half + c, bits.map(|x| two_bits::<L>(x, c)));
            }
        }
    }
}

/// Weights that are -1, 0 or 1 times the block's scale.
pub(super) struct Tq2_0;

impl SuperBlock for Tq2_0 {
    const BYTES: usize = 66;
    const GROUP: usize = 32;
    const MOST: i32 = 3;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let scales = to.scales();
            (*scales).scale = halves::<L>(rows.first.add(64), rows.stride);
            let one = 1;
            Scales::<L>::whole::<0>(scales, [L::splat(&raw const one); CHUNKS]);
            take_two_bits::<L, Self>(rows, 0, to);
        }
    }
}

/// Scales of 6 bits less 32.
#[inline(always)]
unsafe fn centred<L: Lanes, const N: usize>(scales: [L::Ints; N]) -> [L::Ints; N] {
    let centre = -32;
    unsafe { scales.map(|x| L::add_ints(x, L::splat(&raw const centre))) }
}

pub(super) struct Q3K;

impl SuperBlock for Q3K {
    const BYTES: usize = 110;
    const GROUP: usize = 16;
    const MOST: i32 = 7;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let Rows { first: block, stride, .. } = *rows;
            let scales = to.scales();
            // The 12 bytes of scales begin in the middle of the first; the block's own follows them.
            let [a, b, c, d] = L::transposed(block.add(94), stride);
            (*scales).scale = L::from_half(L::right::<16>(d));
            let joined = |x, y| L::or(L::right::<16>(x), L::left::<16>(y));
            let [a, b, c] = [joined(a, b), joined(b, c), joined(c, d)];
            let top = |x, by| L::left::<4>(two_bits::<L>(x, by));
            let six = [
                L::or(low::<L>(a), top(c, 0)),
                L::or(low::<L>(b), top(c, 1)),
                L::or(high::<L>(a), top(c, 2)),
                L::or(high::<L>(b), top(c, 3)),
            ];
            for (two, x) in six.into_iter().enumerate() {
                Scales::<L>::biased::<2>(scales, 2 * two..2 * two + 2, centred::<L, _>(integers::<L>(x)));
            }
            let third = chunk::<L>(block, stride);
            for half in 0..2 {
                rows.fetch(quarter::<Self, L>(2 * half));
                rows.fetch(quarter::<Self, L>(2 * half + 1));
                let bits = chunk::<L>(block.add(32 + 32 * half), stride);
                for c in 0..4 {
                    let third = |j: usize| bit::<L, 2>(third[j], 4 * half + c);
                    to.take(
                        4 * half + c,
                        std::array::from_fn(|j| L::or(two_bits::<L>(bits[j], c), third(j))),
                    );
                }
            }
        }
    }
}

pub(super) struct Iq4Xs;

impl SuperBlock for Iq4Xs {
    const BYTES: usize = 136;
    const GROUP: usize = 32;
    const MOST: i32 = Iq4Nl::MOST;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let Rows { first: block, stride, .. } = *rows;
            let scales = to.scales();
            let [first, mut fours, ..] = L::transposed(block, stride);
            (*scales).scale = L::from_half(first);
            // Four bits of each scale, and two more in another place.
            let mut twos = L::right::<16>(first);
            let mut all = [fours; CHUNKS];
            for scale in &mut all {
                let four = L::right::<28>(L::left::<28>(fours));
                let two = L::right::<30>(L::left::<30>(twos));
                *scale = L::or(four, L::left::<4>(two));
                (fours, twos) = (L::right::<4>(fours), L::right::<2>(twos));
            }
            Scales::<L>::whole::<7>(scales, centred::<L, _>(all));
            for c in 0..CHUNKS {
                if c % 2 == 0 {
                    rows.fetch(quarter::<Self, L>(c / 2));
                }
                let bytes = nibbles::<L>(block.add(8 + 16 * c), stride);
                to.take(c, bytes.map(|x| L::look_up(&Iq4Nl::VALUES, x)));
            }
        }
    }
}
