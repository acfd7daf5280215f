//! Vectors whose lanes are rows of weights: 16 rows in 512 bits, 8 in 256 or in two of 128.
//!
//! The kernels are written once, over [`Lanes`], and compiled for each instruction set: every method is inlined into a
//! function that has the instructions (`#[target_feature]`), and must be called from nowhere else. Integers are exact and
//! floats are computed in one order, so that all of them give the same bits.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
mod tiles;
#[cfg(target_arch = "x86_64")]
mod wide;

#[cfg(target_arch = "x86_64")]
pub(super) use amx::Amx;
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) use amx::Plain;
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) use narrow::Avx512Vnni;
#[cfg(target_arch = "x86_64")]
pub(super) use narrow::{Avx2, AvxVnni, Narrow};
#[cfg(target_arch = "aarch64")]
pub(super) use neon::Neon;
#[cfg(test)]
pub(super) use tiles::NoTiles;
pub(super) use tiles::{Products, Scaled, TOKENS, Tiles};
#[cfg(target_arch = "x86_64")]
pub(super) use wide::Wide;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Fetches what is read soon.
#[inline(always)]
pub(super) fn prefetch(from: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(LINE) {
        let line = from.wrapping_add(line * LINE);
        // SAFETY: a hint, for any address.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(line.cast());
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("prfm pldl2keep, [{}]", in(reg) line, options(nostack, preserves_flags));
        }
    }
}

/// Adds to the sum of one token after the other.
#[inline(always)]
pub(super) fn by_token<I: Copy, const N: usize>(
    mut sums: [I; N],
    activations: [*const i32; N],
    add: impl Fn(I, *const i32) -> I,
) -> [I; N] {
    for (sum, activations) in sums.iter_mut().zip(activations) {
        *sum = add(*sum, activations);
    }
    sums
}

/// Methods of [`Lanes`], compiled into whatever calls them.
macro_rules! methods {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty { $($body:tt)* })*) => {$(
        // Some sets of instructions need plain code alone.
        #[allow(unused_unsafe)]
        #[inline(always)]
        unsafe fn $name($($argument: $type),*) -> $result {
            unsafe { $($body)* }
        }
    )*};
}
pub(super) use methods;

/// What a kernel does with vectors of 32-bit lanes.
///
/// # Safety
/// All methods: the processor has the instructions, and pointers have what is read or written, of any alignment.
pub(super) trait Lanes {
    /// What multiplies many tokens at a time.
    type Tiles: Tiles;
    /// Rows in a vector.
    const ROWS: usize;
    /// Most tokens whose sums stay in registers, 4 or 8.
    const TOGETHER: usize = 4;
    /// Lanes of 4 bytes, or of an i32.
    type Ints: Copy;
    /// Lanes of an f32.
    type Floats: Copy;

    /// Bytes 4j to 4j + 3 of each of the rows, which are `stride` bytes apart, for j = 0 to 3.
    unsafe fn transposed(rows: *const u8, stride: usize) -> [Self::Ints; 4];
    /// An i32 everywhere.
    unsafe fn splat(x: i32) -> Self::Ints;
    /// The same byte everywhere.
    #[inline(always)]
    unsafe fn bytes(byte: u8) -> Self::Ints {
        unsafe { Self::splat(i32::from_ne_bytes([byte; 4])) }
    }
    unsafe fn and(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    unsafe fn or(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    unsafe fn xor(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    unsafe fn add_ints(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    unsafe fn mul_ints(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Lanes shifted by so many bits, zeros in. The number is always known where this is compiled.
    unsafe fn left(x: Self::Ints, bits: usize) -> Self::Ints;
    unsafe fn right(x: Self::Ints, bits: usize) -> Self::Ints;
    /// Lanes shifted right by bits, copies of the sign in.
    unsafe fn signed_right(x: Self::Ints, bits: usize) -> Self::Ints;
    /// For each byte, which is below 16, that entry.
    unsafe fn look_up(entries: &[u8; 16], x: Self::Ints) -> Self::Ints;
    /// Whether bytes are multiplied as their value less 128, where some may be above 127.
    const SIGNED: bool;
    /// Whether bytes of at most `most`, of which 128 is the bias, are multiplied without it: then nothing is left to correct.
    fn undoes_bias(most: i32) -> bool {
        Self::SIGNED && most > 127
    }
    /// The sums of some tokens with the products of the unsigned bytes of `weights`, none above `most`, and the signed ones that begin
    /// at each token's `activations`, four for each; see [`SIGNED`](Lanes::SIGNED).
    unsafe fn dots<const N: usize>(
        sums: [Self::Ints; N],
        weights: &[Self::Ints],
        most: i32,
        activations: [*const i32; N],
    ) -> [Self::Ints; N];
    /// The sums with `scale` times such products.
    #[inline(always)]
    unsafe fn scaled_dots<const N: usize>(
        mut sums: [Self::Ints; N],
        (weights, scale): (&[Self::Ints], Self::Ints),
        most: i32,
        activations: [*const i32; N],
    ) -> [Self::Ints; N] {
        unsafe {
            let dots = Self::dots([Self::splat(0); N], weights, most, activations);
            for (sum, dots) in sums.iter_mut().zip(dots) {
                *sum = Self::add_ints(*sum, Self::mul_ints(dots, scale));
            }
            sums
        }
    }
    /// An integer of 16 bits as [`scaled_dots`](Lanes::scaled_dots) takes it.
    #[inline(always)]
    unsafe fn scale(x: Self::Ints) -> Self::Ints {
        x
    }
    /// `sum` and the products of two integers of 16 bits in each lane with those at `activations`.
    unsafe fn dot_pairs(sum: Self::Ints, pairs: Self::Ints, activations: *const i32) -> Self::Ints;

    unsafe fn splat_float(x: f32) -> Self::Floats;
    unsafe fn load_floats(from: *const f32) -> Self::Floats;
    unsafe fn store_floats(to: *mut f32, x: Self::Floats);
    /// As many f16 as there are rows.
    unsafe fn load_halves(from: *const u16) -> Self::Floats;
    /// As many bf16.
    unsafe fn load_brains(from: *const u16) -> Self::Floats;
    /// As many signed bytes.
    unsafe fn load_bytes(from: *const i8) -> Self::Floats;
    /// Each lane's low 16 bits, an f16.
    unsafe fn from_half(x: Self::Ints) -> Self::Floats;
    unsafe fn to_floats(x: Self::Ints) -> Self::Floats;
    /// The nearest integer, the even one of two.
    unsafe fn to_ints(x: Self::Floats) -> Self::Ints;
    /// The bits of an f32 in each lane.
    unsafe fn as_floats(x: Self::Ints) -> Self::Floats;
    /// An f32's bits in each lane.
    unsafe fn as_ints(x: Self::Floats) -> Self::Ints;
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn div(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// a · b + c, rounded once.
    unsafe fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// The larger; `b` where one is no number.
    unsafe fn max(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `y` where x > bound or x is no number, else `z`.
    unsafe fn where_above(x: Self::Floats, bound: f32, y: Self::Floats, z: Self::Floats) -> Self::Floats;
    /// The lanes, of which the last are 0 where there are fewer than 16.
    #[inline(always)]
    unsafe fn lanes(x: Self::Floats) -> [f32; 16] {
        let mut lanes = [0f32; 16];
        unsafe { Self::store_floats(lanes.as_mut_ptr(), x) };
        lanes
    }
}
