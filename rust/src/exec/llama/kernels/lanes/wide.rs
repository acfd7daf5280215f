//! 512 bits.

use super::tiles::{NoTiles, Tiles};
use super::{Lanes, methods};
use std::arch::x86_64::*;
use std::marker::PhantomData;

type Ints = __m512i;
type Floats = __m512;

/// AVX-512 with VNNI, and tiles.
pub(in super::super) struct Wide<T = NoTiles>(PhantomData<T>);

impl<T: Tiles> Lanes for Wide<T> {
    type Tiles = T;
    const ROWS: usize = 16;
    const TOGETHER: usize = 8;
    const SIGNED: bool = false;
    type Ints = Ints;
    type Floats = Floats;

    #[inline(always)]
    unsafe fn transposed(rows: *const u8, stride: usize) -> [Ints; 4] {
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

    /// Each step takes one product for every token. A product waits four cycles for the previous one of the same sum, and two can begin
    /// in each cycle, so with eight sums none has to wait.
    #[inline(always)]
    unsafe fn dots<const N: usize>(
        mut sums: [Ints; N],
        weights: &[Ints],
        _: i32,
        activations: [*const i32; N],
    ) -> [Ints; N] {
        unsafe {
            for (j, weights) in weights.iter().enumerate() {
                for (sum, activations) in sums.iter_mut().zip(activations) {
                    let activations = Self::splat(activations.add(j).read_unaligned());
                    *sum = _mm512_dpbusd_epi32(*sum, *weights, activations);
                }
            }
            sums
        }
    }

    methods! {
        fn splat(x: i32) -> Ints { _mm512_set1_epi32(x) }
        fn and(a: Ints, b: Ints) -> Ints { _mm512_and_si512(a, b) }
        fn or(a: Ints, b: Ints) -> Ints { _mm512_or_si512(a, b) }
        fn xor(a: Ints, b: Ints) -> Ints { _mm512_xor_si512(a, b) }
        fn add_ints(a: Ints, b: Ints) -> Ints { _mm512_add_epi32(a, b) }
        fn mul_ints(a: Ints, b: Ints) -> Ints { _mm512_mullo_epi32(a, b) }
        fn left(x: Ints, bits: usize) -> Ints { _mm512_sll_epi32(x, _mm_cvtsi32_si128(bits as i32)) }
        fn right(x: Ints, bits: usize) -> Ints { _mm512_srl_epi32(x, _mm_cvtsi32_si128(bits as i32)) }
        fn signed_right(x: Ints, bits: usize) -> Ints { _mm512_sra_epi32(x, _mm_cvtsi32_si128(bits as i32)) }
        fn look_up(entries: &[u8; 16], x: Ints) -> Ints {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(entries.as_ptr().cast()));
            _mm512_shuffle_epi8(table, x)
        }
        fn dot_pairs(sum: Ints, pairs: Ints, activations: *const i32) -> Ints {
            _mm512_dpwssd_epi32(sum, pairs, Self::splat(activations.read_unaligned()))
        }
        fn splat_float(x: f32) -> Floats { _mm512_set1_ps(x) }
        fn load_floats(from: *const f32) -> Floats { _mm512_loadu_ps(from) }
        fn store_floats(to: *mut f32, x: Floats) -> () { _mm512_storeu_ps(to, x) }
        fn load_halves(from: *const u16) -> Floats { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
        fn load_brains(from: *const u16) -> Floats {
            Self::as_floats(Self::left(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())), 16))
        }
        fn load_bytes(from: *const i8) -> Floats {
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast())))
        }
        fn from_half(x: Ints) -> Floats { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)) }
        fn to_floats(x: Ints) -> Floats { _mm512_cvtepi32_ps(x) }
        fn to_ints(x: Floats) -> Ints { _mm512_cvtps_epi32(x) }
        fn as_floats(x: Ints) -> Floats { _mm512_castsi512_ps(x) }
        fn as_ints(x: Floats) -> Ints { _mm512_castps_si512(x) }
        fn add(a: Floats, b: Floats) -> Floats { _mm512_add_ps(a, b) }
        fn sub(a: Floats, b: Floats) -> Floats { _mm512_sub_ps(a, b) }
        fn mul(a: Floats, b: Floats) -> Floats { _mm512_mul_ps(a, b) }
        fn div(a: Floats, b: Floats) -> Floats { _mm512_div_ps(a, b) }
        fn fma(a: Floats, b: Floats, c: Floats) -> Floats { _mm512_fmadd_ps(a, b, c) }
        fn max(a: Floats, b: Floats) -> Floats { _mm512_max_ps(a, b) }
        fn where_above(x: Floats, bound: f32, y: Floats, z: Floats) -> Floats {
            let above = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x, _mm512_set1_ps(bound));
            _mm512_mask_blend_ps(above, z, y)
        }
    }
}
