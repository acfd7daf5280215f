//! The weightless engine has a twin in Python, the model of TensorRT-LLM's fake (`tests/trtllm`). Both are held to the same
//! file of logits, bit for bit; and the fake's `tokenizer.json` is held to the weightless vocabulary.

use llgtrt::exec::toy::{Toy, ToyConfig};
use llgtrt::exec::{Forward, Run};
use llgtrt::types::{Slot, Token};
use llgtrt::vocab::{Vocab, VocabOptions};
use proptest::prelude::*;
use serde::Deserialize;
use std::sync::{Arc, LazyLock};

#[derive(Deserialize)]
struct Case {
    seed: u64,
    blur: f32,
    end_bias: f32,
    tokens: Vec<Token>,
    /// Bits of the last row's floats.
    bits: Vec<u32>,
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/trtllm/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn logits_have_the_bits_of_the_twin() {
    let cases: Vec<Case> = serde_json::from_slice(&read("logits.json")).unwrap();
    assert!(cases.len() > 3);
    let vocab = Vocab::toy().unwrap();
    for case in cases {
        let config =
            ToyConfig { seed: case.seed, blur: case.blur, end_bias: case.end_bias, ..ToyConfig::default() };
        let mut toy = Toy::new(config, &vocab);
        let run = Run { slot: Slot(0), start: 0, tokens: &case.tokens, outputs: 1, hidden: false };
        let rows = toy.forward(&[run]).unwrap();
        let bits: Vec<u32> = rows.logits[0].iter().map(|logit| logit.to_bits()).collect();
        assert_eq!(bits, case.bits, "seed {}, {} tokens", case.seed, case.tokens.len());
    }
}

static TWIN: LazyLock<Arc<Vocab>> = LazyLock::new(|| {
    let options = VocabOptions { eog: Vocab::toy().unwrap().eog().to_vec(), ..VocabOptions::default() };
    Vocab::from_tokenizer_json(&read("tokenizer.json"), &options).unwrap()
});

#[test]
fn every_token_has_the_bytes_of_the_twin() {
    let vocab = Vocab::toy().unwrap();
    assert_eq!(TWIN.len(), vocab.len());
    assert_eq!(TWIN.eog(), vocab.eog());
    for token in 0..vocab.len() as Token {
        assert_eq!(TWIN.bytes(token), vocab.bytes(token), "{token}");
        assert_eq!(TWIN.is_special(token), vocab.is_special(token), "{token}");
    }
}

proptest! {
    #[test]
    fn texts_have_the_ids_of_the_twin(
        text in proptest::collection::vec(
            prop_oneof!["\\PC", "[ \"{}:,\n]{1,3}", Just("true".to_owned()), Just(" the".to_owned()), Just("ing".to_owned()),
                        Just("<|im_end|>".to_owned()), Just("nul".to_owned())],
            0..24,
        ),
        template in any::<bool>(),
    ) {
        let (text, vocab) = (text.concat(), Vocab::toy().unwrap());
        let parts = [(text.as_str(), template)];
        prop_assert_eq!(TWIN.encode(&parts).unwrap(), vocab.encode(&parts).unwrap());
    }
}
