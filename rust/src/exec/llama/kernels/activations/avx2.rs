//! By vectors of AVX2.

use super::CHUNK;
use std::arch::x86_64::*;

/// 32 values.
#[inline(always)]
unsafe fn load(values: *const f32) -> [__m256; 4] {
    std::array::from_fn(|i| unsafe { _mm256_loadu_ps(values.add(8 * i)) })
}

/// The largest magnitude of so many times 32 values, or what is no number: as bits, positive floats rise as they do, and what is no
/// number is above all.
///
/// # Safety
/// There are as many values; the processor has AVX2.
#[inline(always)]
pub(super) unsafe fn most(values: *const f32, chunks: usize) -> f32 {
    unsafe {
        let positive = _mm256_set1_epi32(i32::MAX);
        let mut bits = _mm256_setzero_si256();
        for chunk in 0..chunks {
            let values = load(values.add(CHUNK * chunk));
            let [a, b, c, d] = values.map(|x| _mm256_and_si256(_mm256_castps_si256(x), positive));
            let most = _mm256_max_epi32(_mm256_max_epi32(a, b), _mm256_max_epi32(c, d));
            bits = _mm256_max_epi32(bits, most);
        }
        let most = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256::<1>(bits));
        let most = _mm_max_epi32(most, _mm_shuffle_epi32::<0b10_11_00_01>(most));
        let most = _mm_max_epi32(most, _mm_shuffle_epi32::<0b01_00_11_10>(most));
        f32::from_bits(_mm_cvtsi128_si32(most).cast_unsigned())
    }
}

/// Writes 32 values as bytes, and returns the sums of both halves. The conversion rounds as records have it.
///
/// # Safety
/// There are as many values, and room for as many bytes; the processor has AVX2.
#[inline(always)]
pub(super) unsafe fn write_bytes(values: *const f32, inverse: f32, to: *mut u8) -> [i32; 2] {
    unsafe {
        let inverse = _mm256_set1_ps(inverse);
        let [a, b, c, d] = load(values).map(|x| _mm256_cvtps_epi32(_mm256_mul_ps(x, inverse)));
        let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        // Packing goes by halves: fours of a, b, c, d, then the others of each.
        let bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256(to.cast(), bytes);
        let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
        let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        let eights = _mm256_add_epi32(fours, _mm256_shuffle_epi32::<0b10_11_00_01>(fours));
        let sums = _mm256_add_epi32(eights, _mm256_shuffle_epi32::<0b01_00_11_10>(eights));
        [_mm256_extract_epi32::<0>(sums), _mm256_extract_epi32::<4>(sums)]
    }
}
