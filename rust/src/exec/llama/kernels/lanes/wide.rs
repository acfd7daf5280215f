//! 512 bits.

use super::Lanes;
use super::tiles::{NoTiles, Tiles};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// AVX-512 with VNNI, and tiles.
pub(in super::super) struct Wide<T = NoTiles>(PhantomData<T>);

impl<T: Tiles> Lanes for Wide<T> {
    type Tiles = T;
    const ROWS: usize = 16;
    const TOGETHER: usize = 8;
    const SIGNED: bool = false;
    type Ints = __m512i;
    type Floats = __m512;

    #[inline(always)]
    unsafe fn transposed(rows: *const u8, stride: usize) -> [__m512i; 4] {
        unsafe {
            let row = |i: usize| _mm_loadu_si128(rows.add(i * stride).cast());
            let four = |i: usize| {
                let x = _mm512_castsi128_si512(row(i));
                let x = _mm512_inserti32x4::<1>(x, row(i + 4));
                let x = _mm512_inserti32x4::<2>(x, row(i + 8));
                _mm512_inserti32x4::<3>(x, row(i + 12))
            };
            let (a, b, c, d) = (four(0), four(1), four(2), four(3));
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (ef, gh) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(ab, cd),
                _mm512_unpackhi_epi64(ab, cd),
                _mm512_unpacklo_epi64(ef, gh),
                _mm512_unpackhi_epi64(ef, gh),
            ]
        }
    }

    #[inline(always)]
    unsafe fn bytes(byte: u8) -> __m512i {
        unsafe { _mm512_set1_epi8(byte.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn left<const BITS: u32>(x: __m512i) -> __m512i {
        unsafe { _mm512_slli_epi32::<BITS>(x) }
    }

    #[inline(always)]
    unsafe fn right<const BITS: u32>(x: __m512i) -> __m512i {
        unsafe { _mm512_srli_epi32::<BITS>(x) }
    }

    #[inline(always)]
    unsafe fn signed_right<const BITS: u32>(x: __m512i) -> __m512i {
        unsafe { _mm512_srai_epi32::<BITS>(x) }
    }

    #[inline(always)]
    unsafe fn look_up(entries: &[u8; 16], x: __m512i) -> __m512i {
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(entries.as_ptr().cast()));
            _mm512_shuffle_epi8(table, x)
        }
    }

    #[inline(always)]
    unsafe fn splat(x: *const i32) -> __m512i {
        unsafe { _mm512_set1_epi32(x.read_unaligned()) }
    }

    /// Each step takes one product for every token. A product waits four cycles for the previous one of the same sum, and two can begin
    /// in each cycle, so with eight sums none has to wait.
    #[inline(always)]
    unsafe fn dots<const N: usize>(
        mut sums: [__m512i; N],
        weights: &[__m512i],
        _: i32,
        activations: [*const i32; N],
    ) -> [__m512i; N] {
        unsafe {
            for (j, weights) in weights.iter().enumerate() {
                for (sum, activations) in sums.iter_mut().zip(activations) {
                    *sum = _mm512_dpbusd_epi32(*sum, *weights, Self::splat(activations.add(j)));
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn scaled_dots<const N: usize>(
        mut sums: [__m512i; N],
        (weights, scale): (&[__m512i], __m512i),
        most: i32,
        activations: [*const i32; N],
    ) -> [__m512i; N] {
        unsafe {
            let dots = Self::dots([_mm512_setzero_si512(); N], weights, most, activations);
            for (sum, dots) in sums.iter_mut().zip(dots) {
                *sum = _mm512_add_epi32(*sum, _mm512_mullo_epi32(dots, scale));
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn scale(x: __m512i) -> __m512i {
        x
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: __m512i, pairs: __m512i, activations: *const i32) -> __m512i {
        unsafe { _mm512_dpwssd_epi32(sum, pairs, Self::splat(activations)) }
    }

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn store_floats(to: *mut f32, x: __m512) {
        unsafe { _mm512_storeu_ps(to, x) }
    }

    #[inline(always)]
    unsafe fn splat_float(x: *const f32) -> __m512 {
        unsafe { _mm512_set1_ps(x.read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn to_floats(x: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(x) }
    }

    #[inline(always)]
    unsafe fn as_floats(x: __m512i) -> __m512 {
        unsafe { _mm512_castsi512_ps(x) }
    }

    #[inline(always)]
    unsafe fn from_half(x: __m512i) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)) }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn neg(x: __m512) -> __m512 {
        unsafe { Self::as_floats(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MIN))) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn most(x: __m512) -> f32 {
        unsafe { _mm512_reduce_max_ps(x) }
    }

    #[inline(always)]
    unsafe fn where_above(x: __m512, bound: f32, y: __m512, z: __m512) -> __m512 {
        unsafe {
            let above = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x, _mm512_set1_ps(bound));
            _mm512_mask_blend_ps(above, z, y)
        }
    }

    #[inline(always)]
    unsafe fn to_ints(x: __m512) -> __m512i {
        unsafe { _mm512_cvtps_epi32(x) }
    }

    #[inline(always)]
    unsafe fn as_ints(x: __m512) -> __m512i {
        unsafe { _mm512_castps_si512(x) }
    }

    #[inline(always)]
    unsafe fn add_ints(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_brains(from: *const u16) -> __m512 {
        unsafe { Self::as_floats(Self::left::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())))) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const i8) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
    }
}
