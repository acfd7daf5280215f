//! Damaged GGUF files are errors: the reader must not end the process.

use llgtrt::exec::llama::vocab;
use llgtrt::vocab::{GgufEncoder, GgufKind, Vocab, VocabOptions};
use proptest::prelude::*;
use std::path::PathBuf;

fn gguf() -> Vec<u8> {
    file("gpt2", &[("a", 1, -0.5), ("b", 1, 0.0), ("ab", 1, 1.0), ("<e>", 3, 2.0)])
}

/// A token's text, type and score.
type Token<'a> = (&'a str, i32, f32);

/// A GGUF without tensors, by the format's description: magic, version 3, counts, then key, type, value. Token 3 ends texts.
fn file(model: &str, tokens: &[Token<'_>]) -> Vec<u8> {
    let text = |t: &str| [&(t.len() as u64).to_le_bytes()[..], t.as_bytes()].concat();
    let string = |key: &str, value: &str| [text(key), 8u32.to_le_bytes().to_vec(), text(value)].concat();
    let array = |key: &str, kind: u32, values: &[Vec<u8>]| {
        let head = [9u32, kind].map(u32::to_le_bytes).concat();
        [text(key), head, (values.len() as u64).to_le_bytes().to_vec(), values.concat()].concat()
    };
    let pairs = [
        string("general.architecture", "llama"),
        string("tokenizer.ggml.model", model),
        string("tokenizer.ggml.pre", "gpt-2"),
        array("tokenizer.ggml.tokens", 8, &Vec::from_iter(tokens.iter().map(|t| text(t.0)))),
        array(
            "tokenizer.ggml.token_type",
            5,
            &Vec::from_iter(tokens.iter().map(|t| t.1.to_le_bytes().to_vec())),
        ),
        array("tokenizer.ggml.scores", 6, &Vec::from_iter(tokens.iter().map(|t| t.2.to_le_bytes().to_vec()))),
        array("tokenizer.ggml.merges", 8, &["a b"].map(text)),
        [text("tokenizer.ggml.eos_token_id"), 4u32.to_le_bytes().to_vec(), 3u32.to_le_bytes().to_vec()]
            .concat(),
        [text("tokenizer.ggml.add_bos_token"), 7u32.to_le_bytes().to_vec(), vec![1]].concat(),
    ];
    let mut file = b"GGUF".to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.extend((pairs.len() as u64).to_le_bytes());
    file.extend(pairs.concat());
    file
}

struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("llgtrt-{}-{name}.gguf", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        TempFile(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_vocabulary_is_read() {
    let read = vocab::read(&TempFile::new("whole", &gguf()).0).unwrap();
    let tokens: Vec<_> = read.tokens.iter().map(|t| (t.text.as_str(), t.kind, t.score)).collect();
    let normal = GgufKind::Normal;
    assert_eq!(
        tokens,
        [("a", normal, -0.5), ("b", normal, 0.0), ("ab", normal, 1.0), ("<e>", GgufKind::Special, 2.0)]
    );
    assert!(read.eog == [3] && read.add_bos, "{read:?}");
    let GgufEncoder::BytePairs { pre, merges } = read.encoder else { panic!("byte pairs") };
    assert_eq!((pre.as_str(), merges), ("gpt-2", vec!["a b".to_owned()]));
}

fn ids(name: &str, bytes: &[u8], texts: &[&str]) -> Vec<Vec<u32>> {
    let read = vocab::read(&TempFile::new(name, bytes).0).unwrap();
    let options = VocabOptions { eog: vec![3], ..VocabOptions::default() };
    let vocab = Vocab::from_gguf(read, &options).unwrap();
    let encode = |text: &&str| {
        let ids = vocab.encode(&[(text, false)]).unwrap();
        assert_eq!(vocab.decode(&ids), text.as_bytes(), "{name}");
        ids
    };
    texts.iter().map(encode).collect()
}

/// The longest token at each place.
#[test]
fn rwkv_vocabularies_load() {
    let tokens =
        [("<s>", 3), ("a", 1), ("b", 1), ("<e>", 3), ("ab", 1), ("\\n", 1), ("\\xc3\\xa9", 1), (" ab", 1)];
    let file = file("rwkv", &tokens.map(|(text, kind)| (text, kind, 0.0)));
    assert_eq!(ids("rwkv", &file, &["abb ab\né"]), [[4, 2, 7, 5, 6]]);
}

/// The pieces whose scores sum up to the most; bytes where there are none.
#[test]
fn plamo_2_vocabularies_load() {
    let bytes: Vec<String> = (0..=255).map(|b| format!("<0x{b:02X}>")).collect();
    let named =
        [("<u>", 2, 0.0), ("a", 1, -5.0), ("b", 1, -5.0), ("<e>", 3, 0.0), ("ab", 1, -1.0), ("語", 1, -2.0)];
    let tokens: Vec<Token<'_>> =
        named.into_iter().chain(bytes.iter().map(|b| (b.as_str(), 6, 0.0))).collect();
    assert_eq!(ids("plamo2", &file("plamo2", &tokens), &["abb語", "a\n"]), [vec![4, 2, 5], vec![1, 6 + 10]]);
}

#[test]
fn missing_and_cut_files_are_errors() {
    assert!(vocab::read(&PathBuf::from("/nonexistent/model.gguf")).is_err());
    assert!(vocab::read(&std::env::temp_dir()).is_err());
    let whole = gguf();
    for len in 0..whole.len() {
        let error = vocab::read(&TempFile::new("cut", &whole[..len]).0).unwrap_err().to_string();
        assert!(error.starts_with("model.gguf: "), "{error}");
    }
}

#[test]
fn what_is_no_vocabulary_for_text_is_refused() {
    let replaced = |from: &str, to: &str| {
        let (file, from, to) = (gguf(), from.as_bytes(), to.as_bytes());
        let at = file.windows(from.len()).position(|w| w == from).unwrap();
        let file = [&file[..at], to, &file[at + to.len()..]].concat();
        vocab::read(&TempFile::new("replaced", &file).0).unwrap_err().to_string()
    };
    assert!(replaced("gpt2", "bert").contains("generates no text"));
    assert!(replaced("gpt2", "gtp2").contains("unknown tokenizer: 'gtp2'"));
    assert!(replaced("gpt-2", "gtp-2").contains("unknown pre-tokenizer type: 'gtp-2'"));
    assert!(replaced("llama", "lamma").contains("unknown model architecture: 'lamma'"));
}

proptest! {
    #[test]
    fn changed_bytes_never_end_the_process(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut file = gguf();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Ok(read) = vocab::read(&TempFile::new("changed", &file).0) {
            // Some vocabulary came out; using it must not panic either.
            let _ = Vocab::from_gguf(read, &VocabOptions::default());
        }
    }
}
