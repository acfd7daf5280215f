//! Activations as products take them: 8 bits with a scale for as many as the weights have in a block, as ggml does, but with
//! the scale in 32 bits. Rounding is to nearest, ties to even. What a block becomes depends on its values alone.

use super::formats::CHUNK;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod plain;

#[cfg(target_arch = "x86_64")]
use avx2::{most, write_bytes};
#[cfg(target_arch = "aarch64")]
use plain::{most, write_bytes};

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
    #[inline(always)]
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
    /// `values` has `count` floats, and `to` room for a record, of any alignment; the processor has AVX2, or is an Arm.
    #[inline(always)]
    pub(super) unsafe fn write(self, values: *const f32, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let chunks = self.count / CHUNK;
            let most = most(values, chunks);
            let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
            let scale = if most.is_finite() { most / 127.0 } else { f32::NAN };
            let behind = to.add(self.count);
            behind.cast::<f32>().write_unaligned(scale);
            let behind = behind.add(4);
            for chunk in 0..chunks {
                let at = CHUNK * chunk;
                let [first, second] = write_bytes(values.add(at), inverse, to.add(at));
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
