//! Damaged GGUF files are errors: the reader must not end the process.

use llgtrt::exec::llama::vocab;
use llgtrt::vocab::{GgufEncoder, GgufKind, Vocab, VocabOptions};
use proptest::prelude::*;
use std::path::PathBuf;

/// A GGUF without tensors, by the format's description: magic, version 3, counts, then key, type, value.
fn gguf() -> Vec<u8> {
    let text = |t: &str| [&(t.len() as u64).to_le_bytes()[..], t.as_bytes()].concat();
    let string = |key: &str, value: &str| [text(key), 8u32.to_le_bytes().to_vec(), text(value)].concat();
    let array = |key: &str, kind: u32, values: &[Vec<u8>]| {
        let head = [9u32, kind].map(u32::to_le_bytes).concat();
        [text(key), head, (values.len() as u64).to_le_bytes().to_vec(), values.concat()].concat()
    };
    let pairs = [
        string("general.architecture", "llama"),
        string("tokenizer.ggml.model", "gpt2"),
        string("tokenizer.ggml.pre", "gpt-2"),
        array("tokenizer.ggml.tokens", 8, &["a", "b", "ab", "<e>"].map(text)),
        array("tokenizer.ggml.token_type", 5, &[1i32, 1, 1, 3].map(|t| t.to_le_bytes().to_vec())),
        array("tokenizer.ggml.scores", 6, &[-0.5f32, 0.0, 1.0, 2.0].map(|s| s.to_le_bytes().to_vec())),
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
