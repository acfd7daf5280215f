use super::*;
use crate::grammar::Mask;
use crate::request::{Limits, RequestSpec};
use proptest::prelude::*;

fn request(json: &str) -> Request {
    let spec: RequestSpec = serde_json::from_str(json).unwrap();
    let limits = Limits { context: 1000, max_prompt: 1000, faults: true, ..Limits::small(268) };
    Request::new(spec, &limits).unwrap()
}

fn sampler(json: &str) -> Sampler {
    Sampler::new(Arc::new(request(json)), 0, 7, Vocab::toy().unwrap())
}

fn row(seed: u32) -> Vec<f32> {
    (0..268u32).map(|t| (t.wrapping_mul(2_654_435_761).wrapping_add(seed * 977) >> 8) as f32 / 2e6).collect()
}

fn token(drawn: Drawn) -> Token {
    match drawn {
        Drawn::Token(token, _) => token,
        Drawn::End => panic!("ended"),
    }
}

fn draw(sampler: &Sampler, row: &[f32], mask: Option<&Mask>) -> Token {
    let next = mask.cloned().map(Next::from);
    token(sampler.draw(row, next.as_ref(), &[], &mut Scratch::default()).unwrap())
}

#[test]
fn at_temperature_zero_the_largest_wins_and_the_lowest_id_on_ties() {
    let s = sampler(r#"{"prompt":[1],"sampling":{"temperature":0}}"#);
    let mut logits = row(1);
    logits[200] = 50.0;
    logits[100] = 50.0;
    assert_eq!(draw(&s, &logits, None), 100);
}

proptest! {
    /// The draw asks few tokens for their noise, and none too few.
    #[test]
    fn the_best_noisy_score_is_found(
        seed: u64,
        n in 1usize..600,
        (spread, temperature) in (0f32..30.0, 0.05f32..3.0),
        masked in 0u32..3,
        ends in prop::collection::vec(0u32..600, 0..3),
    ) {
        let noise = Noise::new(seed, Purpose::Draw, 0, 0);
        let other = Noise::new(!seed, Purpose::Draw, 0, 0);
        let row: Vec<f32> = (0..n as u32).map(|t| (other.hash(t) >> 8) as f32 / 16_777_216.0 * spread).collect();
        let mut mask = Mask::none(n);
        (0..n as u32).for_each(|t| mask.set(t, masked == 2 || other.hash(t / 40) > 1 << 31 && other.hash(t) > 1 << 29));
        let allowed = Allowed { mask: (masked > 0).then_some(&mask), without: &ends };
        let may = |t: &Token| !ends.contains(t) && (masked == 0 || mask.allows(*t));
        let score = |t: Token| row[t as usize] / temperature + noise.gumbel(t);
        let best = |score: &dyn Fn(Token) -> f32| {
            (0..n as u32).filter(may).reduce(|a, b| if score(b) > score(a) { b } else { a })
        };
        let mut tops = Vec::new();
        prop_assert_eq!(draw::draw(&row, allowed, temperature, noise, &mut tops), best(&score));
        prop_assert_eq!(draw::draw(&row, allowed, 0.0, noise, &mut tops), best(&|t| row[t as usize]));
        let all: Vec<Candidate> = (0..n as u32).filter(may).map(|t| (t, row[t as usize] / temperature)).collect();
        prop_assert_eq!(draw::draw_of(&all, noise), best(&score));
        let (mut some, mut sorted) = (Vec::new(), (0..n as u32).map(|t| (t, row[t as usize].round())).collect::<Vec<_>>());
        let rounded: Vec<f32> = sorted.iter().map(|c| c.1).collect();
        draw::top_k(&rounded, 5, &mut some);
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        prop_assert_eq!(&some[..], &sorted[..n.min(5)]);
    }
}

/// What the three cuts leave of all tokens that may be drawn: everything is sorted, and summed in order.
fn plainly_cut(row: &[f32], may: impl Fn(&Token) -> bool, s: &Sampling) -> Vec<Candidate> {
    let ids = (0..row.len() as Token).filter(may);
    let mut left: Vec<Candidate> = ids.map(|t| (t, row[t as usize] / s.temperature)).collect();
    left.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    left.truncate(if s.top_k > 0 { s.top_k as usize } else { left.len() });
    let Some(&(_, best)) = left.first() else { return left };
    if s.top_p < 1.0 {
        let mut by_id = left.clone();
        by_id.sort_by_key(|c| c.0);
        let share = |c: &Candidate| f64::from(exp(c.1 - best));
        let wanted = by_id.iter().map(share).sum::<f64>() * f64::from(s.top_p);
        let mut mass = 0.0;
        let enough = |c: &Candidate| {
            mass += share(c);
            mass >= wanted
        };
        let last = left.iter().position(enough);
        left.truncate(last.map_or(left.len(), |last| last + 1));
    }
    left.retain(|c| s.min_p == 0.0 || c.1 >= best + s.min_p.ln());
    left.sort_by_key(|c| c.0);
    left
}

fn cuts() -> impl Strategy<Value = (u32, f32, f32)> {
    let top_k = prop_oneof![2 => Just(0u32), 1 => 1u32..50, 1 => 1u32..2000];
    let top_p =
        prop_oneof![1 => Just(1f32), 1 => Just(0.5), 1 => Just(0.0), 3 => 0f32..1.0, 1 => 0.999f32..1.0];
    (top_k, top_p, prop_oneof![2 => Just(0f32), 1 => 0f32..0.3])
}

proptest! {
    /// Cuts look at few tokens, and leave the same as if all were sorted; so the same is drawn.
    #[test]
    fn cuts_leave_what_they_would_leave_of_a_sorted_row(
        seed: u64,
        n in prop_oneof![1usize..600, 600usize..5000],
        // Steps of logits: few make many ties.
        (width, steps, temperature) in (0f32..40.0, prop_oneof![1u32..20, Just(1 << 24)], 0.05f32..3.0),
        (masked, ends) in (0u32..3, prop::collection::vec(0u32..600, 0..3)),
        (top_k, top_p, min_p) in cuts(),
    ) {
        let noise = Noise::new(seed, Purpose::Draw, 0, 0);
        let other = Noise::new(!seed, Purpose::Draw, 0, 0);
        let logit = |t: u32| (f64::from(other.hash(t)) / 4_294_967_296.0 * f64::from(steps)) as u32 as f32 / steps as f32 * width;
        let row: Vec<f32> = (0..n as u32).map(|t| if t % 97 == 96 { f32::NEG_INFINITY } else { logit(t) }).collect();
        let mut mask = Mask::none(n);
        (0..n as u32).for_each(|t| mask.set(t, masked == 2 || other.hash(t / 40) > 1 << 31 && other.hash(t) > 1 << 29));
        let allowed = Allowed { mask: (masked > 0).then_some(&mask), without: &ends };
        let may = |t: &Token| !ends.contains(t) && (masked == 0 || mask.allows(*t));
        let sampling = Sampling { temperature, top_k, top_p, min_p, ..Sampling::default() };
        let want = plainly_cut(&row, may, &sampling);
        let (mut tops, mut got) = (Vec::new(), Vec::new());
        let Some(tempered) = Tempered::new(&row, allowed, temperature, &mut tops) else {
            prop_assert!(want.iter().all(|c| c.1 == f32::NEG_INFINITY));
            return Ok(());
        };
        tempered.cut(&sampling, &mut got);
        prop_assert_eq!(draw::draw_of(&got, noise), draw::draw_of(&want, noise));
        got.sort_by_key(|c| c.0);
        prop_assert_eq!(got, want);
    }
}

#[test]
fn a_likely_few_are_cut_from_a_large_vocabulary_without_a_copy_of_it() {
    let width = 1 << 17;
    let mut logits: Vec<f32> =
        (0..width).map(|t: u32| (t.wrapping_mul(2_654_435_761) >> 8) as f32 / 2e6).collect();
    for (place, logit) in [(77, 30.0), (90_000, 31.0), (130_000, 29.0)] {
        logits[place] = logit;
    }
    for cut in [r#""top_p":0.9"#, r#""top_k":40"#, r#""min_p":0.05"#, r#""top_p":0.9,"top_k":40"#] {
        let s = sampler(&format!(r#"{{"prompt":[1],"sampling":{{"seed":1,{cut}}}}}"#));
        let mut scratch = Scratch::default();
        assert!([77, 90_000, 130_000].contains(&token(s.draw(&logits, None, &[], &mut scratch).unwrap())));
        assert!(scratch.candidates.capacity() < width as usize / 16, "{cut}");
    }
}

#[test]
fn draws_follow_the_softmax() {
    let logits: Vec<f32> = [0.5f32, 0.25, 0.125, 0.125].iter().map(|p| p.ln()).collect();
    let mut mask = Mask::none(268);
    (0..4).for_each(|t| mask.set(t, true));
    let padded: Vec<f32> = logits.iter().copied().chain(std::iter::repeat_n(5.0, 264)).collect();
    let mut counts = [0u32; 4];
    for seed in 0..20_000 {
        let s = sampler(&format!(r#"{{"prompt":[1],"sampling":{{"seed":{seed}}}}}"#));
        counts[draw(&s, &padded, Some(&mask)) as usize] += 1;
    }
    for (count, p) in counts.iter().zip([0.5, 0.25, 0.125, 0.125]) {
        let want = 20_000.0 * p;
        assert!((f64::from(*count) - want).abs() < 5.0 * (want * (1.0 - p)).sqrt(), "{counts:?}");
    }
}

#[test]
fn end_tokens_wait_for_min_tokens_unless_nothing_else_is_allowed() {
    let s = sampler(r#"{"prompt":[1],"min_tokens":2,"sampling":{"temperature":0}}"#);
    let end = *Vocab::toy().unwrap().eog().first().unwrap();
    let mut logits = row(3);
    logits[end as usize] = 99.0;
    assert_ne!(draw(&s, &logits, None), end);
    let drawn = s.draw(&logits, None, &[5, 6], &mut Scratch::default()).unwrap();
    assert_eq!(token(drawn), end);
    let mut only_end = Mask::none(268);
    only_end.set(end, true);
    assert_eq!(s.draw(&logits, Some(&only_end.into()), &[], &mut Scratch::default()).unwrap(), Drawn::End);
}

#[test]
fn end_tokens_wait_where_free_text_may_not_end() {
    let s = sampler(r#"{"prompt":[1],"sampling":{"temperature":0}}"#);
    let ends = Vocab::toy().unwrap().eog().to_vec();
    let mut logits = row(3);
    ends.iter().for_each(|end| logits[*end as usize] = 99.0);
    let drawn = |end| token(s.draw(&logits, Some(&Next::Any { end }), &[], &mut Scratch::default()).unwrap());
    assert!(ends.contains(&drawn(true)) && !ends.contains(&drawn(false)));
}

#[test]
fn stop_tokens_do_not_wait_where_nothing_else_is_allowed() {
    let end = *Vocab::toy().unwrap().eog().first().unwrap();
    let s = sampler(&format!(r#"{{"prompt":[1],"min_tokens":2,"stop_token_ids":[100,{end}]}}"#));
    let mut mask = Mask::none(268);
    mask.set(100, true);
    assert_eq!(draw(&s, &row(3), Some(&mask)), 100);
    mask.set(end, true);
    assert!([100, end].contains(&draw(&s, &row(3), Some(&mask))));
    mask.set(101, true);
    assert_eq!(draw(&s, &row(3), Some(&mask)), 101);
}

#[test]
fn ignore_eos_never_draws_an_end_token() {
    let s = sampler(r#"{"prompt":[1],"ignore_eos":true,"sampling":{"temperature":0}}"#);
    let vocab = Vocab::toy().unwrap();
    let mut logits = row(4);
    vocab.eog().iter().for_each(|t| logits[*t as usize] = 99.0);
    assert!(!vocab.is_eog(draw(&s, &logits, None)));
}

#[test]
fn penalties_count_accepted_tokens_as_committed_ones() {
    let json = r#"{"prompt":[1,2],"sampling":{"temperature":0,"presence_penalty":1.5,"frequency_penalty":0.7,
        "repetition_penalty":1.3,"logit_bias":{"7":3}}}"#;
    for seed in 0..50 {
        let (ahead, mut committed) = (sampler(json), sampler(json));
        let logits = row(seed);
        let history = [9, 9, 40, 7];
        history.iter().for_each(|t| committed.commit(*t));
        let a = ahead.draw(&logits, None, &history, &mut Scratch::default()).unwrap();
        let b = committed.draw(&logits, None, &[], &mut Scratch::default()).unwrap();
        assert_eq!(a, b);
    }
}

#[test]
fn penalties_and_bias_do_what_they_say() {
    let mut s = sampler(
        r#"{"prompt":[1],"sampling":{"temperature":0,"presence_penalty":1,"frequency_penalty":0.5}}"#,
    );
    let mut logits = vec![0.0; 268];
    logits[10] = 2.2;
    logits[11] = 1.0;
    assert_eq!(draw(&s, &logits, None), 10);
    s.commit(10);
    assert_eq!(draw(&s, &logits, None), 11, "2.2 - 1 - 0.5 is below 1.0");
    let biased = sampler(r#"{"prompt":[1],"sampling":{"temperature":0,"logit_bias":{"30":4,"10":-100}}}"#);
    assert_eq!(draw(&biased, &logits, None), 30);
    let repeated = sampler(r#"{"prompt":[10],"sampling":{"temperature":0,"repetition_penalty":3}}"#);
    assert_eq!(draw(&repeated, &logits, None), 11, "2.2 / 3 is below 1.0");
}

#[test]
fn logprobs_are_of_the_raw_logits() {
    let s = sampler(r#"{"prompt":[1],"logprobs":3,"sampling":{"temperature":0,"logit_bias":{"5":50}}}"#);
    let logits = row(9);
    let Drawn::Token(5, Some(logprob)) = s.draw(&logits, None, &[], &mut Scratch::default()).unwrap() else {
        panic!("the bias decides");
    };
    let sum: f64 = logits.iter().map(|l| f64::from(*l).exp()).sum();
    let want = |t: Token| f64::from(logits[t as usize]) - sum.ln();
    assert!((f64::from(logprob.logprob) - want(5)).abs() < 1e-4);
    assert_eq!(logprob.top.len(), 3);
    assert!(logprob.top.iter().all(|(t, l)| (f64::from(*l) - want(*t)).abs() < 1e-4));
    assert!(logprob.top.is_sorted_by(|a, b| a.1 >= b.1));
}

#[test]
fn logprobs_among_the_allowed_tokens_leave_the_others_out() {
    let json = |more: &str| {
        format!(
            r#"{{"prompt":[1],"logprobs":5,"logprobs_of":"allowed","sampling":{{"temperature":0}}{more}}}"#
        )
    };
    let logits = row(9);
    let mut mask = Mask::none(268);
    [7, 9, 11, 260].iter().for_each(|t| mask.set(*t, true));
    let drawn = |more: &str, mask: &Mask| {
        let next = Next::from(mask.clone());
        let drawn = sampler(&json(more)).draw(&logits, Some(&next), &[], &mut Scratch::default()).unwrap();
        let Drawn::Token(token, Some(told)) = drawn else { panic!("a token") };
        let sum: f64 = told.top.iter().map(|(_, l)| f64::from(*l).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        assert_eq!(told.top[0], (token, told.logprob));
        let mut tokens: Vec<Token> = told.top.iter().map(|top| top.0).collect();
        tokens.sort_unstable();
        tokens
    };
    assert_eq!(drawn("", &mask), [7, 9, 11, 260]);
    assert_eq!(drawn(r#","allowed_token_ids":[9,11,12]"#, &mask), [9, 11]);
    assert_eq!(drawn(r#","stop_token_ids":[7],"min_tokens":1"#, &mask), [9, 11, 260]);
}

#[test]
fn the_share_of_the_allowed_tokens_is_that_of_the_raw_row() {
    let drawn = |more: &str, next: Option<&Next>| {
        let json = format!(r#"{{"prompt":[1],"logprobs":1,"sampling":{{"temperature":0}}{more}}}"#);
        let drawn = sampler(&json).draw(&row(9), next, &[], &mut Scratch::default()).unwrap();
        let Drawn::Token(_, Some(told)) = drawn else { panic!("a token") };
        told
    };
    let mut mask = Mask::none(268);
    [7, 9, 11].iter().for_each(|t| mask.set(*t, true));
    let next = Next::from(mask);
    let origins = r#","origins":true"#;
    let told = drawn(origins, Some(&next));
    let power = |t: usize| f64::from(row(9)[t]).exp();
    let want = [7, 9, 11].map(power).iter().sum::<f64>() / (0..268).map(power).sum::<f64>();
    assert!((f64::from(told.allowed.unwrap()) - want).abs() < 1e-5);
    assert!(!next.allows(told.top[0].0) && next.allows(told.token), "the likeliest token is not allowed");
    assert_eq!(drawn(origins, None).allowed, None);
    assert_eq!(drawn("", Some(&next)).allowed, None);
}

#[test]
fn rows_that_are_not_finite_are_an_error() {
    for temperature in ["0", "1"] {
        let s = sampler(&format!(r#"{{"prompt":[1],"sampling":{{"temperature":{temperature}}}}}"#));
        let mut logits = row(2);
        logits[17] = f32::NAN;
        assert!(s.draw(&logits, None, &[], &mut Scratch::default()).is_err());
        assert!(s.draw(&[f32::NEG_INFINITY; 268], None, &[], &mut Scratch::default()).is_err());
    }
}

#[test]
fn stop_tokens_wait_as_end_tokens_do_and_end_whatever_is_ignored() {
    let mut logits = row(1);
    logits[100] = 50.0;
    let s = sampler(r#"{"prompt":[1],"min_tokens":1,"stop_token_ids":[100],"sampling":{"temperature":0}}"#);
    assert_ne!(draw(&s, &logits, None), 100);
    let s =
        sampler(r#"{"prompt":[1],"ignore_eos":true,"stop_token_ids":[100],"sampling":{"temperature":0}}"#);
    assert_eq!(draw(&s, &logits, None), 100);
    assert!(s.is_end(100) && !s.is_end(99));
}

#[test]
fn only_allowed_tokens_are_drawn_and_none_is_an_error_that_says_so() {
    for temperature in ["0", "1.5", r#"1.5,"top_p":0.9"#] {
        let json = format!(
            r#"{{"prompt":[1],"allowed_token_ids":[7,9],"sampling":{{"temperature":{temperature}}}}}"#
        );
        let s = sampler(&json);
        for seed in 0..20 {
            assert!([7, 9].contains(&draw(&s, &row(seed), None)));
        }
        let mut mask = Mask::none(268);
        mask.set(9, true);
        assert_eq!(draw(&s, &row(3), Some(&mask)), 9);
        mask.set(9, false);
        mask.set(8, true);
        let error = s.draw(&row(3), Some(&mask.into()), &[], &mut Scratch::default()).unwrap_err();
        assert!(matches!(&error, Error::Invalid { what, .. } if what == "allowed_token_ids"), "{error}");
    }
}
