use super::*;
use crate::exec::helpers::Helpers;
use crate::exec::toy::ToyConfig;
use crate::exec::{Caps, ExecError, Forward, Kv, Rows, Run};
use crate::grammar::{Compiler, Grammar, GrammarSpec};
use crate::vocab::Vocab;
use std::sync::{Arc, mpsc};

const TEXT: &str =
    "the man and the hen in the van: \"an inn\", and then {\"a\": \"thin\"} the end than in the barn 1 or 2";

/// A model that knows a text by heart, and holds what it was told to compute.
struct Knows {
    caps: Caps,
    own: Arc<Vocab>,
    text: &'static str,
    held: Vec<Vec<Token>>,
    rows: Vec<Vec<f32>>,
    /// Tokens computed in all.
    computed: Arc<std::sync::atomic::AtomicUsize>,
}

impl Kv for Knows {
    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        self.held[slot.index()].truncate(keep as usize);
        Ok(())
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        self.held[to.index()] = self.held[from.index()][..len as usize].to_vec();
        Ok(())
    }
}

impl Forward for Knows {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn forward(&mut self, runs: &[Run<'_>]) -> Result<Rows<'_>, ExecError> {
        self.rows.clear();
        for run in runs {
            let held = &mut self.held[run.slot.index()];
            assert_eq!(held.len(), run.start as usize);
            held.extend_from_slice(run.tokens);
            self.computed.fetch_add(run.tokens.len(), std::sync::atomic::Ordering::Relaxed);
            if run.outputs > 0 {
                let rest = self.text.as_bytes().strip_prefix(&self.own.decode(held)[..]).unwrap_or_default();
                let next = spelled(&self.own, rest).first().copied();
                let mut row = vec![0.0; self.own.len()];
                row[next.unwrap_or(self.own.eog()[0]) as usize] = 1.0;
                self.rows.push(row);
            }
        }
        Ok(Rows { logits: self.rows.iter().map(|row| &row[..]).collect(), ..Rows::default() })
    }
}

fn pair() -> VocabPair {
    let own = ToyConfig { other_tokens: 1, ..ToyConfig::default() }.vocab().unwrap();
    VocabPair::new(&Vocab::toy().unwrap(), own).unwrap().expect("the vocabularies differ")
}

struct Bench {
    drafter: TextDrafter,
    target: Arc<Vocab>,
    sampler: Sampler,
    computed: Arc<std::sync::atomic::AtomicUsize>,
}

impl Bench {
    /// With a model that knows a text.
    fn new(text: &'static str) -> Bench {
        let pair = pair();
        let (own, target) = (pair.own.clone(), pair.target.clone());
        let computed = Arc::default();
        let model = Knows {
            caps: Caps { max_step_tokens: 100, kv_total: 1000, ..Caps::of_rows(own.len(), 2, 500) },
            text,
            own: own.clone(),
            held: vec![Vec::new(); 2],
            rows: Vec::new(),
            computed: Arc::clone(&computed),
        };
        let model = DraftModel::new(Box::new(model), own.len(), Duration::from_secs(9), Helpers::new(1));
        let drafter = TextDrafter::new(model, pair, 2, target.len()).unwrap();
        let sampler = Sampler::greedy(target.clone()).unwrap();
        Bench { drafter, target, sampler, computed }
    }

    /// What is drafted behind a text, how many tokens were drawn for it, and whether it was late.
    fn ask(&mut self, known: &[Token], want: u32, grammar: Option<&mut Grammar>) -> (Vec<Token>, u32, bool) {
        let mut draft = Draft::default();
        let mut asks = [Ask {
            slot: Slot(0),
            age: 0,
            group: (0, 0, 0),
            known,
            draft: &mut draft,
            prompt: known.len() as u32,
            prediction: &[],
            grammar,
            sampler: &self.sampler,
            want,
            allows: [true; DraftSource::ALL.len()],
            drawn: 0,
            late: false,
        }];
        self.drafter.propose(&mut asks);
        let told = (asks[0].drawn, asks[0].late);
        assert!(!self.drafter.failed());
        (draft.tokens, told.0, told.1)
    }
}

fn grammar(vocab: &Arc<Vocab>, regex: &str) -> Grammar {
    let (ring, bell) = mpsc::channel();
    let wake = Arc::new(move || {
        let _ = ring.send(());
    });
    let compiler = Compiler::new(Arc::clone(vocab), &Default::default(), 1, wake).unwrap();
    let mut handle = compiler.compile(&GrammarSpec::Regex(regex.into()), 0);
    loop {
        if let Some(compiled) = handle.poll() {
            return compiled.unwrap().begin();
        }
        bell.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn what_the_model_knows_is_drafted_in_the_tokens_of_the_target() {
    let mut bench = Bench::new(TEXT);
    let all = bench.target.encode(&[(TEXT, false)]).unwrap();
    // Token by token of the target, wherever that cuts the model's own.
    for known in 1..all.len() - 1 {
        let (drafted, drawn, _) = bench.ask(&all[..known], 6, None);
        let rest = &all[known..];
        let same = drafted.iter().zip(rest).take_while(|(a, b)| a == b).count();
        // The last one is cut off where the model stopped.
        assert!(same + 1 >= drafted.len() && same >= rest.len().min(5), "{known}: {drafted:?}, {rest:?}");
        assert!(drawn as usize <= 2 * drafted.len() + 1, "{known}: {drawn} for {}", drafted.len());
    }
}

#[test]
fn only_the_last_words_are_computed_again() {
    let mut bench = Bench::new(TEXT);
    let all = bench.target.encode(&[(TEXT, false)]).unwrap();
    let own = spelled(&bench.drafter.pair.own, TEXT.as_bytes()).len();
    for known in 20..all.len() {
        bench.ask(&all[..known], 1, None);
    }
    let computed = bench.computed.load(std::sync::atomic::Ordering::Relaxed);
    let asked = all.len() - 20;
    assert!(computed < own + 4 * asked, "{computed} tokens of {own}, asked {asked} times");
}

#[test]
fn a_draft_ends_where_the_grammar_refuses_it() {
    let mut bench = Bench::new(TEXT);
    let all = bench.target.encode(&[(TEXT, false)]).unwrap();
    let words = TEXT.find(" van").unwrap();
    let mut before = grammar(&bench.target, "the man and the hen in the [a-u]*!");
    let known = 3;
    all[..known].iter().for_each(|token| before.commit(*token).unwrap());
    let (drafted, drawn, _) = bench.ask(&all[..known], 60, Some(&mut before));
    let text = [bench.target.decode(&all[..known]), bench.target.decode(&drafted)].concat();
    assert_eq!(text, TEXT.as_bytes()[..=words]);
    // What the grammar forces needs no passes; nothing is drawn behind what it refuses.
    assert!((1..6).contains(&drawn), "{drawn}");
    assert_eq!(before.committed(), known);
}

#[test]
fn special_tokens_are_the_same_or_left_out() {
    let pair = pair();
    let encode = |text: &str| pair.target.encode(&[(text, true)]).unwrap();
    let text = encode("<|im_start|>the man<|im_end|><|endoftext|>an inn");
    let mut reading = Reading::default();
    reading.read(&pair, text.iter(), b"");
    let [start, end] = ["<|im_start|>", "<|im_end|>"].map(|text| pair.to_own(encode(text)[0]).unwrap());
    let own = |text: &str| spelled(&pair.own, text.as_bytes());
    assert_eq!(reading.own(), [&[start], &own("the man")[..], &[end], &own("an inn")].concat());
    assert_eq!(pair.to_target(end), Some(encode("<|im_end|>")[0]));
    assert_eq!(pair.to_own(encode("<|endoftext|>")[0]), None);
}

#[test]
fn a_text_is_read_the_same_however_it_grew() {
    let pair = pair();
    let long = TEXT.repeat(9);
    let all = pair.target.encode(&[(&long, false)]).unwrap();
    let (mut grown, mut state) = (Reading::default(), 7_u64);
    for _ in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (len, more) = ((state >> 33) as usize % all.len(), (state >> 20) as usize % 3);
        let more = &b"th"[..more];
        let before = grown.own().to_vec();
        let same = grown.read(&pair, all[..len].iter(), more);
        let mut fresh = Reading::default();
        fresh.read(&pair, all[..len].iter(), more);
        assert_eq!(grown.own(), fresh.own());
        assert!(grown.own().starts_with(&before[..same]));
        assert_eq!(pair.own.decode(grown.own()), [&pair.target.decode(&all[..len]), more].concat());
        let (part, own) = (grown.part(len / 2), grown.own_of(len / 2));
        assert_eq!(part.own(), &grown.own()[..own]);
    }
}

#[test]
fn the_same_vocabulary_is_no_pair_and_one_without_letters_is_refused() {
    let toy = Vocab::toy().unwrap();
    assert!(VocabPair::new(&toy, Vocab::toy().unwrap()).unwrap().is_none());
    let options = crate::vocab::VocabOptions { eog: vec![0], ..Default::default() };
    let digits: Vec<_> = (b'0'..=b'9').map(|digit| Some(vec![digit])).collect();
    let digits = Vocab::from_tokens(digits, &[], None, &options).unwrap();
    let error = VocabPair::new(&toy, digits).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("cannot write") && error.contains("target's vocabulary"), "{error}");
}
