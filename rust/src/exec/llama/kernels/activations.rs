//! Activations as products take them: 8 bits in blocks of 32 with a scale each, whatever the weights' type.
//!
//! As ggml does for weights in blocks of 32, but with the scale in 32 bits; for weights in blocks of 256 it has one scale
//! for so many activations. Rounding is to nearest, ties to even. What a block becomes depends on its values alone.

use super::formats::{CHUNK, Scheme};
use std::arch::x86_64::*;

/// Bytes of a record: 32 activations, their scale, and what [`write`] puts behind it.
pub(super) const fn record(scheme: Scheme) -> usize {
    match scheme {
        Scheme::Biased(_) | Scheme::Minimum => CHUNK + 8,
        Scheme::Halves(_) => CHUNK + 12,
    }
}

/// Writes a record. Behind the scale: −bias · the sum of the activations, for each half where it has a scale of its own;
/// for weights with minima the scaled sum, an f32. Values that are no numbers make one that is none.
///
/// # Safety
/// `values` has 32 floats, and `to` room for a record, of any alignment; the processor has AVX2.
#[inline(always)]
pub(super) unsafe fn write(scheme: Scheme, values: *const f32, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let values: [__m256; 4] = std::array::from_fn(|i| _mm256_loadu_ps(values.add(8 * i)));
        let most = most(values);
        let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
        let scale = if most.is_finite() { most / 127.0 } else { f32::NAN };
        let inverse = _mm256_set1_ps(inverse);
        // The conversion rounds as records have it.
        let [a, b, c, d] = values.map(|x| _mm256_cvtps_epi32(_mm256_mul_ps(x, inverse)));
        let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        // Packing goes by halves: fours of a, b, c, d, then the others of each.
        let bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256(to.cast(), bytes);
        let sums = halves(bytes);
        let behind = to.add(CHUNK);
        behind.cast::<f32>().write_unaligned(scale);
        let behind = behind.add(4);
        match scheme {
            Scheme::Biased(bias) => behind.cast::<i32>().write_unaligned(-bias * (sums[0] + sums[1])),
            Scheme::Halves(bias) => behind.cast::<[i32; 2]>().write_unaligned(sums.map(|sum| -bias * sum)),
            Scheme::Minimum => behind.cast::<f32>().write_unaligned(scale * (sums[0] + sums[1]) as f32),
        }
    }
}

/// The largest magnitude, or what is no number.
#[inline(always)]
unsafe fn most(values: [__m256; 4]) -> f32 {
    unsafe {
        // Bits of positive floats rise as they do, and those of what is no number are above all.
        let positive = _mm256_set1_epi32(i32::MAX);
        let [a, b, c, d] = values.map(|x| _mm256_and_si256(_mm256_castps_si256(x), positive));
        let most = _mm256_max_epi32(_mm256_max_epi32(a, b), _mm256_max_epi32(c, d));
        let most = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256::<1>(most));
        let most = _mm_max_epi32(most, _mm_shuffle_epi32::<0b10_11_00_01>(most));
        let most = _mm_max_epi32(most, _mm_shuffle_epi32::<0b01_00_11_10>(most));
        f32::from_bits(_mm_cvtsi128_si32(most).cast_unsigned())
    }
}

/// Sums of the signed bytes of both halves.
#[inline(always)]
unsafe fn halves(bytes: __m256i) -> [i32; 2] {
    unsafe {
        let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
        let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        let eights = _mm256_add_epi32(fours, _mm256_shuffle_epi32::<0b10_11_00_01>(fours));
        let sums = _mm256_add_epi32(eights, _mm256_shuffle_epi32::<0b01_00_11_10>(eights));
        [_mm256_extract_epi32::<0>(sums), _mm256_extract_epi32::<4>(sums)]
    }
}
