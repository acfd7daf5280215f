//! Two times 128 bits of NEON.

use super::tiles::NoTiles;
use super::{Lanes, methods};
use std::arch::aarch64::*;
use std::arch::asm;

/// NEON with FEAT_DotProd, which processors have from Armv8.4 on and some before; and with FEAT_I8MM, from Armv8.6 on.
pub(in super::super) struct Neon<const I8MM: bool = false>;

/// 32 bytes or 8 integers.
type Ints = [uint32x4_t; 2];
type Floats = [float32x4_t; 2];

#[inline(always)]
fn each<A: Copy, B>(a: [A; 2], f: impl Fn(A) -> B) -> [B; 2] {
    [f(a[0]), f(a[1])]
}

#[inline(always)]
fn both<A: Copy, B: Copy, C>(a: [A; 2], b: [B; 2], f: impl Fn(A, B) -> C) -> [C; 2] {
    [f(a[0], b[0]), f(a[1], b[1])]
}

/// An instruction that adds products of signed bytes. In assembly because the standard library's functions are unstable.
macro_rules! instruction {
    ($(#[$about:meta])* $name:ident, $instruction:literal) => {
        $(#[$about])*
        #[inline(always)]
        unsafe fn $name(mut sum: uint32x4_t, weights: uint32x4_t, activations: uint32x4_t) -> uint32x4_t {
            unsafe {
                asm!(
                    concat!($instruction, " {sum:v}.4s, {weights:v}.16b, {activations:v}.16b"),
                    sum = inout(vreg) sum,
                    weights = in(vreg) weights,
                    activations = in(vreg) activations,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            sum
        }
    };
}

instruction! {
    /// Adds the products of its four bytes to each lane.
    dot, "sdot"
}
instruction! {
    /// Adds the products of two rows of weights with two tokens, of 8 bytes each: first the first row's with both tokens.
    dot_two, "smmla"
}

/// [`Lanes::dots`] of signed weights with two tokens at a time; a last one without another is left out. This takes half as many
/// instructions as [`dot`] does.
#[inline(always)]
unsafe fn dots_by_two<const N: usize>(sums: &mut [Ints; N], weights: &[Ints], activations: [*const i32; N]) {
    unsafe {
        // Of each two tokens, and each two rows.
        let mut products = [[vdupq_n_u32(0); 4]; N];
        for (j, weights) in weights.chunks_exact(2).enumerate() {
            let [[a, b], [c, d]] = [weights[0], weights[1]];
            let rows = [vzip1q_u32(a, c), vzip2q_u32(a, c), vzip1q_u32(b, d), vzip2q_u32(b, d)];
            for (two, products) in activations.chunks_exact(2).zip(&mut products) {
                let (first, second) = (two[0].add(2 * j).cast(), two[1].add(2 * j).cast());
                let tokens = vcombine_u32(vld1_u32(first), vld1_u32(second));
                for (products, rows) in products.iter_mut().zip(rows) {
                    *products = dot_two(*products, rows, tokens);
                }
            }
        }
        for (sums, [a, b, c, d]) in sums.chunks_exact_mut(2).zip(products) {
            sums[0] = Neon::<true>::add_ints(sums[0], [vuzp1q_u32(a, b), vuzp1q_u32(c, d)]);
            sums[1] = Neon::<true>::add_ints(sums[1], [vuzp2q_u32(a, b), vuzp2q_u32(c, d)]);
        }
    }
}

impl<const I8MM: bool> Lanes for Neon<I8MM> {
    type Tiles = NoTiles;
    const ROWS: usize = 8;
    const SIGNED: bool = true;
    type Ints = Ints;
    type Floats = Floats;

    #[inline(always)]
    unsafe fn transposed(rows: *const u8, stride: usize) -> [Ints; 4] {
        unsafe {
            let four = |first: usize| {
                let row = |i: usize| vld1q_u32(rows.add((first + i) * stride).cast());
                let (a, b, c, d) = (row(0), row(1), row(2), row(3));
                let wide = |x| vreinterpretq_u64_u32(x);
                let (ab, cd) = (wide(vtrn1q_u32(a, b)), wide(vtrn1q_u32(c, d)));
                let (ef, gh) = (wide(vtrn2q_u32(a, b)), wide(vtrn2q_u32(c, d)));
                [vtrn1q_u64(ab, cd), vtrn1q_u64(ef, gh), vtrn2q_u64(ab, cd), vtrn2q_u64(ef, gh)]
                    .map(|x| vreinterpretq_u32_u64(x))
            };
            let (low, high) = (four(0), four(4));
            std::array::from_fn(|i| [low[i], high[i]])
        }
    }

    #[inline(always)]
    unsafe fn dots<const N: usize>(
        mut sums: [Ints; N],
        weights: &[Ints],
        most: i32,
        activations: [*const i32; N],
    ) -> [Ints; N] {
        unsafe {
            let mut signed = [Self::splat(0); 8];
            for (signed, weights) in signed.iter_mut().zip(weights) {
                *signed = if most > 127 { Self::xor(*weights, Self::bytes(0x80)) } else { *weights };
            }
            let signed = &signed[..weights.len()];
            let by_two = if I8MM { N / 2 * 2 } else { 0 };
            if by_two > 0 {
                dots_by_two(&mut sums, signed, activations);
            }
            for t in by_two..N {
                for (j, weights) in signed.iter().enumerate() {
                    let [activations, _] = Self::splat(activations[t].add(j).read_unaligned());
                    sums[t] = both(sums[t], *weights, |sum, weights| dot(sum, weights, activations));
                }
            }
            sums
        }
    }

    methods! {
        fn splat(x: i32) -> Ints { [vdupq_n_u32(x.cast_unsigned()); 2] }
        fn and(a: Ints, b: Ints) -> Ints { both(a, b, |a, b| vandq_u32(a, b)) }
        fn or(a: Ints, b: Ints) -> Ints { both(a, b, |a, b| vorrq_u32(a, b)) }
        fn xor(a: Ints, b: Ints) -> Ints { both(a, b, |a, b| veorq_u32(a, b)) }
        fn add_ints(a: Ints, b: Ints) -> Ints { both(a, b, |a, b| vaddq_u32(a, b)) }
        fn mul_ints(a: Ints, b: Ints) -> Ints { both(a, b, |a, b| vmulq_u32(a, b)) }
        fn left(x: Ints, bits: usize) -> Ints { each(x, |x| vshlq_u32(x, vdupq_n_s32(bits as i32))) }
        fn right(x: Ints, bits: usize) -> Ints { each(x, |x| vshlq_u32(x, vdupq_n_s32(-(bits as i32)))) }
        fn signed_right(x: Ints, bits: usize) -> Ints {
            each(x, |x| vreinterpretq_u32_s32(vshlq_s32(vreinterpretq_s32_u32(x), vdupq_n_s32(-(bits as i32)))))
        }
        fn look_up(entries: &[u8; 16], x: Ints) -> Ints {
            let table = vld1q_u8(entries.as_ptr());
            each(x, |x| vreinterpretq_u32_u8(vqtbl1q_u8(table, vreinterpretq_u8_u32(x))))
        }
        fn dot_pairs(sum: Ints, pairs: Ints, activations: *const i32) -> Ints {
            let activations = vdupq_n_s32(activations.read_unaligned());
            let (first, second) = (vmovn_s32(activations), vshrn_n_s32::<16>(activations));
            both(sum, pairs, |sum, pairs| {
                let (sum, pairs) = (vreinterpretq_s32_u32(sum), vreinterpretq_s32_u32(pairs));
                let sum = vmlal_s16(sum, vmovn_s32(pairs), first);
                vreinterpretq_u32_s32(vmlal_s16(sum, vshrn_n_s32::<16>(pairs), second))
            })
        }
        fn splat_float(x: f32) -> Floats { [vdupq_n_f32(x); 2] }
        fn load_floats(from: *const f32) -> Floats { each([0, 4], |at| vld1q_f32(from.add(at))) }
        fn store_floats(to: *mut f32, x: Floats) -> () {
            vst1q_f32(to, x[0]);
            vst1q_f32(to.add(4), x[1]);
        }
        fn load_halves(from: *const u16) -> Floats {
            each([0, 4], |at| vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from.add(at)))))
        }
        fn load_brains(from: *const u16) -> Floats {
            each([0, 4], |at| vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(from.add(at)))))
        }
        fn load_bytes(from: *const i8) -> Floats {
            let bytes = vmovl_s8(vld1_s8(from));
            each([vget_low_s16(bytes), vget_high_s16(bytes)], |x| vcvtq_f32_s32(vmovl_s16(x)))
        }
        fn from_half(x: Ints) -> Floats { each(x, |x| vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(x)))) }
        fn to_floats(x: Ints) -> Floats { each(x, |x| vcvtq_f32_s32(vreinterpretq_s32_u32(x))) }
        fn to_ints(x: Floats) -> Ints { each(x, |x| vreinterpretq_u32_s32(vcvtnq_s32_f32(x))) }
        fn as_floats(x: Ints) -> Floats { each(x, |x| vreinterpretq_f32_u32(x)) }
        fn as_ints(x: Floats) -> Ints { each(x, |x| vreinterpretq_u32_f32(x)) }
        fn add(a: Floats, b: Floats) -> Floats { both(a, b, |a, b| vaddq_f32(a, b)) }
        fn sub(a: Floats, b: Floats) -> Floats { both(a, b, |a, b| vsubq_f32(a, b)) }
        fn mul(a: Floats, b: Floats) -> Floats { both(a, b, |a, b| vmulq_f32(a, b)) }
        fn div(a: Floats, b: Floats) -> Floats { both(a, b, |a, b| vdivq_f32(a, b)) }
        fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
            [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])]
        }
        fn max(a: Floats, b: Floats) -> Floats { both(a, b, |a, b| vbslq_f32(vcgtq_f32(a, b), a, b)) }
        fn where_above(x: Floats, bound: f32, y: Floats, z: Floats) -> Floats {
            let below = each(x, |x| vcleq_f32(x, vdupq_n_f32(bound)));
            [vbslq_f32(below[0], z[0], y[0]), vbslq_f32(below[1], z[1], y[1])]
        }
    }
}
