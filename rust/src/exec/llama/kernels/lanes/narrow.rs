//! 256 bits.

use super::tiles::NoTiles;
use super::{Lanes, by_token};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// How 256 bits multiply bytes and pairs of integers: see [`Lanes`].
pub(in super::super) trait Bytes {
    const SIGNED: bool;
    unsafe fn dots(sum: __m256i, weights: &[__m256i], most: i32, activations: *const i32) -> __m256i;
    unsafe fn scaled_dots(
        sum: __m256i,
        weights: &[__m256i],
        most: i32,
        activations: *const i32,
        scale: __m256i,
    ) -> __m256i;
    unsafe fn scale(x: __m256i) -> __m256i;
    unsafe fn dot_pairs(sum: __m256i, pairs: __m256i, activations: __m256i) -> __m256i;
}

#[inline(always)]
unsafe fn splat(x: *const i32) -> __m256i {
    unsafe { _mm256_set1_epi32(x.read_unaligned()) }
}

/// VNNI's two products, which have two encodings.
pub(in super::super) trait Vnni {
    unsafe fn bytes(sum: __m256i, weights: __m256i, activations: __m256i) -> __m256i;
    unsafe fn pairs(sum: __m256i, pairs: __m256i, activations: __m256i) -> __m256i;
}

impl<V: Vnni> Bytes for V {
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn dots(mut sum: __m256i, weights: &[__m256i], _: i32, activations: *const i32) -> __m256i {
        unsafe {
            for (j, weights) in weights.iter().enumerate() {
                sum = V::bytes(sum, *weights, splat(activations.add(j)));
            }
            sum
        }
    }

    #[inline(always)]
    unsafe fn scaled_dots(
        sum: __m256i,
        weights: &[__m256i],
        most: i32,
        activations: *const i32,
        scale: __m256i,
    ) -> __m256i {
        unsafe {
            let dots = Self::dots(_mm256_setzero_si256(), weights, most, activations);
            _mm256_add_epi32(sum, _mm256_mullo_epi32(dots, scale))
        }
    }

    #[inline(always)]
    unsafe fn scale(x: __m256i) -> __m256i {
        x
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: __m256i, pairs: __m256i, activations: __m256i) -> __m256i {
        unsafe { V::pairs(sum, pairs, activations) }
    }
}

/// AVX-VNNI, in its own encoding.
pub(in super::super) struct AvxVnni;

impl Vnni for AvxVnni {
    #[inline(always)]
    unsafe fn bytes(sum: __m256i, weights: __m256i, activations: __m256i) -> __m256i {
        unsafe { _mm256_dpbusd_avx_epi32(sum, weights, activations) }
    }

    #[inline(always)]
    unsafe fn pairs(sum: __m256i, pairs: __m256i, activations: __m256i) -> __m256i {
        unsafe { _mm256_dpwssd_avx_epi32(sum, pairs, activations) }
    }
}

/// The same instructions in the encoding of AVX-512, for tests on processors that lack the other.
#[cfg(test)]
pub(in super::super) struct Avx512Vnni;

#[cfg(test)]
impl Vnni for Avx512Vnni {
    #[inline(always)]
    unsafe fn bytes(sum: __m256i, weights: __m256i, activations: __m256i) -> __m256i {
        unsafe { _mm256_dpbusd_epi32(sum, weights, activations) }
    }

    #[inline(always)]
    unsafe fn pairs(sum: __m256i, pairs: __m256i, activations: __m256i) -> __m256i {
        unsafe { _mm256_dpwssd_epi32(sum, pairs, activations) }
    }
}

/// AVX2 alone, which sums two products of bytes in 16 bits, where more would not fit.
pub(in super::super) struct Avx2;

impl Bytes for Avx2 {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn dots(sum: __m256i, weights: &[__m256i], most: i32, activations: *const i32) -> __m256i {
        unsafe { Self::scaled_dots(sum, weights, most, activations, _mm256_set1_epi16(1)) }
    }

    /// As many products are summed in 16 bits as fit. Bytes above 127 are taken less 128: |w| · (a with the sign of w) is at
    /// most 128 · 127, two of which fit.
    #[inline(always)]
    unsafe fn scaled_dots(
        mut sum: __m256i,
        weights: &[__m256i],
        most: i32,
        activations: *const i32,
        scale: __m256i,
    ) -> __m256i {
        unsafe {
            let pairs = |j: usize| {
                let (w, a) = (weights[j], splat(activations.add(j)));
                if most <= 127 {
                    return _mm256_maddubs_epi16(w, a);
                }
                let signed = _mm256_xor_si256(w, _mm256_set1_epi8(i8::MIN));
                _mm256_maddubs_epi16(_mm256_abs_epi8(signed), _mm256_sign_epi8(a, signed))
            };
            let fit = (i32::from(i16::MAX) / (2 * 127 * most)).clamp(1, 8) as usize;
            for first in (0..weights.len()).step_by(fit) {
                let mut some = pairs(first);
                for j in first + 1..weights.len().min(first + fit) {
                    some = _mm256_add_epi16(some, pairs(j));
                }
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(some, scale));
            }
            sum
        }
    }

    /// In both halves.
    #[inline(always)]
    unsafe fn scale(x: __m256i) -> __m256i {
        unsafe { _mm256_blend_epi16::<0b1010_1010>(x, _mm256_slli_epi32::<16>(x)) }
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: __m256i, pairs: __m256i, activations: __m256i) -> __m256i {
        unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, activations)) }
    }
}

/// 256 bits.
pub(in super::super) struct Narrow<B>(PhantomData<B>);

impl<B: Bytes> Lanes for Narrow<B> {
    type Tiles = NoTiles;
    const ROWS: usize = 8;
    const SIGNED: bool = B::SIGNED;
    type Ints = __m256i;
    type Floats = __m256;

    #[inline(always)]
    unsafe fn transposed(rows: *const u8, stride: usize) -> [__m256i; 4] {
        unsafe {
            let row = |i: usize| _mm_loadu_si128(rows.add(i * stride).cast());
            let two = |i: usize| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(i)), row(i + 4));
            let (a, b, c, d) = (two(0), two(1), two(2), two(3));
            let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
            let (ef, gh) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(ef, gh),
                _mm256_unpackhi_epi64(ef, gh),
            ]
        }
    }

    #[inline(always)]
    unsafe fn bytes(byte: u8) -> __m256i {
        unsafe { _mm256_set1_epi8(byte.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    unsafe fn xor(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    unsafe fn left<const BITS: u32>(x: __m256i) -> __m256i {
        unsafe { _mm256_sll_epi32(x, _mm_cvtsi32_si128(BITS.cast_signed())) }
    }

    #[inline(always)]
    unsafe fn right<const BITS: u32>(x: __m256i) -> __m256i {
        unsafe { _mm256_srl_epi32(x, _mm_cvtsi32_si128(BITS.cast_signed())) }
    }

    #[inline(always)]
    unsafe fn signed_right<const BITS: u32>(x: __m256i) -> __m256i {
        unsafe { _mm256_sra_epi32(x, _mm_cvtsi32_si128(BITS.cast_signed())) }
    }

    #[inline(always)]
    unsafe fn look_up(entries: &[u8; 16], x: __m256i) -> __m256i {
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(entries.as_ptr().cast()));
            _mm256_shuffle_epi8(table, x)
        }
    }

    #[inline(always)]
    unsafe fn splat(x: *const i32) -> __m256i {
        unsafe { splat(x) }
    }

    #[inline(always)]
    unsafe fn dots<const N: usize>(
        sums: [__m256i; N],
        weights: &[__m256i],
        most: i32,
        activations: [*const i32; N],
    ) -> [__m256i; N] {
        by_token(sums, activations, |sum, activations| unsafe { B::dots(sum, weights, most, activations) })
    }

    #[inline(always)]
    unsafe fn scaled_dots<const N: usize>(
        sums: [__m256i; N],
        (weights, scale): (&[__m256i], __m256i),
        most: i32,
        activations: [*const i32; N],
    ) -> [__m256i; N] {
        by_token(sums, activations, |sum, activations| unsafe {
            B::scaled_dots(sum, weights, most, activations, scale)
        })
    }

    #[inline(always)]
    unsafe fn scale(x: __m256i) -> __m256i {
        unsafe { B::scale(x) }
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: __m256i, pairs: __m256i, activations: *const i32) -> __m256i {
        unsafe { B::dot_pairs(sum, pairs, splat(activations)) }
    }

    #[inline(always)]
    unsafe fn zero() -> __m256 {
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn store_floats(to: *mut f32, x: __m256) {
        unsafe { _mm256_storeu_ps(to, x) }
    }

    #[inline(always)]
    unsafe fn splat_float(x: *const f32) -> __m256 {
        unsafe { _mm256_set1_ps(x.read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn to_floats(x: __m256i) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(x) }
    }

    #[inline(always)]
    unsafe fn as_floats(x: __m256i) -> __m256 {
        unsafe { _mm256_castsi256_ps(x) }
    }

    #[inline(always)]
    unsafe fn from_half(x: __m256i) -> __m256 {
        unsafe {
            // The low halves of the lanes to the low 8 bytes of each half, then together.
            let low = _mm256_setr_epi8(
                0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, //
                0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,
            );
            let packed = _mm256_permute4x64_epi64::<0b10_00>(_mm256_shuffle_epi8(x, low));
            _mm256_cvtph_ps(_mm256_castsi256_si128(packed))
        }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn neg(x: __m256) -> __m256 {
        unsafe { _mm256_xor_ps(x, _mm256_set1_ps(-0.0)) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn most(x: __m256) -> f32 {
        unsafe {
            let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ps(x, _mm_shuffle_ps::<1>(x, x)))
        }
    }

    #[inline(always)]
    unsafe fn where_above(x: __m256, bound: f32, y: __m256, z: __m256) -> __m256 {
        unsafe { _mm256_blendv_ps(z, y, _mm256_cmp_ps::<_CMP_NLE_UQ>(x, _mm256_set1_ps(bound))) }
    }

    #[inline(always)]
    unsafe fn to_ints(x: __m256) -> __m256i {
        unsafe { _mm256_cvtps_epi32(x) }
    }

    #[inline(always)]
    unsafe fn as_ints(x: __m256) -> __m256i {
        unsafe { _mm256_castps_si256(x) }
    }

    #[inline(always)]
    unsafe fn add_ints(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_brains(from: *const u16) -> __m256 {
        unsafe { Self::as_floats(Self::left::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())))) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const i8) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))) }
    }
}
