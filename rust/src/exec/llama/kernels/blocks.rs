//! Types with blocks of 32 weights and a scale in each.

use super::activations::{Packing, Sums};
use super::formats::{CHUNK, CHUNKS, Format, Panel, Rows, Take, chunk, moved};
use super::lanes::{Lanes, Products, TOKENS, Tiles};
use std::array::from_fn;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A type with blocks of 32 weights.
///
/// # Safety
/// All methods: as for [`Lanes`]; there is a block, in as many rows as there are lanes.
pub(super) trait Block {
    /// Bytes of a block.
    const BYTES: usize;
    /// What the weights' unsigned bytes stand for.
    const MEANING: Meaning;
    /// The largest byte.
    const MOST: i32;

    /// A block's scale as [`scales`](Block::scales) takes it: by default its first 16 bits, an f16.
    #[inline(always)]
    unsafe fn scale(block: *const u8) -> u16 {
        unsafe { block.cast::<u16>().read_unaligned() }
    }

    /// The scales of as many rows as there are lanes.
    #[inline(always)]
    unsafe fn scales<L: Lanes>(scales: &[u16; 16]) -> L::Floats {
        unsafe { L::load_halves(scales.as_ptr()) }
    }

    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8];
}

/// What unsigned bytes stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// scale · (byte − bias).
    Biased(i32),
    /// scale · byte + minimum, an f16 behind that of the scale.
    Minimum,
}

/// Scales of blocks of 32, and what is added to each of their weights.
pub(super) struct Scales<L: Lanes> {
    scales: [L::Floats; CHUNKS],
    mins: [L::Floats; CHUNKS],
}

/// The sum over blocks of 32, each added with one rounding.
pub(super) struct Blocks<B>(PhantomData<B>);

impl<B: Block> Blocks<B> {
    /// What a product begins with: the bias times the sum of the activations.
    #[inline(always)]
    unsafe fn start<L: Lanes>(bytes: *const u8) -> L::Ints {
        unsafe {
            match B::MEANING {
                Meaning::Biased(_) if !L::undoes_bias(B::MOST) => {
                    L::splat(bytes.cast::<i32>().add(9).read_unaligned())
                }
                _ => L::splat(0),
            }
        }
    }

    /// The sum with a chunk's product added.
    #[inline(always)]
    unsafe fn add_product<L: Lanes>(
        total: L::Floats,
        product: L::Ints,
        (scales, chunk): (*const Scales<L>, usize),
        bytes: *const u8,
    ) -> L::Floats {
        unsafe {
            let behind = bytes.add(CHUNK).cast::<f32>();
            let scale = L::mul((*scales).scales[chunk], L::splat_float(behind.read_unaligned()));
            let total = L::fma(L::to_floats(product), scale, total);
            match B::MEANING {
                Meaning::Biased(_) => total,
                Meaning::Minimum => {
                    let sum = L::splat_float(behind.add(1).read_unaligned());
                    L::fma((*scales).mins[chunk], sum, total)
                }
            }
        }
    }
}

impl<B: Block> Format for Blocks<B> {
    const BLOCK: (usize, usize) = (CHUNK, B::BYTES);
    const PACKING: Packing = Packing {
        count: CHUNK,
        sums: match B::MEANING {
            Meaning::Biased(bias) => Sums::Times(-bias),
            Meaning::Minimum => Sums::Scaled,
        },
    };

    type Scales<L: Lanes> = Scales<L>;
    type Sum<L: Lanes> = L::Floats;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, chunks: usize, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let Rows { first, stride, .. } = *rows;
            // All at once: the loads of one block's scales would wait for each other.
            let mut scales = [[0u16; 16]; CHUNKS];
            let mut mins = [[0u16; 16]; CHUNKS];
            for c in 0..chunks {
                for r in 0..L::ROWS {
                    let block = first.add(c * B::BYTES + r * stride);
                    scales[c][r] = B::scale(block);
                    if B::MEANING == Meaning::Minimum {
                        mins[c][r] = block.add(2).cast::<u16>().read_unaligned();
                    }
                }
            }
            for c in 0..chunks {
                rows.fetch(c * B::BYTES * L::ROWS..(c + 1) * B::BYTES * L::ROWS);
                let taken = to.scales();
                (*taken).scales[c] = B::scales::<L>(&scales[c]);
                if B::MEANING == Meaning::Minimum {
                    (*taken).mins[c] = L::load_halves(mins[c].as_ptr());
                }
                to.take(c, B::bytes::<L>(first.add(c * B::BYTES), stride));
            }
        }
    }

    #[inline(always)]
    unsafe fn begin<L: Lanes>(total: L::Floats) -> L::Floats {
        total
    }

    #[inline(always)]
    unsafe fn add<L: Lanes, const T: usize>(
        mut totals: [L::Floats; T],
        weights: &[L::Ints; 8],
        scales: (*const Scales<L>, usize),
        bytes: [*const u8; T],
    ) -> [L::Floats; T] {
        unsafe {
            let starts = bytes.map(|bytes| Self::start::<L>(bytes));
            let products = L::dots(starts, weights, B::MOST, bytes.map(<*const u8>::cast));
            for (t, product) in products.into_iter().enumerate() {
                totals[t] = Self::add_product::<L>(totals[t], product, scales, bytes[t]);
            }
            totals
        }
    }

    #[inline(always)]
    unsafe fn end<L: Lanes>(total: L::Floats, _: *const Scales<L>, _: *const u8) -> L::Floats {
        total
    }

    #[inline(always)]
    unsafe fn add_tiles<L: Lanes>(
        (panel, chunks): (&Panel<L, Scales<L>>, usize),
        records: *const u8,
        (tokens, added): (usize, usize),
        sums: *mut L::Floats,
    ) {
        let each = Self::PACKING.bytes();
        let mut products = MaybeUninit::<[Products; CHUNKS]>::uninit();
        let products = products.as_mut_ptr().cast::<Products>();
        unsafe {
            for first in (0..added).step_by(TOKENS) {
                let record =
                    |chunk: usize, token: usize| records.add((chunk * tokens + first + token) * each);
                for c in 0..chunks {
                    // Vectors of lanes that have tiles are those of tiles.
                    let weights = panel.weights.as_ptr().add(c).cast();
                    L::Tiles::multiply_bytes(weights, record(c, 0), each, products.add(c));
                }
                for token in 0..TOKENS {
                    let mut total = *sums.add(first + token);
                    for c in 0..chunks {
                        let product = products.add(c).cast::<L::Ints>().add(token).read();
                        let product = L::add_ints(product, Self::start::<L>(record(c, token)));
                        total = Self::add_product::<L>(
                            total,
                            product,
                            (&raw const panel.scales, c),
                            record(c, token),
                        );
                    }
                    *sums.add(first + token) = total;
                }
            }
        }
    }
}

/// 16 bytes of each row: their low halves, then their high ones.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn nibbles<L: Lanes>(rows: *const u8, stride: usize) -> [L::Ints; 8] {
    unsafe {
        let four = L::transposed(rows, stride);
        from_fn(|i| moved::<L>(four[i % 4], i / 4 * 4, 0, 0x0f))
    }
}

/// Bits 0 to 3 of each lane, whose others are 0, as bit 4 of its bytes.
#[inline(always)]
unsafe fn spread<L: Lanes>(x: L::Ints) -> L::Ints {
    unsafe {
        let two = L::or(L::left(x, 4), L::left(x, 11));
        let four = L::or(two, L::or(L::left(x, 18), L::left(x, 25)));
        L::and(four, L::bytes(0x10))
    }
}

/// [`nibbles`] with a fifth bit each, from the 4 bytes before them.
#[inline(always)]
unsafe fn fives<L: Lanes>(rows: *const u8, stride: usize) -> [L::Ints; 8] {
    unsafe {
        let [bits, ..] = L::transposed(rows, stride);
        let fours = nibbles::<L>(rows.add(4), stride);
        from_fn(|j| L::or(fours[j], spread::<L>(L::right(L::left(bits, 28 - 4 * j), 28))))
    }
}

pub(super) struct Q8_0;

impl Block for Q8_0 {
    const BYTES: usize = 34;
    const MEANING: Meaning = Meaning::Biased(128);
    const MOST: i32 = 255;

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe { chunk::<L>(block.add(2), stride).map(|x| L::xor(x, L::bytes(0x80))) }
    }
}

/// Weights in halves of bytes, with a fifth bit or without.
pub(super) struct Nibbles<const FIFTH: bool, const MINIMUM: bool>;
pub(super) type Q4_0 = Nibbles<false, false>;
pub(super) type Q4_1 = Nibbles<false, true>;
pub(super) type Q5_0 = Nibbles<true, false>;
pub(super) type Q5_1 = Nibbles<true, true>;

impl<const FIFTH: bool, const MINIMUM: bool> Block for Nibbles<FIFTH, MINIMUM> {
    const BYTES: usize = 18 + if FIFTH { 4 } else { 0 } + if MINIMUM { 2 } else { 0 };
    const MEANING: Meaning = if MINIMUM { Meaning::Minimum } else { Meaning::Biased((Self::MOST + 1) / 2) };
    const MOST: i32 = if FIFTH { 31 } else { 15 };

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe {
            let first = block.add(if MINIMUM { 4 } else { 2 });
            if FIFTH { fives::<L>(first, stride) } else { nibbles::<L>(first, stride) }
        }
    }
}

pub(super) struct Iq4Nl;

impl Iq4Nl {
    /// What its nibbles stand for, and 128.
    pub(super) const VALUES: [u8; 16] =
        [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
}

impl Block for Iq4Nl {
    const BYTES: usize = 18;
    const MEANING: Meaning = Meaning::Biased(128);
    const MOST: i32 = 241;

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe { nibbles::<L>(block.add(2), stride).map(|x| L::look_up(&Self::VALUES, x)) }
    }
}

/// Four bits of a float, with a power of two for 32 (Open Compute Project, Microscaling Formats 1.0).
pub(super) struct Mxfp4;

impl Mxfp4 {
    /// Twice what its nibbles stand for, and 12.
    const VALUES: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];
}

impl Block for Mxfp4 {
    const BYTES: usize = 17;
    const MEANING: Meaning = Meaning::Biased(12);
    const MOST: i32 = 24;

    #[inline(always)]
    unsafe fn scale(block: *const u8) -> u16 {
        unsafe { u16::from(*block) }
    }

    /// 2^(x - 128), half of what the block has; the two smallest are no normal numbers.
    #[inline(always)]
    unsafe fn scales<L: Lanes>(scales: &[u16; 16]) -> L::Floats {
        let power = |x: u16| match u32::from(x) {
            0 => 0x0020_0000,
            x => ((x - 1) << 23).max(0x0040_0000),
        };
        let bits = scales.map(|x| f32::from_bits(power(x)));
        unsafe { L::load_floats(bits.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn bytes<L: Lanes>(block: *const u8, stride: usize) -> [L::Ints; 8] {
        unsafe { nibbles::<L>(block.add(1), stride).map(|x| L::look_up(&Self::VALUES, x)) }
    }
}
