//! Writes EAGLE-3 heads, and models with a layer for multi-token prediction, with random weights and the demo's vocabulary.

use super::demo;
use super::model::{F16, I64, Kind, Q8_0, Tensor, file, key_f32, key_i32s, key_text, key_u32, scratch};
use std::fs;
use std::path::{Path, PathBuf};

/// What a head claims.
#[derive(Clone)]
pub(super) struct Claims {
    /// Numbers in a hidden state of its own, and in those of its target.
    pub(super) width: u64,
    pub(super) target: u32,
    pub(super) reads: Vec<u32>,
    pub(super) layers: u32,
    /// It has token embeddings, and scores of its own: of every third token where `reduced`.
    pub(super) embeds: bool,
    pub(super) scores: bool,
    pub(super) reduced: bool,
    /// Tokens in its vocabulary.
    pub(super) vocab: u64,
}

impl Claims {
    /// Of the demo target, with nothing of its own that the target has.
    pub(super) fn demo() -> Self {
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
pub(super) fn write(name: &str, claims: &Claims) -> PathBuf {
    let keys = [keys(claims), tokenizer(&demo().unwrap())].concat();
    let path = scratch(name);
    fs::write(&path, file(&tensors(claims), &keys, 1.0)).unwrap();
    path
}

/// The keys of a file's vocabulary, as they are.
pub(super) fn tokenizer(path: &Path) -> Vec<Vec<u8>> {
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

/// Three layers, of which the last is for multi-token prediction, each with these tensors and two norms.
fn layers(more: impl Fn(u32) -> Vec<(&'static str, Vec<u64>, Option<Kind>)>) -> Vec<Tensor> {
    let mut all = outer();
    for layer in 0..3 {
        let norms = ["attn_norm.weight", "post_attention_norm.weight"].map(|name| (name, vec![64], None));
        let tensors = more(layer).into_iter().chain(norms);
        all.extend(tensors.map(|(name, shape, kind)| (format!("blk.{layer}.{name}"), shape, kind)));
    }
    next_tensors(&mut all, 2);
    all
}

/// Layers with experts.
pub(super) fn glm_tensors() -> Vec<Tensor> {
    let kind = Some(Q8_0);
    layers(|_| {
        let mut all = attention(64);
        all.push(("ffn_gate_inp.weight", vec![64, 4], kind));
        all.push(("exp_probs_b.bias", vec![4], None));
        let experts = ["ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"];
        all.extend(experts.map(|name| (name, vec![64, 64, 4], kind)));
        let shared = ["ffn_gate_shexp.weight", "ffn_up_shexp.weight", "ffn_down_shexp.weight"];
        all.extend(shared.map(|name| (name, vec![64, 64], kind)));
        all
    })
}

/// The tensors without those of these layers.
pub(super) fn without(layers: &[&str]) -> Vec<Tensor> {
    let mut tensors = glm_tensors();
    tensors.retain(|(name, ..)| !layers.iter().any(|layer| name.starts_with(layer)));
    tensors
}

/// The tensors of no layer.
pub(super) fn outer() -> Vec<Tensor> {
    let kind = Some(Q8_0);
    vec![
        ("token_embd.weight".to_owned(), vec![64, 2048], kind),
        ("output_norm.weight".to_owned(), vec![64], None),
        ("output.weight".to_owned(), vec![64, 2048], kind),
    ]
}

fn attention(queries: u64) -> Vec<(&'static str, Vec<u64>, Option<Kind>)> {
    let kind = Some(Q8_0);
    vec![
        ("attn_q.weight", vec![64, queries], kind),
        ("attn_k.weight", vec![64, 32], kind),
        ("attn_v.weight", vec![64, 32], kind),
        ("attn_output.weight", vec![64, 64], kind),
    ]
}

fn next_tensors(all: &mut Vec<Tensor>, layer: u32) {
    let name = |name: &str| format!("blk.{layer}.nextn.{name}.weight");
    all.push((name("eh_proj"), vec![128, 64], Some(Q8_0)));
    all.push((name("enorm"), vec![64], None));
    all.push((name("hnorm"), vec![64], None));
}

/// The keys of a small model of this architecture, whose last layer predicts further.
pub(super) fn small(arch: &str, layers: u32) -> Vec<Vec<u8>> {
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

pub(super) fn glm_keys() -> Vec<Vec<u8>> {
    let own = |name: &str, n| key_u32(&format!("glm4moe.{name}"), n);
    let experts = vec![
        own("expert_count", 4),
        own("expert_used_count", 2),
        own("expert_feed_forward_length", 64),
        own("expert_shared_count", 1),
    ];
    [small("glm4moe", 3), experts].concat()
}

pub(super) fn qwen_keys() -> Vec<Vec<u8>> {
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

/// A layer with a state, then those with attention.
pub(super) fn qwen_tensors() -> Vec<Tensor> {
    let kind = Some(Q8_0);
    layers(|layer| {
        // Queries, and gates for them.
        let mut all = attention(128);
        all.extend(["attn_q_norm.weight", "attn_k_norm.weight"].map(|name| (name, vec![32], None)));
        if layer == 0 {
            all = vec![
                ("attn_qkv.weight", vec![64, 128], kind),
                ("attn_gate.weight", vec![64, 64], kind),
                ("ssm_conv1d.weight", vec![4, 128], None),
                ("ssm_dt.bias", vec![2], None),
                ("ssm_a", vec![2], None),
                ("ssm_beta.weight", vec![64, 2], kind),
                ("ssm_alpha.weight", vec![64, 2], kind),
                ("ssm_norm.weight", vec![32], None),
                ("ssm_out.weight", vec![64, 64], kind),
            ];
        }
        let forward = ["ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"];
        all.extend(forward.map(|name| (name, vec![64, 64], kind)));
        all
    })
}
