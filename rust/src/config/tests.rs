use super::*;
use crate::error::Error;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn refusal(text: Option<&str>, overrides: &str) -> (String, String) {
    match load(text, overrides) {
        Err(Error::Invalid { what, why, .. }) => (what, why),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn nothing_given_is_the_default() {
    assert_eq!(load(None, "{}"), Ok(Config::default()));
    assert_eq!(load(Some("{}"), "{}"), Ok(Config::default()));
}

#[test]
fn flag_beats_file_beats_default() {
    let file = r#"{ // the batch
        "max_batch_size": 8, /* two */ "server": {"port": 1, "host": "::1"},
    }"#;
    let config = load(Some(file), r#"{"server": {"port": 2}}"#).unwrap();
    assert_eq!((config.max_batch_size, config.server.port, config.server.host.as_str()), (8, 2, "::1"));
    assert_eq!(config.max_queue_size, 1000);
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_eq!(load(Some("\u{feff}{\"max_batch_size\": 3}"), "{}").unwrap().max_batch_size, 3);
}

#[test]
fn unknown_keys_are_refused_with_the_nearest() {
    for (text, name, nearest) in [
        (r#"{"max_batchsize": 1}"#, "max_batchsize", "max_batch_size"),
        (r#"{"engine": {"thread": 1}}"#, "engine.thread", "engine.threads"),
        (r#"{"threads": 1}"#, "threads", "engine.threads"),
        (r#"{"server": {"unknown_format": 1}}"#, "server.unknown_format", "grammar.unknown_format"),
        (r#"{"Server": {}}"#, "Server", "server"),
    ] {
        let (what, why) = refusal(Some(text), "{}");
        assert_eq!((what.as_str(), why), (name, format!("unknown key; the nearest known one is {nearest}")));
        assert_eq!(refusal(None, text).0, name, "as an override");
    }
}

#[test]
fn wrong_types_and_ranges_are_refused_by_name() {
    for (text, name, why) in [
        (r#"{"max_batch_size": "8"}"#, "max_batch_size", "must be a whole number from 1 to 256, not \"8\""),
        (r#"{"max_batch_size": 257}"#, "max_batch_size", "must be a whole number from 1 to 256, not 257"),
        (r#"{"max_queue_size": -1}"#, "max_queue_size", "must be a whole number from 0 to 1000000, not -1"),
        (
            r#"{"max_num_tokens": null}"#,
            "max_num_tokens",
            "must be a whole number from 1 to 1048576, not null",
        ),
        (r#"{"enable_chunked_context": 1}"#, "enable_chunked_context", "must be true or false, not 1"),
        (
            r#"{"kv_cache_free_gpu_mem_fraction": 0}"#,
            "kv_cache_free_gpu_mem_fraction",
            "must be a number above 0 up to 1 or null, not 0.0",
        ),
        (r#"{"kv_cache_max_tokens": 1.5}"#, "kv_cache_max_tokens", "or null, not 1.5"),
        (
            r#"{"kv_cache_max_tokens": 100}"#,
            "kv_cache_max_tokens",
            "from 256 to 1000000000000 or null, not 100",
        ),
        (r#"{"engine": 3}"#, "engine", "must be an object, not 3"),
        (
            r#"{"engine": {"kv_layout": "x"}}"#,
            "engine.kv_layout",
            "one of \"auto\", \"slots\", \"shared\", not \"x\"",
        ),
        (
            r#"{"server": {"port": 65536}}"#,
            "server.port",
            "must be a whole number from 0 to 65535, not 65536",
        ),
        (r#"{"server": {"host": ""}}"#, "server.host", "must be a string that is not empty, not \"\""),
        (r#"{"server": {"api_keys": ["a", 1]}}"#, "server.api_keys[1]", "a string that is not empty, not 1"),
        (r#"{"grammar": {"documents": {"u": 1}}}"#, "grammar.documents.u", "a string, not 1"),
        (r#"{"grammar": {"documents": []}}"#, "grammar.documents", "must be an object, not a list"),
        (r#"{"server": {"api_keys": [""]}}"#, "server.api_keys[0]", "a string that is not empty, not \"\""),
    ] {
        let (what, text) = refusal(Some(text), "{}");
        assert_eq!(what, name);
        assert!(text.ends_with(why), "{name}: {text}");
    }
}

#[test]
fn files_that_are_not_json_are_refused_with_the_place() {
    for text in ["", "[]", "{\"a\": }", "{", "{a: 1}", "{'a': 1}", "{} {}", "null", "{\"port\": NaN}"] {
        assert_eq!(refusal(Some(text), "{}").0, "runtime.json", "{text}");
    }
    assert!(refusal(Some("{\n  \"a\": }"), "{}").1.contains("line 2"));
    assert_eq!(refusal(None, "[]").0, "overrides");
}

#[test]
fn a_number_that_json_cannot_write_is_out_of_range() {
    let mut config = Config::default();
    config.server.send_timeout = f64::NAN;
    assert!(matches!(config.validate(), Err(Error::Invalid { what, .. }) if what == "server.send_timeout"));
}

#[test]
fn keys_without_effect_are_found_in_the_file() {
    let known = schema::names(&schema::root(), "");
    assert!(IGNORED_ON_LLAMA.iter().all(|key| known.iter().any(|name| name == key)));
    let text = r#"{"event_buffer_max_size": 0, "max_batch_size": 2, "enable_batch_size_tuning": true}"#;
    assert_eq!(Config::ignored_keys_set(Some(text)), ["enable_batch_size_tuning", "event_buffer_max_size"]);
    assert!(Config::ignored_keys_set(None).is_empty());
    let saved = print(&Config::default());
    assert!(
        Config::ignored_keys_set(Some(&saved)).is_empty(),
        "a saved configuration starts without notices"
    );
}

#[test]
fn every_key_is_printed_with_one_comment() {
    let printed = print(&Config::default());
    let lines: Vec<_> = printed.lines().map(str::trim).collect();
    let keys = lines.iter().enumerate().filter(|(_, line)| line.starts_with('"')).map(|(index, _)| index);
    assert!(keys.clone().all(|index| lines[index - 1].len() > 4 && lines[index - 1].starts_with("// ")));
    let comments = lines.iter().filter(|line| line.starts_with("//")).count();
    assert_eq!((keys.count(), comments), (schema::names(&schema::root(), "").len(), comments));
    assert!(printed.contains("// Most sequences that run at the same time."), "{printed}");
}

/// Values that the key described by `schema` accepts; for an object, one with every member drawn.
fn accepted(schema: &Value) -> BoxedStrategy<Value> {
    let text = |least: f64| {
        prop::collection::vec(any::<char>(), least as usize..6)
            .prop_map(|text| json!(String::from_iter(text)))
    };
    if let Some(members) = schema.get("properties").and_then(Value::as_object) {
        let members: Vec<_> = members.iter().map(|(key, sub)| (Just(key.clone()), accepted(sub))).collect();
        return members.prop_map(|members| Value::Object(Map::from_iter(members))).boxed();
    }
    const URI: &str = "http://h/a.json";
    if let Some(values) = schema::member(schema, URI) {
        let member = (Just(URI.to_owned()), accepted(values));
        return prop::collection::vec(member, 0..2)
            .prop_map(|members| Value::Object(Map::from_iter(members)))
            .boxed();
    }
    let limit = |keyword| schema::limit(schema, keyword);
    let value = if let Some(choices) = schema::choices(schema) {
        let choices: Vec<_> = choices.into_iter().map(|choice| json!(choice)).collect();
        prop::sample::select(choices).boxed()
    } else if let Some(items) = schema.get("items") {
        prop::collection::vec(accepted(items), 0..3).prop_map(Value::Array).boxed()
    } else if schema::has_type(schema, "object") {
        Just(json!({"any": [1, null]})).boxed()
    } else if schema::has_type(schema, "boolean") {
        any::<bool>().prop_map(Value::Bool).boxed()
    } else if schema::has_type(schema, "string") {
        text(limit("minLength").unwrap_or(0.0)).boxed()
    } else {
        let (least, most) = (limit("minimum").unwrap_or(f64::MIN_POSITIVE), limit("maximum").unwrap());
        match schema::has_type(schema, "integer") {
            true => (least as u64..=most as u64).prop_map(|number| json!(number)).boxed(),
            false => (least..=most).prop_map(|number| json!(number)).boxed(),
        }
    };
    if schema::has_type(schema, "null") { prop_oneof![Just(Value::Null), value].boxed() } else { value }
}

/// The same with keys at odds with each other put right.
fn consistent(mut drawn: Value) -> Value {
    let speculative = &mut drawn["speculative"];
    let missing: Vec<Value> = ["draft_model", "mlp_speculator"]
        .into_iter()
        .filter(|name| speculative[*name].is_null())
        .map(Value::from)
        .collect();
    speculative["draft_target_model_config"] = Value::Null;
    // At odds with rejection, and never empty.
    speculative["synthetic_acceptance"] = Value::Null;
    if speculative["acceptance"] != "auto" {
        speculative["use_logits"] = Value::Null;
    }
    let tensor_split = drawn["engine"]["main_gpu"].is_null().then(|| serde_json::json!([0.5, 3.0]));
    drawn["engine"]["tensor_split"] = tensor_split.into();
    if drawn["engine"]["rope_scaling"] == "none" {
        drawn["engine"]["rope_freq_scale"] = Value::Null;
    }
    if drawn["engine"]["gpu_layers"] == 0 {
        drawn["engine"]["gpu_layers"] = Value::Null;
    }
    let speculative = &mut drawn["speculative"];
    if let Some(sources) = speculative["sources"].as_array_mut() {
        let drawn = std::mem::take(sources);
        let fits = |(i, s): &(usize, &Value)| !drawn[..*i].contains(s) && !missing.contains(s);
        *sources = drawn.iter().enumerate().filter(fits).map(|(_, s)| s.clone()).collect();
    }
    let parallel = &mut drawn["parallel"];
    for (size, devices) in [("tp_size", "devices"), ("draft_tp_size", "draft_devices")] {
        if let Some(named) = parallel[devices].as_array_mut().filter(|named| !named.is_empty()) {
            let drawn = std::mem::take(named);
            *named = drawn
                .iter()
                .enumerate()
                .filter(|(i, d)| !drawn[..*i].contains(d))
                .map(|(_, d)| d.clone())
                .collect();
            parallel[size] = Value::Null;
        } else {
            parallel[devices] = Value::Null;
        }
    }
    let speculative = &mut drawn["speculative"];
    let lookup = &mut speculative["prompt_lookup"];
    let ends = [&lookup["min_ngram"], &lookup["max_ngram"]].map(|n| n.as_u64().unwrap());
    (lookup["min_ngram"], lookup["max_ngram"]) = (ends[0].min(ends[1]).into(), ends[0].max(ends[1]).into());
    drawn
}

#[test]
fn keys_at_odds_are_refused() {
    for (file, name) in [
        (r#"{"speculative": {"prompt_lookup": {"min_ngram": 7}}}"#, "speculative.prompt_lookup.min_ngram"),
        (r#"{"speculative": {"sources": ["prompt_lookup", "prompt_lookup"]}}"#, "speculative.sources"),
        (r#"{"speculative": {"sources": ["draft_model"]}}"#, "speculative.sources"),
        (r#"{"speculative": {"sources": ["mlp_speculator"]}}"#, "speculative.sources"),
        (
            r#"{"speculative": {"synthetic_acceptance": [0.5], "use_logits": true}}"#,
            "speculative.synthetic_acceptance",
        ),
        (r#"{"speculative": {"synthetic_acceptance": []}}"#, "speculative.synthetic_acceptance"),
        (r#"{"speculative": {"synthetic_acceptance": [0.5, 1.5]}}"#, "speculative.synthetic_acceptance[1]"),
        (r#"{"speculative": {"acceptance": "exact", "use_logits": true}}"#, "speculative.use_logits"),
        (r#"{"speculative": {"acceptance": "rejection", "use_logits": false}}"#, "speculative.use_logits"),
        (r#"{"engine": {"main_gpu": 0, "tensor_split": [1]}}"#, "engine.tensor_split"),
        (r#"{"engine": {"main_gpu": 0, "gpu_layers": 0}}"#, "engine.main_gpu"),
        (r#"{"engine": {"tensor_split": [1], "gpu_layers": 0}}"#, "engine.tensor_split"),
        (r#"{"engine": {"rope_scaling": "none", "rope_freq_scale": 0.5}}"#, "engine.rope_freq_scale"),
        (r#"{"engine": {"tensor_split": [0, 0]}}"#, "engine.tensor_split"),
        (r#"{"engine": {"tensor_split": [1, -1]}}"#, "engine.tensor_split[1]"),
    ] {
        let refused = load(Some(file), "{}");
        assert!(matches!(&refused, Err(Error::Invalid { what, .. }) if what == name), "{refused:?}");
    }
}

#[test]
fn the_reference_s_list_sets_length_and_acceptance() {
    let file = |list: &str, more: &str| {
        format!(r#"{{"speculative": {{"draft_target_model_config": "{list}"{more}}}}}"#)
    };
    let config = load(Some(&file("[4, [0], [1], True]", "")), "{}").unwrap();
    assert_eq!(config.speculative.max_draft_len, Some(4));
    assert_eq!(config.speculative.acceptance(), Acceptance::Rejection);
    assert_eq!(load(Some(&print(&config)), "{}").unwrap(), config);
    let config = load(Some(&file("[7,[0],[0],False]", "")), "{}").unwrap();
    assert_eq!(
        (config.speculative.max_draft_len, config.speculative.acceptance()),
        (Some(7), Acceptance::Exact)
    );
    let list = r#"{"speculative": {"draft_target_model_config": [5, [0], [0], true]}}"#;
    let config = load(Some(list), "{}").unwrap();
    assert_eq!((config.speculative.max_draft_len, config.speculative.use_logits), (Some(5), Some(true)));
    assert_eq!(load(Some(&print(&config)), "{}").unwrap(), config);
    let number = r#"{"speculative": {"draft_target_model_config": 5}}"#;
    assert_eq!(refusal(Some(number), "{}").0, "speculative.draft_target_model_config");
    for (text, name) in [
        (file("[4]", ""), "speculative.draft_target_model_config"),
        (file("[4, 0, 1, True]", ""), "speculative.draft_target_model_config"),
        (file("[4, [0], [1, 1], True]", ""), "parallel.devices"),
        (file("[4, [], [1], True]", ""), "speculative.draft_target_model_config"),
        (file("[4, [0], [0], True]", r#", "max_draft_len": 5"#), "speculative.max_draft_len"),
        (file("[99, [0], [0], True]", ""), "speculative.max_draft_len"),
        (file("[4, [0], [0], True]", r#", "use_logits": false"#), "speculative.use_logits"),
        (file("[4, [0], [0], True]", r#", "acceptance": "exact""#), "speculative.use_logits"),
    ] {
        assert_eq!(refusal(Some(&text), "{}").0, name, "{text}");
    }
}

/// Devices of target and draft, and whether one of them is split.
fn sizes(file: &str, flags: &str) -> (u32, u32, bool) {
    let parallel = load(Some(file), flags).unwrap().parallel;
    (parallel.target_size(), parallel.draft_size(), parallel.splits(true))
}

#[test]
fn sizes_device_lists_and_flags_say_the_same() {
    for (file, flags, found) in [
        ("{}", "{}", (1, 1, false)),
        (r#"{"parallel": {"tp_size": 2}}"#, "{}", (2, 2, true)),
        (r#"{"parallel": {"tp_size": 2, "draft_tp_size": 1}}"#, "{}", (2, 1, true)),
        (r#"{"parallel": {"draft_devices": [3, 4]}}"#, "{}", (1, 2, true)),
        (r#"{"speculative": {"draft_target_model_config": "[4, [0], [1], False]"}}"#, "{}", (1, 1, false)),
        (r#"{"speculative": {"draft_target_model_config": [4, [0], [0, 1], false]}}"#, "{}", (2, 1, true)),
        (
            r#"{"speculative": {"draft_target_model_config": "[4, [0], [1], False]"}}"#,
            r#"{"parallel": {"tp_size": 2, "draft_tp_size": 2}}"#,
            (2, 2, true),
        ),
        (r#"{"parallel": {"tp_size": 4}}"#, r#"{"parallel": {"devices": [0, 2]}}"#, (2, 2, true)),
    ] {
        assert_eq!(sizes(file, flags), found, "{file} {flags}");
    }
    let config =
        load(Some(r#"{"speculative": {"draft_target_model_config": [4, [0], [2, 1], true]}}"#), "{}");
    let parallel = config.unwrap().parallel;
    assert_eq!((parallel.devices, parallel.draft_devices), (Some(vec![2, 1]), Some(vec![0])));
}

#[test]
fn ranks_at_odds_are_refused() {
    for (group, name, why) in [
        (r#""tp_size": 17"#, "parallel.tp_size", "from 1 to 16"),
        (r#""devices": []"#, "parallel.devices", "1 to 16"),
        (r#""devices": [1, 1]"#, "parallel.devices", "names device 1 twice"),
        (r#""devices": [0, 1], "tp_size": 3"#, "parallel.devices", "tp_size is 3; leave one of them out"),
        (r#""draft_devices": [0], "draft_tp_size": 2"#, "parallel.draft_devices", "draft_tp_size is 2"),
    ] {
        let (what, text) = refusal(Some(&format!(r#"{{"parallel": {{{group}}}}}"#)), "{}");
        assert_eq!(what, name);
        assert!(text.contains(why), "{name}: {text}");
    }
}

#[test]
fn a_flag_comes_before_the_list_in_the_file() {
    let file = r#"{"speculative": {"draft_target_model_config": [4, [0], [1], true]}}"#;
    let flags = r#"{"speculative": {"max_draft_len": 8, "use_logits": false}}"#;
    let config = load(Some(file), flags).unwrap();
    assert_eq!((config.speculative.max_draft_len, config.speculative.use_logits), (Some(8), Some(false)));
    assert_eq!(load(Some(&print(&config)), "{}").unwrap(), config);
    let list = r#"{"speculative": {"draft_target_model_config": "[3, [0], [0], False]"}}"#;
    let config = load(Some(file), list).unwrap();
    assert_eq!((config.speculative.max_draft_len, config.speculative.use_logits), (Some(3), Some(false)));
}

#[test]
fn a_draft_folder_may_say_something_about_kv_and_threads() {
    let file = std::env::temp_dir().join(format!("llgtrt-draft-{}.json", std::process::id()));
    let target = Config { max_batch_size: 7, ..Config::default() };
    let read = |text: &str| {
        std::fs::write(&file, text).unwrap();
        for_draft(&target, &file)
    };
    let own =
        read(r#"{"kv_cache_max_tokens": 500, "engine": {"threads": 3, "kv_cache_type": "bf16"}}"#).unwrap();
    assert_eq!((own.max_batch_size, own.kv_cache_max_tokens), (7, Some(500)));
    assert_eq!((own.engine.threads, own.engine.kv_cache_type), (3, KvCacheType::Bf16));
    let own = read(r#"{"engine": {"gpu_layers": 3, "main_gpu": 1}}"#).unwrap();
    assert_eq!((own.engine.gpu_layers, own.engine.main_gpu), (Some(3), Some(1)));
    // All that an engine folder of TensorRT-LLM's may say.
    let theirs = r#"{"guaranteed_no_evict": true, "max_batch_size": 4, "max_num_tokens": 1024, "max_queue_size": 9,
        "enable_chunked_context": false, "enable_kv_cache_reuse": false, "kv_cache_free_gpu_mem_fraction": 0.9,
        "kv_cache_host_memory_megabytes": 5, "kv_cache_onboard_blocks": false, "enable_batch_size_tuning": true,
        "enable_max_num_tokens_tuning": true, "cross_kv_cache_fraction": 0.5, "secondary_offload_min_priority": 35,
        "event_buffer_max_size": 16}"#;
    let own = read(theirs).unwrap();
    let mut wanted = target.clone();
    (wanted.kv_cache_free_gpu_mem_fraction, wanted.kv_cache_host_memory_megabytes) = (Some(0.9), Some(5));
    wanted.kv_cache_onboard_blocks = false;
    assert_eq!(own, wanted);
    for (text, word) in [
        (r#"{"max_batch_size": 0}"#, "max_batch_size"),
        (r#"{"max_batch_sizes": 4}"#, "max_batch_size"),
        (r#"{"engine": {"threads": 1, "context": 5}}"#, "engine.context"),
        (r#"{"engine": {"threads": -1}}"#, "engine.threads"),
        (r#"{"engine": {"main_gpu": 1, "tensor_split": [1]}}"#, "engine.tensor_split"),
        (r#"{"kv_cache_max_token": 4}"#, "kv_cache_max_tokens"),
        ("{", "not valid JSON"),
    ] {
        let Err(Error::Invalid { what, why, .. }) = read(text) else { panic!("{text} was taken") };
        assert!(what == file.display().to_string() && why.contains(word), "{what}: {why}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(for_draft(&target, &file).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn printing_and_reading_gives_the_same(drawn in accepted(&schema::root()).prop_map(consistent)) {
        let config = load(None, &drawn.to_string()).unwrap();
        prop_assert_eq!(serde_json::to_value(&config).unwrap(), drawn);
        prop_assert_eq!(load(Some(&print(&config)), "{}").unwrap(), config);
    }
}
