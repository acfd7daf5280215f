//! Products of weights with the activations of some tokens: tiles of rows, and the bytes of quantised weights.
//!
//! An output is the sum over its row's blocks, of 32 weights or of 256, in their order, of (an exact integer product of bytes)
//! · (scale of the weights · scale of the activations), each added with one rounding; where the type has minima, those times
//! the sums of the activations come after each. So an output's bits depend on its row of weights and its token alone: on no
//! number of tokens or threads, no tile, no instruction set.
//!
//! A tile is as many rows of weights as a vector has lanes. Its chunks are turned so that a lane is a row, once for all
//! tokens, eight at a time; then each token takes 8 products of bytes, a conversion, a multiplication and an addition for
//! 32 weights of 16 rows. The next tile is fetched meanwhile: rows are read linearly.

use super::activations::Packing;
use super::formats::{CHUNK, CHUNKS, Format, Panel, Rows, Take};
use super::lanes::{Lanes, TOKENS, Tiles};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

/// Most rows in a tile, and fewest of a product.
pub(super) const TILE: usize = 16;

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
    /// Records of all tokens' activations, [record][token], for kernels that have them.
    pub(super) records: *mut u8,
}

/// How one type of weights is multiplied.
pub(super) trait Kernel {
    /// Weights and bytes of a block.
    const BLOCK: (usize, usize);
    /// How activations are packed; `None`: they are read as they lie.
    const PACKING: Option<Packing>;
    /// Whether there are products by tiles.
    const TILED: bool = false;

    /// Adds up to [`CHUNKS`] chunks of [`Lanes::ROWS`] rows, whole blocks, to the sums of all tokens. `ALONE`: there is one token
    /// only.
    ///
    /// # Safety
    /// As [`Product`] and [`Lanes`] say; the records are written.
    unsafe fn add<L: Lanes, const ALONE: bool>(product: &Product, place: &Place, sums: *mut L::Floats);
}

/// What is added to the sums of a tile.
pub(super) struct Place {
    pub(super) row: usize,
    /// The first chunk, and how many.
    pub(super) chunk: usize,
    pub(super) chunks: usize,
    /// Bytes to fetch into the cache meanwhile, as many as are read, or null.
    pub(super) ahead: *const u8,
}

/// Activations that do not stay in a core's own cache until the next tile reads them again.
const MANY: usize = 1 << 20;
/// Rows whose tiles are computed together where there are so many, panel by panel: what one tile reads of them is still near for
/// the next.
const ROUND: usize = 128;

/// Rows whose sums are in work at a time, a tile's at least.
const fn in_work(tokens: usize, chunks: usize) -> usize {
    if tokens * chunks * CHUNK < MANY { 1 } else { ROUND }
}

/// Bytes that the sums of so many tokens take, with activations of so many chunks.
pub(super) const fn sum_bytes(tokens: usize, chunks: usize) -> usize {
    let rows = in_work(tokens, chunks);
    tokens * if rows < TILE { TILE } else { rows } * size_of::<f32>()
}

/// Writes some of the records of all tokens.
///
/// # Safety
/// As [`Product`] says.
#[inline(always)]
pub(super) unsafe fn pack<K: Kernel>(product: &Product, which: Range<usize>) {
    let Some(packing) = K::PACKING else { return };
    let Product { tokens, records, .. } = *product;
    for token in 0..tokens.count {
        for record in which.clone() {
            // SAFETY: as `Product` says.
            unsafe {
                let to = records.add((record * tokens.count + token) * packing.bytes());
                packing.write(tokens.from(token).add(record * packing.count), to);
            }
        }
    }
}

/// Computes the outputs of some rows, which begin at a multiple of [`TILE`] and end at one or with the last row.
/// `sums`: room for [`sum_bytes`], aligned to 64 bytes.
///
/// # Safety
/// As [`Product`] and [`Lanes`] say; the records are written.
#[inline(always)]
pub(super) unsafe fn tiles<L: Lanes, K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    let (count, end) = (product.tokens.count, rows.end);
    let tiled = K::TILED && L::Tiles::pay(count);
    // SAFETY: as above.
    unsafe {
        if tiled {
            L::Tiles::begin(K::BLOCK.0);
        }
        if count == 1 {
            for first in rows.step_by(L::ROWS) {
                round::<L, K, true>(product, first..end.min(first + L::ROWS), end, sums.cast());
            }
        } else {
            let each = in_work(count, product.chunks).max(L::ROWS);
            for first in rows.step_by(each) {
                round::<L, K, false>(product, first..end.min(first + each), end, sums.cast());
            }
        }
        if tiled {
            L::Tiles::end();
        }
    }
}

/// Computes the outputs of some rows, whose sums are in work at a time; `end`: of the rows that follow.
#[inline(always)]
unsafe fn round<L: Lanes, K: Kernel, const ALONE: bool>(
    product: &Product,
    rows: Range<usize>,
    end: usize,
    sums: *mut L::Floats,
) {
    let Product { weights, stride, chunks, tokens, .. } = *product;
    let tiles = rows.len().div_ceil(L::ROWS);
    // The last tile reaches back over rows that are computed already, of which nothing is stored.
    let row = |tile: usize| (rows.start + tile * L::ROWS).min(product.rows - L::ROWS);
    unsafe {
        for sum in 0..tiles * tokens.count {
            *sums.add(sum) = L::splat_float(0.0);
        }
        for first in (0..chunks).step_by(CHUNKS) {
            for tile in 0..tiles {
                let row = row(tile);
                // The next tile as its bytes lie, as many as are read of this one meanwhile.
                let at = first * CHUNK / K::BLOCK.0 * K::BLOCK.1;
                let is_followed = tiles == 1 && row + 2 * L::ROWS <= end;
                let ahead = if is_followed {
                    weights.add(row * stride + L::ROWS * (stride + at))
                } else {
                    ptr::null()
                };
                let place = Place { row, chunk: first, chunks: CHUNKS.min(chunks - first), ahead };
                K::add::<L, ALONE>(product, &place, sums.add(tile * tokens.count));
            }
        }
        for tile in 0..tiles {
            let skip = rows.start + tile * L::ROWS - row(tile);
            store::<L>(product, row(tile), skip, sums.add(tile * tokens.count));
        }
    }
}

/// Weights in bytes.
pub(super) struct Quantised<F>(PhantomData<F>);

impl<F: Format> Kernel for Quantised<F> {
    const BLOCK: (usize, usize) = F::BLOCK;
    const PACKING: Option<Packing> = Some(F::PACKING);
    const TILED: bool = true;

    #[inline(always)]
    unsafe fn add<L: Lanes, const ALONE: bool>(product: &Product, place: &Place, sums: *mut L::Floats) {
        unsafe {
            let Product { weights, stride, tokens, records, .. } = *product;
            let (count, weight) = (place.chunks, place.chunk * CHUNK);
            let first = weights.add(place.row * stride + weight / F::BLOCK.0 * F::BLOCK.1);
            let rows = Rows { first, stride, ahead: place.ahead };
            let record = weight / F::PACKING.count;
            let records = Records::<F> {
                first: records.add(record * tokens.count * F::PACKING.bytes()),
                tokens: tokens.count,
                format: PhantomData,
            };
            if ALONE {
                let scales = MaybeUninit::uninit();
                let mut one = One::<L, F> { sum: F::begin::<L>(*sums), records, scales };
                F::unpack::<L>(&rows, count, &mut one);
                *sums = F::end::<L>(one.sum, one.scales.as_ptr(), one.records.first);
            } else {
                several::<L, F>(&rows, count, &records, sums);
            }
        }
    }
}

/// The records of a panel's activations, [record][token].
struct Records<F> {
    first: *const u8,
    tokens: usize,
    format: PhantomData<F>,
}

// These offsets are within the records, so they cannot overflow. To check that takes longer than to compute them.
impl<F: Format> Records<F> {
    /// A token's first record.
    #[inline(always)]
    fn of(&self, token: usize) -> *const u8 {
        self.first.wrapping_add(token.wrapping_mul(F::PACKING.bytes()))
    }

    /// Where a chunk's bytes are, from the token's first record on.
    #[inline(always)]
    fn chunk(&self, chunk: usize) -> usize {
        let each = F::PACKING.count / CHUNK;
        let record = (chunk / each).wrapping_mul(self.tokens).wrapping_mul(F::PACKING.bytes());
        record.wrapping_add(chunk % each * CHUNK)
    }
}

/// The sum of one token.
struct One<L: Lanes, F: Format> {
    sum: F::Sum<L>,
    records: Records<F>,
    scales: MaybeUninit<F::Scales<L>>,
}

impl<L: Lanes, F: Format> Take<L, F::Scales<L>> for One<L, F> {
    #[inline(always)]
    fn scales(&mut self) -> *mut F::Scales<L> {
        self.scales.as_mut_ptr()
    }

    #[inline(always)]
    unsafe fn take(&mut self, chunk: usize, weights: [L::Ints; 8]) {
        unsafe {
            let bytes = self.records.first.add(self.records.chunk(chunk));
            [self.sum] = F::add::<L, 1>([self.sum], &weights, (self.scales.as_ptr(), chunk), [bytes]);
        }
    }
}

/// Adds some chunks of all tokens to their sums.
#[inline(always)]
unsafe fn several<L: Lanes, F: Format>(
    rows: &Rows,
    count: usize,
    records: &Records<F>,
    sums: *mut L::Floats,
) {
    unsafe {
        let mut panel = MaybeUninit::<Panel<L, F::Scales<L>>>::uninit();
        F::unpack::<L>(rows, count, &mut panel.as_mut_ptr());
        let panel = &*panel.as_ptr();
        let tokens = records.tokens;
        let mut token = 0;
        if L::Tiles::pay(tokens) {
            token = tokens / TOKENS * TOKENS;
            F::add_tiles::<L>((panel, count), records.first, (tokens, token), sums);
        }
        while L::TOGETHER == 8 && token + 8 <= tokens {
            add::<L, F, 8>(panel, count, (records, token), sums.add(token));
            token += 8;
        }
        while token + 4 <= tokens {
            add::<L, F, 4>(panel, count, (records, token), sums.add(token));
            token += 4;
        }
        match tokens - token {
            1 => add::<L, F, 1>(panel, count, (records, token), sums.add(token)),
            2 => add::<L, F, 2>(panel, count, (records, token), sums.add(token)),
            3 => add::<L, F, 3>(panel, count, (records, token), sums.add(token)),
            _ => {}
        }
    }
}

/// Adds `chunks` chunks of `T` tokens to their sums.
#[inline(always)]
unsafe fn add<L: Lanes, F: Format, const T: usize>(
    panel: &Panel<L, F::Scales<L>>,
    chunks: usize,
    (records, token): (&Records<F>, usize),
    sums: *mut L::Floats,
) {
    unsafe {
        let before = sums.cast::<[L::Floats; T]>().read();
        let mut total: [F::Sum<L>; T] = before.map(|sum| F::begin::<L>(sum));
        for c in 0..chunks {
            let at = records.chunk(c);
            let bytes = std::array::from_fn(|t| records.of(token + t).wrapping_add(at));
            total = F::add::<L, T>(total, &panel.weights[c], (&raw const panel.scales, c), bytes);
        }
        for (t, total) in total.into_iter().enumerate() {
            *sums.add(t) = F::end::<L>(total, &raw const panel.scales, records.of(token + t));
        }
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
