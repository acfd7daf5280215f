//! Types with blocks of 256 weights: groups of 16 or 32 have integer scales of few bits, and the block has one that is a float.
//!
//! A block's product is an exact integer, the sum over its groups of scale · (the product of the bytes): at most 2^29, so it
//! is rounded once, to f32, and its place in the order of sums is all that counts. ggml's products of single vectors sum
//! alike.

use super::activations::{Packing, Sums};
use super::formats::{CHUNK, CHUNKS, Format, Panel, Rows, Take};
use super::lanes::{Lanes, Products, Scaled, TOKENS, Tiles};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Weights of a block.
const BLOCK: usize = CHUNK * CHUNKS;

/// A type with blocks of 256 weights.
///
/// # Safety
/// As for [`Format`].
pub(super) trait SuperBlock {
    /// Bytes of a block.
    const BYTES: usize;
    /// Weights that share a scale, 16 or 32.
    const GROUP: usize;
    /// Whether weights are scale · byte + minimum; else they are scale · (byte − bias).
    const MINIMUM: bool = false;
    /// The largest byte.
    const MOST: i32;

    /// See [`Format::unpack`], of one block.
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>);
}

/// What the bytes of a block are multiplied by.
pub(super) struct Scales<L: Lanes> {
    /// The block's.
    pub(super) scale: L::Floats,
    /// Of minima.
    pub(super) minimum: L::Floats,
    /// Of each chunk's groups, as [`Lanes::scale`] makes them.
    pub(super) groups: [[L::Ints; 2]; CHUNKS],
    /// What the activations' sums are multiplied by, of two groups in each lane: minima, or scale · bias.
    pub(super) sums: [L::Ints; CHUNKS],
}

impl<L: Lanes> Scales<L> {
    /// Writes the scales of groups of 16, as integers, and times 2^`bits`; `chunks`: of which chunks.
    ///
    /// # Safety
    /// As for [`Lanes`].
    #[inline(always)]
    pub(super) unsafe fn biased(to: *mut Self, bits: usize, chunks: Range<usize>, scales: [L::Ints; 4]) {
        unsafe {
            for (two, chunk) in scales.chunks_exact(2).zip(chunks) {
                (*to).groups[chunk] = [L::scale(two[0]), L::scale(two[1])];
                (*to).sums[chunk] = pair::<L>(L::left(two[0], bits), L::left(two[1], bits));
            }
        }
    }

    /// Writes the scales of all chunks, for types whose groups have 32 weights. Otherwise as [`biased`](Scales::biased).
    ///
    /// # Safety
    /// As for [`Lanes`].
    #[inline(always)]
    pub(super) unsafe fn whole(to: *mut Self, bits: usize, scales: [L::Ints; CHUNKS]) {
        unsafe {
            for (groups, scale) in (*to).groups.iter_mut().zip(scales) {
                groups[0] = L::scale(scale);
            }
            for (sums, two) in (*to).sums.iter_mut().zip(scales.chunks_exact(2)) {
                *sums = pair::<L>(L::left(two[0], bits), L::left(two[1], bits));
            }
        }
    }
}

/// The sum over blocks of 256.
pub(super) struct SuperBlocks<B>(PhantomData<B>);

impl<B: SuperBlock> Format for SuperBlocks<B> {
    const BLOCK: (usize, usize) = (BLOCK, B::BYTES);
    const PACKING: Packing = Packing { count: BLOCK, sums: Sums::Each(B::GROUP) };

    type Scales<L: Lanes> = Scales<L>;
    /// The sum of the blocks before, and this block's integer.
    type Sum<L: Lanes> = (L::Floats, L::Ints);

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, _: usize, to: &mut impl Take<L, Scales<L>>) {
        unsafe { B::unpack(rows, to) }
    }

    #[inline(always)]
    unsafe fn begin<L: Lanes>(total: L::Floats) -> Self::Sum<L> {
        unsafe { (total, L::splat(0)) }
    }

    #[inline(always)]
    unsafe fn add<L: Lanes, const T: usize>(
        mut sums: [Self::Sum<L>; T],
        weights: &[L::Ints; 8],
        (scales, chunk): (*const Scales<L>, usize),
        bytes: [*const u8; T],
    ) -> [Self::Sum<L>; T] {
        unsafe {
            let activations = bytes.map(<*const u8>::cast::<i32>);
            let [first, second] = (*scales).groups[chunk];
            let mut integers = sums.map(|(_, integers)| integers);
            if B::GROUP == CHUNK {
                integers = L::scaled_dots(integers, (weights, first), B::MOST, activations);
            } else {
                integers = L::scaled_dots(integers, (&weights[..4], first), B::MOST, activations);
                let activations = activations.map(|activations| activations.add(4));
                integers = L::scaled_dots(integers, (&weights[4..], second), B::MOST, activations);
            }
            sums.iter_mut().zip(integers).for_each(|(sum, integers)| sum.1 = integers);
            sums
        }
    }

    #[inline(always)]
    unsafe fn end<L: Lanes>(
        (total, sum): Self::Sum<L>,
        scales: *const Scales<L>,
        record: *const u8,
    ) -> L::Floats {
        unsafe {
            let scale = L::splat_float(record.add(BLOCK).cast::<f32>().read_unaligned());
            // Minima or biases times the sums of the activations, which the record has with their signs changed.
            let mut less = L::splat(0);
            if !L::undoes_bias(B::MOST) {
                let sums = record.add(BLOCK + 4).cast::<i32>();
                for i in 0..BLOCK / B::GROUP / 2 {
                    less = L::dot_pairs(less, (*scales).sums[i], sums.add(i));
                }
            }
            let add = |sum, factor, total| L::fma(L::to_floats(sum), L::mul(factor, scale), total);
            if B::MINIMUM {
                add(less, (*scales).minimum, add(sum, (*scales).scale, total))
            } else {
                add(L::add_ints(sum, less), (*scales).scale, total)
            }
        }
    }

    #[inline(always)]
    unsafe fn add_tiles<L: Lanes>(
        (panel, _): (&Panel<L, Scales<L>>, usize),
        records: *const u8,
        (_, added): (usize, usize),
        sums: *mut L::Floats,
    ) {
        let each = Self::PACKING.bytes();
        let (mut scaled, mut products) = (MaybeUninit::<Scaled>::uninit(), MaybeUninit::<Products>::uninit());
        unsafe {
            // Vectors of lanes that have tiles are those of tiles.
            let scales = (&raw const panel.scales.groups).cast();
            L::Tiles::scale(panel.weights.as_ptr().cast(), scales, B::GROUP, scaled.as_mut_ptr());
            for first in (0..added).step_by(TOKENS) {
                let (records, sums) = (records.add(first * each), sums.add(first));
                L::Tiles::multiply(scaled.as_ptr(), records, each, products.as_mut_ptr());
                for token in 0..TOKENS {
                    let product = products.as_ptr().cast::<L::Ints>().add(token).read();
                    let sum = (*sums.add(token), product);
                    *sums.add(token) =
                        Self::end::<L>(sum, &raw const panel.scales, records.add(token * each));
                }
            }
        }
    }
}

/// Two integers of 16 bits in a lane.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn pair<L: Lanes>(first: L::Ints, second: L::Ints) -> L::Ints {
    unsafe { L::or(L::right(L::left(first, 16), 16), L::left(second, 16)) }
}

/// Fetches of what is needed soon as much as some chunks' part of all blocks.
#[inline(always)]
pub(super) fn fetch<B: SuperBlock, L: Lanes>(rows: &Rows, chunks: Range<usize>) {
    let bytes = B::BYTES * L::ROWS;
    rows.fetch(chunks.start * bytes / CHUNKS..chunks.end * bytes / CHUNKS);
}
