//! What types of quantised weights have in common: how rows of them become bytes for products. How they lie in a file is
//! `ggml-common.h` of llama.cpp.

use super::activations::Packing;
use super::lanes::{Lanes, prefetch};
use std::array::from_fn;
use std::ops::Range;

/// Weights that are multiplied together: those of a block of 32.
pub(super) const CHUNK: usize = 32;
/// Chunks that are unpacked at a time.
pub(super) const CHUNKS: usize = 8;

/// Some chunks of as many rows as there are lanes.
pub(super) struct Panel<L: Lanes, S> {
    /// Of each chunk: weights 4j to 4j + 3 as unsigned bytes, for j = 0 to 7.
    pub(super) weights: [[L::Ints; 8]; CHUNKS],
    pub(super) scales: S,
}

/// What takes unpacked chunks: a panel for several tokens, or the sum of one, whose weights stay in registers.
pub(super) trait Take<L: Lanes, S> {
    /// Where scales and minima are written before their chunk is taken.
    fn scales(&mut self) -> *mut S;

    /// Takes a chunk's weights as [`Panel`] has them, chunk by chunk.
    ///
    /// # Safety
    /// As for [`Lanes`].
    unsafe fn take(&mut self, chunk: usize, weights: [L::Ints; 8]);
}

impl<L: Lanes, S> Take<L, S> for *mut Panel<L, S> {
    #[inline(always)]
    fn scales(&mut self) -> *mut S {
        // SAFETY: whoever unpacks has a panel.
        unsafe { &raw mut (**self).scales }
    }

    #[inline(always)]
    unsafe fn take(&mut self, chunk: usize, weights: [L::Ints; 8]) {
        // SAFETY: the panel has this chunk.
        unsafe { (**self).weights[chunk] = weights }
    }
}

/// Blocks of some rows.
pub(super) struct Rows {
    /// The first row's.
    pub(super) first: *const u8,
    /// Bytes from a row to the next.
    pub(super) stride: usize,
    /// What is needed soon, or null.
    pub(super) ahead: *const u8,
}

impl Rows {
    /// Fetches some bytes of what is needed soon.
    #[inline(always)]
    pub(super) fn fetch(&self, bytes: Range<usize>) {
        if !self.ahead.is_null() {
            prefetch(self.ahead.wrapping_add(bytes.start), bytes.len());
        }
    }
}

/// How a type of weights is unpacked, and how its chunks are added to a token's sum.
///
/// # Safety
/// All methods: as for [`Lanes`]. There are as many blocks in each row as are unpacked, records of all tokens, and tiles have begun
/// where they are used.
pub(super) trait Format {
    /// Weights and bytes of a block.
    const BLOCK: (usize, usize);
    /// How activations are packed.
    const PACKING: Packing;

    /// Scales and minima of a panel.
    type Scales<L: Lanes>;
    /// A token's sum while a panel is added.
    type Sum<L: Lanes>: Copy;

    /// Unpacks `chunks` chunks, whole blocks, and fetches as many bytes of the next rows meanwhile: all at once, other
    /// loads would wait.
    unsafe fn unpack<L: Lanes>(rows: &Rows, chunks: usize, to: &mut impl Take<L, Self::Scales<L>>);

    /// The sum with nothing of the panel added.
    unsafe fn begin<L: Lanes>(total: L::Floats) -> Self::Sum<L>;

    /// Adds a chunk of a panel to the sums of some tokens; `bytes`: of each token's activations, in their record.
    unsafe fn add<L: Lanes, const T: usize>(
        sums: [Self::Sum<L>; T],
        weights: &[L::Ints; 8],
        scales: (*const Self::Scales<L>, usize),
        bytes: [*const u8; T],
    ) -> [Self::Sum<L>; T];

    /// The sum with the whole panel added; `record`: of the panel's first activations.
    unsafe fn end<L: Lanes>(
        sum: Self::Sum<L>,
        scales: *const Self::Scales<L>,
        record: *const u8,
    ) -> L::Floats;

    /// Adds so many chunks of a panel to the sums of the first tokens by tiles. `records`: the activations of all tokens. `tokens`: how
    /// many there are, and how many are added, whole tiles.
    unsafe fn add_tiles<L: Lanes>(
        panel: (&Panel<L, Self::Scales<L>>, usize),
        records: *const u8,
        tokens: (usize, usize),
        sums: *mut L::Floats,
    );
}

/// An f16 of each row.
#[inline(always)]
pub(super) unsafe fn halves<L: Lanes>(first: *const u8, stride: usize) -> L::Floats {
    unsafe {
        let mut halves = [0u16; 16];
        for (row, half) in halves.iter_mut().enumerate().take(L::ROWS) {
            *half = first.add(row * stride).cast::<u16>().read_unaligned();
        }
        L::load_halves(halves.as_ptr())
    }
}

/// 32 bytes of each row.
#[inline(always)]
pub(super) unsafe fn chunk<L: Lanes>(rows: *const u8, stride: usize) -> [L::Ints; 8] {
    unsafe {
        let [a, b, c, d] = L::transposed(rows, stride);
        let [e, f, g, h] = L::transposed(rows.add(16), stride);
        [a, b, c, d, e, f, g, h]
    }
}

/// Bits of each byte, moved from place `from` to place `to`: those of `mask`.
#[inline(always)]
pub(super) unsafe fn moved<L: Lanes>(x: L::Ints, from: usize, to: usize, mask: u8) -> L::Ints {
    unsafe {
        let x = if from > to { L::right(x, from - to) } else { L::left(x, to - from) };
        L::and(x, L::bytes(mask))
    }
}

#[inline(always)]
pub(super) unsafe fn low<L: Lanes>(x: L::Ints) -> L::Ints {
    unsafe { moved::<L>(x, 0, 0, 0x0f) }
}

#[inline(always)]
pub(super) unsafe fn high<L: Lanes>(x: L::Ints) -> L::Ints {
    unsafe { moved::<L>(x, 4, 0, 0x0f) }
}

/// Byte j of each lane, for j = 0 to 3, as integers with sign.
#[inline(always)]
pub(super) unsafe fn integers<L: Lanes>(x: L::Ints) -> [L::Ints; 4] {
    from_fn(|j| unsafe { L::signed_right(L::left(x, 24 - 8 * j), 24) })
}
