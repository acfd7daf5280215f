//! Heads with random weights: answers are those of the target alone, and what cannot draft is refused.

use super::head_files::{
    Claims, glm_keys, glm_tensors, outer, qwen_keys, qwen_tensors, small, tokenizer, without, write,
};
use super::model::{file, scratch};
use super::serving::{CONTEXT, SLOTS, alone_on, folder, requests};
use super::{config, demo, homes, one_engine};
use crate::scheduling::world::{Answers, essence, start};
use llgtrt::config::{Config, DraftSource};
use llgtrt::error::Error;
use llgtrt::exec::open::open;
use llgtrt::request::RequestSpec;
use std::fs;
use std::path::Path;

/// A configuration in which this head always drafts, alone or behind other sources.
fn drafting(head: &Path, others: &[DraftSource], base: Config) -> Config {
    let mut config = base;
    config.speculative.draft_model = Some(head.to_string_lossy().into_owned());
    config.speculative.sources = Some([others, &[DraftSource::DraftModel]].concat());
    (config.speculative.adaptive, config.speculative.max_draft_len) = (false, Some(4));
    config
}

/// What the target says with the head under this configuration, all at once; it must have drafted, and some of it been right.
fn answers(target: &str, requests: &[RequestSpec], config: &Config) -> Answers {
    let live = start(open(target, config, &|_| ()).unwrap(), config);
    let order: Vec<usize> = (0..requests.len()).map(|i| i * 97 % requests.len()).collect();
    let answers = live.run(requests, &order, 1);
    let totals = &answers.snapshot.totals;
    let fates = &totals.drafting.sources[&DraftSource::DraftModel];
    println!("{} tokens from prefixes; of the head: {fates:?}", totals.cached_tokens);
    assert!(totals.cached_tokens > 0, "no prefix was reused");
    assert!(fates.accepted > 0, "nothing was accepted");
    answers
}

/// The target says the same alone, one request after the other.
fn same(target: &str, requests: &[RequestSpec], configs: &[Config]) {
    let want = alone_on(target, requests, config(SLOTS, CONTEXT));
    for config in configs {
        for (key, event) in &answers(target, requests, config).choices {
            assert_eq!(essence(event), essence(&want[key]), "{key:?}: {:?}", requests[key.0]);
        }
    }
}

const OTHERS: [DraftSource; 3] = [DraftSource::Forced, DraftSource::Grammar, DraftSource::PromptLookup];

fn chunked() -> Config {
    Config { max_num_tokens: 40, ..config(SLOTS, CONTEXT) }
}

#[test]
fn answers_are_those_of_the_target_alone() {
    let _turn = one_engine();
    let Some(target) = folder() else { return };
    let lacking = write("lacking", &Claims::demo());
    let own = Claims { width: 128, embeds: true, scores: true, reduced: true, ..Claims::demo() };
    let own = write("own", &own);
    let laid_out = homes(SLOTS, CONTEXT)[1].1.clone();
    let configs = [
        drafting(&lacking, &[], config(SLOTS, CONTEXT)),
        drafting(&own, &OTHERS, chunked()),
        drafting(&lacking, &OTHERS, laid_out),
    ];
    same(&target, &requests(150), &configs);
}

#[test]
fn a_layer_of_the_models_own_file_drafts() {
    let _turn = one_engine();
    let Some(demo) = demo() else { return };
    let path = scratch("glm4moe");
    fs::write(&path, file(&glm_tensors(), &[glm_keys(), tokenizer(&demo)].concat(), 1.0)).unwrap();
    let configs = [drafting(&path, &[], config(SLOTS, CONTEXT)), drafting(&path, &OTHERS, chunked())];
    same(&path.to_string_lossy(), &requests(80), &configs);
}

#[test]
fn a_layer_in_a_file_of_its_own_drafts() {
    let _turn = one_engine();
    let Some(demo) = demo() else { return };
    let [trunk, alone] = ["glm4moe-trunk", "glm4moe-mtp"].map(scratch);
    let keys = [glm_keys(), tokenizer(&demo)].concat();
    fs::write(&trunk, file(&without(&["blk.2."]), &keys, 1.0)).unwrap();
    fs::write(&alone, file(&without(&["blk.0.", "blk.1."]), &keys, 1.0)).unwrap();
    same(&trunk.to_string_lossy(), &requests(60), &[drafting(&alone, &OTHERS, config(SLOTS, CONTEXT))]);
}

#[test]
fn a_layer_drafts_for_a_model_that_carries_a_state() {
    let _turn = one_engine();
    let Some(demo) = demo() else { return };
    let path = scratch("qwen35");
    fs::write(&path, file(&qwen_tensors(), &[qwen_keys(), tokenizer(&demo)].concat(), 1.0)).unwrap();
    let target = path.to_string_lossy();
    let requests = requests(80);
    let always = drafting(&path, &OTHERS, config(SLOTS, CONTEXT));
    let want = alone_on(&target, &requests, config(SLOTS, CONTEXT));
    for (key, event) in alone_on(&target, &requests, always.clone()) {
        // Log-probabilities may differ in their last bits: a state is computed in pieces of other lengths.
        assert_eq!(event.tokens, want[&key].tokens, "{key:?}: {:?}", requests[key.0]);
    }
    for (key, event) in &answers(&target, &requests, &always).choices {
        assert_eq!(event.tokens, want[key].tokens, "{key:?}: {:?}", requests[key.0]);
    }
}

/// What opening this target with this head says.
fn refusal(target: &str, head: &Path) -> String {
    let config = drafting(head, &[], config(SLOTS, CONTEXT));
    let error = open(target, &config, &|_| ()).err().unwrap_or_else(|| panic!("{} drafts", head.display()));
    assert!(matches!(&error, Error::Invalid { what, .. } if what == "draft"), "{error}");
    error.to_string()
}

#[test]
fn what_cannot_draft_is_refused() {
    let _turn = one_engine();
    let Some(target) = folder() else { return };
    let all = Claims { embeds: true, scores: true, ..Claims::demo() };
    let cases = [
        ("reads hidden states of 128 numbers", Claims { target: 128, ..all.clone() }),
        ("its own have 128", Claims { width: 128, scores: false, ..all.clone() }),
        ("reads the input of layer 5, and the target has 5", Claims { reads: vec![0, 2, 5], ..all.clone() }),
        ("reads the input of layer 4294967295", Claims { reads: vec![0, 2, u32::MAX], ..all.clone() }),
        ("it scores some tokens only", Claims { reduced: true, scores: false, ..all.clone() }),
        ("none of the target's ids", Claims { reduced: true, vocab: 6000, ..all.clone() }),
        ("claims 2 layers", Claims { layers: 2, ..all.clone() }),
        ("EAGLE3 requires exactly 3 entries", Claims { reads: vec![1], ..all }),
    ];
    for (number, (why, claims)) in cases.iter().enumerate() {
        let told = refusal(&target, &write(&format!("refused-{number}"), claims));
        assert!(told.contains(why), "{told}");
    }
    // A head is no target, nor is one of another kind a draft model.
    let head = write("no-target", &Claims::demo());
    let error = open(&head.to_string_lossy(), &config(SLOTS, CONTEXT), &|_| ()).err().unwrap().to_string();
    assert!(error.contains("give it as the draft model"), "{error}");
    let tokens = tokenizer(&demo().unwrap());
    let other = scratch("dflash");
    fs::write(&other, file(&outer(), &[small("dflash", 1), tokens.clone()].concat(), 1.0)).unwrap();
    assert!(
        refusal(&target, &other).contains("is a head of the kind dflash"),
        "{}",
        refusal(&target, &other)
    );
    // The MTP layer alone, of another model.
    let alone = scratch("mtp");
    let tensors = without(&["blk.0.", "blk.1."]);
    fs::write(&alone, file(&tensors, &[glm_keys(), tokens].concat(), 1.0)).unwrap();
    let told = refusal(&target, &alone);
    assert!(told.contains("has the architecture glm4moe, and the target llama"), "{told}");
}
