//! EAGLE-3 heads with random weights: answers are those of the target alone, and what cannot draft is refused.

use super::model::{F16, I64, Q8_0, Tensor, file, key_f32, key_i32s, key_text, key_u32, scratch};
use super::serving::{CONTEXT, SLOTS, alone_on, folder, requests};
use super::{config, demo, homes, one_engine};
use crate::scheduling::world::{Answers, essence, start};
use llgtrt::config::{Config, DraftSource};
use llgtrt::exec::open::open;
use llgtrt::request::RequestSpec;
use std::fs;
use std::path::{Path, PathBuf};

/// What a head claims.
#[derive(Clone)]
struct Claims {
    /// Numbers in a hidden state of its own, and in those of its target.
    width: u64,
    target: u32,
    reads: Vec<u32>,
    layers: u32,
    /// It has token embeddings, and scores of its own: of every third token where `reduced`.
    embeds: bool,
    scores: bool,
    reduced: bool,
    /// Tokens in its vocabulary.
    vocab: u64,
}

impl Claims {
    /// Of the demo target, with nothing of its own that the target has.
    fn demo() -> Self {
        Claims {
            width: 256,
            target: 256,
            reads: vec![1, 2, 4],
            layers: 1,
            embeds: false,
            scores: false,
            reduced: false,
            vocab: 2048,
        }
    }
}

fn tensors(claims: &Claims) -> Vec<Tensor> {
    let Claims { width, vocab, .. } = *claims;
    let scored = if claims.reduced { vocab / 3 } else { vocab };
    let layer = |name: &str, shape: &[u64], kind| (format!("blk.0.{name}.weight"), shape.to_vec(), kind);
    let whole = |name: &str, shape: &[u64], kind| (name.to_owned(), shape.to_vec(), kind);
    let kind = Some(Q8_0);
    let mut all = vec![
        whole("fc.weight", &[3 * u64::from(claims.target), width], Some(F16)),
        whole("output_norm.weight", &[width], None),
        layer("attn_norm", &[width], None),
        layer("attn_norm_2", &[width], None),
        layer("attn_q", &[2 * width, width], kind),
        layer("attn_k", &[2 * width, width / 2], kind),
        layer("attn_v", &[2 * width, width / 2], kind),
        layer("attn_output", &[width, width], kind),
        layer("ffn_norm", &[width], None),
        layer("ffn_gate", &[width, 2 * width], kind),
        layer("ffn_up", &[width, 2 * width], kind),
        layer("ffn_down", &[2 * width, width], kind),
    ];
    all.extend(claims.embeds.then(|| whole("token_embd.weight", &[width, vocab], kind)));
    all.extend(claims.scores.then(|| whole("output.weight", &[width, scored], kind)));
    all.extend(claims.reduced.then(|| whole("d2t", &[scored], Some(I64))));
    all
}

fn keys(claims: &Claims) -> Vec<Vec<u8>> {
    let heads = claims.width as u32 / 64;
    vec![
        key_text("general.architecture", "eagle3"),
        key_u32("eagle3.block_count", claims.layers),
        key_u32("eagle3.context_length", 4096),
        key_u32("eagle3.embedding_length", claims.width as u32),
        key_u32("eagle3.feed_forward_length", 2 * claims.width as u32),
        key_u32("eagle3.attention.head_count", heads),
        key_u32("eagle3.attention.head_count_kv", heads / 2),
        key_u32("eagle3.rope.dimension_count", 64),
        key_f32("eagle3.attention.layer_norm_rms_epsilon", 1e-5),
        key_u32("eagle3.target_hidden_size", claims.target),
        key_i32s("eagle3.target_layers", &claims.reads),
    ]
}

/// Writes a head with the demo's vocabulary.
fn write(name: &str, claims: &Claims) -> PathBuf {
    let keys = [keys(claims), tokenizer(&demo().unwrap())].concat();
    let path = scratch(name);
    fs::write(&path, file(&tensors(claims), &keys, 1.0)).unwrap();
    path
}

/// The keys of a file's vocabulary, as they are.
fn tokenizer(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let short = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let size = |kind| match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        _ => 8,
    };
    let (mut at, mut found) = (24, Vec::new());
    for _ in 0..long(16) {
        let begin = at;
        at += 8 + long(at);
        let name = String::from_utf8(bytes[begin + 8..at].to_vec()).unwrap();
        let kind = short(at);
        at += 4;
        let (kind, count) = if kind == 9 { (short(at), long(at + 4)) } else { (kind, 1) };
        at += if short(begin + 8 + name.len()) == 9 { 12 } else { 0 };
        for _ in 0..count {
            at += if kind == 8 { 8 + long(at) } else { size(kind) };
        }
        if name.starts_with("tokenizer.ggml") {
            found.push(bytes[begin..at].to_vec());
        }
    }
    found
}

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
fn a_layer_drafts_for_a_model_that_carries_a_state() {
    let _turn = one_engine();
    let Some(demo) = demo() else { return };
    let path = scratch("qwen35");
    fs::write(&path, file(&qwen_tensors(), &[qwen_keys(), tokenizer(&demo)].concat(), 1.0)).unwrap();
    let target = path.to_string_lossy();
    let requests = requests(80);
    let want = alone_on(&target, &requests, config(SLOTS, CONTEXT));
    let answers = answers(&target, &requests, &drafting(&path, &OTHERS, config(SLOTS, CONTEXT)));
    // All share one pool, where rows depend on their neighbours in the last bits: a few answers may part at ties.
    let parts = answers.choices.iter().filter(|(key, event)| event.tokens != want[key].tokens).count();
    println!("{parts} of {} answers part", want.len());
    assert!(parts * 20 <= want.len(), "{parts} of {} answers part", want.len());
}

/// Layers of attention, each with its feed-forward part `rest`, then the extra tensors of one for multi-token prediction.
fn glm_tensors() -> Vec<Tensor> {
    let kind = Some(Q8_0);
    let mut all = outer();
    for layer in 0..3 {
        let name = |name: &str| format!("blk.{layer}.{name}");
        let mut add = |key: &str, shape: &[u64], kind| all.push((name(key), shape.to_vec(), kind));
        add("attn_norm.weight", &[64], None);
        add("post_attention_norm.weight", &[64], None);
        add("attn_q.weight", &[64, 64], kind);
        add("attn_k.weight", &[64, 32], kind);
        add("attn_v.weight", &[64, 32], kind);
        add("attn_output.weight", &[64, 64], kind);
        add("ffn_gate_inp.weight", &[64, 4], kind);
        add("exp_probs_b.bias", &[4], None);
        for part in ["ffn_gate", "ffn_up", "ffn_down"] {
            add(&format!("{part}_exps.weight"), &[64, 64, 4], kind);
            add(&format!("{part}_shexp.weight"), &[64, 64], kind);
        }
        if layer == 2 {
            next_tensors(&mut all, layer);
        }
    }
    all
}

/// The tensors of no layer.
fn outer() -> Vec<Tensor> {
    let kind = Some(Q8_0);
    vec![
        ("token_embd.weight".to_owned(), vec![64, 2048], kind),
        ("output_norm.weight".to_owned(), vec![64], None),
        ("output.weight".to_owned(), vec![64, 2048], kind),
    ]
}

fn next_tensors(all: &mut Vec<Tensor>, layer: u32) {
    let name = |name: &str| format!("blk.{layer}.nextn.{name}.weight");
    all.push((name("eh_proj"), vec![128, 64], Some(Q8_0)));
    all.push((name("enorm"), vec![64], None));
    all.push((name("hnorm"), vec![64], None));
}

/// The keys of a small model of this architecture, whose last layer predicts further.
fn small(arch: &str, layers: u32) -> Vec<Vec<u8>> {
    let own = |name: &str| format!("{arch}.{name}");
    vec![
        key_text("general.architecture", arch),
        key_u32(&own("block_count"), layers),
        key_u32(&own("nextn_predict_layers"), 1),
        key_u32(&own("context_length"), 4096),
        key_u32(&own("embedding_length"), 64),
        key_u32(&own("feed_forward_length"), 64),
        key_u32(&own("attention.head_count"), 2),
        key_u32(&own("attention.head_count_kv"), 1),
        key_u32(&own("attention.key_length"), 32),
        key_u32(&own("attention.value_length"), 32),
        key_u32(&own("rope.dimension_count"), 32),
        key_f32(&own("attention.layer_norm_rms_epsilon"), 1e-5),
    ]
}

fn glm_keys() -> Vec<Vec<u8>> {
    let own = |name: &str, n| key_u32(&format!("glm4moe.{name}"), n);
    let experts = vec![
        own("expert_count", 4),
        own("expert_used_count", 2),
        own("expert_feed_forward_length", 64),
        own("expert_shared_count", 1),
    ];
    [small("glm4moe", 3), experts].concat()
}

fn qwen_keys() -> Vec<Vec<u8>> {
    let own = |name: &str, n| key_u32(&format!("qwen35.{name}"), n);
    let states = vec![
        own("full_attention_interval", 2),
        own("ssm.conv_kernel", 4),
        own("ssm.inner_size", 64),
        own("ssm.state_size", 32),
        own("ssm.time_step_rank", 2),
        own("ssm.group_count", 1),
        key_i32s("qwen35.rope.dimension_sections", &[8, 4, 4, 0]),
    ];
    [small("qwen35", 3), states].concat()
}

/// A layer with a state, one with attention, and one for multi-token prediction.
fn qwen_tensors() -> Vec<Tensor> {
    let kind = Some(Q8_0);
    let mut all = outer();
    for layer in 0..3 {
        let name = |name: &str| format!("blk.{layer}.{name}");
        let mut add = |key: &str, shape: &[u64], kind| all.push((name(key), shape.to_vec(), kind));
        add("attn_norm.weight", &[64], None);
        add("post_attention_norm.weight", &[64], None);
        for part in ["ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"] {
            add(part, &[64, 64], kind);
        }
        if layer == 0 {
            add("attn_qkv.weight", &[64, 128], kind);
            add("attn_gate.weight", &[64, 64], kind);
            add("ssm_conv1d.weight", &[4, 128], None);
            add("ssm_dt.bias", &[2], None);
            add("ssm_a", &[2], None);
            add("ssm_beta.weight", &[64, 2], kind);
            add("ssm_alpha.weight", &[64, 2], kind);
            add("ssm_norm.weight", &[32], None);
            add("ssm_out.weight", &[64, 64], kind);
            continue;
        }
        add("attn_q.weight", &[64, 128], kind);
        add("attn_k.weight", &[64, 32], kind);
        add("attn_v.weight", &[64, 32], kind);
        add("attn_output.weight", &[64, 64], kind);
        add("attn_q_norm.weight", &[32], None);
        add("attn_k_norm.weight", &[32], None);
        if layer == 2 {
            next_tensors(&mut all, layer);
        }
    }
    all
}
