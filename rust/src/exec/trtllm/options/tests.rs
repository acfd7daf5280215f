use super::*;
use crate::config;
use serde_json::{Value, json};
use std::path::PathBuf;

fn folder(kv_bytes: u64, ranks: u32) -> Folder {
    let json = json!({
        "pretrained_config": {"vocab_size": 8, "mapping": {"tp_size": ranks}},
        "build_config": {"max_seq_len": 8, "max_batch_size": 8, "max_num_tokens": 8}
    });
    let mut folder = Folder::of(&json, PathBuf::from("engine")).unwrap();
    folder.kv_bytes = kv_bytes;
    folder
}

fn load(text: &str) -> Config {
    config::load(Some(text), "{}").unwrap()
}

fn alone() -> Place {
    places((&folder(1, 1), None), &Config::default(), None).0
}

fn options(text: &str, speculates: bool) -> Value {
    serde_json::to_value(Options::new(&load(text), alone(), speculates)).unwrap()
}

#[test]
fn every_key_goes_to_its_argument() {
    let options = options(
        r#"{"guaranteed_no_evict": true, "max_batch_size": 7, "max_num_tokens": 70, "max_queue_size": 9,
            "enable_chunked_context": false, "enable_kv_cache_reuse": false, "kv_cache_host_memory_megabytes": 3,
            "kv_cache_onboard_blocks": false, "cross_kv_cache_fraction": 0.25, "secondary_offload_min_priority": 40,
            "event_buffer_max_size": 11, "enable_batch_size_tuning": true, "enable_max_num_tokens_tuning": true,
            "kv_cache_max_tokens": 500}"#,
        false,
    );
    let executor = &options["executor"];
    assert_eq!((&executor["max_batch_size"], &executor["max_num_tokens"]), (&json!(7), &json!(70)));
    assert_eq!(
        (&executor["max_queue_size"], &executor["enable_chunked_context"]),
        (&json!(9), &json!(false))
    );
    let kv = &options["kv_cache"];
    assert_eq!((&kv["enable_block_reuse"], &kv["host_cache_size"]), (&json!(false), &json!(3 << 20)));
    assert_eq!((&kv["onboard_blocks"], &kv["cross_kv_cache_fraction"]), (&json!(false), &json!(0.25)));
    assert_eq!((&kv["secondary_offload_min_priority"], &kv["max_tokens"]), (&json!(40), &json!(500)));
    assert_eq!(kv["event_buffer_max_size"], 11);
    assert_eq!(options["scheduler"]["capacity_scheduler_policy"], "GUARANTEED_NO_EVICT");
    let tuning = json!({"enable_batch_size_tuning": true, "enable_max_num_tokens_tuning": true,
        "dynamic_batch_moving_average_window": 128});
    assert_eq!(options["dynamic_batch"], tuning);
}

#[test]
fn defaults_are_said_too() {
    let options = options("{}", false);
    assert_eq!(options["scheduler"]["capacity_scheduler_policy"], "MAX_UTILIZATION");
    assert_eq!(options["executor"]["enable_chunked_context"], true);
    assert_eq!(options["kv_cache"]["free_gpu_memory_fraction"], 0.9);
    assert_eq!(options["kv_cache"]["event_buffer_max_size"], 0);
    let parallel = json!({"device_ids": null, "participant_ids": null, "orchestrator": false});
    assert_eq!(options["parallel"], parallel);
    // 0 is ours for no bound.
    assert_eq!(self::options(r#"{"max_queue_size": 0}"#, false)["executor"]["max_queue_size"], Value::Null);
}

#[test]
fn speculation_reuses_kv_and_gathers_logits_where_they_decide() {
    let off = r#"{"enable_kv_cache_reuse": false}"#;
    assert_eq!(options(off, true)["kv_cache"]["enable_block_reuse"], true);
    let logits = r#"{"speculative": {"use_logits": true}}"#;
    assert_eq!(options(logits, true)["executor"]["gather_generation_logits"], true);
    assert_eq!(options(logits, false)["executor"]["gather_generation_logits"], false);
    assert_eq!(options("{}", true)["executor"]["gather_generation_logits"], false);
}

#[test]
fn two_executors_share_the_memory_by_what_a_token_takes() {
    let config = load(r#"{"kv_cache_free_gpu_mem_fraction": 0.8}"#);
    let (target, draft) = places((&folder(300, 1), Some(&folder(100, 1))), &config, None);
    let draft = draft.unwrap();
    assert!((target.share - 0.6).abs() < 1e-9, "{target:?}");
    // A fifth of all, of the two fifths that are left.
    assert!((draft.share * (1.0 - target.share) - 0.2).abs() < 1e-9, "{draft:?}");
    // The same per rank where the draft runs on fewer.
    let (target, _) = places((&folder(600, 2), Some(&folder(100, 1))), &config, None);
    assert!((target.share - 0.6).abs() < 1e-9);
    let half = load(r#"{"kv_cache_free_gpu_mem_fraction": 0.8, "speculative": {"draft_kv_fraction": 0.5}}"#);
    let (target, _) = places((&folder(300, 1), Some(&folder(200, 1))), &half, None);
    assert!((target.share - 0.6).abs() < 1e-9);
    // What the draft's own file says counts.
    assert_eq!(places((&folder(3, 1), Some(&folder(1, 1))), &config, Some(0.3)).1.unwrap().share, 0.3);
    // On devices of their own each takes all.
    let apart = load(r#"{"trtllm": {"device_ids": [0, 1], "draft_device_ids": [2]}}"#);
    let (target, draft) = places((&folder(3, 2), Some(&folder(1, 1))), &apart, None);
    assert_eq!((target.share, draft.unwrap().share), (0.9, 0.9));
}

#[test]
fn behind_an_orchestrator_the_draft_comes_first() {
    let config = load(r#"{"trtllm": {"orchestrator": true}, "speculative": {"use_logits": true}}"#);
    let (target, draft) = places((&folder(3, 2), Some(&folder(1, 3))), &config, None);
    let draft = draft.unwrap();
    assert_eq!(draft.parallel.participant_ids, Some(vec![1, 2, 3]));
    assert_eq!(target.parallel.participant_ids, Some(vec![4, 5]));
    assert!(
        Options::new(&config, target, true).fast_logits && Options::new(&config, draft, true).fast_logits
    );
    assert!(!Options::new(&config, alone(), true).fast_logits);
}

#[test]
fn models_of_different_sizes_share_the_first_ranks() {
    let ranks = |ours: u32, theirs: u32| {
        let (target, draft) = places((&folder(1, ours), Some(&folder(1, theirs))), &Config::default(), None);
        (target.parallel.participant_ids, draft.unwrap().parallel.participant_ids)
    };
    assert_eq!(ranks(2, 2), (None, None));
    assert_eq!(ranks(4, 2), (Some(vec![0, 1, 2, 3]), Some(vec![0, 1])));
}
