use super::{Folder, is_engine};
use crate::config::{self, Config};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A folder that goes with the test.
struct Built(PathBuf);

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn good() -> Value {
    json!({
        "version": "0.20.0",
        "pretrained_config": {
            "architecture": "LlamaForCausalLM", "dtype": "bfloat16", "vocab_size": 32000, "hidden_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "mapping": {"world_size": 2, "tp_size": 2, "pp_size": 1},
            "quantization": {"quant_algo": null, "kv_cache_quant_algo": null}
        },
        "build_config": {
            "max_input_len": 8192, "max_seq_len": 8192, "max_batch_size": 128, "max_num_tokens": 8192,
            "kv_cache_type": "PAGED", "gather_generation_logits": true, "max_draft_len": 10,
            "speculative_decoding_mode": 2, "plugin_config": {"use_paged_context_fmha": true}
        }
    })
}

/// An engine with these values in place of the good ones, by dotted name.
fn built(name: &str, changes: &[(&str, Value)], ranks: u32) -> (Built, Result<Folder, String>) {
    let path = std::env::temp_dir().join(format!("llgtrt-engine-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let mut json = good();
    for (dotted, value) in changes {
        let mut at = &mut json;
        for key in dotted.split('.') {
            at = &mut at[key];
        }
        *at = value.clone();
    }
    std::fs::write(path.join("config.json"), json.to_string()).unwrap();
    for rank in 0..ranks {
        std::fs::write(path.join(format!("rank{rank}.engine")), "engine").unwrap();
    }
    let folder = Folder::open("target", &path).map_err(|e| e.to_string());
    (Built(path), folder)
}

fn draft(name: &str, changes: &[(&str, Value)]) -> (Built, Folder) {
    let plain =
        [("build_config.speculative_decoding_mode", json!(1)), ("build_config.max_draft_len", json!(0))];
    let (built, folder) = built(name, &[&plain, changes].concat(), 2);
    (built, folder.unwrap())
}

fn config(text: &str) -> Config {
    config::load(Some(text), "{}").unwrap()
}

/// What is said of a pair whose target is changed so, without the folder's own name.
fn pair(name: &str, changes: &[(&str, Value)], text: &str) -> String {
    let (_target, target) = built(&format!("target-{name}"), changes, 2);
    let (_draft, draft) = draft(&format!("draft-{name}"), &[]);
    target.unwrap().check_pair(Some(&draft), &config(text)).unwrap_err().to_string()
}

#[test]
fn a_good_engine_is_read() {
    let (built, folder) = built("good", &[], 2);
    let folder = folder.unwrap();
    assert!(is_engine(&built.0) && folder.takes_drafts());
    assert_eq!((folder.n_vocab, folder.ranks, folder.max_draft_len), (32000, 2, 10));
    // Two layers, two KV heads of 16 values, K and V, two bytes each.
    assert_eq!(folder.kv_bytes, 2 * 2 * 2 * 16 * 2);
    let (_draft, draft) = draft("good-draft", &[]);
    folder.check_pair(None, &Config::default()).unwrap();
    folder.check_pair(Some(&draft), &config(r#"{"speculative": {"use_logits": true}}"#)).unwrap();
    // Folders of other engines.
    assert!(!is_engine(Path::new("rust/src")) && !is_engine(Path::new("nowhere")));
}

#[test]
fn what_is_wrong_with_the_files_is_one_sentence_each() {
    let mode = "build_config.speculative_decoding_mode";
    let plugins = "build_config.plugin_config";
    let cases = [
        (
            vec![("pretrained_config.mapping.tp_size", json!(3))],
            "rank2.engine is missing, and config.json speaks of 3",
            "--tp_size 3",
        ),
        (vec![("pretrained_config.mapping.pp_size", json!(2))], "rank2.engine is missing", "4 ranks"),
        (
            vec![(mode, json!("draft_tokens_external"))],
            "is \"draft_tokens_external\", not a number",
            "--speculative_decoding_mode=draft_tokens_external",
        ),
        (
            vec![(mode, json!(4))],
            "speculative decoding of another kind (mode 4)",
            "--speculative_decoding_mode=draft_tokens_external",
        ),
        (
            vec![("build_config.kv_cache_type", json!("CONTINUOUS"))],
            "KV is not paged",
            "--kv_cache_type=paged",
        ),
        (
            vec![("build_config.kv_cache_type", Value::Null), (plugins, json!({"paged_kv_cache": false}))],
            "KV is not paged",
            "--kv_cache_type=paged",
        ),
        (
            vec![("build_config.max_seq_len", Value::Null)],
            "no number build_config.max_seq_len",
            "trtllm-build",
        ),
        (
            vec![("pretrained_config.vocab_size", json!(-1))],
            "no number pretrained_config.vocab_size",
            "trtllm-build",
        ),
    ];
    for (i, (changes, said, advice)) in cases.into_iter().enumerate() {
        let why = built(&format!("files-{i}"), &changes, 2).1.unwrap_err();
        assert!(why.starts_with("target: ") && why.contains(said) && why.contains(advice), "{why}");
        assert!(!why.contains('\n') && !why.contains(". "), "one sentence: {why}");
    }
    // Older releases say paged among the plugins.
    let old = [("build_config.kv_cache_type", Value::Null), (plugins, json!({"paged_kv_cache": true}))];
    assert!(built("old", &old, 2).1.is_ok());
}

#[test]
fn a_target_that_cannot_verify_is_refused_with_the_flag_that_mends_it() {
    let mode = "build_config.speculative_decoding_mode";
    let fmha = "build_config.plugin_config.use_paged_context_fmha";
    let plain = r#"{"enable_kv_cache_reuse": false, "enable_chunked_context": false}"#;
    let cases = [
        (
            vec![(mode, json!(1))],
            "{}",
            "--speculative_decoding_mode=draft_tokens_external --max_draft_len=10",
        ),
        (vec![(mode, json!(1))], r#"{"speculative": {"max_draft_len": 4}}"#, "--max_draft_len=4"),
        (
            vec![("build_config.max_draft_len", json!(3))],
            r#"{"speculative": {"max_draft_len": 4}}"#,
            "--max_draft_len=4",
        ),
        (vec![("build_config.max_draft_len", json!(0))], "{}", "--max_draft_len=1"),
        (vec![("build_config.max_input_len", json!(4096))], "{}", "--max_input_len 8192"),
        (vec![(fmha, json!(false))], "{}", "--use_paged_context_fmha=enable"),
        (vec![(fmha, json!(false))], plain, "--use_paged_context_fmha=enable"),
        (
            vec![("build_config.gather_generation_logits", json!(false))],
            r#"{"speculative": {"use_logits": true}}"#,
            "--gather_generation_logits",
        ),
        (vec![("build_config.max_batch_size", json!(64))], "{}", "--max_batch_size 128"),
        (vec![("build_config.max_num_tokens", json!(4096))], "{}", "--max_num_tokens 8192"),
        (vec![("pretrained_config.vocab_size", json!(32064))], "{}", "same vocabulary"),
    ];
    for (i, (changes, text, advice)) in cases.into_iter().enumerate() {
        let why = pair(&i.to_string(), &changes, text);
        assert!(why.contains(advice), "{why}");
        assert!(!why.contains('\n') && !why.contains(". "), "one sentence: {why}");
    }
}

#[test]
fn a_draft_that_takes_drafts_or_has_no_logits_is_refused() {
    let (_target, target) = built("pair-target", &[], 2);
    let target = target.unwrap();
    let refused = |name: &str, changes: &[(&str, Value)]| {
        let (_draft, draft) = draft(name, changes);
        let text = config(r#"{"speculative": {"use_logits": true}}"#);
        target.check_pair(Some(&draft), &text).unwrap_err().to_string()
    };
    let why = refused("external", &[("build_config.speculative_decoding_mode", json!(2))]);
    assert!(why.starts_with("draft: ") && why.contains("without --speculative_decoding_mode"), "{why}");
    let why = refused("mute", &[("build_config.gather_generation_logits", json!(false))]);
    assert!(why.starts_with("draft: ") && why.contains("--gather_generation_logits"), "{why}");
    let why = refused("small", &[("build_config.max_batch_size", json!(8))]);
    assert!(why.starts_with("draft: ") && why.contains("--max_batch_size 128"), "{why}");
}

#[test]
fn without_a_draft_model_drafts_are_asked_for_by_name() {
    let plain = [("build_config.speculative_decoding_mode", json!(1))];
    let (_built, folder) = built("alone", &plain, 2);
    let folder = folder.unwrap();
    folder.check_pair(None, &Config::default()).unwrap();
    let text = config(r#"{"speculative": {"sources": ["prompt_lookup"]}}"#);
    let why = folder.check_pair(None, &text).unwrap_err().to_string();
    assert!(why.contains("--speculative_decoding_mode=draft_tokens_external"), "{why}");
    let text = config(r#"{"speculative": {"sources": ["prompt_lookup"], "use_logits": true}}"#);
    let why = folder.check_pair(None, &text).unwrap_err().to_string();
    assert!(why.starts_with("speculative.use_logits: "), "{why}");
}
