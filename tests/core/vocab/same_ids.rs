//! Token ids, bytes and end tokens equal llama.cpp's: on the demo's model, and on the vocabularies (`*.gguf`) of the
//! folder that LLGTRT_VOCABS names.

use super::{any_text, demo_folder, texts};
use llgtrt::exec::llama::ffi::Model;
use llgtrt::exec::llama::vocab;
use llgtrt::types::Token;
use llgtrt::vocab::{Vocab, VocabOptions};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of a kind that no model has which generates text.
const WORD_PIECES: &str = "bert-bge";

fn published() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("LLGTRT_VOCABS") else {
        println!("skipped: LLGTRT_VOCABS names no folder of vocabularies");
        return Vec::new();
    };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "gguf"));
    files.sort();
    files
}

/// The vocabulary of a bare GGUF, and the library's own; None where no text is generated with it.
fn open(path: &Path) -> Option<(Arc<Vocab>, Arc<Model>)> {
    let read = vocab::read(path);
    if path.to_string_lossy().contains(WORD_PIECES) {
        let error = read.unwrap_err().to_string();
        assert!(error.contains("generates no text"), "{error}");
        return None;
    }
    let vocab =
        Vocab::from_gguf(read.unwrap(), &VocabOptions { eog: vec![0], ..VocabOptions::default() }).unwrap();
    Some((vocab, Model::load_vocab(path).unwrap()))
}

fn same_ids(name: &str, vocab: &Vocab, reference: &Model, text: &str) -> Result<(), TestCaseError> {
    for template in [false, true] {
        let ours = vocab.encode(&[(text, template)]).unwrap();
        let theirs = reference.encode(text, template).unwrap();
        prop_assert_eq!(ours, theirs, "{}: {:?}, special tokens: {}", name, text, template);
    }
    Ok(())
}

/// Texts and the ids that they must have, from the files that were published with a vocabulary; empty without such files.
fn expected(path: &Path) -> Vec<(String, Vec<Token>)> {
    let beside = |ending: &str| std::fs::read_to_string(format!("{}.{ending}", path.display()));
    let (Ok(texts), Ok(ids)) = (beside("inp"), beside("out")) else { return Vec::new() };
    let numbers = |line: &str| line.split_whitespace().map(|id| id.parse().unwrap()).collect();
    let ids: Vec<Vec<Token>> = ids.lines().map(numbers).collect();
    let texts = texts.split("\n__ggml_vocab_test__\n").map(str::to_owned);
    let all: Vec<_> = texts.zip(ids).collect();
    assert!(all.len() > 40, "{}: {} texts", path.display(), all.len());
    all
}

fn compare(name: &str, vocab: &Vocab, reference: &Model) {
    for text in texts() {
        same_ids(name, vocab, reference, &text).unwrap();
    }
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    runner.run(&any_text(), |text| same_ids(name, vocab, reference, &text)).unwrap();
}

/// Every character after, between and before letters, digits, signs and spaces.
fn compare_characters(name: &str, vocab: &Vocab, reference: &Model) {
    let different =
        |text: &str| vocab.encode(&[(text, false)]).unwrap() != reference.encode(text, false).unwrap();
    let around = |c: char| format!("a{c}b {c}{c}1{c}2 .{c}, {c}\n{c} ");
    let characters: Vec<char> = ('\0'..='\u{1ffff}').chain('\u{e0000}'..='\u{e01ff}').collect();
    let mut found: Vec<char> = Vec::new();
    for some in characters.chunks(64) {
        if different(&some.iter().map(|c| around(*c)).collect::<String>()) {
            found.extend(some.iter().filter(|c| different(&around(**c))));
        }
    }
    assert!(found.is_empty(), "{name}: {found:?}");
}

/// Compares every vocabulary that can be opened, and names all that differ.
fn compare_published(compare: impl Fn(&Path, &Vocab, &Model)) {
    let mut different = Vec::new();
    for path in published() {
        let Some((vocab, reference)) = open(&path) else { continue };
        let name = path.file_stem().unwrap().to_string_lossy();
        match catch_unwind(AssertUnwindSafe(|| compare(&path, &vocab, &reference))) {
            Ok(()) => println!("{name}: {} ids, same as llama.cpp's", vocab.len()),
            Err(_) => different.push(name.into_owned()),
        }
    }
    assert!(different.is_empty(), "{different:?}");
}

#[test]
fn published_vocabularies() {
    compare_published(|path, vocab, reference| {
        for (text, ids) in expected(path) {
            assert_eq!(vocab.encode(&[(&text, false)]).unwrap(), ids, "{text:?}");
        }
        compare(&path.to_string_lossy(), vocab, reference);
    });
}

#[test]
fn every_character_of_published_vocabularies() {
    compare_published(|path, vocab, reference| compare_characters(&path.to_string_lossy(), vocab, reference));
}

#[test]
fn the_demo() {
    let Some(folder) = demo_folder() else {
        println!("skipped: no demo/target");
        return;
    };
    let path = folder.join("model.gguf");
    let (bare, reference) = open(&path).unwrap();
    compare("demo, bare", &bare, &reference);
    let json = std::fs::read(folder.join("tokenizer.json")).unwrap();
    let options =
        VocabOptions { n_vocab: Some(bare.len()), eog: bare.eog().to_vec(), ..VocabOptions::default() };
    let vocab = Vocab::from_tokenizer_json(&json, &options).unwrap();
    vocab.check_same_bytes(&vocab::read(&path).unwrap()).unwrap();
    compare("demo, tokenizer.json", &vocab, &reference);
    compare_characters("demo, tokenizer.json", &vocab, &reference);
}
