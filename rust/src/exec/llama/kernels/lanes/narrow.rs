//! 256 bits.

use super::tiles::NoTiles;
use super::{Lanes, by_token, methods};
use std::arch::x86_64::*;
use std::marker::PhantomData;

type Ints = __m256i;
type Floats = __m256;

/// How 256 bits multiply bytes and pairs of integers: see [`Lanes`].
pub(in super::super) trait Bytes {
    const SIGNED: bool = false;
    unsafe fn dots(sum: Ints, weights: &[Ints], most: i32, activations: *const i32) -> Ints;
    #[inline(always)]
    unsafe fn scaled_dots(
        sum: Ints,
        weights: &[Ints],
        most: i32,
        activations: *const i32,
        scale: Ints,
    ) -> Ints {
        unsafe {
            let dots = Self::dots(_mm256_setzero_si256(), weights, most, activations);
            _mm256_add_epi32(sum, _mm256_mullo_epi32(dots, scale))
        }
    }
    #[inline(always)]
    unsafe fn scale(x: Ints) -> Ints {
        x
    }
    unsafe fn dot_pairs(sum: Ints, pairs: Ints, activations: Ints) -> Ints;
}

#[inline(always)]
unsafe fn splat_at(x: *const i32) -> Ints {
    unsafe { _mm256_set1_epi32(x.read_unaligned()) }
}

/// VNNI's two products, which have two encodings.
macro_rules! vnni {
    ($name:ident, $bytes:ident, $pairs:ident) => {
        impl Bytes for $name {
            methods! {
                fn dots(sum: Ints, weights: &[Ints], _most: i32, activations: *const i32) -> Ints {
                    let products = weights.iter().enumerate();
                    products.fold(sum, |sum, (j, weights)| $bytes(sum, *weights, splat_at(activations.add(j))))
                }
                fn dot_pairs(sum: Ints, pairs: Ints, activations: Ints) -> Ints { $pairs(sum, pairs, activations) }
            }
        }
    };
}

/// AVX-VNNI, in its own encoding.
pub(in super::super) struct AvxVnni;
vnni!(AvxVnni, _mm256_dpbusd_avx_epi32, _mm256_dpwssd_avx_epi32);

/// The same instructions in the encoding of AVX-512, for tests on processors that lack the other.
#[cfg(test)]
pub(in super::super) struct Avx512Vnni;
#[cfg(test)]
vnni!(Avx512Vnni, _mm256_dpbusd_epi32, _mm256_dpwssd_epi32);

/// AVX2 alone, which sums two products of bytes in 16 bits, where more would not fit.
pub(in super::super) struct Avx2;

impl Bytes for Avx2 {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn dots(sum: Ints, weights: &[Ints], most: i32, activations: *const i32) -> Ints {
        unsafe { Self::scaled_dots(sum, weights, most, activations, _mm256_set1_epi16(1)) }
    }

    /// As many products are summed in 16 bits as fit. Bytes above 127 are taken less 128: |w| · (a with the sign of w) is at
    /// most 128 · 127, two of which fit.
    #[inline(always)]
    unsafe fn scaled_dots(
        mut sum: Ints,
        weights: &[Ints],
        most: i32,
        activations: *const i32,
        scale: Ints,
    ) -> Ints {
        unsafe {
            let pairs = |j: usize| {
                let (w, a) = (weights[j], splat_at(activations.add(j)));
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
    unsafe fn scale(x: Ints) -> Ints {
        unsafe { _mm256_blend_epi16::<0b1010_1010>(x, _mm256_slli_epi32::<16>(x)) }
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: Ints, pairs: Ints, activations: Ints) -> Ints {
        unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, activations)) }
    }
}

/// 256 bits.
pub(in super::super) struct Narrow<B>(PhantomData<B>);

impl<B: Bytes> Lanes for Narrow<B> {
    type Tiles = NoTiles;
    const ROWS: usize = 8;
    const SIGNED: bool = B::SIGNED;
    type Ints = Ints;
    type Floats = Floats;

    #[inline(always)]
    unsafe fn transposed(rows: *const u8, stride: usize) -> [Ints; 4] {
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
    unsafe fn dots<const N: usize>(
        sums: [Ints; N],
        weights: &[Ints],
        most: i32,
        activations: [*const i32; N],
    ) -> [Ints; N] {
        by_token(sums, activations, |sum, activations| unsafe { B::dots(sum, weights, most, activations) })
    }

    #[inline(always)]
    unsafe fn scaled_dots<const N: usize>(
        sums: [Ints; N],
        (weights, scale): (&[Ints], Ints),
        most: i32,
        activations: [*const i32; N],
    ) -> [Ints; N] {
        by_token(sums, activations, |sum, activations| unsafe {
            B::scaled_dots(sum, weights, most, activations, scale)
        })
    }

    methods! {
        fn splat(x: i32) -> Ints { _mm256_set1_epi32(x) }
        fn and(a: Ints, b: Ints) -> Ints { _mm256_and_si256(a, b) }
        fn or(a: Ints, b: Ints) -> Ints { _mm256_or_si256(a, b) }
        fn xor(a: Ints, b: Ints) -> Ints { _mm256_xor_si256(a, b) }
        fn add_ints(a: Ints, b: Ints) -> Ints { _mm256_add_epi32(a, b) }
        fn mul_ints(a: Ints, b: Ints) -> Ints { _mm256_mullo_epi32(a, b) }
        fn left(x: Ints, bits: usize) -> Ints { _mm256_sll_epi32(x, _mm_cvtsi32_si128(bits as i32)) }
        fn right(x: Ints, bits: usize) -> Ints { _mm256_srl_epi32(x, _mm_cvtsi32_si128(bits as i32)) }
        fn signed_right(x: Ints, bits: usize) -> Ints { _mm256_sra_epi32(x, _mm_cvtsi32_si128(bits as i32)) }
        fn look_up(entries: &[u8; 16], x: Ints) -> Ints {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(entries.as_ptr().cast()));
            _mm256_shuffle_epi8(table, x)
        }
        fn scale(x: Ints) -> Ints { B::scale(x) }
        fn dot_pairs(sum: Ints, pairs: Ints, activations: *const i32) -> Ints {
            B::dot_pairs(sum, pairs, splat_at(activations))
        }
        fn splat_float(x: f32) -> Floats { _mm256_set1_ps(x) }
        fn load_floats(from: *const f32) -> Floats { _mm256_loadu_ps(from) }
        fn store_floats(to: *mut f32, x: Floats) -> () { _mm256_storeu_ps(to, x) }
        fn load_halves(from: *const u16) -> Floats { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
        fn load_brains(from: *const u16) -> Floats {
            Self::as_floats(Self::left(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())), 16))
        }
        fn load_bytes(from: *const i8) -> Floats {
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast())))
        }
        fn from_half(x: Ints) -> Floats {
            // The low halves of the lanes to the low 8 bytes of each half, then together.
            let low = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,
            ));
            let packed = _mm256_permute4x64_epi64::<0b10_00>(_mm256_shuffle_epi8(x, low));
            _mm256_cvtph_ps(_mm256_castsi256_si128(packed))
        }
        fn to_floats(x: Ints) -> Floats { _mm256_cvtepi32_ps(x) }
        fn to_ints(x: Floats) -> Ints { _mm256_cvtps_epi32(x) }
        fn as_floats(x: Ints) -> Floats { _mm256_castsi256_ps(x) }
        fn as_ints(x: Floats) -> Ints { _mm256_castps_si256(x) }
        fn add(a: Floats, b: Floats) -> Floats { _mm256_add_ps(a, b) }
        fn sub(a: Floats, b: Floats) -> Floats { _mm256_sub_ps(a, b) }
        fn mul(a: Floats, b: Floats) -> Floats { _mm256_mul_ps(a, b) }
        fn div(a: Floats, b: Floats) -> Floats { _mm256_div_ps(a, b) }
        fn fma(a: Floats, b: Floats, c: Floats) -> Floats { _mm256_fmadd_ps(a, b, c) }
        fn max(a: Floats, b: Floats) -> Floats { _mm256_max_ps(a, b) }
        fn where_above(x: Floats, bound: f32, y: Floats, z: Floats) -> Floats {
            _mm256_blendv_ps(z, y, _mm256_cmp_ps::<_CMP_NLE_UQ>(x, _mm256_set1_ps(bound)))
        }
    }
}
