//! Types of KV: how cells become floats.

use super::floats::Half;
use super::formats::{halves, integers};
use super::lanes::Lanes;

/// A type of KV.
///
/// # Safety
/// All methods: as for [`Lanes`]; `dims` is a multiple of [`STEP`](Cells::STEP).
pub(super) trait Cells {
    /// Values that begin at a multiple of so many can be read.
    const STEP: usize;

    /// The keys of [`Lanes::ROWS`] cells, a lane each; a dimension is `2 · ROWS` floats behind the one before.
    unsafe fn keys<L: Lanes>(cells: *const u8, stride: usize, dims: usize, to: *mut f32);

    /// The values of a cell.
    unsafe fn values<L: Lanes>(cell: *const u8, dims: usize, to: *mut f32);
}

impl<H: Half> Cells for H {
    const STEP: usize = 16;

    #[inline(always)]
    unsafe fn keys<L: Lanes>(cells: *const u8, stride: usize, dims: usize, to: *mut f32) {
        unsafe {
            for d in (0..dims).step_by(8) {
                for (j, x) in L::transposed(cells.add(2 * d), stride).into_iter().enumerate() {
                    let [low, high] = H::widen::<L>(x);
                    L::store_floats(to.add((d + 2 * j) * 2 * L::ROWS), low);
                    L::store_floats(to.add((d + 2 * j + 1) * 2 * L::ROWS), high);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn values<L: Lanes>(cell: *const u8, dims: usize, to: *mut f32) {
        unsafe {
            for d in (0..dims).step_by(L::ROWS) {
                L::store_floats(to.add(d), H::load::<L>(cell.cast::<u16>().add(d)));
            }
        }
    }
}

/// Blocks of 32 values of 8 bits behind their f16 scale; a product of both is exact.
pub(super) struct Bytes;

impl Bytes {
    const VALUES: usize = 32;
    const BLOCK: usize = 2 + Self::VALUES;
}

impl Cells for Bytes {
    const STEP: usize = Self::VALUES;

    #[inline(always)]
    unsafe fn keys<L: Lanes>(cells: *const u8, stride: usize, dims: usize, to: *mut f32) {
        unsafe {
            for block in 0..dims / Self::VALUES {
                let cells = cells.add(block * Self::BLOCK);
                let scales = halves::<L>(cells, stride);
                for half in 0..2 {
                    for (j, x) in L::transposed(cells.add(2 + 16 * half), stride).into_iter().enumerate() {
                        for (i, x) in integers::<L>(x).map(|x| L::to_floats(x)).into_iter().enumerate() {
                            let d = block * Self::VALUES + 16 * half + 4 * j + i;
                            L::store_floats(to.add(d * 2 * L::ROWS), L::mul(scales, x));
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn values<L: Lanes>(cell: *const u8, dims: usize, to: *mut f32) {
        unsafe {
            for block in 0..dims / Self::VALUES {
                let from = cell.add(block * Self::BLOCK);
                // The same one for each lane.
                let scale = halves::<L>(from, 0);
                for i in (0..Self::VALUES).step_by(L::ROWS) {
                    let values = L::load_bytes(from.add(2 + i).cast());
                    L::store_floats(to.add(block * Self::VALUES + i), L::mul(scale, values));
                }
            }
        }
    }
}
