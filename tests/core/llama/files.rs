//! Damaged files: one clear line, never an abort.

use super::model::{Claims, bytes, random, scratch, write};
use super::{config, one_engine, opened};
use llgtrt::config::KvLayout;
use llgtrt::error::Error;
use llgtrt::exec::llama::{ModelFile, open};
use std::cell::RefCell;

/// The claims of a damaged file, and a word that the message must hold.
type Case = (&'static str, Claims, &'static str);

fn why(name: &str, path: &std::path::Path) -> String {
    let Err(error) = open(path, &config(KvLayout::Auto, 4, 0), None, &|_| ()) else {
        panic!("{name} was opened")
    };
    assert!(matches!(&error, Error::Invalid { what, .. } if what == "target"), "{name}: {error}");
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains(&*path.to_string_lossy()), "{name}: {text}");
    println!("{name}: {text}");
    text
}

#[test]
fn damaged_bytes_are_refused() {
    let whole = bytes(&Claims::default());
    let mut magic = whole.clone();
    magic[0] = b'X';
    let mut version = whole.clone();
    version[4] = 99;
    let mut counts = whole.clone();
    counts[8..24].fill(0x7f);
    let cases: [(&str, &[u8]); 9] = [
        ("empty", &[]),
        ("four-bytes", b"GGUF"),
        ("garbage", &[0x5a; 4096]),
        ("zeros", &[0; 4096]),
        ("magic", &magic),
        ("version", &version),
        ("counts", &counts),
        ("half", &whole[..whole.len() / 2]),
        ("metadata-only", &whole[..4000]),
    ];
    for (name, bytes) in cases {
        let path = scratch(name);
        std::fs::write(&path, bytes).unwrap();
        why(name, &path);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn damaged_claims_are_refused() {
    let good = Claims::default;
    let cases: [Case; 9] = [
        ("no-layers", Claims { layers: 0, ..good() }, "0 layers"),
        ("many-layers", Claims { layers: 1000, ..good() }, "1000 layers"),
        ("absurd-layers", Claims { layers: u32::MAX, ..good() }, "4294967295 layers"),
        ("missing-layers", Claims { layers: 3, ..good() }, "cannot be loaded"),
        ("no-context", Claims { context: 0, ..good() }, "context of 0"),
        ("absurd-context", Claims { context: u32::MAX, ..good() }, "context of 4294967295"),
        ("no-heads", Claims { heads: 0, ..good() }, ""),
        ("odd-heads", Claims { heads: 7, ..good() }, ""),
        ("no-numbers", Claims { scale: f32::NAN, ..good() }, "no numbers"),
    ];
    for (name, claims, word) in cases {
        // A head count of 0 must not divide by it while writing.
        let path = write(name, &claims);
        let text = why(name, &path);
        assert!(text.contains(word), "{name}: {text}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn what_is_no_file_is_refused() {
    why("missing", &scratch("missing"));
    why("folder", &std::env::temp_dir());
    why("device", std::path::Path::new("/dev/null"));
}

#[test]
fn a_whole_file_tells_its_facts() {
    let _turn = one_engine();
    let opened = opened(&random(), &config(KvLayout::Auto, 4, 0));
    let info = opened.info;
    assert_eq!((info.n_vocab, info.context), (320, 1024));
    assert_eq!(info.chat_template.as_deref(), Some("{{ messages }}"));
    // The declared end, and one that is known by its name.
    assert_eq!((info.end_ids, info.begin), (vec![1, 2], Some(0)));
    assert!(!info.recurrent && info.sliding_window == 0);
}

/// A head size that blocks of 32 cannot hold: bf16 instead.
#[test]
fn odd_head_sizes_fall_back_to_bf16() {
    let _turn = one_engine();
    let path = write("small-heads", &Claims { heads: 4, ..Claims::default() });
    let opened = opened(&path, &config(KvLayout::Auto, 4, 0));
    assert!(opened.info.summary.contains("bf16"), "{}", opened.info.summary);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_is_done_is_told_in_its_order() {
    let _turn = one_engine();
    let (path, heard) = (random(), RefCell::new(Vec::new()));
    let config = config(KvLayout::Auto, 4, 64);
    let draft = ModelFile { gguf: &path, config: &config };
    open(&path, &config, Some(&draft), &|line| heard.borrow_mut().push(line))
        .unwrap_or_else(|e| panic!("{e}"));
    let heard = heard.into_inner();
    let wanted = [
        "reading the target, ",
        "probing the target",
        "reading the draft model, ",
        "probing the draft",
        "laying out",
    ];
    let mut told = heard.iter();
    for begin in wanted {
        assert!(told.any(|line| line.starts_with(begin)), "{begin} is not told in its order: {heard:?}");
    }
}
