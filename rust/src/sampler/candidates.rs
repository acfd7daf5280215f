//! The tokens that may be drawn: after the mask, then cut by top-k, top-p and min-p.
//!
//! Cuts look at few tokens: blocks of a row are asked with their largest logit, and of those tokens that are looked at the
//! best are selected, not sorted.

use super::draw::{Allowed, BLOCK, argmax, block};
use super::exp::{exp, exp_sum};
use crate::request::Sampling;
use crate::types::Token;

/// A token and its logit, divided by the temperature.
pub(super) type Candidate = (Token, f32);

/// How far sums of the same probabilities in different orders may differ: f64 over up to 2^20 of them.
const ROUNDING: f64 = 1e-9;

/// Best first; lower ids first on ties, so that cuts never depend on the order of collection.
fn better(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// The allowed tokens of a row that is divided by the temperature.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tempered<'a> {
    row: &'a [f32],
    allowed: Allowed<'a>,
    temperature: f32,
    /// What is largest in each block, not divided.
    tops: &'a [f32],
    best: f32,
}

impl<'a> Tempered<'a> {
    /// `temperature` > 0. None where a logit is NaN or none is above minus infinity.
    pub(super) fn new(
        row: &'a [f32],
        allowed: Allowed<'a>,
        temperature: f32,
        tops: &'a mut Vec<f32>,
    ) -> Option<Self> {
        let (_, best) = argmax(row, allowed, tops)?;
        Some(Tempered { row, allowed, temperature, tops, best: best / temperature })
    }

    /// The largest logit.
    pub(super) fn best(&self) -> f32 {
        self.best
    }

    /// What the three cuts leave, in no particular order; ascending by id where there are none.
    pub(super) fn cut(&self, sampling: &Sampling, out: &mut Vec<Candidate>) {
        let border = if sampling.min_p > 0.0 { self.best + sampling.min_p.ln() } else { f32::NEG_INFINITY };
        match (sampling.top_k as usize, sampling.top_p < 1.0) {
            (0, false) => return self.above(border, out),
            (0, true) => self.top_p(sampling.top_p, out),
            (k, cut) => {
                self.top_k(k, out);
                if cut && !self.shrink(out, self.mass(out) * f64::from(sampling.top_p)) {
                    plain_top_p(out, (self.best, sampling.top_p));
                }
            }
        }
        // Less likely than so many times the likeliest (Nguyen et al. 2024).
        out.retain(|c| c.1 >= border);
    }

    /// Those that are not below `bound`, ascending by id.
    fn above(&self, bound: f32, out: &mut Vec<Candidate>) {
        out.clear();
        for (number, (logits, top)) in self.row.chunks(BLOCK).zip(self.tops).enumerate() {
            if top / self.temperature < bound {
                continue;
            }
            let word = self.allowed.word(number);
            let all =
                ((number * BLOCK) as Token..).zip(logits).map(|(id, logit)| (id, logit / self.temperature));
            out.extend(all.enumerate().filter(|(i, c)| word >> i & 1 == 1 && c.1 >= bound).map(|(_, c)| c));
        }
    }

    /// The `k` best, or all where there are no more.
    fn top_k(&self, k: usize, out: &mut Vec<Candidate>) {
        let mut bound = f32::NEG_INFINITY;
        if k < self.tops.len() {
            // So many blocks have a token that is as good.
            out.clear();
            out.extend(self.tops.iter().map(|top| (0, *top)));
            bound = out.select_nth_unstable_by(k - 1, better).1.1 / self.temperature;
        }
        self.above(bound, out);
        if k < out.len() {
            out.select_nth_unstable_by(k - 1, better);
            out.truncate(k);
        }
    }

    /// The smallest set of best tokens that holds `p` of the probability (Holtzman et al. 2020).
    fn top_p(&self, p: f32, out: &mut Vec<Candidate>) {
        let wanted = self.mass_of_all() * f64::from(p);
        // The nucleus is almost always near the top.
        for depth in [2.0, 5.0, 10.0, f32::INFINITY] {
            self.above(self.best - depth, out);
            if self.shrink(out, wanted) {
                return;
            }
        }
        plain_top_p(out, (self.best, p));
    }

    /// Keeps the smallest set of best ones that holds `wanted`. False, where they hold less, or where rounding might decide;
    /// then all are still there, in another order.
    fn shrink(&self, candidates: &mut Vec<Candidate>, wanted: f64) -> bool {
        let margin = wanted * ROUNDING;
        let (mut low, mut high, mut mass) = (0, candidates.len(), 0.0);
        // The border is behind `low`, and not behind `high`.
        let spare = self.mass(candidates) - wanted;
        if spare.is_nan() || spare <= margin {
            return false;
        }
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            candidates[low..high].select_nth_unstable_by(middle - low, better);
            let more = mass + self.mass(&candidates[low..middle]);
            if (more - wanted).abs() <= margin {
                return false;
            }
            if more > wanted { high = middle } else { (low, mass) = (middle, more) }
        }
        candidates.truncate(high);
        true
    }

    /// The sum of e^(logit − best).
    fn mass(&self, candidates: &[Candidate]) -> f64 {
        exp_sum(candidates, self.best, |c| c.1)
    }

    fn mass_of_all(&self) -> f64 {
        let mut buffer = [0f32; BLOCK];
        let mut sums = [0f64; BLOCK];
        for number in 0..self.tops.len() {
            let word = self.allowed.word(number);
            if word == 0 {
                continue;
            }
            // What may not be drawn adds e^-87.
            for (sum, logit) in sums.iter_mut().zip(block(self.row, number, word, &mut buffer)) {
                *sum += f64::from(exp(logit / self.temperature - self.best));
            }
        }
        sums.iter().sum()
    }
}

/// The same cut, summed in the order of ids and then from the best on: what decides where sums in other orders might not
/// agree.
fn plain_top_p(candidates: &mut Vec<Candidate>, (best, p): (f32, f32)) {
    candidates.sort_unstable_by_key(|c| c.0);
    let wanted = candidates.iter().map(|c| f64::from(exp(c.1 - best))).sum::<f64>() * f64::from(p);
    candidates.sort_unstable_by(better);
    let mut mass = 0.0;
    let last = candidates.iter().position(|c| {
        mass += f64::from(exp(c.1 - best));
        mass >= wanted
    });
    candidates.truncate(last.map_or(candidates.len(), |last| last + 1));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::Mask;

    const OPEN: Allowed<'static> = Allowed { mask: None, without: &[] };

    /// The ids that are left.
    fn left(logits: &[f32], allowed: Allowed<'_>, (k, p, min_p): (u32, f32, f32)) -> Vec<Token> {
        let sampling = Sampling { temperature: 1.0, top_k: k, top_p: p, min_p, ..Sampling::default() };
        let (mut tops, mut out) = (Vec::new(), Vec::new());
        Tempered::new(logits, allowed, 1.0, &mut tops).unwrap().cut(&sampling, &mut out);
        let mut ids: Vec<_> = out.into_iter().map(|c| c.0).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn top_k_prefers_low_ids_on_ties() {
        assert_eq!(left(&[1.0, 2.0, 1.0, 1.0], OPEN, (2, 1.0, 0.0)), [0, 1]);
        let far: Vec<f32> = (0..200).map(|i| if i % 50 == 49 { 3.0 } else { 0.0 }).collect();
        assert_eq!(left(&far, OPEN, (3, 1.0, 0.0)), [49, 99, 149]);
        assert_eq!(left(&far, OPEN, (6, 1.0, 0.0)), [0, 1, 49, 99, 149, 199]);
    }

    #[test]
    fn top_p_keeps_the_smallest_sufficient_set() {
        let logits: Vec<f32> = [0.5f32, 0.3, 0.15, 0.05].iter().map(|p| p.ln()).collect();
        for (p, want) in [
            (0.4, vec![0]),
            (0.6, vec![0, 1]),
            (0.79, vec![0, 1]),
            (0.9, vec![0, 1, 2]),
            (0.99, vec![0, 1, 2, 3]),
        ] {
            assert_eq!(left(&logits, OPEN, (0, p, 0.0)), want, "p = {p}");
            assert_eq!(left(&logits, OPEN, (4, p, 0.0)), want, "p = {p}");
        }
        // Exactly half: rounding decides.
        assert_eq!(left(&[0.0; 4], OPEN, (0, 0.5, 0.0)), [0, 1]);
    }

    #[test]
    fn top_p_looks_as_deep_as_needed() {
        let mut logits = [0.0; 1000];
        logits[3] = 3.0;
        let kept = left(&logits, OPEN, (0, 0.5, 0.0)).len();
        assert!(kept > 400 && kept < 600, "{kept}");
    }

    #[test]
    fn min_p_is_relative_to_the_best() {
        for k in [0, 4] {
            assert_eq!(left(&[0.0, -0.6, -0.8, -5.0], OPEN, (k, 1.0, 0.5)), [0, 1]);
        }
    }

    #[test]
    fn the_mask_comes_first() {
        let mut mask = Mask::none(4);
        mask.set(2, true);
        mask.set(3, true);
        let allowed = Allowed { mask: Some(&mask), without: &[3] };
        for cut in [(0, 1.0, 0.0), (2, 1.0, 0.0), (0, 0.9, 0.0)] {
            assert_eq!(left(&[9.0, 8.0, 1.0, 0.5], allowed, cut), [2]);
        }
    }
}
