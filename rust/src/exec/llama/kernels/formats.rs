//! How quantised weights lie in a file (`ggml-common.h` of llama.cpp), and how rows of them become bytes for products.

use super::lanes::{Lanes, prefetch};
use std::ops::Range;

/// Weights that share a scale with the activations.
pub(super) const CHUNK: usize = 32;
/// Chunks that are unpacked at a time.
pub(super) const CHUNKS: usize = 8;

/// Some chunks of as many rows as there are lanes.
pub(super) struct Panel<L: Lanes> {
    /// Of each chunk: weights 4j to 4j + 3 as unsigned bytes, for j = 0 to 7.
    pub(super) weights: [[L::Ints; 8]; CHUNKS],
    pub(super) scales: Scales<L>,
}

/// Scales and minima of some chunks.
pub(super) struct Scales<L: Lanes> {
    /// Of each chunk's halves; the first alone where they have one.
    pub(super) scales: [[L::Floats; 2]; CHUNKS],
    /// What is added to each weight; of formats with minima only.
    pub(super) mins: [L::Floats; CHUNKS],
}

/// What takes unpacked chunks: a panel for several tokens, or the sum of one, whose weights stay in registers.
pub(super) trait Take<L: Lanes> {
    /// Where a chunk's scales and minimum are written before it is taken.
    fn scales(&mut self) -> *mut Scales<L>;

    /// Takes a chunk's weights as [`Panel`] has them, chunk by chunk.
    ///
    /// # Safety
    /// As for [`Lanes`].
    unsafe fn take(&mut self, chunk: usize, weights: [L::Ints; 8]);
}

impl<L: Lanes> Take<L> for *mut Panel<L> {
    #[inline(always)]
    fn scales(&mut self) -> *mut Scales<L> {
        // SAFETY: whoever unpacks has a panel.
        unsafe { &raw mut (**self).scales }
    }

    #[inline(always)]
    unsafe fn take(&mut self, chunk: usize, weights: [L::Ints; 8]) {
        // SAFETY: the panel has this chunk.
        unsafe { (**self).weights[chunk] = weights }
    }
}

/// What unsigned bytes stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// scale · (byte − bias).
    Biased(i32),
    /// The same with a scale for each half of a chunk.
    Halves(i32),
    /// scale · byte + minimum.
    Minimum,
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

/// A type of weights.
pub(super) trait Format {
    /// Bytes of a block.
    const BYTES: usize;
    /// Chunks in a block.
    const CHUNKS: usize;
    const SCHEME: Scheme;

    /// Unpacks `chunks` chunks, whole blocks, and fetches as many bytes of the next rows meanwhile: all at once, other
    /// loads would wait.
    ///
    /// # Safety
    /// As for [`Lanes`]; there are as many blocks in each row.
    unsafe fn unpack<L: Lanes>(rows: &Rows, chunks: usize, to: &mut impl Take<L>);
}

/// A type with blocks of one chunk that begin with an f16 scale, and an f16 minimum where the scheme has one.
pub(super) trait OneChunk {
    const BYTES: usize;
    const SCHEME: Scheme;

    /// # Safety
    /// As for [`Format::unpack`].
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8];
}

impl<F: OneChunk> Format for F {
    const BYTES: usize = F::BYTES;
    const CHUNKS: usize = 1;
    const SCHEME: Scheme = F::SCHEME;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, chunks: usize, to: &mut impl Take<L>) {
        unsafe {
            let Rows { first, stride, .. } = *rows;
            // All at once: the loads of one block's scales would wait for each other.
            let mut scales = [[0u16; 16]; CHUNKS];
            let mut mins = [[0u16; 16]; CHUNKS];
            for c in 0..chunks {
                for r in 0..L::ROWS {
                    let block = first.add(c * F::BYTES + r * stride).cast::<u16>();
                    scales[c][r] = block.read_unaligned();
                    if F::SCHEME == Scheme::Minimum {
                        mins[c][r] = block.add(1).read_unaligned();
                    }
                }
            }
            for c in 0..chunks {
                rows.fetch(c * F::BYTES * L::ROWS..(c + 1) * F::BYTES * L::ROWS);
                let taken = to.scales();
                (*taken).scales[c][0] = L::load_halves(scales[c].as_ptr());
                if F::SCHEME == Scheme::Minimum {
                    (*taken).mins[c] = L::load_halves(mins[c].as_ptr());
                }
                to.take(c, F::bytes::<L>(first.add(c * F::BYTES), stride));
            }
        }
    }
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

#[inline(always)]
pub(super) unsafe fn low<L: Lanes>(x: L::Ints) -> L::Ints {
    unsafe { L::and(x, L::bytes(0x0f)) }
}

#[inline(always)]
pub(super) unsafe fn high<L: Lanes>(x: L::Ints) -> L::Ints {
    unsafe { low::<L>(L::right::<4>(x)) }
}

/// 16 bytes of each row: their low halves, then their high ones.
#[inline(always)]
unsafe fn nibbles<L: Lanes>(rows: *const u8, stride: usize) -> [L::Ints; 8] {
    unsafe {
        let [a, b, c, d] = L::transposed(rows, stride);
        [
            low::<L>(a),
            low::<L>(b),
            low::<L>(c),
            low::<L>(d),
            high::<L>(a),
            high::<L>(b),
            high::<L>(c),
            high::<L>(d),
        ]
    }
}

/// Bits 0 to 3 of each lane, whose others are 0, as bit 4 of its bytes.
#[inline(always)]
unsafe fn spread<L: Lanes>(x: L::Ints) -> L::Ints {
    unsafe {
        let two = L::or(L::left::<4>(x), L::left::<11>(x));
        let four = L::or(two, L::or(L::left::<18>(x), L::left::<25>(x)));
        L::and(four, L::bytes(0x10))
    }
}

/// [`nibbles`] with a fifth bit each, from the 4 bytes before them.
#[inline(always)]
unsafe fn fives<L: Lanes>(rows: *const u8, stride: usize) -> [L::Ints; 8] {
    unsafe {
        let [bits, ..] = L::transposed(rows, stride);
        let fours = [
            L::left::<28>(bits),
            L::left::<24>(bits),
            L::left::<20>(bits),
            L::left::<16>(bits),
            L::left::<12>(bits),
            L::left::<8>(bits),
            L::left::<4>(bits),
            bits,
        ];
        let mut all = nibbles::<L>(rows.add(4), stride);
        for (x, four) in all.iter_mut().zip(fours) {
            *x = L::or(*x, spread::<L>(L::right::<28>(four)));
        }
        all
    }
}

pub(super) struct Q8_0;

impl OneChunk for Q8_0 {
    const BYTES: usize = 34;
    const SCHEME: Scheme = Scheme::Biased(128);

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe { chunk::<L>(block.add(2), stride).map(|x| L::xor(x, L::bytes(0x80))) }
    }
}

pub(super) struct Q4_0;

impl OneChunk for Q4_0 {
    const BYTES: usize = 18;
    const SCHEME: Scheme = Scheme::Biased(8);

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe { nibbles::<L>(block.add(2), stride) }
    }
}

pub(super) struct Q4_1;

impl OneChunk for Q4_1 {
    const BYTES: usize = 20;
    const SCHEME: Scheme = Scheme::Minimum;

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe { nibbles::<L>(block.add(4), stride) }
    }
}

pub(super) struct Q5_0;

impl OneChunk for Q5_0 {
    const BYTES: usize = 22;
    const SCHEME: Scheme = Scheme::Biased(16);

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe { fives::<L>(block.add(2), stride) }
    }
}

pub(super) struct Q5_1;

impl OneChunk for Q5_1 {
    const BYTES: usize = 24;
    const SCHEME: Scheme = Scheme::Minimum;

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe { fives::<L>(block.add(4), stride) }
    }
}

pub(super) struct Iq4Nl;

impl Iq4Nl {
    /// What its nibbles stand for, and 128.
    const VALUES: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
}

impl OneChunk for Iq4Nl {
    const BYTES: usize = 18;
    const SCHEME: Scheme = Scheme::Biased(128);

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe { nibbles::<L>(block.add(2), stride).map(|x| L::look_up(&Self::VALUES, x)) }
    }
}

/// Byte j of each lane, for j = 0 to 3, as integers with sign.
#[inline(always)]
pub(super) unsafe fn signed<L: Lanes>(x: L::Ints) -> [L::Floats; 4] {
    unsafe {
        [
            L::to_floats(L::signed_right::<24>(L::left::<24>(x))),
            L::to_floats(L::signed_right::<24>(L::left::<16>(x))),
            L::to_floats(L::signed_right::<24>(L::left::<8>(x))),
            L::to_floats(L::signed_right::<24>(x)),
        ]
    }
}
