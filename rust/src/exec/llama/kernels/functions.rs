//! Functions of vectors of floats.

use super::lanes::Lanes;

/// e^x for x ≤ 0, within two units in the last place; 0 below −80. What is no number stays so.
///
/// Cody, Waite 1980: x = n ln 2 + r, with ln 2 in two parts, and a polynomial for e^r.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn exp<L: Lanes>(x: L::Floats) -> L::Floats {
    const LEAST: f32 = -87.0;
    const CUT: f32 = -80.0;
    const FACTORS: [f32; 6] = [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    unsafe {
        let splat = |x: f32| L::splat_float(x);
        let bounded = L::max(splat(LEAST), x);
        let n = L::to_ints(L::mul(bounded, splat(std::f32::consts::LOG2_E)));
        let whole = L::to_floats(n);
        let r = L::fma(whole, splat(-0.693_359_4), bounded);
        let r = L::fma(whole, splat(2.121_944_4e-4), r);
        let mut power = splat(1.0 / 720.0);
        for factor in FACTORS {
            power = L::fma(power, r, splat(factor));
        }
        let two_to_n = L::as_floats(L::left(L::add_ints(n, L::splat(127)), 23));
        L::where_above(x, CUT, L::mul(power, two_to_n), L::splat_float(0.0))
    }
}

/// cap · tanh(x).
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
pub(super) unsafe fn capped<L: Lanes>(x: L::Floats, cap: f32) -> L::Floats {
    unsafe {
        let (sign, one) = (L::splat(i32::MIN), L::splat_float(1.0));
        let sign_of_x = L::and(L::as_ints(x), sign);
        let minus = L::as_floats(L::or(L::as_ints(x), sign));
        let e = exp::<L>(L::add(minus, minus));
        let tanh = L::div(L::sub(one, e), L::add(one, e));
        L::mul(L::as_floats(L::or(L::as_ints(tanh), sign_of_x)), L::splat_float(cap))
    }
}

/// Whether all are numbers.
#[inline(always)]
pub(super) fn all_finite(x: &[f32]) -> bool {
    x.iter().fold(true, |all, x| all & x.is_finite())
}
