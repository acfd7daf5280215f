//! Attention against plain code bit by bit, and against f64.

use super::attend::attend;
use super::attention::{Attend, Job};
use super::cells::Bytes;
use super::floats::{Bf16, F16};
use super::graph::{Graph, Heads};
use super::scalar::Scalar;
use super::tests::workers;
use super::unit::{Attention, Scratch, Unit};
use llama_cpp_sys_2 as sys;
use proptest::prelude::*;
use std::sync::atomic::Ordering;

const TYPES: [sys::ggml_type; 3] = [sys::GGML_TYPE_F16, sys::GGML_TYPE_BF16, sys::GGML_TYPE_Q8_0];
const HIDDEN: u16 = 0xfc00;

fn scalar(ty: sys::ggml_type) -> Attend {
    match ty {
        sys::GGML_TYPE_F16 => attend::<Scalar, F16>,
        sys::GGML_TYPE_BF16 => attend::<Scalar, Bf16>,
        _ => attend::<Scalar, Bytes> as unsafe fn(&Attention, &Unit, &mut Scratch),
    }
}

/// Numbers from −2 to 2.
fn random(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 22) as f32 - 2.0
    }
}

fn outputs(graph: &Graph) -> Vec<u32> {
    let node = graph.node();
    let n = node.ne.iter().product::<i64>() as usize;
    let floats = unsafe { std::slice::from_raw_parts(node.data.cast::<f32>(), n) };
    floats.iter().map(|x| x.to_bits()).collect()
}

prop_compose! {
    /// Causal, with a window, or with holes.
    fn heads()(
        ty in prop::sample::select(&TYPES[..]),
        dims in prop::sample::select(&[32usize, 64, 96, 128, 256][..]),
        tokens in 1usize..20,
        blocks in 1usize..5,
        (kv_heads, group) in (1usize..3, 1usize..6),
        streams in 1usize..3,
        cap in prop::sample::select(&[0f32, 5.0][..]),
        sinks: bool,
        (window, holes) in (prop::sample::select(&[7usize, 40, 1000][..]), 0u64..3),
        seed: u64,
    ) -> Heads {
        let cells = blocks * 32;
        let mut random = random(seed);
        let mut mask = Vec::new();
        for _ in 0..streams {
            for token in 0..tokens {
                let last = (cells * (token + 1) / tokens).min(cells - 1);
                mask.extend((0..cells).map(|cell| {
                    let hole = holes == 1 && random() > 1.0;
                    if cell <= last && cell + window > last && !hole { 0 } else { HIDDEN }
                }));
            }
        }
        Heads { ty, dims, tokens, cells, heads: [kv_heads * group, kv_heads], streams, cap, sinks, mask }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every type, shape and mask, in any units and by any number of threads.
    #[test]
    fn attention_computes_what_plain_code_computes(heads in heads(), each in 1usize..70, seed: u64) {
        let mut graph = Graph::attention(&heads, &mut random(seed));
        let job = unsafe { Job::of(graph.node()) }.unwrap();
        unsafe { job.compute_by(scalar(heads.ty), each) };
        let plain = outputs(&graph);
        for kernel in Job::kernels(heads.ty) {
            unsafe { job.compute_by(kernel, each) };
            prop_assert_eq!(&outputs(&graph), &plain);
        }
        for (threads, team) in workers() {
            let before = super::ATTENTIONS.load(Ordering::Relaxed);
            team.during(|| graph.compute(threads));
            prop_assert!(super::ATTENTIONS.load(Ordering::Relaxed) > before);
            prop_assert_eq!(&outputs(&graph), &plain);
        }
        let (want, got) = (exact(&mut graph, &heads), plain);
        for (want, got) in want.into_iter().zip(got) {
            prop_assert!((want - f64::from(f32::from_bits(got))).abs() < 4e-6, "{} {}", want, f32::from_bits(got));
        }
    }

    /// What a token does not see is as if it were not there, whatever it is.
    #[test]
    fn hidden_cells_change_no_bit(heads in heads(), seed: u64) {
        let mut graph = Graph::attention(&heads, &mut random(seed));
        graph.compute(1);
        let before = outputs(&graph);
        // What no token but the last sees of the first stream is made what is no number.
        let Heads { tokens, cells, .. } = heads;
        let spoiled: Vec<usize> =
            (0..cells).filter(|c| (0..tokens - 1).all(|t| heads.mask[t * cells + c] == HIDDEN)).collect();
        for operand in [1, 2] {
            let row = unsafe { sys::ggml_row_size(heads.ty, heads.dims as i64) };
            let bytes = graph.operand(operand);
            for head in 0..heads.heads[1] {
                for cell in &spoiled {
                    let value = if heads.ty == sys::GGML_TYPE_BF16 { 0xffc0u16 } else { 0xfe00 };
                    bytes[(head * cells + cell) * row..][..2].copy_from_slice(&value.to_ne_bytes());
                }
            }
        }
        graph.compute(1);
        let each = heads.dims * heads.heads[0];
        prop_assert_eq!(&outputs(&graph)[..(tokens - 1) * each], &before[..(tokens - 1) * each]);
        let seen = (0..cells).any(|c| spoiled.contains(&c) && heads.mask[(tokens - 1) * cells + c] != HIDDEN);
        let last = &outputs(&graph)[(tokens - 1) * each..tokens * each];
        prop_assert_eq!(seen, last.iter().any(|x| f32::from_bits(*x).is_nan()));
    }
}

/// In f64, by ggml's decoding of what is there.
fn exact(graph: &mut Graph, heads: &Heads) -> Vec<f64> {
    let Heads { dims, tokens, cells, heads: [n, kv], streams, cap, .. } = *heads;
    let [q, k, v] = [0, 1, 2].map(|i| graph.floats(i));
    let sinks = heads.sinks.then(|| graph.floats(4));
    let mut all = Vec::new();
    for (stream, token, head) in
        (0..streams).flat_map(|s| (0..tokens).flat_map(move |t| (0..n).map(move |h| (s, t, h))))
    {
        let query = &q[((stream * n + head) * tokens + token) * dims..][..dims];
        let cell = |x: &[f32], c: usize| -> Vec<f64> {
            let first = ((stream * kv + head / (n / kv)) * cells + c) * dims;
            x[first..first + dims].iter().map(|x| f64::from(*x)).collect()
        };
        let seen: Vec<usize> =
            (0..cells).filter(|c| heads.mask[(stream * tokens + token) * cells + c] != HIDDEN).collect();
        let score = |c: &usize| {
            let product: f64 = cell(&k, *c).iter().zip(query).map(|(k, q)| k * f64::from(*q)).sum();
            let score = product / (dims as f64).sqrt();
            if cap == 0.0 { score } else { f64::from(cap) * (score / f64::from(cap)).tanh() }
        };
        let weights: Vec<f64> = seen.iter().map(|c| score(c).exp()).collect();
        let sum = weights.iter().sum::<f64>() + sinks.as_ref().map_or(0.0, |s| f64::from(s[head]).exp());
        let mut out = vec![0.0; dims];
        for (c, weight) in seen.iter().zip(weights) {
            out.iter_mut().zip(cell(&v, *c)).for_each(|(out, v)| *out += weight / sum * v);
        }
        all.extend(out);
    }
    all
}

/// Query heads of one KV head are shared out where there are threads for them.
#[test]
fn a_sequence_alone_has_units_for_all_threads() {
    let cases = [([8, 1], 1, 128), ([8, 1], 2, 4), ([8, 1], 16, 2), ([8, 4], 4, 128), ([64, 8], 16, 4)];
    for ([heads, kv_heads], threads, each) in cases {
        let mask = vec![0; 64];
        let heads = Heads {
            ty: sys::GGML_TYPE_F16,
            dims: 64,
            tokens: 1,
            cells: 64,
            heads: [heads, kv_heads],
            streams: 1,
            cap: 0.0,
            sinks: false,
            mask,
        };
        let graph = Graph::attention(&heads, &mut random(1));
        let job = unsafe { Job::of(graph.node()) }.unwrap();
        assert_eq!(job.unit_rows(threads), each, "{heads:?}");
    }
}
