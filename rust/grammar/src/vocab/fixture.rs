//! Small vocabularies for tests.

use super::bytes::{self, byte_of};
use super::{GgufEncoder, GgufKind, GgufToken, GgufVocab, Vocab, VocabOptions};
use serde_json::{Value, json};
use std::sync::Arc;

/// Pairs that are merged, best first; what is left and right of the dot.
const MERGES: [&str; 14] = [
    "h e",
    "l l",
    "he ll",
    "hell o",
    "Ġ w",
    "o r",
    "Ġw or",
    "l d",
    "Ġwor ld",
    "Ġ Ġ",
    "ĠĠ ĠĠ",
    "Ċ Ċ",
    "1 2",
    "12 3",
];

/// The 256 characters of byte-level vocabularies, in the order of their bytes.
fn alphabet() -> Vec<String> {
    let mut letters: Vec<(u8, String)> =
        ('\0'..='\u{200}').filter_map(|c| Some((byte_of(c)?, c.to_string()))).collect();
    letters.sort();
    letters.into_iter().map(|(_, letter)| letter).collect()
}

/// A token of a GGUF that is written as it reads.
pub(super) fn token(text: &str, kind: GgufKind) -> GgufToken {
    GgufToken { text: text.to_owned(), bytes: bytes::byte_level(text), kind, strips_right: false, score: 0.0 }
}

/// A byte-level vocabulary as a GGUF has it: 256 bytes, 14 merges, then `<|im_start|>` (270), `<|im_end|>` (271), both
/// special, and `<think>` (272), `      ` (273), which are not.
pub(super) fn gguf() -> GgufVocab {
    let texts = alphabet().into_iter().chain(MERGES.iter().map(|m| m.replace(' ', "")));
    let mut tokens: Vec<GgufToken> = texts.map(|text| token(&text, GgufKind::Normal)).collect();
    tokens.extend(["<|im_start|>", "<|im_end|>"].map(|text| token(text, GgufKind::Special)));
    tokens.extend(["<think>", "      "].map(|text| token(text, GgufKind::UserDefined)));
    let merges = MERGES.iter().map(|m| (*m).to_owned()).collect();
    let encoder = GgufEncoder::BytePairs { pre: "gpt-2".to_owned(), merges };
    GgufVocab { tokens, eog: vec![271], bos: Some(270), add_bos: false, encoder }
}

/// The same as a `tokenizer.json`.
pub(super) fn file() -> Value {
    let tokens = gguf().tokens;
    let vocab: serde_json::Map<String, Value> =
        tokens[..270].iter().enumerate().map(|(id, token)| (token.text.clone(), json!(id))).collect();
    let added = |id: usize, special: bool| {
        json!({"id": id, "content": tokens[id].text, "special": special, "normalized": false,
               "lstrip": false, "rstrip": false, "single_word": false})
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(270, true), added(271, true), added(272, false), added(273, false)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                  "vocab": vocab, "merges": MERGES},
    })
}

/// A byte-fallback `tokenizer.json` of the kind that Llama 2 has, with its prefix space; `</s>` (2) is special.
pub(super) fn fallback_file() -> Value {
    let mut vocab = serde_json::Map::new();
    let mut names: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    names.extend((0..=255).map(|b| format!("<0x{b:02X}>")));
    names.extend(["▁", "h", "i", "hi", "▁hi", "▁▁"].map(str::to_owned));
    for (id, name) in names.into_iter().enumerate() {
        vocab.insert(name, json!(id));
    }
    let special =
        |id: usize, text: &str| json!({"id": id, "content": text, "special": true, "normalized": false});
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true,
                  "vocab": vocab, "merges": ["h i", "▁ hi", "▁ ▁"]},
    })
}

pub(super) fn options(eog: &[u32]) -> VocabOptions {
    VocabOptions { eog: eog.to_vec(), ..VocabOptions::default() }
}

pub(super) fn from_file(file: &Value) -> Arc<Vocab> {
    Vocab::from_tokenizer_json(file.to_string().as_bytes(), &options(&[271])).unwrap()
}
