//! Writes small GGUF files (version 3): a Llama with random weights of any type, whole or damaged.

use std::path::{Path, PathBuf};

pub(super) const VOCAB: u64 = 320;
const HEADS: u32 = 2;
const F32: u32 = 0;

/// A type of weights: its number in files, its name there, weights and bytes of a block, and where f16 scales are in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kind {
    number: u32,
    pub(super) name: &'static str,
    block: (u64, usize),
    /// Random bits would be no numbers here, or large ones.
    scales: &'static [usize],
}

const fn kind(number: u32, name: &'static str, block: (u64, usize), scales: &'static [usize]) -> Kind {
    Kind { number, name, block, scales }
}

pub(super) const Q8_0: Kind = kind(8, "Q8_0", (32, 34), &[0]);
pub(super) const F16: Kind = kind(1, "F16", (1, 2), &[]);
/// Types that files of users have.
pub(super) const KINDS: [Kind; 11] = [
    Q8_0,
    F16,
    kind(30, "BF16", (1, 2), &[]),
    kind(2, "Q4_0", (32, 18), &[0]),
    kind(3, "Q4_1", (32, 20), &[0, 2]),
    kind(6, "Q5_0", (32, 22), &[0]),
    kind(7, "Q5_1", (32, 24), &[0, 2]),
    kind(20, "IQ4_NL", (32, 18), &[0]),
    kind(12, "Q4_K", (256, 144), &[0, 2]),
    kind(13, "Q5_K", (256, 176), &[0, 2]),
    kind(14, "Q6_K", (256, 210), &[208]),
];
/// Token ids: those that a head scores.
pub(super) const I64: Kind = kind(27, "I64", (1, 8), &[]);
/// A type that the engine has no kernel of its own for.
pub(super) const Q3_K: Kind = kind(11, "Q3_K", (256, 110), &[108]);

/// What a file claims; the tests damage one claim at a time.
#[derive(Debug, Clone)]
pub(super) struct Claims {
    pub(super) layers: u32,
    pub(super) context: u32,
    /// Head size as a share of the embedding: 2 heads of 32 by default.
    pub(super) heads: u32,
    /// Scale of all weights; NaN makes scores that are no numbers.
    pub(super) scale: f32,
    /// Layers whose weights are in the file.
    pub(super) written: u32,
    /// Of the matrices.
    pub(super) kind: Kind,
    /// Width of the layers; twice that between them.
    pub(super) width: u64,
    /// `general.architecture` and `general.type`.
    pub(super) architecture: &'static str,
    pub(super) general_type: &'static str,
    /// Some tokens end a generation; else the vocabulary is of llama.cpp's kind for tests, which has none that do.
    pub(super) ends: bool,
}

impl Default for Claims {
    fn default() -> Self {
        Claims {
            layers: 2,
            context: 1024,
            heads: HEADS,
            scale: 1.0,
            written: 2,
            kind: Q8_0,
            width: 64,
            architecture: "llama",
            general_type: "model",
            ends: true,
        }
    }
}

/// The whole model, written once for the test run.
pub(super) fn random() -> PathBuf {
    static ONCE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    ONCE.get_or_init(|| write("random", &Claims::default())).clone()
}

/// A model whose matrices are of a type, in rows of 256 and more.
pub(super) fn of_kind(kind: Kind) -> PathBuf {
    write(kind.name, &Claims { kind, width: 256, ..Claims::default() })
}

/// Writes a model under a name of its own.
pub(super) fn write(name: &str, claims: &Claims) -> PathBuf {
    let path = scratch(name);
    std::fs::write(&path, bytes(claims)).unwrap();
    path
}

/// A path for a test's file.
pub(super) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("llama");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{name}-{}.gguf", std::process::id()))
}

/// The file.
pub(super) fn bytes(claims: &Claims) -> Vec<u8> {
    file(&tensors(claims), &keys(claims), claims.scale)
}

/// A tensor's name, shape and type; None: F32.
pub(super) type Tensor = (String, Vec<u64>, Option<Kind>);

/// A file with these tensors and keys.
pub(super) fn file(tensors: &[Tensor], keys: &[Vec<u8>], scale: f32) -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((keys.len() as u64).to_le_bytes());
    keys.iter().for_each(|key| file.extend(key));
    let mut data = Vec::new();
    let mut random = 1u64;
    for (name, shape, kind) in tensors {
        text(&mut file, name);
        file.extend((shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|n| file.extend(n.to_le_bytes()));
        file.extend(kind.map_or(F32, |kind| kind.number).to_le_bytes());
        file.extend((data.len() as u64).to_le_bytes());
        let n: u64 = shape.iter().product();
        // States of a model that carries some must decay.
        let scale = if name.ends_with("ssm_a") { -scale } else { scale };
        weights(&mut data, n, (*kind, scale), &mut random);
        data.resize(data.len().next_multiple_of(32), 0);
    }
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(data);
    file
}

fn tensors(claims: &Claims) -> Vec<Tensor> {
    let Claims { width, kind, .. } = *claims;
    let (kv, hidden, kind) = (width / u64::from(HEADS), 2 * width, Some(kind));
    let mut all = vec![
        ("token_embd.weight".to_owned(), vec![width, VOCAB], kind),
        ("output_norm.weight".to_owned(), vec![width], None),
        ("output.weight".to_owned(), vec![width, VOCAB], kind),
    ];
    for layer in 0..claims.written {
        let shapes = [
            ("attn_norm", vec![width], None),
            ("attn_q", vec![width, width], kind),
            ("attn_k", vec![width, kv], kind),
            ("attn_v", vec![width, kv], kind),
            ("attn_output", vec![width, width], kind),
            ("ffn_norm", vec![width], None),
            ("ffn_gate", vec![width, hidden], kind),
            ("ffn_up", vec![width, hidden], kind),
            ("ffn_down", vec![hidden, width], kind),
        ];
        all.extend(shapes.map(|(name, shape, kind)| (format!("blk.{layer}.{name}.weight"), shape, kind)));
    }
    all
}

fn weights(data: &mut Vec<u8>, n: u64, (kind, scale): (Option<Kind>, f32), random: &mut u64) {
    let Some(Kind { block, scales, name, .. }) = kind else {
        return (0..n).for_each(|_| data.extend(scale.to_le_bytes()));
    };
    let mut next = || {
        *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*random >> 56) as u8
    };
    let begin = data.len();
    // 2^-9, or NaN, as f16.
    let half: u16 = if scale.is_nan() { 0x7e00 } else { 0x1800 };
    for _ in 0..n / block.0 {
        let first = data.len();
        match name {
            // The sign, an exponent of ±2^-4 or so, and a random fraction.
            "F16" => data.extend([next(), 0x28 | next() & 0x87]),
            "BF16" => data.extend([next(), 0x3c | next() & 0x81]),
            // Every third token.
            "I64" => data.extend(((data.len() - begin) as u64 / 8 * 3).to_le_bytes()),
            _ => data.extend((0..block.1).map(|_| next())),
        }
        for scale in scales {
            data[first + scale..first + scale + 2].copy_from_slice(&half.to_le_bytes());
        }
    }
}

fn keys(claims: &Claims) -> Vec<Vec<u8>> {
    let special = if claims.ends { ["<|begin|>", "<|end|>", "<|im_end|>"] } else { ["<0>", "<1>", "<2>"] };
    let named = |i: u64| special.get(i as usize).map_or(format!("t{i}"), |&s| s.to_owned());
    let tokens: Vec<String> = (0..VOCAB).map(|i| if i == 3 { "Ċ".to_owned() } else { named(i) }).collect();
    let own = |name: &str| format!("{}.{name}", claims.architecture);
    let types: Vec<u32> = (0..VOCAB).map(|i| if i < 3 { 3 } else { 1 }).collect();
    vec![
        key_text("general.architecture", claims.architecture),
        key_text("general.type", claims.general_type),
        key_u32(&own("block_count"), claims.layers),
        key_u32(&own("context_length"), claims.context),
        key_u32(&own("embedding_length"), claims.width as u32),
        key_u32(&own("feed_forward_length"), 2 * claims.width as u32),
        key_u32(&own("attention.head_count"), claims.heads),
        key_u32(&own("attention.head_count_kv"), claims.heads / HEADS),
        key_f32(&own("attention.layer_norm_rms_epsilon"), 1e-5),
        key_u32(&own("rope.dimension_count"), (claims.width as u32).checked_div(claims.heads).unwrap_or(0)),
        key_text("tokenizer.ggml.model", if claims.ends { "gpt2" } else { "test" }),
        key_text("tokenizer.ggml.pre", "default"),
        key_texts("tokenizer.ggml.tokens", &tokens),
        key_texts("tokenizer.ggml.merges", &["t 4".to_owned()]),
        key_i32s("tokenizer.ggml.token_type", &types),
        key_u32("tokenizer.ggml.bos_token_id", 0),
        key_u32("tokenizer.ggml.eos_token_id", if claims.ends { 1 } else { u32::MAX }),
        key_text("tokenizer.chat_template", "{{ messages }}"),
    ]
}

fn text(out: &mut Vec<u8>, s: &str) {
    out.extend((s.len() as u64).to_le_bytes());
    out.extend(s.as_bytes());
}

fn key(name: &str, kind: u32) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, name);
    out.extend(kind.to_le_bytes());
    out
}

pub(super) fn key_u32(name: &str, n: u32) -> Vec<u8> {
    [key(name, 4), n.to_le_bytes().to_vec()].concat()
}

pub(super) fn key_f32(name: &str, x: f32) -> Vec<u8> {
    [key(name, 6), x.to_le_bytes().to_vec()].concat()
}

pub(super) fn key_text(name: &str, s: &str) -> Vec<u8> {
    let mut out = key(name, 8);
    text(&mut out, s);
    out
}

fn list(name: &str, kind: u32, n: usize) -> Vec<u8> {
    [key(name, 9), kind.to_le_bytes().to_vec(), (n as u64).to_le_bytes().to_vec()].concat()
}

fn key_texts(name: &str, texts: &[String]) -> Vec<u8> {
    let mut out = list(name, 8, texts.len());
    texts.iter().for_each(|s| text(&mut out, s));
    out
}

pub(super) fn key_i32s(name: &str, numbers: &[u32]) -> Vec<u8> {
    let mut out = list(name, 5, numbers.len());
    numbers.iter().for_each(|n| out.extend(n.to_le_bytes()));
    out
}
