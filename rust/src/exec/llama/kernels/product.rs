//! Products of weights with the activations of some tokens: tiles of rows, and the bytes of quantised weights.
//!
//! An output is the sum over its row's chunks, in their order, of (the exact integer product of 32 bytes) · (scale of the
//! weights · scale of the activations), each added with one rounding; where the type has minima, the minimum times the
//! scaled sum of the activations comes after each. So an output's bits depend on its row of weights and its token alone:
//! on no number of tokens or threads, no tile, no instruction set.
//!
//! A tile is as many rows of weights as a vector has lanes. Its chunks are turned so that a lane is a row, once for all
//! tokens, eight at a time; then each token takes 8 products of bytes, a conversion, a multiplication and an addition for
//! 32 weights of 16 rows. The next tile is fetched meanwhile: rows are read linearly.

use super::activations::{record, write};
use super::formats::{CHUNK, CHUNKS, Format, Panel, Rows, Scales, Scheme, Take};
use super::lanes::Lanes;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

/// Most rows in a tile, and fewest of a product.
pub(super) const TILE: usize = 16;
/// Tokens whose sums stay in registers.
const TOGETHER: usize = 4;

/// Where the tokens of a product are: each in a row, and in a slot of it. Distances are in floats.
#[derive(Clone, Copy)]
pub(super) struct Tokens {
    pub(super) count: usize,
    /// Slot and row of each; null: all slots of row 0 in order.
    pub(super) picked: *const [i32; 2],
    /// Activations.
    pub(super) from: *const f32,
    /// From a slot to the next, and from a row to the next.
    pub(super) from_strides: [usize; 2],
    /// Slots that have activations of their own; later ones begin anew.
    pub(super) from_slots: usize,
    /// Outputs.
    pub(super) to: *mut f32,
    pub(super) to_strides: [usize; 2],
}

impl Tokens {
    /// # Safety
    /// The token is one of `count`, and `picked` is as described.
    #[inline(always)]
    unsafe fn place(&self, token: usize) -> [usize; 2] {
        if self.picked.is_null() {
            return [token, 0];
        }
        // SAFETY: the caller's promise.
        unsafe { (*self.picked.add(token)).map(|x| x as usize) }
    }

    /// A token's activations.
    ///
    /// # Safety
    /// As for [`place`](Tokens::place).
    #[inline(always)]
    pub(super) unsafe fn from(&self, token: usize) -> *const f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let [slot, row] = self.place(token);
            self.from.add(slot % self.from_slots * self.from_strides[0] + row * self.from_strides[1])
        }
    }

    /// A token's outputs.
    ///
    /// # Safety
    /// As for [`place`](Tokens::place).
    #[inline(always)]
    unsafe fn to(&self, token: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let [slot, row] = self.place(token);
            self.to.add(slot * self.to_strides[0] + row * self.to_strides[1])
        }
    }
}

/// A product's operands.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub(super) weights: *const u8,
    /// Rows of weights, at least [`TILE`].
    pub(super) rows: usize,
    /// Bytes from a row to the next.
    pub(super) stride: usize,
    /// Chunks of a row.
    pub(super) chunks: usize,
    pub(super) tokens: Tokens,
    /// Records of all tokens' activations, [chunk][token], for kernels that have them.
    pub(super) records: *mut u8,
}

/// How one type of weights is multiplied.
pub(super) trait Kernel {
    /// Weights and bytes of a block.
    const BLOCK: (usize, usize);
    /// How activations are packed; `None`: they are read as they lie.
    const SCHEME: Option<Scheme>;

    /// The sums of [`Lanes::ROWS`] rows for each token. `ALONE`: there is one token only. `more`: as many rows follow these, and
    /// are fetched into the cache meanwhile.
    ///
    /// # Safety
    /// As [`Product`] and [`Lanes`] say; the records are written.
    unsafe fn tile<L: Lanes, const ALONE: bool>(
        product: &Product,
        row: usize,
        more: bool,
        sums: *mut L::Floats,
    );
}

/// Writes the records of some chunks of all tokens.
///
/// # Safety
/// As [`Product`] says.
#[inline(always)]
pub(super) unsafe fn pack<K: Kernel>(product: &Product, chunks: Range<usize>) {
    let Some(scheme) = K::SCHEME else { return };
    let Product { tokens, records, .. } = *product;
    for token in 0..tokens.count {
        for chunk in chunks.clone() {
            // SAFETY: as `Product` says.
            unsafe {
                let to = records.add((chunk * tokens.count + token) * record(scheme));
                write(scheme, tokens.from(token).add(chunk * CHUNK), to);
            }
        }
    }
}

/// Computes the outputs of some rows, which begin at a multiple of [`TILE`] and end at one or with the last row.
/// `sums`: room for [`TILE`] floats of each token, aligned to 64 bytes.
///
/// # Safety
/// As [`Product`] and [`Lanes`] say; the records are written.
#[inline(always)]
pub(super) unsafe fn tiles<L: Lanes, K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    let end = rows.end;
    for first in rows.step_by(L::ROWS) {
        // The last tile reaches back over rows that are computed already, of which nothing is stored.
        let row = first.min(product.rows - L::ROWS);
        // SAFETY: as above.
        unsafe {
            if product.tokens.count == 1 {
                K::tile::<L, true>(product, row, row + 2 * L::ROWS <= end, sums.cast());
            } else {
                K::tile::<L, false>(product, row, row + 2 * L::ROWS <= end, sums.cast());
            }
            store::<L>(product, row, first - row, sums.cast());
        }
    }
}

/// Weights in bytes.
pub(super) struct Quantised<F>(PhantomData<F>);

impl<F: Format> Kernel for Quantised<F> {
    const BLOCK: (usize, usize) = (CHUNK * F::CHUNKS, F::BYTES);
    const SCHEME: Option<Scheme> = Some(F::SCHEME);

    #[inline(always)]
    unsafe fn tile<L: Lanes, const ALONE: bool>(
        product: &Product,
        row: usize,
        more: bool,
        sums: *mut L::Floats,
    ) {
        unsafe {
            let Product { weights, stride, chunks, tokens, records, .. } = *product;
            let weights = weights.add(row * stride);
            for token in 0..tokens.count {
                *sums.add(token) = L::zero();
            }
            let record_stride = tokens.count * record(F::SCHEME);
            for first in (0..chunks).step_by(CHUNKS) {
                let count = CHUNKS.min(chunks - first);
                let at = first / F::CHUNKS * F::BYTES;
                let blocks = weights.add(at);
                // The next tile as its bytes lie, as many as are read of this one meanwhile.
                let ahead = if more { weights.add(L::ROWS * (stride + at)) } else { ptr::null() };
                let rows = Rows { first: blocks, stride, ahead };
                let records = records.add(first * record_stride).cast_const();
                if ALONE {
                    let scales = MaybeUninit::uninit();
                    let mut sum = Sum::<L, F> { total: *sums, records, scales, format: PhantomData };
                    F::unpack::<L>(&rows, count, &mut sum);
                    *sums = sum.total;
                } else {
                    several::<L, F>(&rows, count, (records, tokens.count), sums);
                }
            }
        }
    }
}

/// The sum of one token.
struct Sum<L: Lanes, F> {
    total: L::Floats,
    /// Of the first chunk.
    records: *const u8,
    scales: MaybeUninit<Scales<L>>,
    format: PhantomData<F>,
}

impl<L: Lanes, F: Format> Take<L> for Sum<L, F> {
    #[inline(always)]
    fn scales(&mut self) -> *mut Scales<L> {
        self.scales.as_mut_ptr()
    }

    #[inline(always)]
    unsafe fn take(&mut self, chunk: usize, weights: [L::Ints; 8]) {
        unsafe {
            let bytes = self.records.add(chunk * record(F::SCHEME)).cast::<i32>();
            self.total = with_chunk::<L, F>(self.total, &weights, (self.scales.as_ptr(), chunk), bytes);
        }
    }
}

/// Adds some chunks of all tokens to their sums.
#[inline(always)]
unsafe fn several<L: Lanes, F: Format>(
    rows: &Rows,
    count: usize,
    (records, tokens): (*const u8, usize),
    sums: *mut L::Floats,
) {
    unsafe {
        let mut panel = MaybeUninit::<Panel<L>>::uninit();
        F::unpack::<L>(rows, count, &mut panel.as_mut_ptr());
        let panel = &*panel.as_ptr();
        let at = |token: usize| (records.add(token * record(F::SCHEME)), tokens * record(F::SCHEME));
        let mut token = 0;
        while token + TOGETHER <= tokens {
            add::<L, F, TOGETHER>(panel, count, at(token), sums.add(token));
            token += TOGETHER;
        }
        match tokens - token {
            1 => add::<L, F, 1>(panel, count, at(token), sums.add(token)),
            2 => add::<L, F, 2>(panel, count, at(token), sums.add(token)),
            3 => add::<L, F, 3>(panel, count, at(token), sums.add(token)),
            _ => {}
        }
    }
}

/// Adds `chunks` chunks of `T` tokens to their sums; `records`: of the first token's first chunk, and bytes from one chunk
/// to the next.
#[inline(always)]
unsafe fn add<L: Lanes, F: Format, const T: usize>(
    panel: &Panel<L>,
    chunks: usize,
    records: (*const u8, usize),
    sums: *mut L::Floats,
) {
    unsafe {
        let mut total: [L::Floats; T] = sums.cast::<[L::Floats; T]>().read();
        for c in 0..chunks {
            let weights = &panel.weights[c];
            for (t, total) in total.iter_mut().enumerate() {
                let bytes = records.0.add(c * records.1 + t * record(F::SCHEME)).cast::<i32>();
                *total = with_chunk::<L, F>(*total, weights, (&raw const panel.scales, c), bytes);
            }
        }
        sums.cast::<[L::Floats; T]>().write(total);
    }
}

/// A sum with a chunk added; `bytes`: the token's record of it.
#[inline(always)]
unsafe fn with_chunk<L: Lanes, F: Format>(
    total: L::Floats,
    weights: &[L::Ints; 8],
    (scales, chunk): (*const Scales<L>, usize),
    bytes: *const i32,
) -> L::Floats {
    unsafe {
        let half = |half: usize| (*scales).scales[chunk][half];
        let scale = L::splat_float(bytes.add(8).cast());
        match F::SCHEME {
            Scheme::Biased(bias) => {
                let product = whole::<L>(weights, bytes, bias == 128);
                L::fma(product, L::mul(half(0), scale), total)
            }
            Scheme::Halves(_) => {
                let [first, second] = halves::<L>(weights, bytes);
                let total = L::fma(first, L::mul(half(0), scale), total);
                L::fma(second, L::mul(half(1), scale), total)
            }
            Scheme::Minimum => {
                let mut sum = L::bytes(0);
                for (j, weights) in weights.iter().enumerate() {
                    sum = L::dot(sum, *weights, bytes.add(j));
                }
                let total = L::fma(L::to_floats(sum), L::mul(half(0), scale), total);
                L::fma((*scales).mins[chunk], L::splat_float(bytes.add(9).cast()), total)
            }
        }
    }
}

/// The product of a chunk.
#[inline(always)]
unsafe fn whole<L: Lanes>(weights: &[L::Ints; 8], bytes: *const i32, biased: bool) -> L::Floats {
    unsafe {
        let mut sum = if biased { L::biased(bytes.add(9)) } else { L::splat(bytes.add(9)) };
        for (j, weights) in weights.iter().enumerate() {
            sum = match biased {
                true => L::dot_biased(sum, *weights, bytes.add(j)),
                false => L::dot(sum, *weights, bytes.add(j)),
            };
        }
        L::to_floats(sum)
    }
}

/// The products of a chunk's halves.
#[inline(always)]
unsafe fn halves<L: Lanes>(weights: &[L::Ints; 8], bytes: *const i32) -> [L::Floats; 2] {
    unsafe {
        let (mut first, mut second) = (L::splat(bytes.add(9)), L::splat(bytes.add(10)));
        for j in 0..4 {
            first = L::dot(first, weights[j], bytes.add(j));
            second = L::dot(second, weights[j + 4], bytes.add(j + 4));
        }
        [L::to_floats(first), L::to_floats(second)]
    }
}

/// Stores the sums of a tile without its first `skip` rows.
#[inline(always)]
unsafe fn store<L: Lanes>(product: &Product, row: usize, skip: usize, sums: *const L::Floats) {
    for token in 0..product.tokens.count {
        unsafe {
            let out = product.tokens.to(token).add(row);
            let sum = *sums.add(token);
            if skip == 0 {
                L::store_floats(out, sum);
            } else {
                let mut lanes = [0f32; TILE];
                L::store_floats(lanes.as_mut_ptr(), sum);
                lanes[skip..L::ROWS].as_ptr().copy_to_nonoverlapping(out.add(skip), L::ROWS - skip);
            }
        }
    }
}
