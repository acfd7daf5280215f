//! The demo's tokenizer.json.

use super::{any_text, demo_folder, texts};
use llgtrt::vocab::{Vocab, VocabOptions};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[test]
fn the_demo_s_text_survives() {
    let Some(folder) = demo_folder() else {
        println!("skipped: no demo/target");
        return;
    };
    let json = std::fs::read(folder.join("tokenizer.json")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let end = file["added_tokens"].as_array().unwrap().iter().find(|t| t["content"] == "<|im_end|>").unwrap();
    let eog = vec![u32::try_from(end["id"].as_u64().unwrap()).unwrap()];
    let vocab = Vocab::from_tokenizer_json(&json, &VocabOptions { eog, ..VocabOptions::default() }).unwrap();
    assert_eq!(vocab.eos_text(), "<|im_end|>");
    let survives = |text: &str| {
        let tokens = vocab.encode(&[(text, false)]).unwrap();
        prop_assert!(tokens.iter().all(|t| !vocab.is_special(*t)));
        prop_assert_eq!(vocab.decode(&tokens), text.as_bytes());
        let forced = vocab.tok_env().tokenize(text);
        prop_assert_eq!(vocab.decode(&forced), text.as_bytes());
        Ok(())
    };
    for text in texts() {
        survives(&text).unwrap();
    }
    TestRunner::new(Config::with_cases(100)).run(&any_text(), |text| survives(&text)).unwrap();
    let turn =
        vocab.encode(&[("<|im_start|>user\n", true), ("<|im_end|>", false), ("<|im_end|>", true)]).unwrap();
    assert_eq!(turn.iter().filter(|t| vocab.is_special(**t)).count(), 2);
}
