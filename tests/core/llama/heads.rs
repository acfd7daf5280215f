//! EAGLE-3 heads with random weights: answers are those of the target alone, and what cannot draft is refused.

use super::model::{F16, I64, Q8_0, Tensor, file, key_f32, key_i32s, key_text, key_u32, scratch};
use super::serving::{CONTEXT, SLOTS, alone, folder, requests};
use super::{config, demo, one_engine};
use crate::scheduling::world::{essence, start};
use llgtrt::config::{Config, DraftSource};
use llgtrt::exec::open::open;
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

#[test]
fn answers_are_those_of_the_target_alone() {
    let _turn = one_engine();
    if demo().is_none() {
        return;
    }
    let requests = requests(150);
    let want = alone(&requests, config(SLOTS, CONTEXT)).unwrap();
    let lacking = write("lacking", &Claims::demo());
    let own = Claims { width: 128, embeds: true, scores: true, reduced: true, ..Claims::demo() };
    let own = write("own", &own);
    let chunked = Config { max_num_tokens: 40, ..config(SLOTS, CONTEXT) };
    let others = [DraftSource::Forced, DraftSource::Grammar, DraftSource::PromptLookup];
    for config in [
        drafting(&lacking, &[], config(SLOTS, CONTEXT)),
        drafting(&own, &others, chunked),
    ] {
        let live = start(open(&folder().unwrap(), &config, &|_| ()).unwrap(), &config);
        let order: Vec<usize> = (0..requests.len()).map(|i| i * 97 % requests.len()).collect();
        let answers = live.run(&requests, &order, 1);
        let totals = &answers.snapshot.totals;
        let fates = &totals.drafting.sources[&DraftSource::DraftModel];
        println!("{} tokens from prefixes; of the head: {fates:?}", totals.cached_tokens);
        assert!(totals.cached_tokens > 0, "no prefix was reused");
        assert!(fates.accepted > 0, "nothing was accepted");
        for (key, event) in &answers.choices {
            assert_eq!(essence(event), essence(&want[key]), "{key:?}: {:?}", requests[key.0]);
        }
    }
}
