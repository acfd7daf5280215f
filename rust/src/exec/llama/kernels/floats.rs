//! Products of weights that are f16 or bf16: both operands as f32, each term added in order with one rounding.

use super::activations::Packing;
use super::formats::CHUNK;
use super::lanes::{Lanes, prefetch};
use super::product::{Kernel, Place, Product};

/// Tokens whose sums stay in registers.
const TOGETHER: usize = 8;

/// A type of 16 bits.
///
/// # Safety
/// All methods: as for [`Lanes`].
pub(super) trait Half {
    /// The low and the high half of each lane.
    unsafe fn widen<L: Lanes>(x: L::Ints) -> [L::Floats; 2];

    /// As many as there are lanes.
    unsafe fn load<L: Lanes>(from: *const u16) -> L::Floats;
}

/// IEEE half precision.
pub(super) struct F16;

impl Half for F16 {
    #[inline(always)]
    unsafe fn widen<L: Lanes>(x: L::Ints) -> [L::Floats; 2] {
        unsafe { [L::from_half(x), L::from_half(L::right(x, 16))] }
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const u16) -> L::Floats {
        unsafe { L::load_halves(from) }
    }
}

/// The upper half of an f32.
pub(super) struct Bf16;

impl Half for Bf16 {
    #[inline(always)]
    unsafe fn widen<L: Lanes>(x: L::Ints) -> [L::Floats; 2] {
        unsafe { [L::as_floats(L::left(x, 16)), L::as_floats(L::left(L::right(x, 16), 16))] }
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const u16) -> L::Floats {
        unsafe { L::load_brains(from) }
    }
}

impl<H: Half> Kernel for H {
    const BLOCK: (usize, usize) = (1, 2);
    const PACKING: Option<Packing> = None;

    #[inline(always)]
    unsafe fn add<L: Lanes, const ALONE: bool>(product: &Product, place: &Place, sums: *mut L::Floats) {
        unsafe {
            let Product { weights, stride, tokens, .. } = *product;
            let weights = weights.add(place.row * stride);
            for i in 0..place.chunks {
                let chunk = place.chunk + i;
                if !place.ahead.is_null() {
                    let bytes = L::ROWS * CHUNK * 2;
                    prefetch(place.ahead.add(i * bytes), bytes);
                }
                let mut panel = [L::splat_float(0.0); CHUNK];
                for eight in 0..CHUNK / 8 {
                    let four = L::transposed(weights.add((chunk * CHUNK + eight * 8) * 2), stride);
                    for j in 0..4 {
                        let [low, high] = H::widen::<L>(four[j]);
                        panel[8 * eight + 2 * j] = low;
                        panel[8 * eight + 2 * j + 1] = high;
                    }
                }
                let mut token = 0;
                while token + TOGETHER <= tokens.count {
                    add::<L, TOGETHER>(&panel, product, (chunk, token), sums);
                    token += TOGETHER;
                }
                if token + 4 <= tokens.count {
                    add::<L, 4>(&panel, product, (chunk, token), sums);
                    token += 4;
                }
                match tokens.count - token {
                    1 => add::<L, 1>(&panel, product, (chunk, token), sums),
                    2 => add::<L, 2>(&panel, product, (chunk, token), sums),
                    3 => add::<L, 3>(&panel, product, (chunk, token), sums),
                    _ => {}
                }
            }
        }
    }
}

/// Adds a chunk of `T` tokens to their sums.
#[inline(always)]
unsafe fn add<L: Lanes, const T: usize>(
    panel: &[L::Floats; CHUNK],
    product: &Product,
    (chunk, token): (usize, usize),
    sums: *mut L::Floats,
) {
    unsafe {
        let sums = sums.add(token).cast::<[L::Floats; T]>();
        let mut total = sums.read();
        let mut from = [std::ptr::null(); T];
        for (t, from) in from.iter_mut().enumerate() {
            *from = product.tokens.from(token + t).add(chunk * CHUNK);
        }
        for (i, weights) in panel.iter().enumerate() {
            for t in 0..T {
                total[t] = L::fma(*weights, L::splat_float(from[t].add(i).read_unaligned()), total[t]);
            }
        }
        sums.write(total);
    }
}
