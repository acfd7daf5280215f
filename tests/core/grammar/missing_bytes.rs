//! Vocabularies that lack tokens for some bytes.

use super::common::{Bench, by_the_letter};
use llgtrt::grammar::GrammarSpec;
use llgtrt::vocab::{Vocab, VocabOptions};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Printable ASCII and nothing else, with an end token.
fn ascii() -> Arc<Vocab> {
    let letters = ('!'..='~').chain(['\u{120}']).map(String::from);
    let vocab: Map<String, Value> = letters.enumerate().map(|(id, letter)| (letter, json!(id))).collect();
    let end = vocab.len() as u32;
    let file = json!({
        "added_tokens": [{"id": end, "content": "<|end|>", "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    });
    let options = VocabOptions { eog: vec![end], ..VocabOptions::default() };
    Vocab::from_tokenizer_json(file.to_string().as_bytes(), &options).unwrap()
}

fn bench() -> Bench {
    Bench::of(ascii(), &by_the_letter(), 1)
}

#[test]
fn what_needs_a_missing_byte_is_left_out() {
    let bench = bench();
    let choice = GrammarSpec::Choice(["caf\u{e9}", "cafe", "\u{e9}"].map(str::to_owned).to_vec());
    for spec in [choice, GrammarSpec::Regex("(caf)?\u{e9}|cafe".into())] {
        let mut grammar = bench.compile(&spec).unwrap();
        let first = grammar.mask().unwrap();
        let bytes = |t| bench.vocab.bytes(t).to_vec();
        assert_eq!(first.mask().unwrap().iter().map(bytes).collect::<Vec<_>>(), [b"c"], "{spec:?}");
        assert!(bench.accepts(&mut grammar, "cafe").unwrap());
    }
    let text = json!({"type": "object", "properties": {"\u{e9}": {}, "b": {"enum": ["\u{e9}", "e"]}}});
    assert!(bench.satisfies(&text, r#"{"b":"e"}"#));
}

/// Fails closed: where no token fits, the sequence ends with an error, and the process goes on.
#[test]
fn what_cannot_be_written_is_an_error() {
    let bench = bench();
    for text in ["\u{e9}", "caf\u{e9}", "a\n"] {
        let spec = GrammarSpec::Choice(vec![text.to_owned()]);
        let ended = bench.compile(&spec).and_then(|mut grammar| bench.accepts(&mut grammar, text));
        assert!(!matches!(ended, Ok(true)), "{text:?}: {ended:?}");
    }
}
