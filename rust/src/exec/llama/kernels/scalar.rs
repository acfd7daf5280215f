//! One row at a time in plain code: what the vectors are held against.

use super::lanes::{Lanes, NoTiles, by_token, methods};
use half::f16;

/// A single lane.
pub(super) struct Scalar;

fn half(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32_const()
}

impl Lanes for Scalar {
    type Tiles = NoTiles;
    const ROWS: usize = 1;
    const SIGNED: bool = false;
    type Ints = u32;
    type Floats = f32;

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

    methods! {
        fn transposed(rows: *const u8, _stride: usize) -> [u32; 4] { rows.cast::<[u32; 4]>().read_unaligned() }
        fn splat(x: i32) -> u32 { x.cast_unsigned() }
        fn and(a: u32, b: u32) -> u32 { a & b }
        fn or(a: u32, b: u32) -> u32 { a | b }
        fn xor(a: u32, b: u32) -> u32 { a ^ b }
        fn add_ints(a: u32, b: u32) -> u32 { a.wrapping_add(b) }
        fn mul_ints(a: u32, b: u32) -> u32 { (a.cast_signed() * b.cast_signed()).cast_unsigned() }
        fn left(x: u32, bits: usize) -> u32 { x << bits }
        fn right(x: u32, bits: usize) -> u32 { x >> bits }
        fn signed_right(x: u32, bits: usize) -> u32 { (x.cast_signed() >> bits).cast_unsigned() }
        fn look_up(entries: &[u8; 16], x: u32) -> u32 {
            u32::from_ne_bytes(x.to_ne_bytes().map(|i| entries[usize::from(i)]))
        }
        fn dot_pairs(sum: u32, pairs: u32, activations: *const i32) -> u32 {
            let two = |x: i32| [x << 16 >> 16, x >> 16];
            let [a, b] = two(pairs.cast_signed());
            let [x, y] = two(activations.read_unaligned());
            (sum.cast_signed() + a * x + b * y).cast_unsigned()
        }
        fn splat_float(x: f32) -> f32 { x }
        fn load_floats(from: *const f32) -> f32 { *from }
        fn store_floats(to: *mut f32, x: f32) -> () { *to = x }
        fn load_halves(from: *const u16) -> f32 { half(*from) }
        fn load_brains(from: *const u16) -> f32 { f32::from_bits(u32::from(*from) << 16) }
        fn load_bytes(from: *const i8) -> f32 { f32::from(*from) }
        fn from_half(x: u32) -> f32 { half(x as u16) }
        fn to_floats(x: u32) -> f32 { x.cast_signed() as f32 }
        fn to_ints(x: f32) -> u32 { (x.round_ties_even() as i32).cast_unsigned() }
        fn as_floats(x: u32) -> f32 { f32::from_bits(x) }
        fn as_ints(x: f32) -> u32 { x.to_bits() }
        fn add(a: f32, b: f32) -> f32 { a + b }
        fn sub(a: f32, b: f32) -> f32 { a - b }
        fn mul(a: f32, b: f32) -> f32 { a * b }
        fn div(a: f32, b: f32) -> f32 { a / b }
        fn fma(a: f32, b: f32, c: f32) -> f32 { a.mul_add(b, c) }
        fn max(a: f32, b: f32) -> f32 { if a > b { a } else { b } }
        fn where_above(x: f32, bound: f32, y: f32, z: f32) -> f32 { if x <= bound { z } else { y } }
    }
}
