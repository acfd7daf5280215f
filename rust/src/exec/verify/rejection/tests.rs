//! Statistics on a model whose strings can be enumerated: three tokens of a vocabulary of eight, drafts of two, a mask for
//! every context. Counts of whole strings are compared with their probabilities by a chi-square test; then ten mistakes
//! that have been made in such code are planted one by one, and each must be noticed.

use super::*;
use crate::config::Acceptance;
use crate::exec::verify::Walk;
use crate::exec::{Job, Round};
use crate::grammar::{Mask, Next};
use crate::request::{Limits, Request};
use crate::sampler::Scratch;
use crate::types::Slot;
use crate::vocab::Vocab;
use std::sync::Arc;

const V: usize = 8;
const LENGTH: usize = 3;
const MOST_DRAFTED: usize = 2;
const STRINGS: u32 = 200_000;
const MODELS: u64 = 20;
/// Normal quantile of 1 - 1e-6.
const Z: f64 = 4.753_424;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    None,
    ResidualFromTarget,
    RatioWithoutMask,
    OneChanceForAll,
    BonusFromDraft,
    RatioAtAnotherTemperature,
    StaleMask,
    KeptIffLikelier,
    RecoveredWithTheSameChance,
    TooGenerous,
    CutWhereRefused,
}

const MISTAKES: [Mistake; 10] = [
    Mistake::ResidualFromTarget,
    Mistake::RatioWithoutMask,
    Mistake::OneChanceForAll,
    Mistake::BonusFromDraft,
    Mistake::RatioAtAnotherTemperature,
    Mistake::StaleMask,
    Mistake::KeptIffLikelier,
    Mistake::RecoveredWithTheSameChance,
    Mistake::TooGenerous,
    Mistake::CutWhereRefused,
];

/// Logits of target and draft and a mask for every context of up to two tokens.
struct Model {
    target: Vec<[f32; V]>,
    draft: Vec<[f32; V]>,
    masks: Vec<Mask>,
}

fn context(tokens: &[Token]) -> usize {
    match *tokens {
        [] => 0,
        [a] => 1 + a as usize,
        [a, b] => 1 + V + a as usize * V + b as usize,
        _ => unreachable!("contexts have up to two tokens"),
    }
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        let contexts = 1 + V + V * V;
        let mut model = Model { target: Vec::new(), draft: Vec::new(), masks: Vec::new() };
        for _ in 0..contexts {
            let target: [f32; V] = std::array::from_fn(|_| 3.0 * random());
            model.draft.push(std::array::from_fn(|t| target[t] + 2.0 * random()));
            model.target.push(target);
            let mut mask = Mask::none(V);
            (0..V as Token).for_each(|t| mask.set(t, random() < 0.6));
            mask.set((random() * V as f32) as Token, true);
            model.masks.push(mask);
        }
        model
    }

    /// Probability of each token that follows these.
    fn probabilities(&self, tokens: &[Token]) -> [f64; V] {
        let at = context(tokens);
        let mut p: [f64; V] = std::array::from_fn(|t| f64::from(self.target[at][t]).exp());
        (0..V).filter(|t| !self.masks[at].allows(*t as Token)).for_each(|t| p[t] = 0.0);
        let total: f64 = p.iter().sum();
        p.map(|p| p / total)
    }
}

/// The rule with a mistake.
struct Wrong<'a>(Mistake, &'a Model, &'a [Token]);

impl Wrong<'_> {
    fn draw(&self, sampler: &Sampler, draft: &Draft, at: usize, p: &Weights) -> (Token, bool) {
        let bonus = |at| self.bonus(sampler, p, &draft.tokens[..at]);
        let Some(&drafted) = draft.tokens.get(at) else { return (bonus(at), false) };
        let q = &draft.probs[at];
        // That of one fixed position.
        let shared = self.0 == Mistake::OneChanceForAll;
        let chance = sampler.chance(if shared { LENGTH - self.2.len() } else { at });
        if self.keeps(chance, weight(p, drafted), weight(q, drafted)) {
            return (drafted, true);
        }
        (self.recover(sampler, (p, q), at).unwrap_or_else(|| bonus(at)), false)
    }

    fn keeps(&self, chance: f64, p: f32, q: f32) -> bool {
        match self.0 {
            Mistake::KeptIffLikelier => p >= q,
            Mistake::TooGenerous => chance * f64::from(q) < 1.05 * f64::from(p),
            _ => chance * f64::from(q) < f64::from(p),
        }
    }

    fn recover(&self, sampler: &Sampler, (p, q): (&Weights, &Weights), at: usize) -> Option<Token> {
        match self.0 {
            Mistake::ResidualFromTarget => sampler.draw_from(p.iter().copied(), Purpose::Recover, at),
            Mistake::RecoveredWithTheSameChance => {
                let rest: Vec<_> = positive_part(p, q).collect();
                let mut left = sampler.chance(at) * rest.iter().map(|w| f64::from(w.1)).sum::<f64>();
                rest.iter().find_map(|w| {
                    left -= f64::from(w.1);
                    (left <= 0.0).then_some(w.0)
                })
            }
            _ => sampler.draw_from(positive_part(p, q), Purpose::Recover, at),
        }
    }

    fn bonus(&self, sampler: &Sampler, p: &Weights, drafted: &[Token]) -> Token {
        let at = context(&[self.2, drafted].concat());
        let (row, mask) = (&self.1.draft[at], &self.1.masks[at]);
        let weights = match self.0 {
            Mistake::BonusFromDraft => spread(sampler, row, mask, drafted),
            _ => p.to_vec(),
        };
        sampler.draw_from(weights, Purpose::Draw, drafted.len()).unwrap()
    }
}

/// Probabilities of what may come after `drafted`.
fn spread(sampler: &Sampler, row: &[f32], mask: &Mask, drafted: &[Token]) -> Vec<(Token, f32)> {
    let mut scratch = Scratch::default();
    assert!(sampler.spread(row, Some(&mask.clone().into()), drafted, &mut scratch).unwrap());
    scratch.spread
}

/// A draft after `said`, and the masks for it and what follows it.
fn draft(model: &Model, mistake: Mistake, sampler: &Sampler, said: &[Token]) -> Draft {
    let mut out = Draft { acceptance: Acceptance::Rejection, ..Draft::default() };
    for ahead in 0..MOST_DRAFTED.min(LENGTH - said.len() - 1) {
        let at = context(&[said, &out.tokens].concat());
        let row = model.draft[at];
        let open = Mask::all(V);
        let mask = if mistake == Mistake::CutWhereRefused { &open } else { &model.masks[at] };
        let q = spread(sampler, &row, mask, &out.tokens);
        let token = sampler.draw_from(q.iter().copied(), Purpose::Draft, ahead).unwrap();
        if !model.masks[at].allows(token) {
            break;
        }
        let stated = match mistake {
            Mistake::RatioWithoutMask => spread(sampler, &row, &open, &out.tokens),
            Mistake::RatioAtAnotherTemperature => spread(sampler, &row.map(|l| l / 0.9), mask, &out.tokens),
            _ => q,
        };
        out.tokens.push(token);
        out.probs.push(stated);
    }
    for ahead in 0..=out.tokens.len() {
        out.masks.push(model.masks[context(&[said, &out.tokens[..ahead]].concat())].clone().into());
    }
    out
}

/// What a draft behind one known token comes to.
fn judged(sampler: Sampler, draft: Draft, rows: &[&[f32]], rule: &Rule<'_>) -> Round {
    let mut round = Round::new(Job {
        slot: Slot(0),
        start: 0,
        tokens: vec![0],
        sample: true,
        score: None,
        decides: 0,
        draft,
        budget: 100,
        sampler,
        grammar: None,
    });
    Walk::new(&mut round, None, &mut Scratch::default(), rule).judge(rows, None).unwrap();
    round
}

/// One string; `number` chooses its noise.
fn string(
    model: &Model,
    mistake: Mistake,
    request: &Arc<Request>,
    (number, vocab): (u32, &Arc<Vocab>),
) -> usize {
    let mut sampler = Sampler::new(Arc::clone(request), number, 0, Arc::clone(vocab));
    let mut said: Vec<Token> = Vec::new();
    let mut stale: Option<Next> = None;
    while said.len() < LENGTH {
        let mut draft = draft(model, mistake, &sampler, &said);
        if let Some(mask) = stale.take() {
            draft.masks[0] = mask;
        }
        let texts: Vec<_> = (0..=draft.tokens.len()).map(|n| [&said, &draft.tokens[..n]].concat()).collect();
        let rows: Vec<&[f32]> = texts.iter().map(|text| &model.target[context(text)][..]).collect();
        let wrong = Wrong(mistake, model, &said);
        let wrong = |s: &Sampler, draft: &Draft, at, p: &Weights| wrong.draw(s, draft, at, p);
        let rule: &Rule<'_> = if mistake == Mistake::None { &modified } else { &wrong };
        let round = judged(sampler, draft, &rows, rule);
        let Round { job: Job { sampler: back, draft, .. }, refusal, computed, tokens, .. } = round;
        sampler = back;
        if mistake == Mistake::StaleMask && refusal.is_some() {
            stale = draft.masks.get(computed as usize).cloned();
        }
        for token in tokens {
            sampler.commit(token);
            said.push(token);
        }
    }
    said.iter().fold(0, |code, token| code * V + *token as usize)
}

/// Whether so many strings of a model look as they should.
fn looks_right(model: &Model, mistake: Mistake) -> bool {
    let spec = serde_json::from_str(r#"{"prompt":[1],"n":1,"sampling":{"seed":7}}"#).unwrap();
    let limits = Limits { context: 100, max_prompt: 100, ..Limits::small(V) };
    let (request, vocab) = (Arc::new(Request::new(spec, &limits).unwrap()), Vocab::toy().unwrap());
    let mut counts = [0u32; V * V * V];
    for number in 0..STRINGS {
        counts[string(model, mistake, &request, (number, &vocab))] += 1;
    }
    let (mut statistic, mut cells, mut pooled) = (0.0, 0.0, (0.0, 0.0));
    for (code, count) in counts.into_iter().enumerate() {
        let tokens = [code / V / V, code / V % V, code % V].map(|t| t as Token);
        let p: f64 = (0..LENGTH).map(|i| model.probabilities(&tokens[..i])[tokens[i] as usize]).product();
        let (expected, count) = (p * f64::from(STRINGS), f64::from(count));
        if p == 0.0 && count > 0.0 {
            return false;
        }
        if expected < 10.0 {
            pooled = (pooled.0 + expected, pooled.1 + count);
        } else {
            statistic += (count - expected).powi(2) / expected;
            cells += 1.0;
        }
    }
    if pooled.0 >= 10.0 {
        statistic += (pooled.1 - pooled.0).powi(2) / pooled.0;
        cells += 1.0;
    }
    // The quantile by Wilson and Hilferty (1931).
    let freedom: f64 = cells - 1.0;
    let part = 2.0 / (9.0 * freedom);
    statistic < freedom * (1.0 - part + Z * part.sqrt()).powi(3)
}

#[test]
fn strings_have_their_probabilities() {
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || {
                for seed in (half..MODELS).step_by(2) {
                    assert!(looks_right(&Model::new(seed), Mistake::None), "model {seed}");
                }
            });
        }
    });
}

#[test]
fn every_mistake_is_noticed() {
    std::thread::scope(|scope| {
        for half in MISTAKES.chunks(MISTAKES.len() / 2) {
            scope.spawn(move || {
                for mistake in half {
                    let noticed = (0..3).any(|seed| !looks_right(&Model::new(seed), *mistake));
                    assert!(noticed, "{mistake:?}");
                }
            });
        }
    });
}

#[test]
fn a_certain_draft_is_kept_as_often_as_it_is_likely() {
    // Half of the time token 0, which a deterministic drafter proposes.
    let spec = serde_json::from_str(r#"{"prompt":[1],"sampling":{"seed":7}}"#).unwrap();
    let limits = Limits { context: 100, max_prompt: 100, ..Limits::small(2) };
    let (request, vocab) = (Arc::new(Request::new(spec, &limits).unwrap()), Vocab::toy().unwrap());
    let mut kept = 0;
    for number in 0..10_000 {
        let sampler = Sampler::new(Arc::clone(&request), number, 0, Arc::clone(&vocab));
        let draft = Draft { tokens: vec![0], acceptance: Acceptance::Rejection, ..Draft::default() };
        let row: &[f32] = &[0.0, 0.0];
        let round = judged(sampler, draft, &[row, row], &modified);
        // One of the computed tokens was known.
        assert_eq!(round.computed as usize, round.tokens.len());
        assert!(round.computed == 2 || round.tokens == [1]);
        kept += round.computed - 1;
    }
    assert!((4_700..5_300).contains(&kept), "{kept}");
}
