//! Damaged GGUF files are errors: the reader must not end the process.

use llgtrt::exec::llama::gguf::read_tables;
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
fn tables_are_read() {
    let tables = read_tables(&TempFile::new("whole", &gguf()).0).unwrap();
    assert_eq!((tables.model.as_str(), tables.pre.as_str(), tables.name.as_str()), ("gpt2", "gpt-2", ""));
    assert_eq!(
        (tables.tokens, tables.types),
        (["a", "b", "ab", "<e>"].map(str::to_owned).to_vec(), vec![1, 1, 1, 3])
    );
    assert_eq!((tables.scores, tables.merges), (vec![-0.5, 0.0, 1.0, 2.0], vec!["a b".to_owned()]));
    assert_eq!((tables.ids["eos"], tables.ids.len()), (3, 1));
    assert_eq!((tables.add_bos_token, tables.add_space_prefix), (Some(true), None));
}

#[test]
fn missing_and_cut_files_are_errors() {
    assert!(read_tables(&PathBuf::from("/nonexistent/model.gguf")).is_err());
    assert!(read_tables(&std::env::temp_dir()).is_err());
    let whole = gguf();
    for len in 0..whole.len() {
        let error = read_tables(&TempFile::new("cut", &whole[..len]).0).unwrap_err().to_string();
        assert!(error.starts_with("model.gguf: "), "{error}");
    }
}

proptest! {
    #[test]
    fn changed_bytes_never_end_the_process(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut file = gguf();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Ok(tables) = read_tables(&TempFile::new("changed", &file).0) {
            // Some vocabulary came out; using it must not panic either.
            let _ = llgtrt::vocab::Vocab::from_gguf_tables(&tables, &llgtrt::vocab::VocabOptions::default());
        }
    }
}
