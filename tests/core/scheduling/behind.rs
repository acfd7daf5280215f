//! A draft model that is far behind its target, or has less room for KV.

use super::spec;
use super::world::{Observed, World};
use llgtrt::config::DraftSource;
use llgtrt::exec::draft_model::DraftModel;
use llgtrt::exec::helpers::Helpers;
use llgtrt::exec::open::open_toy;
use llgtrt::exec::toy::{Toy, ToyConfig};
use llgtrt::exec::{Ask, Draft, Drafter, Forward, Run};
use llgtrt::request::{Limits, Request};
use llgtrt::sampler::Sampler;
use llgtrt::types::{Slot, Token};
use llgtrt::vocab::Vocab;
use std::sync::Arc;
use std::time::Duration;

const WANT: u32 = 4;
/// Tokens of the first chunk, and the longest gap that is closed at once.
const FIRST: u64 = 64;
const SHORT: usize = 16;

struct Bench {
    vocab: Arc<Vocab>,
    drafter: DraftModel,
}

impl Bench {
    fn new(kv: u64, patience: Duration) -> Bench {
        Bench::of(|toy| Box::new(toy), kv, patience)
    }

    fn of(model: impl Fn(Toy) -> Box<dyn Forward>, kv: u64, patience: Duration) -> Bench {
        let vocab = Vocab::toy().unwrap();
        let toy = Toy::new(ToyConfig { slots: 3, kv, end_bias: -20.0, ..ToyConfig::default() }, &vocab);
        Bench { drafter: DraftModel::new(model(toy), vocab.len(), patience, Helpers::new(1)), vocab }
    }

    /// Asks for drafts after the texts in these slots; tells, too, which were late.
    fn asked(&mut self, texts: &[(u32, &[Token])]) -> (Vec<Draft>, Vec<bool>) {
        let n_vocab = self.vocab.len() as u32;
        let limits = Limits {
            n_vocab,
            context: 4096,
            max_prompt: 4096,
            default_output: u32::MAX,
            faults: false,
            lacks: Default::default(),
        };
        let request = Request::new(spec(r#"{"prompt":[1],"sampling":{"temperature":0}}"#), &limits).unwrap();
        let sampler = Sampler::new(Arc::new(request), 0, 0, Arc::clone(&self.vocab));
        let mut drafts: Vec<_> = texts.iter().map(|_| Draft::default()).collect();
        let mut asks = Vec::new();
        for ((slot, known), draft) in texts.iter().zip(&mut drafts) {
            let (slot, sampler) = (Slot(*slot), &sampler);
            asks.push(Ask {
                slot,
                age: 0,
                group: (0, 0, 0),
                known,
                prompt: 1,
                prediction: &[],
                draft,
                grammar: None,
                sampler,
                want: WANT,
                allows: [true; DraftSource::ALL.len()],
                drawn: 0,
                late: false,
            });
        }
        self.drafter.propose(&mut asks);
        assert!(!self.drafter.failed());
        let late = asks.iter().map(|ask| ask.late).collect();
        (drafts, late)
    }

    fn propose(&mut self, texts: &[(u32, &[Token])]) -> Vec<Draft> {
        self.asked(texts).0
    }

    /// The drafts of the first step, of few, in which all texts have one.
    fn caught_up(&mut self, texts: &[(u32, &[Token])]) -> Vec<Draft> {
        let all = |drafts: &Vec<Draft>| drafts.iter().all(|draft| !draft.tokens.is_empty());
        (0..3).map(|_| self.propose(texts)).find(all).expect("it catches up")
    }
}

fn text(length: u32, step: u32) -> Vec<Token> {
    (0..length).map(|i| 97 + i * step % 26).collect()
}

#[test]
fn a_long_gap_is_closed_in_chunks_and_then_the_same_is_drafted() {
    let long = text(1000, 3);
    let mut eager = Bench::new(10_000, Duration::from_secs(3600));
    eager.propose(&[(0, &text(100, 1))]);
    let want = eager.caught_up(&[(0, &long)]).remove(0).tokens;
    assert_eq!(want.len(), WANT as usize);
    // With no patience at all, a chunk takes no longer than the drafts beside it.
    let mut slow = Bench::new(10_000, Duration::ZERO);
    let (first, late) = slow.asked(&[(0, &long), (1, &long[..SHORT])]);
    assert!(first[0].tokens.is_empty() && first[1].tokens.len() == WANT as usize, "{first:?}");
    assert_eq!(late, [true, false]);
    assert!(slow.drafter.held() <= FIRST + SHORT as u64 + u64::from(WANT));
    assert!(
        slow.drafter.delay(Slot(0), &long).unwrap() > 0.0
            && slow.drafter.delay(Slot(1), &long[..SHORT]).is_none()
    );
    assert!(slow.drafter.caught_up() > Duration::ZERO && slow.drafter.caught_up() == Duration::ZERO);
    let second = slow.propose(&[(0, &long)]);
    assert!(second[0].tokens.is_empty() && slow.drafter.held() < long.len() as u64);
    // A neighbour that is far behind changes nothing.
    let mut both = Bench::new(10_000, Duration::from_secs(3600));
    assert_eq!(both.caught_up(&[(0, &long), (2, &text(800, 5))])[0].tokens, want);
}

#[test]
fn one_slow_pass_does_not_keep_it_behind() {
    let long = text(3000, 3);
    let held_up = |toy| {
        let mut is_first = true;
        // The first pass is held up.
        let before = move |_: &[Run<'_>]| {
            if std::mem::take(&mut is_first) {
                std::thread::sleep(Duration::from_millis(500));
            }
        };
        Box::new(Observed { toy, before }) as Box<dyn Forward>
    };
    let mut bench = Bench::of(held_up, 10_000, Duration::from_millis(20));
    // By the first pass, 20 ms are enough for three tokens.
    let steps = (0..).find(|_| !bench.propose(&[(0, &long)])[0].tokens.is_empty()).unwrap();
    assert!(steps < 60, "{steps}");
}

#[test]
fn what_it_remembers_of_texts_never_shows() {
    let mut bench = Bench::new(10_000, Duration::from_secs(3600));
    let mut texts: Vec<Vec<Token>> = (1..4).map(|i| text(12 + i, i)).collect();
    let mut state = 7u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for _ in 0..400 {
        let (i, other) = (below(3), below(3));
        let slot = Slot(i as u32);
        match below(4) {
            // A request with the same beginning, in place of the one before or copied from another.
            0 => {
                let len = below(texts[i].len()) as u32;
                bench.drafter.keep(slot, len);
                texts[i].truncate(len as usize);
            }
            1 if i != other => {
                let len = below(texts[other].len()) as u32;
                bench.drafter.keep(slot, 0);
                bench.drafter.copy(Slot(other as u32), slot, len);
                texts[i] = texts[other][..len as usize].to_vec();
            }
            _ => {
                let drafted = bench.propose(&[(i as u32, &texts[i])]).remove(0).tokens;
                let alone = Bench::new(10_000, Duration::from_secs(3600))
                    .caught_up(&[(0, &texts[i])])
                    .remove(0)
                    .tokens;
                assert_eq!(drafted, alone);
                let accepted = below(drafted.len() + 1);
                texts[i].extend(&drafted[..accepted]);
                bench.drafter.keep(slot, texts[i].len() as u32);
            }
        }
        let more = 1 + below(3);
        texts[i].extend((0..more).map(|_| 97 + below(26) as Token));
    }
}

#[test]
fn what_does_not_fit_is_left_out_and_comes_back() {
    let texts = [text(10, 1), text(12, 3), text(14, 5)];
    let alone = |i: usize| Bench::new(10_000, Duration::ZERO).propose(&[(0, &texts[i])]).remove(0).tokens;
    let asks: Vec<(u32, &[Token])> =
        texts.iter().enumerate().map(|(i, text)| (i as u32, &text[..])).collect();
    let mut bench = Bench::new(32, Duration::ZERO);
    let drafted = |drafts: Vec<Draft>| drafts.into_iter().map(|draft| draft.tokens).collect::<Vec<_>>();
    // 10 + 4 and 12 + 4 tokens fit, the third text not.
    assert_eq!(drafted(bench.propose(&asks)), [alone(0), alone(1), Vec::new()]);
    assert!(bench.drafter.held() <= 32);
    // Those that have least to compute go on; of what is held for others only that goes which must.
    assert_eq!(drafted(bench.propose(&asks)), [alone(0), alone(1), Vec::new()]);
    assert_eq!(drafted(bench.propose(&asks[1..])), [alone(1), Vec::new()]);
    assert_eq!(drafted(bench.propose(&asks[2..])), [alone(2)]);
    // A copy that does not fit is none.
    bench.drafter.copy(Slot(2), Slot(0), 14);
    assert!(bench.drafter.held() <= 32);
    assert_eq!(drafted(bench.propose(&asks[..1])), [alone(0)]);
    // One that will never fit harms nobody.
    let long = text(40, 7);
    assert_eq!(drafted(bench.propose(&[(0, &texts[0]), (1, &long)])), [alone(0), Vec::new()]);
}

#[test]
fn the_first_token_waits_for_no_draft_model() {
    let mut world = World::default();
    world.config.speculative.draft_model = Some("toy".into());
    world.config.speculative.sources = Some(vec![DraftSource::DraftModel]);
    let request =
        |max: u32| spec(&format!(r#"{{"prompt":{:?},"max_tokens":{max},"ignore_eos":true}}"#, text(900, 1)));
    let first = world.run(&[request(1)], &[0], 0).snapshot;
    assert_eq!((first.totals.drafted_tokens, first.gauges.draft_kv_used), (0, 0));
    assert_eq!(first.totals.generated_tokens, 1);
    assert!(world.run(&[request(100)], &[0], 0).snapshot.totals.accepted_tokens > 0);
}

/// What it has drawn of a refused draft cannot be taken back; it drafts the same all the same.
#[test]
fn a_draft_model_with_a_state_drafts_as_much() {
    let requests: Vec<_> = (0..8)
        .map(|seed| {
            spec(&format!(r#"{{"prompt":[97,98,{seed}],"max_tokens":60,"sampling":{{"seed":{seed}}}}}"#))
        })
        .collect();
    let order: Vec<_> = (0..requests.len()).collect();
    let drafted = |model: &str| {
        let mut world = World::default();
        world.config.speculative.draft_model = Some(model.into());
        world.config.speculative.sources = Some(vec![DraftSource::DraftModel]);
        world.config.speculative.adaptive = false;
        let totals = world.run(&requests, &order, 0).snapshot.totals;
        (totals.accepted_tokens, totals.drafted_tokens)
    };
    let (plain, stateful) = (drafted("toy:blur=40"), drafted("toy:blur=40,stateful=1"));
    assert!(plain.0 > 0 && plain.0 < plain.1 && plain == stateful, "{plain:?} {stateful:?}");
}

/// The last words of a text are read again as it grows.
#[test]
fn a_draft_model_with_a_state_must_have_the_tokens_of_the_target() {
    let mut world = World::default();
    world.config.speculative.draft_model = Some("toy:other_tokens=1,stateful=1".into());
    world.config.speculative.sources = Some(vec![DraftSource::DraftModel]);
    let refused = open_toy(world.toy, &world.config, None).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("another vocabulary than the target and a recurrent state"), "{refused}");
}
