//! The tokens that may be drawn: after the mask, then cut by top-k, top-p and min-p.

use super::draw::{Allowed, BLOCK};
use super::exp::exp;
use crate::request::Sampling;
use crate::types::Token;

/// A token and its logit (divided by the temperature once [`cut`] has run).
pub(super) type Candidate = (Token, f32);

/// Best first; lower ids first on ties, so that cuts never depend on the order of collection.
fn better(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// The allowed tokens of a row, ascending by id.
pub(super) fn collect(row: &[f32], allowed: Allowed<'_>, out: &mut Vec<Candidate>) {
    out.clear();
    for (number, block) in row.chunks(BLOCK).enumerate() {
        let ids = (number * BLOCK) as Token..;
        match allowed.word(number) {
            0 => {}
            u32::MAX => out.extend(ids.zip(block.iter().copied())),
            word => out.extend(
                ids.zip(block.iter().copied())
                    .enumerate()
                    .filter(|(i, _)| word >> i & 1 == 1)
                    .map(|(_, c)| c),
            ),
        }
    }
}

/// The `k` best, in no particular order. `k` = 0 or more than there are: all.
pub(super) fn top_k(candidates: &mut Vec<Candidate>, k: usize) {
    if k > 0 && k < candidates.len() {
        candidates.select_nth_unstable_by(k - 1, better);
        candidates.truncate(k);
    }
}

/// The smallest set of best candidates that holds `p` of the probability (Holtzman et al. 2020).
fn top_p(candidates: &mut Vec<Candidate>, p: f32) {
    let best = best_logit(candidates);
    // Summed in id order, so that the border does not depend on how the candidates were collected.
    candidates.sort_unstable_by_key(|c| c.0);
    let total: f64 = candidates.iter().map(|c| f64::from(exp(c.1 - best))).sum();
    let wanted = total * f64::from(p);
    // Sorting the whole vocabulary is dear, and the nucleus is almost always near the top.
    for depth in [2.0, 5.0, 10.0, f32::INFINITY] {
        let mut top: Vec<Candidate> = candidates.iter().copied().filter(|c| c.1 >= best - depth).collect();
        top.sort_unstable_by(better);
        let mut mass = 0.0;
        let kept = top.iter().position(|c| {
            mass += f64::from(exp(c.1 - best));
            mass >= wanted
        });
        if let Some(last) = kept {
            top.truncate(last + 1);
            *candidates = top;
            return;
        }
    }
}

/// Drops what is less likely than `p` times the likeliest (Nguyen et al. 2024).
fn min_p(candidates: &mut Vec<Candidate>, p: f32) {
    let border = best_logit(candidates) + p.ln();
    candidates.retain(|c| c.1 >= border);
}

/// The largest logit.
pub(super) fn best_logit(candidates: &[Candidate]) -> f32 {
    candidates.iter().fold(f32::NEG_INFINITY, |m, c| m.max(c.1))
}

/// Divides by the temperature (> 0) and applies the three cuts in their order.
pub(super) fn cut(candidates: &mut Vec<Candidate>, sampling: &Sampling) {
    for c in candidates.iter_mut() {
        c.1 /= sampling.temperature;
    }
    top_k(candidates, sampling.top_k as usize);
    if sampling.top_p < 1.0 {
        top_p(candidates, sampling.top_p);
    }
    if sampling.min_p > 0.0 {
        min_p(candidates, sampling.min_p);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::Mask;

    fn ids(mut c: Vec<Candidate>) -> Vec<Token> {
        c.sort_unstable_by_key(|c| c.0);
        c.into_iter().map(|c| c.0).collect()
    }

    fn rows(logits: &[f32]) -> Vec<Candidate> {
        let mut out = Vec::new();
        collect(logits, Allowed { mask: None, without: &[] }, &mut out);
        out
    }

    #[test]
    fn top_k_prefers_low_ids_on_ties() {
        let mut c = rows(&[1.0, 2.0, 1.0, 1.0]);
        top_k(&mut c, 2);
        assert_eq!(ids(c), [0, 1]);
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
            let mut c = rows(&logits);
            top_p(&mut c, p);
            assert_eq!(ids(c), want, "p = {p}");
        }
    }

    #[test]
    fn top_p_looks_as_deep_as_needed() {
        let mut c = rows(&[0.0; 1000]);
        c[3].1 = 3.0;
        top_p(&mut c, 0.5);
        assert!(c.len() > 400 && c.len() < 600, "{}", c.len());
    }

    #[test]
    fn min_p_is_relative_to_the_best() {
        let mut c = rows(&[0.0, -0.6, -0.8, -5.0]);
        min_p(&mut c, 0.5);
        assert_eq!(ids(c), [0, 1]);
    }

    #[test]
    fn the_mask_comes_first() {
        let mut mask = Mask::none(4);
        mask.set(2, true);
        mask.set(3, true);
        let mut c = Vec::new();
        collect(&[9.0, 8.0, 1.0, 0.5], Allowed { mask: Some(&mask), without: &[3] }, &mut c);
        assert_eq!(ids(c), [2]);
    }
}
