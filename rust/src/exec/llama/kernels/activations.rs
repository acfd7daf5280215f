//! Activations as products take them: 8 bits with a scale for as many as the weights have in a block, as ggml does, but with
//! the scale in 32 bits. Rounding is to nearest, ties to even. What a block becomes depends on its values alone.

use super::formats::CHUNK;
use std::arch::x86_64::*;

/// How activations become records: as many bytes with sign, their scale, and sums.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packing {
    /// Activations of a record, a multiple of [`CHUNK`].
    pub(super) count: usize,
    pub(super) sums: Sums,
}

/// What a record has behind the scale.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sums {
    /// An i32: the sum of the bytes times this.
    Times(i32),
    /// An f32: the sum of the bytes times the scale.
    Scaled,
    /// Of each so many bytes, 16 or 32, an i16: their sum times -1.
    Each(usize),
}

impl Packing {
    /// Bytes of a record.
    pub(super) const fn bytes(self) -> usize {
        let sums = match self.sums {
            Sums::Times(_) | Sums::Scaled => 4,
            Sums::Each(count) => self.count / count * 2,
        };
        let used = self.count + 4 + sums;
        // Bytes that tiles load begin at cache lines.
        if self.count > CHUNK { used.next_multiple_of(64) } else { used }
    }

    /// Writes a record. Values that are no numbers make a scale that is none.
    ///
    /// # Safety
    /// `values` has `count` floats, and `to` room for a record, of any alignment; the processor has AVX2.
    #[inline(always)]
    pub(super) unsafe fn write(self, values: *const f32, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let load = |chunk: usize| -> [__m256; 4] {
                std::array::from_fn(|i| _mm256_loadu_ps(values.add(CHUNK * chunk + 8 * i)))
            };
            let chunks = self.count / CHUNK;
            let mut largest = _mm256_setzero_si256();
            for chunk in 0..chunks {
                largest = _mm256_max_epi32(largest, magnitudes(load(chunk)));
            }
            let most = most(largest);
            let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
            let scale = if most.is_finite() { most / 127.0 } else { f32::NAN };
            let behind = to.add(self.count);
            behind.cast::<f32>().write_unaligned(scale);
            let behind = behind.add(4);
            for chunk in 0..chunks {
                let bytes = bytes(load(chunk), inverse);
                _mm256_storeu_si256(to.add(CHUNK * chunk).cast(), bytes);
                let [first, second] = halves(bytes);
                match self.sums {
                    Sums::Times(factor) => behind.cast::<i32>().write_unaligned(factor * (first + second)),
                    Sums::Scaled => behind.cast::<f32>().write_unaligned(scale * (first + second) as f32),
                    Sums::Each(CHUNK) => {
                        behind.cast::<i16>().add(chunk).write_unaligned(-(first + second) as i16);
                    }
                    Sums::Each(_) => {
                        let both = [-first as i16, -second as i16];
                        behind.cast::<[i16; 2]>().add(chunk).write_unaligned(both);
                    }
                }
            }
        }
    }
}

/// 32 values as bytes. The conversion rounds as records have it.
#[inline(always)]
unsafe fn bytes(values: [__m256; 4], inverse: f32) -> __m256i {
    unsafe {
        let inverse = _mm256_set1_ps(inverse);
        let [a, b, c, d] = values.map(|x| _mm256_cvtps_epi32(_mm256_mul_ps(x, inverse)));
        let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        // Packing goes by halves: fours of a, b, c, d, then the others of each.
        _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
    }
}

/// The largest magnitudes as bits: those of positive floats rise as they do, and those of what is no number are above all.
#[inline(always)]
unsafe fn magnitudes(values: [__m256; 4]) -> __m256i {
    unsafe {
        let positive = _mm256_set1_epi32(i32::MAX);
        let [a, b, c, d] = values.map(|x| _mm256_and_si256(_mm256_castps_si256(x), positive));
        _mm256_max_epi32(_mm256_max_epi32(a, b), _mm256_max_epi32(c, d))
    }
}

/// The largest magnitude, or what is no number.
#[inline(always)]
unsafe fn most(bits: __m256i) -> f32 {
    unsafe {
        let most = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256::<1>(bits));
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
