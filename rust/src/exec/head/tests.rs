//! A head of integers, which sees whether each pair is the right one: what the target computed at a token is a number that tells the
//! token and all before it.

use super::{Drawn, Head, HeadDrafter};
use crate::config::DraftSource;
use crate::exec::helpers::Helpers;
use crate::exec::{Ask, Caps, Draft, Drafter, ExecError, Job, Kv, Round, Run};
use crate::request::{Limits, Request, RequestSpec};
use crate::sampler::Sampler;
use crate::types::{Slot, Token};
use crate::vocab::Vocab;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

const SLOTS: usize = 3;
const CONTEXT: u32 = 96;
/// Most tokens of a pass.
const MOST: u32 = 20;

/// What the target computes at the last of these tokens.
fn state(text: &[Token]) -> f32 {
    (text.iter().fold(7u32, |sum, token| sum.wrapping_mul(31).wrapping_add(*token)) % 100_003) as f32
}

/// What the head says and hands on behind a pair.
fn after(token: Token, state: f32) -> (Token, f32) {
    // A letter: no end.
    let next = 97 + (token * 5 + state as u32) % 26;
    (next, (state * 3.0 + token as f32) % 50_021.0)
}

/// The pairs of each slot.
type Pairs = Arc<Mutex<Vec<Vec<(Token, f32)>>>>;

struct Sums {
    caps: Caps,
    pairs: Pairs,
    rows: Vec<(Vec<f32>, [f32; 1])>,
}

impl Kv for Sums {
    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        self.pairs.lock().unwrap()[slot.index()].truncate(keep as usize);
        Ok(())
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        let mut pairs = self.pairs.lock().unwrap();
        assert!(pairs[to.index()].is_empty() && len as usize <= pairs[from.index()].len());
        pairs[to.index()] = pairs[from.index()][..len as usize].to_vec();
        Ok(())
    }
}

impl Head for Sums {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn encode(&mut self, features: &[f32], to: &mut Vec<f32>) -> Result<(), ExecError> {
        // Two numbers of each token.
        to.extend(features.chunks(2).map(|pair| pair[0] - pair[1]));
        Ok(())
    }

    fn pass(&mut self, runs: &[Run<'_>], states: &[f32]) -> Result<Vec<Drawn<'_>>, ExecError> {
        assert_eq!(runs.iter().map(|run| run.tokens.len()).sum::<usize>(), states.len());
        assert!(states.len() <= MOST as usize && runs.is_sorted_by(|a, b| a.slot < b.slot));
        let (mut states, mut pairs) = (states.iter(), self.pairs.lock().unwrap());
        self.rows.clear();
        for run in runs {
            let own = &mut pairs[run.slot.index()];
            assert_eq!(run.start as usize, own.len());
            own.extend(run.tokens.iter().zip(&mut states).map(|(token, state)| (*token, *state)));
            let &(token, state) = own.last().unwrap();
            let (next, state) = after(token, state);
            let mut row = vec![0.0; self.caps.n_vocab];
            row[next as usize] = 9.0;
            self.rows.extend((run.outputs > 0).then_some((row, [state])));
        }
        Ok(self.rows.iter().map(|(logits, state)| Drawn { logits, state }).collect())
    }
}

/// A target's slots, their texts computed but for the last token, and the drafter.
struct World {
    drafter: HeadDrafter,
    pairs: Pairs,
    texts: Vec<Vec<Token>>,
    vocab: Arc<Vocab>,
    sampler: Sampler,
}

fn sampler(vocab: &Arc<Vocab>) -> Sampler {
    let json = r#"{"prompt":[1],"sampling":{"temperature":0},"ignore_eos":true}"#;
    let request = Request::new(
        serde_json::from_str::<RequestSpec>(json).unwrap(),
        &Limits { faults: true, ..Limits::small(vocab.len()) },
    );
    Sampler::new(Arc::new(request.unwrap()), 0, 0, vocab.clone())
}

impl World {
    fn new() -> Self {
        let vocab = Vocab::toy().unwrap();
        let pairs = Pairs::new(Mutex::new(vec![Vec::new(); SLOTS]));
        let caps =
            Caps { n_embd: 1, max_step_tokens: MOST, ..Caps::of_rows(vocab.len(), SLOTS as u32, CONTEXT) };
        let head = Sums { caps, pairs: Arc::clone(&pairs), rows: Vec::new() };
        let drafter = HeadDrafter::new(Box::new(head), vocab.len(), Helpers::new(1));
        let sampler = sampler(&vocab);
        World { drafter, pairs, texts: vec![Vec::new(); SLOTS], vocab, sampler }
    }

    /// The target computes the last token of a slot's text, then more, of which the last is not computed.
    fn round(&mut self, slot: usize, more: &[Token]) {
        let known = self.texts[slot].len().saturating_sub(1);
        self.texts[slot].extend(more);
        let text = &self.texts[slot];
        let job = Job {
            slot: Slot(slot as u32),
            start: known as u32,
            tokens: text[known..text.len() - 1].to_vec(),
            sample: true,
            score: None,
            decides: 0,
            draft: Draft::default(),
            budget: 100,
            sampler: sampler(&self.vocab),
            grammar: None,
        };
        let features = (known..text.len() - 1).flat_map(|at| [state(&text[..=at]) + 4.0, 4.0]).collect();
        let mut round = Round { features, ..Round::new(job) };
        round.tokens = vec![text[text.len() - 1]];
        self.drafter.observe(&round);
    }

    /// Drafts for these slots, behind what is drafted for each already; gives back the drafts and who was late.
    fn draft(&mut self, asked: &[(usize, Vec<Token>)], want: u32) -> Vec<(Vec<Token>, bool)> {
        let draft = |(_, found): &(usize, Vec<Token>)| Draft { tokens: found.clone(), ..Draft::default() };
        let mut drafts: Vec<_> = asked.iter().map(draft).collect();
        let asks = asked.iter().zip(&mut drafts).map(|((slot, _), draft)| Ask {
            slot: Slot(*slot as u32),
            age: *slot as u64,
            group: (0, 0, 0),
            known: &self.texts[*slot],
            draft,
            prompt: 1,
            prediction: &[],
            grammar: None,
            sampler: &self.sampler,
            want,
            allows: [true; DraftSource::ALL.len()],
            drawn: 0,
            late: false,
        });
        let mut asks: Vec<_> = asks.collect();
        self.drafter.propose(&mut asks);
        let late: Vec<_> = asks.iter().map(|ask| ask.late).collect();
        drafts.into_iter().map(|draft| draft.tokens).zip(late).collect()
    }

    /// What a head that has read all of the text would draft behind it and behind what is found.
    fn wanted(&self, slot: usize, found: &[Token], want: u32) -> Vec<Token> {
        let text = &self.texts[slot];
        let n = text.len();
        let (mut next, mut state) = after(text[n - 1], state(&text[..n - 1]));
        let mut draft = found.to_vec();
        for token in found {
            (next, state) = after(*token, state);
        }
        for _ in 0..want.min(CONTEXT - n as u32 - found.len() as u32) {
            draft.push(next);
            (next, state) = after(next, state);
        }
        draft
    }

    /// Each pair is of a token of the text and of the state before it, from the first on; one at a cut may be of another token.
    fn check(&self, slot: usize, cuts: &[usize]) {
        let (pairs, text) = (self.pairs.lock().unwrap(), &self.texts[slot]);
        let held = &self.drafter.held[slot];
        assert_eq!(pairs[slot].len(), held.pairs);
        for (i, (token, is)) in pairs[slot].iter().enumerate() {
            let at = held.base + i;
            assert_eq!(*is, state(&text[..=at]), "the state of token {at} in slot {slot}");
            assert!(
                cuts.contains(&(at + 1)) || *token == text[at + 1],
                "the token behind {at} in slot {slot}"
            );
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Compute(usize, Vec<Token>),
    Draft(Vec<usize>, Vec<Token>, u32),
    Cut(usize, usize),
    Copy(usize, usize, usize),
    Restore(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let tokens = |most: usize| proptest::collection::vec(97u32..123, 1..most);
    prop_oneof![
        4 => (0..SLOTS, tokens(4)).prop_map(|(slot, tokens)| Step::Compute(slot, tokens)),
        1 => (0..SLOTS, tokens(40)).prop_map(|(slot, tokens)| Step::Compute(slot, tokens)),
        4 => (proptest::sample::subsequence(vec![0, 1, 2], 1..=SLOTS), proptest::collection::vec(97u32..123, 0..3), 1u32..6)
            .prop_map(|(slots, found, want)| Step::Draft(slots, found, want)),
        1 => (0..SLOTS, 0usize..60).prop_map(|(slot, len)| Step::Cut(slot, len)),
        1 => (0..SLOTS, 0..SLOTS, 0usize..60).prop_map(|(from, to, len)| Step::Copy(from, to, len)),
        1 => (0..SLOTS).prop_map(Step::Restore),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn drafts_are_those_of_a_head_that_read_everything(steps in proptest::collection::vec(step(), 1..40)) {
        let mut world = World::new();
        let mut cuts = vec![Vec::new(); SLOTS];
        for step in steps {
            match step {
                Step::Compute(slot, tokens) if world.texts[slot].len() + tokens.len() < CONTEXT as usize - 8 => {
                    let first = world.texts[slot].is_empty();
                    let tokens = if first { [&[99], &tokens[..]].concat() } else { tokens };
                    world.round(slot, &tokens);
                }
                Step::Compute(..) => {}
                Step::Draft(slots, found, want) => {
                    let asked: Vec<_> = slots.into_iter().filter(|s| !world.texts[*s].is_empty()).map(|s| (s, found.clone())).collect();
                    let came = world.draft(&asked, want);
                    for ((slot, _), (draft, late)) in asked.iter().zip(came) {
                        let wanted = if late { found.clone() } else { world.wanted(*slot, &found, want) };
                        prop_assert_eq!(draft, wanted, "slot {}, late: {}", slot, late);
                    }
                }
                Step::Cut(slot, len) | Step::Copy(slot, _, len) if len + 1 > world.texts[slot].len() => {}
                Step::Cut(slot, len) => {
                    world.drafter.keep(Slot(slot as u32), len as u32);
                    world.texts[slot].truncate(len);
                    cuts[slot].retain(|cut| *cut < len);
                    cuts[slot].push(len);
                    // Another text goes on from there: its first token is known at once.
                    if len > 0 { world.texts[slot].push(98); }
                }
                Step::Copy(from, to, len) if from != to && len > 0 => {
                    world.drafter.keep(Slot(to as u32), 0);
                    world.drafter.copy(Slot(from as u32), Slot(to as u32), len as u32);
                    world.texts[to] = [&world.texts[from][..len], &[98]].concat();
                    cuts[to] = cuts[from].iter().copied().filter(|cut| *cut < len).chain([len]).collect();
                }
                Step::Copy(..) => {}
                Step::Restore(slot) => {
                    // The target has a text from elsewhere, of which the head saw nothing.
                    world.drafter.keep(Slot(slot as u32), 0);
                    world.texts[slot] = vec![101; 20];
                    cuts[slot].clear();
                }
            }
            (0..SLOTS).for_each(|slot| world.check(slot, &cuts[slot]));
        }
    }
}

#[test]
fn a_prompt_is_read_as_its_chunks_come() {
    let mut world = World::new();
    world.round(0, &vec![97; 60]);
    assert_eq!(world.pairs.lock().unwrap()[0].len(), 58);
    world.round(0, &[98]);
    assert_eq!(world.draft(&[(0, vec![])], 3)[0], (world.wanted(0, &[], 3), false));
    // What was drafted is gone; nothing more waits.
    assert_eq!((world.pairs.lock().unwrap()[0].len(), world.drafter.held()), (60, 60));
    assert!(world.draft(&[(0, vec![])], 3)[0].1, "it must see a round first");
}
