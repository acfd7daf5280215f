//! Token ids, bytes and end tokens equal llama.cpp's: on the demo's model, and on the vocabularies (`*.gguf`) of the
//! folder that LLGTRT_VOCABS names.

use super::ffi::Reference;
use super::{any_text, demo_folder, texts};
use llgtrt::exec::llama::gguf::read_tables;
use llgtrt::vocab::{Vocab, VocabOptions};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is refused: kinds that need a tokenizer.json, and vocabularies with which some texts cannot be written (falcon;
/// llama.cpp leaves such bytes out).
const UNSUPPORTED: [&str; 6] =
    ["\"bert\"", "\"t5\"", "\"rwkv\"", "\"gemma4\"", "\"plamo2\"", "no token for the byte"];

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

/// The vocabulary of a bare GGUF; None where its kind is not supported.
fn open(path: &Path) -> Option<(Arc<Vocab>, Reference)> {
    let tables = read_tables(path).unwrap();
    match Vocab::from_gguf_tables(&tables, &VocabOptions::default()) {
        Ok(vocab) => Some((vocab, Reference::open(path).expect("llama.cpp reads the vocabulary too"))),
        Err(e) => {
            let e = e.to_string();
            assert!(UNSUPPORTED.iter().any(|kind| e.contains(kind)), "{}: {e}", path.display());
            println!("{}: {e}", path.display());
            None
        }
    }
}

fn same_tables(name: &str, vocab: &Vocab, reference: &Reference) {
    assert_eq!(vocab.len(), reference.len() as usize, "{name}");
    for token in 0..reference.len() {
        let theirs = reference.bytes(token).escape_ascii().to_string();
        // llama.cpp's answer for a token whose text has characters that stand for no byte (command-r's "\u{200d}").
        if !theirs.starts_with("[UNK_BYTE_") {
            assert_eq!(vocab.bytes(token).escape_ascii().to_string(), theirs, "{name}: token {token}");
        }
        let unused = vocab.bytes(token).is_empty();
        assert!(unused || vocab.is_special(token) == reference.is_special(token), "{name}: token {token}");
    }
    assert_eq!(vocab.eog(), reference.ends(), "{name}");
    let (bos, add) = reference.bos();
    assert_eq!(vocab.bos(), bos.filter(|_| add), "{name}");
}

fn same_ids(name: &str, vocab: &Vocab, reference: &Reference, text: &str) -> Result<(), TestCaseError> {
    for template in [false, true] {
        let (ours, theirs) = (vocab.encode(&[(text, template)]).unwrap(), reference.encode(text, template));
        prop_assert_eq!(ours, theirs, "{}: {:?}, special tokens: {}", name, text, template);
    }
    Ok(())
}

fn compare(name: &str, vocab: &Vocab, reference: &Reference) {
    for text in texts() {
        same_ids(name, vocab, reference, &text).unwrap();
    }
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    runner.run(&any_text(), |text| same_ids(name, vocab, reference, &text)).unwrap();
}

/// Every character after, between and before letters, digits, signs and spaces.
fn compare_characters(name: &str, vocab: &Vocab, reference: &Reference) {
    let different = |text: &str| vocab.encode(&[(text, false)]).unwrap() != reference.encode(text, false);
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
fn compare_published(compare: impl Fn(&str, &Vocab, &Reference)) {
    let mut different = Vec::new();
    for path in published() {
        let Some((vocab, reference)) = open(&path) else { continue };
        let name = path.file_stem().unwrap().to_string_lossy();
        match catch_unwind(AssertUnwindSafe(|| compare(&name, &vocab, &reference))) {
            Ok(()) => println!("{name}: {} ids, same as llama.cpp's", vocab.len()),
            Err(_) => different.push(name.into_owned()),
        }
    }
    assert!(different.is_empty(), "{different:?}");
}

#[test]
fn published_vocabularies() {
    compare_published(|name, vocab, reference| {
        same_tables(name, vocab, reference);
        compare(name, vocab, reference);
    });
}

#[test]
fn every_character_of_published_vocabularies() {
    compare_published(compare_characters);
}

#[test]
fn the_demo() {
    let Some(folder) = demo_folder() else {
        println!("skipped: no demo/target");
        return;
    };
    let path = folder.join("model.gguf");
    let (bare, reference) = open(&path).unwrap();
    same_tables("demo, bare", &bare, &reference);
    compare("demo, bare", &bare, &reference);
    let json = std::fs::read(folder.join("tokenizer.json")).unwrap();
    let options =
        VocabOptions { n_vocab: Some(bare.len()), eog: bare.eog().to_vec(), ..VocabOptions::default() };
    let vocab = Vocab::from_tokenizer_json(&json, &options).unwrap();
    vocab.check_same_bytes(&read_tables(&path).unwrap()).unwrap();
    compare("demo, tokenizer.json", &vocab, &reference);
    compare_characters("demo, tokenizer.json", &vocab, &reference);
}
