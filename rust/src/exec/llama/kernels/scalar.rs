//! One row at a time in plain code: what the vectors are held against.

use super::lanes::{Lanes, NoTiles, by_token};

/// A single lane.
pub(super) struct Scalar;

fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

impl Lanes for Scalar {
    type Tiles = NoTiles;
    const ROWS: usize = 1;
    const SIGNED: bool = false;
    type Ints = u32;
    type Floats = f32;

    unsafe fn transposed(rows: *const u8, _: usize) -> [u32; 4] {
        unsafe { rows.cast::<[u32; 4]>().read_unaligned() }
    }
    unsafe fn bytes(byte: u8) -> u32 {
        u32::from_ne_bytes([byte; 4])
    }
    unsafe fn and(a: u32, b: u32) -> u32 {
        a & b
    }
    unsafe fn or(a: u32, b: u32) -> u32 {
        a | b
    }
    unsafe fn xor(a: u32, b: u32) -> u32 {
        a ^ b
    }
    unsafe fn left<const BITS: u32>(x: u32) -> u32 {
        x << BITS
    }
    unsafe fn right<const BITS: u32>(x: u32) -> u32 {
        x >> BITS
    }
    unsafe fn signed_right<const BITS: u32>(x: u32) -> u32 {
        (x.cast_signed() >> BITS).cast_unsigned()
    }
    unsafe fn look_up(entries: &[u8; 16], x: u32) -> u32 {
        u32::from_ne_bytes(x.to_ne_bytes().map(|i| entries[usize::from(i)]))
    }
    unsafe fn splat(x: *const i32) -> u32 {
        unsafe { x.read_unaligned().cast_unsigned() }
    }
    unsafe fn dots<const N: usize>(
        sums: [u32; N],
        weights: &[u32],
        _: i32,
        activations: [*const i32; N],
    ) -> [u32; N] {
        by_token(sums, activations, |sum, activations| {
            let mut sum = sum.cast_signed();
            for (j, weights) in weights.iter().enumerate() {
                let activations = unsafe { activations.add(j).read_unaligned() }.to_ne_bytes();
                let products = weights.to_ne_bytes().into_iter().zip(activations);
                sum += products.map(|(w, a)| i32::from(w) * i32::from(a.cast_signed())).sum::<i32>();
            }
            sum.cast_unsigned()
        })
    }
    unsafe fn scaled_dots<const N: usize>(
        sums: [u32; N],
        (weights, scale): (&[u32], u32),
        most: i32,
        activations: [*const i32; N],
    ) -> [u32; N] {
        by_token(sums, activations, |sum, activations| {
            let [dots] = unsafe { Self::dots([0], weights, most, [activations]) };
            (sum.cast_signed() + scale.cast_signed() * dots.cast_signed()).cast_unsigned()
        })
    }
    unsafe fn scale(x: u32) -> u32 {
        x
    }
    unsafe fn dot_pairs(sum: u32, pairs: u32, activations: *const i32) -> u32 {
        let two = |x: i32| [x << 16 >> 16, x >> 16];
        let [a, b] = two(pairs.cast_signed());
        let [x, y] = two(unsafe { activations.read_unaligned() });
        (sum.cast_signed() + a * x + b * y).cast_unsigned()
    }
    unsafe fn zero() -> f32 {
        0.0
    }
    unsafe fn store_floats(to: *mut f32, x: f32) {
        unsafe { *to = x }
    }
    unsafe fn splat_float(x: *const f32) -> f32 {
        unsafe { x.read_unaligned() }
    }
    unsafe fn to_floats(x: u32) -> f32 {
        x.cast_signed() as f32
    }
    unsafe fn as_floats(x: u32) -> f32 {
        f32::from_bits(x)
    }
    unsafe fn from_half(x: u32) -> f32 {
        half(x as u16)
    }
    unsafe fn load_halves(from: *const u16) -> f32 {
        half(unsafe { *from })
    }
    unsafe fn mul(a: f32, b: f32) -> f32 {
        a * b
    }
    unsafe fn neg(x: f32) -> f32 {
        -x
    }
    unsafe fn fma(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    unsafe fn add(a: f32, b: f32) -> f32 {
        a + b
    }
    unsafe fn sub(a: f32, b: f32) -> f32 {
        a - b
    }
    unsafe fn div(a: f32, b: f32) -> f32 {
        a / b
    }
    unsafe fn max(a: f32, b: f32) -> f32 {
        if a > b { a } else { b }
    }
    unsafe fn most(x: f32) -> f32 {
        x
    }
    unsafe fn where_above(x: f32, bound: f32, y: f32, z: f32) -> f32 {
        if x <= bound { z } else { y }
    }
    unsafe fn to_ints(x: f32) -> u32 {
        (x.round_ties_even() as i32).cast_unsigned()
    }
    unsafe fn as_ints(x: f32) -> u32 {
        x.to_bits()
    }
    unsafe fn add_ints(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    unsafe fn load_floats(from: *const f32) -> f32 {
        unsafe { *from }
    }
    unsafe fn load_brains(from: *const u16) -> f32 {
        f32::from_bits(u32::from(unsafe { *from }) << 16)
    }
    unsafe fn load_bytes(from: *const i8) -> f32 {
        f32::from(unsafe { *from })
    }
}
