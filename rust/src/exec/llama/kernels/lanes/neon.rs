//! Two times 128 bits of NEON, with products of bytes.

use super::tiles::NoTiles;
use super::{Lanes, by_token};
use std::arch::aarch64::*;
use std::arch::asm;

/// NEON with FEAT_DotProd, which processors have from Armv8.4 on and some before.
pub(in super::super) struct Neon;

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

/// Adds the products of its four signed bytes to each lane of `sum`. In assembly because the standard library's function is unstable.
#[inline(always)]
unsafe fn dot(mut sum: uint32x4_t, weights: uint32x4_t, activations: uint32x4_t) -> uint32x4_t {
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {weights:v}.16b, {activations:v}.16b",
            sum = inout(vreg) sum,
            weights = in(vreg) weights,
            activations = in(vreg) activations,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

impl Lanes for Neon {
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
    unsafe fn bytes(byte: u8) -> Ints {
        unsafe { [vreinterpretq_u32_u8(vdupq_n_u8(byte)); 2] }
    }

    #[inline(always)]
    unsafe fn and(a: Ints, b: Ints) -> Ints {
        both(a, b, |a, b| unsafe { vandq_u32(a, b) })
    }

    #[inline(always)]
    unsafe fn or(a: Ints, b: Ints) -> Ints {
        both(a, b, |a, b| unsafe { vorrq_u32(a, b) })
    }

    #[inline(always)]
    unsafe fn xor(a: Ints, b: Ints) -> Ints {
        both(a, b, |a, b| unsafe { veorq_u32(a, b) })
    }

    #[inline(always)]
    unsafe fn left<const BITS: u32>(x: Ints) -> Ints {
        each(x, |x| unsafe { vshlq_u32(x, vdupq_n_s32(BITS.cast_signed())) })
    }

    #[inline(always)]
    unsafe fn right<const BITS: u32>(x: Ints) -> Ints {
        each(x, |x| unsafe { vshlq_u32(x, vdupq_n_s32(-BITS.cast_signed())) })
    }

    #[inline(always)]
    unsafe fn signed_right<const BITS: u32>(x: Ints) -> Ints {
        each(x, |x| unsafe {
            vreinterpretq_u32_s32(vshlq_s32(vreinterpretq_s32_u32(x), vdupq_n_s32(-BITS.cast_signed())))
        })
    }

    #[inline(always)]
    unsafe fn look_up(entries: &[u8; 16], x: Ints) -> Ints {
        unsafe {
            let table = vld1q_u8(entries.as_ptr());
            each(x, |x| vreinterpretq_u32_u8(vqtbl1q_u8(table, vreinterpretq_u8_u32(x))))
        }
    }

    #[inline(always)]
    unsafe fn splat(x: *const i32) -> Ints {
        unsafe { [vdupq_n_u32(x.read_unaligned().cast_unsigned()); 2] }
    }

    #[inline(always)]
    unsafe fn dots<const N: usize>(
        sums: [Ints; N],
        weights: &[Ints],
        most: i32,
        activations: [*const i32; N],
    ) -> [Ints; N] {
        by_token(sums, activations, |mut sum, activations| unsafe {
            for (j, weights) in weights.iter().enumerate() {
                let weights = if most > 127 { Self::xor(*weights, Self::bytes(0x80)) } else { *weights };
                let [activations, _] = Self::splat(activations.add(j));
                sum = both(sum, weights, |sum, weights| dot(sum, weights, activations));
            }
            sum
        })
    }

    #[inline(always)]
    unsafe fn scaled_dots<const N: usize>(
        sums: [Ints; N],
        (weights, scale): (&[Ints], Ints),
        most: i32,
        activations: [*const i32; N],
    ) -> [Ints; N] {
        by_token(sums, activations, |sum, activations| unsafe {
            let [dots] = Self::dots([[vdupq_n_u32(0); 2]], weights, most, [activations]);
            Self::add_ints(sum, both(dots, scale, |dots, scale| vmulq_u32(dots, scale)))
        })
    }

    #[inline(always)]
    unsafe fn scale(x: Ints) -> Ints {
        x
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: Ints, pairs: Ints, activations: *const i32) -> Ints {
        unsafe {
            let [activations, _] = Self::splat(activations);
            let [first, second] = [
                vmovn_s32(vreinterpretq_s32_u32(activations)),
                vshrn_n_s32::<16>(vreinterpretq_s32_u32(activations)),
            ];
            both(sum, pairs, |sum, pairs| {
                let (sum, pairs) = (vreinterpretq_s32_u32(sum), vreinterpretq_s32_u32(pairs));
                let sum = vmlal_s16(sum, vmovn_s32(pairs), first);
                vreinterpretq_u32_s32(vmlal_s16(sum, vshrn_n_s32::<16>(pairs), second))
            })
        }
    }

    #[inline(always)]
    unsafe fn zero() -> Floats {
        unsafe { [vdupq_n_f32(0.0); 2] }
    }

    #[inline(always)]
    unsafe fn store_floats(to: *mut f32, x: Floats) {
        unsafe {
            vst1q_f32(to, x[0]);
            vst1q_f32(to.add(4), x[1]);
        }
    }

    #[inline(always)]
    unsafe fn splat_float(x: *const f32) -> Floats {
        unsafe { [vdupq_n_f32(x.read_unaligned()); 2] }
    }

    #[inline(always)]
    unsafe fn to_floats(x: Ints) -> Floats {
        each(x, |x| unsafe { vcvtq_f32_s32(vreinterpretq_s32_u32(x)) })
    }

    #[inline(always)]
    unsafe fn as_floats(x: Ints) -> Floats {
        each(x, |x| unsafe { vreinterpretq_f32_u32(x) })
    }

    #[inline(always)]
    unsafe fn from_half(x: Ints) -> Floats {
        each(x, |x| unsafe { vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(x))) })
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> Floats {
        each([0, 4], |at| unsafe { vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from.add(at)))) })
    }

    #[inline(always)]
    unsafe fn mul(a: Floats, b: Floats) -> Floats {
        both(a, b, |a, b| unsafe { vmulq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn neg(x: Floats) -> Floats {
        each(x, |x| unsafe { vnegq_f32(x) })
    }

    #[inline(always)]
    unsafe fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
        unsafe { [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn add(a: Floats, b: Floats) -> Floats {
        both(a, b, |a, b| unsafe { vaddq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn sub(a: Floats, b: Floats) -> Floats {
        both(a, b, |a, b| unsafe { vsubq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn div(a: Floats, b: Floats) -> Floats {
        both(a, b, |a, b| unsafe { vdivq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn max(a: Floats, b: Floats) -> Floats {
        both(a, b, |a, b| unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) })
    }

    #[inline(always)]
    unsafe fn most(x: Floats) -> f32 {
        unsafe { vmaxvq_f32(vmaxq_f32(x[0], x[1])) }
    }

    #[inline(always)]
    unsafe fn where_above(x: Floats, bound: f32, y: Floats, z: Floats) -> Floats {
        let below = each(x, |x| unsafe { vcleq_f32(x, vdupq_n_f32(bound)) });
        unsafe { [vbslq_f32(below[0], z[0], y[0]), vbslq_f32(below[1], z[1], y[1])] }
    }

    #[inline(always)]
    unsafe fn to_ints(x: Floats) -> Ints {
        each(x, |x| unsafe { vreinterpretq_u32_s32(vcvtnq_s32_f32(x)) })
    }

    #[inline(always)]
    unsafe fn as_ints(x: Floats) -> Ints {
        each(x, |x| unsafe { vreinterpretq_u32_f32(x) })
    }

    #[inline(always)]
    unsafe fn add_ints(a: Ints, b: Ints) -> Ints {
        both(a, b, |a, b| unsafe { vaddq_u32(a, b) })
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> Floats {
        unsafe { [vld1q_f32(from), vld1q_f32(from.add(4))] }
    }

    #[inline(always)]
    unsafe fn load_brains(from: *const u16) -> Floats {
        each([0, 4], |at| unsafe { vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(from.add(at)))) })
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const i8) -> Floats {
        unsafe {
            let bytes = vmovl_s8(vld1_s8(from));
            each([vget_low_s16(bytes), vget_high_s16(bytes)], |x| vcvtq_f32_s32(vmovl_s16(x)))
        }
    }
}
