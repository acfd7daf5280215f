//! The "K-quants", and types with blocks like theirs.

use super::blocks::{Block, Iq4Nl, nibbles};
use super::formats::{CHUNKS, Rows, Take, chunk, halves, high, integers, low, moved};
use super::lanes::Lanes;
use super::superblocks::{Scales, SuperBlock, fetch, pair};
use std::array::from_fn;

/// Weights of four bits, or of five.
pub(super) struct SixBits<const FIFTH: bool>;
pub(super) type Q4K = SixBits<false>;
pub(super) type Q5K = SixBits<true>;

impl<const FIFTH: bool> SixBits<FIFTH> {
    /// Scales and minima: f16 of both, then 12 bytes with 6 bits for each of 8 chunks.
    #[inline(always)]
    unsafe fn scales<L: Lanes>(block: *const u8, stride: usize, to: *mut Scales<L>) {
        unsafe {
            let [both, a, b, c] = L::transposed(block, stride);
            (*to).scale = L::from_half(both);
            (*to).minimum = L::from_half(L::right(both, 16));
            let six = |x| moved::<L>(x, 0, 0, 0x3f);
            let top = |x| moved::<L>(x, 6, 4, 0x30);
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
}

impl<const FIFTH: bool> SuperBlock for SixBits<FIFTH> {
    const BYTES: usize = if FIFTH { 176 } else { 144 };
    const GROUP: usize = 32;
    const MINIMUM: bool = true;
    const MOST: i32 = if FIFTH { 31 } else { 15 };

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let Rows { first, stride, .. } = *rows;
            Self::scales::<L>(first, stride, to.scales());
            let bits = if FIFTH { chunk::<L>(first.add(16), stride) } else { [L::splat(0); 8] };
            let first = first.add(if FIFTH { 48 } else { 16 });
            for pair in 0..4 {
                fetch::<Self, L>(rows, 2 * pair..2 * pair + 2);
                let both = chunk::<L>(first.add(32 * pair), stride);
                let c = 2 * pair;
                let fifth = |x, j: usize, c: usize| match FIFTH {
                    true => L::or(x, moved::<L>(bits[j], c, 4, 0x10)),
                    false => x,
                };
                to.take(c, from_fn(|j| fifth(low::<L>(both[j]), j, c)));
                to.take(c + 1, from_fn(|j| fifth(high::<L>(both[j]), j, c + 1)));
            }
        }
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
                Scales::<L>::biased(scales, 5, 2 * two..2 * two + 2, integers::<L>(x));
            }
            for half in 0..2 {
                fetch::<Self, L>(rows, 4 * half..4 * half + 2);
                let first = chunk::<L>(block.add(64 * half), stride);
                let second = chunk::<L>(block.add(64 * half + 32), stride);
                fetch::<Self, L>(rows, 4 * half + 2..4 * half + 4);
                let bits = chunk::<L>(block.add(128 + 32 * half), stride);
                let six = |x, c: usize, j: usize| L::or(x, moved::<L>(bits[j], 2 * c, 4, 0x30));
                to.take(4 * half, from_fn(|j| six(low::<L>(first[j]), 0, j)));
                to.take(4 * half + 1, from_fn(|j| six(low::<L>(second[j]), 1, j)));
                to.take(4 * half + 2, from_fn(|j| six(high::<L>(first[j]), 2, j)));
                to.take(4 * half + 3, from_fn(|j| six(high::<L>(second[j]), 3, j)));
            }
        }
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
            take_two_bits::<L, Self>(rows, (16, |_, _| L::splat(0)), to);
        }
    }
}

/// Takes weights of two bits, which begin at a byte of the block: each quarter of 32 bytes has the bits of a chunk. `third`: a
/// chunk's other bits.
#[inline(always)]
unsafe fn take_two_bits<L: Lanes, B: SuperBlock>(
    rows: &Rows,
    (at, third): (usize, impl Fn(usize, usize) -> L::Ints),
    to: &mut impl Take<L, Scales<L>>,
) {
    unsafe {
        for half in 0..2 {
            fetch::<B, L>(rows, 4 * half..4 * half + 4);
            let bits = chunk::<L>(rows.first.add(at + 32 * half), rows.stride);
            for c in 0..4 {
                let two = |j: usize| moved::<L>(bits[j], 2 * c, 0, 3);
                to.take(4 * half + c, from_fn(|j| L::or(two(j), third(4 * half + c, j))));
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
            Scales::<L>::whole(scales, 0, [L::splat(1); CHUNKS]);
            take_two_bits::<L, Self>(rows, (0, |_, _| L::splat(0)), to);
        }
    }
}

/// Scales of 6 bits less 32.
#[inline(always)]
unsafe fn centred<L: Lanes, const N: usize>(scales: [L::Ints; N]) -> [L::Ints; N] {
    unsafe { scales.map(|x| L::add_ints(x, L::splat(-32))) }
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
            (*scales).scale = L::from_half(L::right(d, 16));
            let joined = |x, y| L::or(L::right(x, 16), L::left(y, 16));
            let [a, b, c] = [joined(a, b), joined(b, c), joined(c, d)];
            let top = |x, c: usize| moved::<L>(x, 2 * c, 4, 0x30);
            let six = [
                L::or(low::<L>(a), top(c, 0)),
                L::or(low::<L>(b), top(c, 1)),
                L::or(high::<L>(a), top(c, 2)),
                L::or(high::<L>(b), top(c, 3)),
            ];
            for (two, x) in six.into_iter().enumerate() {
                Scales::<L>::biased(scales, 2, 2 * two..2 * two + 2, centred::<L, _>(integers::<L>(x)));
            }
            let third = chunk::<L>(block, stride);
            take_two_bits::<L, Self>(rows, (32, |c, j| moved::<L>(third[j], c, 2, 4)), to);
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
            let mut twos = L::right(first, 16);
            let mut all = [fours; CHUNKS];
            for scale in &mut all {
                let four = L::right(L::left(fours, 28), 28);
                let two = L::right(L::left(twos, 30), 30);
                *scale = L::or(four, L::left(two, 4));
                (fours, twos) = (L::right(fours, 4), L::right(twos, 2));
            }
            Scales::<L>::whole(scales, 7, centred::<L, _>(all));
            for c in 0..CHUNKS {
                fetch::<Self, L>(rows, c..c + 1);
                let bytes = nibbles::<L>(block.add(8 + 16 * c), stride);
                to.take(c, bytes.map(|x| L::look_up(&Iq4Nl::VALUES, x)));
            }
        }
    }
}
