//! Damaged files: one clear line, never an abort.

use super::model::{Claims, bytes, random, scratch, write};
use super::{config, one_engine, opened, with_kv};
use llgtrt::config::{Config, KvCacheType};
use llgtrt::error::Error;
use llgtrt::exec;
use llgtrt::exec::llama::open;
use std::cell::RefCell;
use std::path::Path;

/// The claims of a damaged file, and a word that the message must hold.
type Case = (&'static str, Claims, &'static str);

fn why(name: &str, path: &std::path::Path) -> String {
    let Err(error) = open(path, &config(4, 0), None, &|_| ()) else { panic!("{name} was opened") };
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
fn other_kinds_of_files_are_told_apart() {
    let good = Claims::default;
    let cases: [Case; 3] = [
        ("adapter", Claims { general_type: "adapter", ..good() }, "merge it into its model"),
        ("images", Claims { architecture: "clip", ..good() }, "give the language model's file"),
        ("later-00002-of-00003", good(), "give later-00001-of-00003.gguf"),
    ];
    for (name, claims, word) in cases {
        // Its name would end in another number.
        let path = scratch(name).with_file_name(format!("{name}.gguf"));
        std::fs::write(&path, bytes(&claims)).unwrap();
        let text = why(name, &path);
        assert!(text.contains(word), "{name}: {text}");
        std::fs::remove_file(path).unwrap();
    }
}

fn opened_with_vocab(target: &Path) -> Result<(), String> {
    let (config, heard) = (config(4, 64), RefCell::new(Vec::new()));
    let opened = exec::open::open(&target.to_string_lossy(), &config, &|line| heard.borrow_mut().push(line));
    let heard = heard.into_inner();
    assert!(opened.is_ok() || heard.len() == 1, "refused after {heard:?}");
    opened.map(|_| ()).map_err(|e| e.to_string())
}

/// What is wrong with a vocabulary is told before weights are read, and the advice helps.
#[test]
fn advice_on_vocabularies_is_right() {
    let _turn = one_engine();
    let endless = write("endless", &Claims { ends: false, ..Claims::default() });
    let error = opened_with_vocab(&endless).unwrap_err();
    let advice = "put the model as model.gguf into a folder of its own, a generation_config.json with eos_token_id \
                  beside it, and give the folder";
    assert!(error.contains(advice), "{error}");
    let folder = endless.with_extension("");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::rename(&endless, folder.join("model.gguf")).unwrap();
    std::fs::write(folder.join("generation_config.json"), r#"{"eos_token_id": 2}"#).unwrap();
    opened_with_vocab(&folder).unwrap();
    std::fs::remove_dir_all(folder).unwrap();

    let unknown = write("unknown", &Claims { architecture: "lamma", ..Claims::default() });
    let error = opened_with_vocab(&unknown).unwrap_err();
    assert!(error.contains("unknown model architecture: 'lamma'"), "{error}");
    std::fs::remove_file(unknown).unwrap();
}

#[test]
fn a_whole_file_tells_its_facts() {
    let _turn = one_engine();
    let config = Config { kv_cache_max_tokens: None, ..config(4, 0) };
    let model = opened(&random(), &config);
    assert_eq!(model.plan.per_slot, 1024);
    assert_eq!(model.chat_template.as_deref(), Some("{{ messages }}"));
    let caps = model.forward.caps();
    assert!(!caps.stateful && caps.rollback > 0);
}

/// A head size that blocks of 32 cannot hold: bf16 instead.
#[test]
fn odd_head_sizes_fall_back_to_bf16() {
    let _turn = one_engine();
    let path = write("small-heads", &Claims { heads: 4, ..Claims::default() });
    let opened = opened(&path, &with_kv(config(4, 0), KvCacheType::Q8_0));
    assert!(opened.summary.contains("bf16"), "{}", opened.summary);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_is_done_is_told_in_its_order() {
    let _turn = one_engine();
    let (path, heard) = (random(), RefCell::new(Vec::new()));
    let config = config(4, 64);
    open(&path, &config, Some((&path, &config)), &|line| heard.borrow_mut().push(line))
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
