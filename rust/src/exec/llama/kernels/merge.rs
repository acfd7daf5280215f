//! How the sums of ranges of cells become outputs.

use super::functions::exp;
use super::lanes::Lanes;
use super::unit::{Attention, Sums, Unit};

/// Adds the sums of a range to those of all before it.
#[inline(always)]
pub(super) unsafe fn merge<L: Lanes>(a: &Attention, rows: usize, sums: Sums, total: Sums) {
    unsafe {
        let dims = a.dims[1];
        for row in 0..rows {
            let (from, to) = (sums.values.add(row * dims), total.values.add(row * dims));
            let (added, weights) = (*sums.weights.add(row), total.weights.add(row));
            let (most, before) = (*sums.most.add(row), total.most.add(row));
            // The row sees nothing of this range. Its values may not have been written.
            if added == 0.0 {
                continue;
            }
            if *weights == 0.0 {
                (*before, *weights) = (most, added);
                from.copy_to_nonoverlapping(to, dims);
            } else {
                let largest = most.max(*before);
                let [old, new] = [*before - largest, most - largest].map(|x| exp::<L>(L::splat_float(x)));
                *weights = L::lanes(old)[0] * *weights + L::lanes(new)[0] * added;
                *before = largest;
                for d in (0..dims).step_by(L::ROWS) {
                    let values = L::mul(old, L::load_floats(to.add(d)));
                    L::store_floats(to.add(d), L::fma(new, L::load_floats(from.add(d)), values));
                }
            }
        }
    }
}

/// Stores the values divided by the weights.
#[inline(always)]
pub(super) unsafe fn store<L: Lanes>(a: &Attention, unit: &Unit, total: Sums) {
    unsafe {
        let dims = a.dims[1];
        for row in 0..unit.rows.len() {
            let sum = *total.weights.add(row);
            let inverse = L::splat_float(if sum == 0.0 { 0.0 } else { 1.0 / sum });
            let to: *mut f32 = a.outputs.at(unit.place(a, row));
            for d in (0..dims).step_by(L::ROWS) {
                let output = L::load_floats(total.values.add(row * dims + d));
                L::store_floats(to.add(d), L::mul(inverse, output));
            }
        }
    }
}
