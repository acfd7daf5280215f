//! What passes of a model take, beside what memory allows.
//!
//!     cargo run --release --features python,llama --example passes -- model.gguf [f16|bf16|q8_0] [threads] [rounds] [case...]
//!
//! A table: milliseconds of a pass of so many rows for each of so many sequences that have so many tokens already, least
//! of the rounds, and how often the model's bytes could have been read meanwhile. The last line tells how fast that is.
//! A case of one's own is `rows,sequences,tokens`.

use llgtrt::config::{Config, KvCacheType, KvHome, KvPlan};
use llgtrt::exec::llama::context::{Context, PASS_TOKENS, Shape, Workers};
use llgtrt::exec::llama::ffi::Model;
use llgtrt::exec::llama::placement::Placement;
use llgtrt::exec::llama::{kv_type, threads};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Rows for each sequence, sequences, tokens that each has.
const CASES: [[u32; 3]; 16] = [
    [1, 1, 128],
    [2, 1, 128],
    [4, 1, 128],
    [8, 1, 128],
    [16, 1, 128],
    [32, 1, 128],
    [1, 4, 128],
    [1, 16, 128],
    [4, 16, 128],
    [1, 1, 1000],
    [8, 1, 1000],
    [32, 1, 1000],
    [1, 16, 1000],
    [128, 1, 0],
    [512, 1, 0],
    [200, 16, 0],
];
/// Most rows of a pass.
const BATCH: u32 = 512;

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: passes model.gguf [f16|bf16|q8_0] [threads] [rounds] [case...]")?;
    let mut config = Config::default();
    match args.next().as_deref() {
        Some("f16") => config.engine.kv_cache_type = KvCacheType::F16,
        Some("bf16") => config.engine.kv_cache_type = KvCacheType::Bf16,
        Some("q8_0") => config.engine.kv_cache_type = KvCacheType::Q8_0,
        Some(other) => return Err(format!("{other} is no type of KV")),
        None => {}
    }
    let mut number =
        |default: u32| args.next().map_or(Ok(default), |a| a.parse().map_err(|e| format!("{a}: {e}")));
    config.engine.threads = number(0)?;
    let rounds = number(7)?;
    let mut cases = args.map(|case| parse(&case)).collect::<Result<Vec<_>, _>>()?;
    if cases.is_empty() {
        cases.extend(CASES);
    }
    let model = Model::load(Path::new(&path), &Placement::default(), &|_| ())?;
    let pools = Workers::team(threads(&config), &[])?;
    let bytes_per_ms = bandwidth(threads(&config)) / 1e3;
    println!("rows  sequences  past        ms   reads");
    for case in cases {
        let ms = measure(&model, &pools, &config, (case, rounds))?;
        let [rows, sequences, past] = case;
        let passes = (rows * sequences).div_ceil(BATCH);
        let reads = ms * bytes_per_ms / model.bytes() as f64 / f64::from(passes);
        println!("{rows:4}  {sequences:9}  {past:4}  {ms:8.2}  {reads:6.2}");
    }
    println!("{} threads read {:.1} GB/s; {} KV", threads(&config), bytes_per_ms / 1e6, kv_type(&config));
    Ok(())
}

fn parse(case: &str) -> Result<[u32; 3], String> {
    let numbers: Result<Vec<u32>, _> = case.split(',').map(str::parse).collect();
    let numbers = numbers.ok().and_then(|numbers| <[u32; 3]>::try_from(numbers).ok());
    numbers
        .filter(|case| case[0] > 0 && case[1] > 0)
        .ok_or(format!("{case} is no case: rows,sequences,tokens"))
}

/// Milliseconds of the fastest round.
fn measure(
    model: &Arc<Model>,
    pools: &Arc<Workers>,
    config: &Config,
    ([rows, sequences, past], rounds): ([u32; 3], u32),
) -> Result<f64, String> {
    let per_slot = (past + rows).next_multiple_of(256);
    let cells = sequences * per_slot;
    let plan = KvPlan { home: KvHome::Slots, sequences, cells, per_slot, total: cells.into() };
    let shape = Shape {
        plan: &plan,
        batch: BATCH,
        pass: PASS_TOKENS,
        kv: kv_type(config),
        paged: true,
        rollback: 0,
        positions: &config.engine,
    };
    let mut context = Context::new(model, &shape, pools)?;
    for sequence in 0..sequences {
        compute(&mut context, sequence..sequence + 1, 0..past)?;
    }
    let mut least = f64::INFINITY;
    // The first round warms up.
    for _ in 0..=rounds {
        for sequence in 0..sequences {
            context.remove(sequence, past);
        }
        let begin = Instant::now();
        compute(&mut context, 0..sequences, past..past + rows)?;
        least = least.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(least)
}

/// Passes over some positions of some sequences. Every row gives scores where a sequence decodes, the last where it reads.
fn compute(
    context: &mut Context,
    sequences: std::ops::Range<u32>,
    positions: std::ops::Range<u32>,
) -> Result<(), String> {
    context.clear();
    let all = positions.len() <= 32;
    for sequence in sequences {
        for position in positions.clone() {
            if context.pushed() == BATCH as usize {
                context.decode().map_err(|e| e.to_string())?;
                context.clear();
            }
            let token = (position * 31 + sequence * 7) % 200;
            context.push(token, position, sequence, all || position + 1 == positions.end);
        }
    }
    if context.pushed() > 0 {
        context.decode().map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Bytes that so many threads read from memory in a second.
fn bandwidth(threads: u32) -> f64 {
    let data = vec![1u64; 1 << 26];
    let mut best: f64 = 0.0;
    for _ in 0..3 {
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for part in data.chunks(data.len().div_ceil(threads as usize)) {
                scope.spawn(move || {
                    std::hint::black_box(part.iter().fold(0u64, |sum, x| sum.wrapping_add(*x)))
                });
            }
        });
        best = best.max(size_of_val(&data[..]) as f64 / begin.elapsed().as_secs_f64());
    }
    best
}
