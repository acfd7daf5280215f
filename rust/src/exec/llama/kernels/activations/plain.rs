//! In plain code, of which the compiler makes vectors.

use super::CHUNK;

/// The largest magnitude of so many times 32 values, or what is no number.
///
/// # Safety
/// There are as many values.
#[inline(always)]
pub(super) unsafe fn most(values: *const f32, chunks: usize) -> f32 {
    // SAFETY: the caller's promise.
    let values = (0..CHUNK * chunks).map(|i| unsafe { values.add(i).read_unaligned() });
    // As bits, positive floats rise as they do, and what is no number is above all.
    f32::from_bits(values.map(|x| x.abs().to_bits()).fold(0, u32::max))
}

/// Writes 32 values as bytes, and returns the sums of both halves.
///
/// # Safety
/// There are as many values, and room for as many bytes.
#[inline(always)]
pub(super) unsafe fn write_bytes(values: *const f32, inverse: f32, to: *mut u8) -> [i32; 2] {
    let mut sums = [0; 2];
    for (half, sum) in sums.iter_mut().enumerate() {
        for i in half * CHUNK / 2..(half + 1) * CHUNK / 2 {
            // SAFETY: the caller's promise.
            unsafe {
                let byte = (values.add(i).read_unaligned() * inverse).round_ties_even() as i8;
                to.add(i).write(byte.cast_unsigned());
                *sum += i32::from(byte);
            }
        }
    }
    sums
}
