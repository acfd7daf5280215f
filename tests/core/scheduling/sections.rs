//! Constraints that lie dormant: drafts of every length go over the border where one begins, and over the one where it
//! ends, and nothing changes.

use super::oracle::Oracle;
use super::world::{World, essence};
use super::{SECTIONS, spec};
use llgtrt::config::{Acceptance, DraftSource};
use llgtrt::request::RequestSpec;
use llgtrt::types::{End, Event, FinishReason};
use std::collections::BTreeSet;

fn asked(seed: u32) -> RequestSpec {
    // Letters that begin something are likelier. Other prompts: an oracle knows a text by its beginning.
    spec(&format!(
        r#"{{"prompt":[97,98,{seed}],"max_tokens":90,"logprobs":1,
            "sampling":{{"seed":{seed},"logit_bias":{{"101":4,"115":4}}}}{SECTIONS}}}"#
    ))
}

/// Where a digit begins what is bound, in tokens.
fn borders(event: &Event) -> Vec<usize> {
    let is_digit = |t: &u32| (48..58).contains(t);
    (1..event.tokens.len())
        .filter(|i| is_digit(&event.tokens[*i]) && event.tokens[*i - 1] == u32::from(b'e'))
        .collect()
}

/// Text behind the first `s` or ` the`: each `e` is followed by a number and `!`.
fn is_right(event: &Event) -> bool {
    let text = &event.text;
    let begin = [text.find('s').map(|i| i + 1), text.find(" the").map(|i| i + 4)];
    let Some(begin) = begin.into_iter().flatten().min() else { return true };
    let Some(at) = text[begin..].find('e').map(|i| begin + i + 1) else { return true };
    if text[begin..at].contains("ing") {
        return true;
    }
    let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let cut = event.end == Some(End::Finished(FinishReason::Length)) && text.len() == at + digits;
    cut || ((2..=4).contains(&digits) && text[at + digits..].starts_with('!'))
}

#[test]
fn a_border_may_be_anywhere_in_a_draft() {
    let requests: Vec<_> = (0..12).map(asked).collect();
    let order: Vec<_> = (0..requests.len()).collect();
    let plain = World::default().run(&requests, &order, 0);
    assert!(plain.choices.values().all(is_right));
    assert!(plain.choices.values().map(|event| borders(event).len()).sum::<usize>() > 12);
    assert!(plain.choices.values().any(|event| event.usage.reasoning == 12), "the limit was reached");
    let mut offsets = BTreeSet::new();
    for most in 1..=9 {
        for right in [100, 70] {
            let known = plain.choices.iter().map(|((index, _), event)| (&requests[*index], event));
            let mut world = World { oracle: Some(Oracle::new(known, right)), ..World::default() };
            world.config.speculative.adaptive = false;
            world.config.speculative.max_draft_len = Some(most);
            let drafted = world.run(&requests, &order, 0);
            for (key, event) in &drafted.choices {
                assert_eq!(essence(event), essence(&plain.choices[key]), "{most} {right} {key:?}");
            }
            let totals = &drafted.snapshot.totals;
            if right == 100 {
                assert_eq!(totals.accepted_tokens, totals.drafted_tokens, "right drafts go over borders");
                // The first token comes with the prompt, then one more with each run.
                let places = plain.choices.values().flat_map(borders);
                offsets.extend(places.map(|at| (most, (at - 1) % (most as usize + 1))));
            }
        }
    }
    assert!((0..9).all(|offset| offsets.contains(&(9, offset))), "{offsets:?}");
}

#[test]
fn what_is_accepted_by_rejection_is_right_too() {
    let rejecting = |seed| {
        let mut request = asked(seed);
        request.speculative.acceptance = Some(Acceptance::Rejection);
        request
    };
    let requests: Vec<_> = (0..12).map(rejecting).collect();
    let order: Vec<_> = (0..requests.len()).collect();
    let mut world = World::default();
    world.config.speculative.adaptive = false;
    world.config.speculative.sources = Some(vec![DraftSource::Forced, DraftSource::DraftModel]);
    world.config.speculative.draft_model = Some("toy:blur=15".into());
    let answers = world.run(&requests, &order, 0);
    assert!(answers.snapshot.totals.accepted_tokens > 50);
    for (key, event) in &answers.choices {
        assert!(is_right(event) && !matches!(event.end, Some(End::Failed(_))), "{key:?} {:?}", event.text);
    }
}

#[test]
fn forced_tokens_are_drafted_before_and_behind_a_border() {
    let limited = |tokens: u32| {
        spec(&format!(
            r#"{{"prompt":[97,98],"max_tokens":200,"sampling":{{"seed":5}},"grammar":{{"sections":[
                {{"free":{{"triggers":[{{"text":"</think>","next":1}}],"limit":{{"tokens":{tokens},"text":"</think>"}},
                    "reasoning":true}}}},
                {{"bound":{{"grammar":{{"text":"and all of this is forced"}}}}}}]}}}}"#
        ))
    };
    for tokens in [0, 3, 10] {
        let request = limited(tokens);
        let plain = World::default().alone(&request);
        let mut world = World::default();
        world.config.speculative.sources = Some(vec![DraftSource::Forced]);
        world.config.speculative.adaptive = false;
        let drafted = world.run(std::slice::from_ref(&request), &[0], 0);
        let event = &drafted.choices[&(0, 0)];
        assert_eq!(essence(event), essence(&plain[&0]));
        assert!(event.text.ends_with("</think>and all of this is forced"), "{}", event.text);
        assert_eq!(event.usage.reasoning, tokens + 8);
        assert!(drafted.snapshot.totals.accepted_tokens > 20);
        assert_eq!(drafted.snapshot.totals.accepted_tokens, drafted.snapshot.totals.drafted_tokens);
    }
}
