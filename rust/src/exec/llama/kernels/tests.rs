//! The kernels against plain code bit by bit, and ggml's graphs with them against ggml's own numbers.

use super::activations::{Packing, Sums};
use super::formats::CHUNK;
use super::graph::{Graph, Operand};
use super::isa::Isa;
use super::known;
use super::lanes::TOKENS;
use super::product::{Product, TILE, Tokens, sum_bytes};
use super::table::{ENTRIES, Entry, Tiles};
use super::team::Team;
use llama_cpp_sys_2 as sys;
use proptest::prelude::*;
use std::ptr;
use std::sync::atomic::Ordering;

/// A type's kernels, for rows of 256.
fn entry(ty: sys::ggml_type) -> &'static Entry {
    let Some(entry) = Entry::of(ty, 256) else { panic!("no kernel for type {ty}") };
    entry
}

/// Numbers from −1 to 1, some small, some zero.
fn floats(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut float = || (next() % 2001) as f32 / 1000.0 - 1.0;
    (0..n).map(|i| if i % 97 < 3 { 0.0 } else { float() * if i % 41 == 0 { 1e-3 } else { 1.0 } }).collect()
}

/// Rows of weights in a file's form.
fn quantised(ty: sys::ggml_type, rows: usize, row: usize, seed: u64) -> Vec<u8> {
    let floats = floats(seed, rows * row);
    let mut bytes = vec![0u8; unsafe { sys::ggml_row_size(ty, row as i64) } * rows];
    let written = unsafe {
        let to = bytes.as_mut_ptr().cast();
        // Some types ask how much each weight matters.
        let alike = vec![1f32; row];
        sys::ggml_quantize_chunk(ty, floats.as_ptr(), to, 0, rows as i64, row as i64, alike.as_ptr())
    };
    assert_eq!(written, bytes.len());
    bytes
}

/// Room for sums, aligned as a vector is.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    _floats: [f32; TILE],
}

/// Outputs of all tokens, [token][row], of the plain kernel or of others.
fn outputs(
    (weights, ty, rows): (&[u8], sys::ggml_type, usize),
    (values, count, chunks): (&[f32], usize, usize),
    (parts, kernel): (usize, Tiles),
) -> Vec<f32> {
    let entry = entry(ty);
    let mut out = vec![f32::NAN; rows * count];
    let mut records = vec![0u8; entry.record_bytes(chunks, count)];
    let tokens = Tokens {
        count,
        picked: ptr::null(),
        from: values.as_ptr(),
        from_strides: [chunks * CHUNK, 0],
        from_slots: usize::MAX,
        to: out.as_mut_ptr(),
        to_strides: [rows, 0],
    };
    let stride = weights.len() / rows;
    let records = records.as_mut_ptr();
    let product = Product { weights: weights.as_ptr(), rows, stride, chunks, tokens, records };
    let mut sums = vec![Line { _floats: [0.0; TILE] }; sum_bytes(count, chunks) / size_of::<Line>()];
    unsafe {
        let records = entry.records(chunks);
        (entry.pack)(&product, 0..records / 2);
        (entry.pack)(&product, records / 2..records);
        let tiles = rows.div_ceil(TILE);
        for part in 0..parts {
            let range = tiles * part / parts * TILE..rows.min(tiles * (part + 1) / parts * TILE);
            kernel(&product, range, sums.as_mut_ptr().cast());
        }
    }
    out
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// All kernels of a type give the bits of plain code, and of the last token alone.
fn compare(
    ty: sys::ggml_type,
    (rows, chunks, count): (usize, usize, usize),
    (parts, seed): (usize, u64),
) -> Result<(), TestCaseError> {
    let weights = quantised(ty, rows, chunks * CHUNK, seed);
    let values = floats(!seed, count * chunks * CHUNK);
    let weights = (&weights[..], ty, rows);
    let plain = outputs(weights, (&values, count, chunks), (1, entry(ty).plain));
    for (number, kernel) in entry(ty).kernels().into_iter().enumerate() {
        let got = outputs(weights, (&values, count, chunks), (parts, kernel));
        prop_assert_eq!(bits(&got), bits(&plain), "type {}, kernel {}", ty, number);
    }
    let last = &values[(count - 1) * chunks * CHUNK..];
    prop_assert_eq!(
        bits(&outputs(weights, (last, 1, chunks), (1, entry(ty).plain))),
        bits(&plain[(count - 1) * rows..])
    );
    Ok(())
}

/// Chunks of some blocks: rows of several panels, and of pieces of one.
fn chunks(ty: sys::ggml_type, blocks: usize) -> usize {
    let unit = unsafe { sys::ggml_blck_size(ty) }.max(32) as usize;
    blocks * unit / CHUNK * if unit == CHUNK { 3 } else { 1 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Every type, odd sizes, any split.
    #[test]
    fn vectors_compute_what_plain_code_computes(
        rows in TILE..80,
        blocks in 1usize..4,
        count in 1usize..22,
        parts in 1usize..4,
        seed: u64,
    ) {
        let ty = ENTRIES[seed as usize % ENTRIES.len()].ty;
        compare(ty, (rows, chunks(ty, blocks), count), (parts, seed))?;
    }

    /// Token counts that are no multiple of a tile leave some tokens to the vectors.
    #[test]
    fn tiles_compute_what_plain_code_computes(
        rows in TILE..40,
        blocks in 1usize..3,
        count in TOKENS - 1..3 * TOKENS,
        seed: u64,
    ) {
        // Every other type.
        for ty in ENTRIES.iter().map(|entry| entry.ty).skip(seed as usize % 2).step_by(2) {
            compare(ty, (rows, chunks(ty, blocks), count), (2, seed))?;
        }
    }

    /// Packed activations are rounded to nearest, ties to even, and their sums are theirs.
    #[test]
    fn activations_are_packed_as_described(
        seed: u64,
        size in prop::sample::select(&[0f32, 1e-20, 1.0, 1e20][..]),
        sums in prop::sample::select(&[Sums::Times(-8), Sums::Scaled, Sums::Each(16), Sums::Each(32)][..]),
    ) {
        let count = if matches!(sums, Sums::Each(_)) { 256 } else { CHUNK };
        let values: Vec<f32> = floats(seed, count).into_iter().map(|x| x * size).collect();
        if Isa::here().is_none() {
            eprintln!("skipped: no instruction set with kernels");
            return Ok(());
        }
        let packing = Packing { count, sums };
        let mut packed = vec![0u8; packing.bytes()];
        unsafe { write(packing, values.as_ptr(), packed.as_mut_ptr()) };
        let most = values.iter().fold(0f32, |most, x| most.max(x.abs()));
        let want = values.iter().map(|x| if most > 0.0 { (x * (127.0 / most)).round_ties_even() as i8 } else { 0 });
        let want: Vec<i8> = want.collect();
        let sum = |bytes: &[i8]| bytes.iter().map(|x| i32::from(*x)).sum::<i32>();
        let mut record: Vec<u8> = want.iter().map(|x| x.cast_unsigned()).collect();
        record.extend((most / 127.0).to_ne_bytes());
        match sums {
            Sums::Times(factor) => record.extend((factor * sum(&want)).to_ne_bytes()),
            Sums::Scaled => record.extend((most / 127.0 * sum(&want) as f32).to_ne_bytes()),
            Sums::Each(n) => record.extend(want.chunks(n).flat_map(|bytes| (-sum(bytes) as i16).to_ne_bytes())),
        }
        prop_assert_eq!(&packed[..record.len()], &record[..]);
    }
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn write(packing: Packing, values: *const f32, to: *mut u8) {
    unsafe { packing.write(values, to) }
}

/// Graphs of ggml take these kernels, with any number of threads, and give their bits; ggml's own decoding of the weights
/// gives the same numbers within the rounding of sums, where activations are packed without any.
#[test]
fn graphs_of_ggml_use_the_kernels() {
    for ty in ENTRIES.iter().map(|entry| entry.ty) {
        let (rows, row, count) = (70, 512, 5);
        let weights = quantised(ty, rows, row, 7);
        let values: Vec<f32> = (0..row * count).map(|i| known::value(i) as f32).collect();
        let plain = outputs((&weights, ty, rows), (&values, count, row / CHUNK), (1, entry(ty).plain));
        for (threads, team) in workers() {
            let before = super::PRODUCTS.load(Ordering::Relaxed);
            let operand = Operand { ty, shape: [row, rows, 1], bytes: &weights };
            let got = team.during(|| Graph::product(&operand, &values).unwrap().compute(threads));
            assert!(super::PRODUCTS.load(Ordering::Relaxed) > before);
            assert_eq!(bits(&got), bits(&plain), "type {ty}, {threads} threads, a team of {}", team.size());
        }
        let exact = exact_product(&weights, (ty, rows, row), &values);
        for (got, (want, size)) in plain.iter().zip(exact) {
            assert!((f64::from(*got) - want).abs() <= size * 2e-6, "type {ty}: {got} for {want} of {size}");
        }
    }
}

/// However many tokens and experts there are, threads wait for each other once in each product.
#[test]
fn a_product_is_one_job() {
    if Isa::here().is_none() {
        eprintln!("skipped: no instruction set with kernels");
        return;
    }
    let (ty, row, rows) = (sys::GGML_TYPE_Q4_K, 1024, 64);
    let team = Team::new(3, &[]).unwrap();
    let jobs = |graph: &Graph| {
        let before = team.jobs();
        team.during(|| graph.compute(1));
        team.jobs() - before
    };
    for count in [1, 7, 40] {
        let (weights, values) = (quantised(ty, rows, row, 1), floats(2, row * count));
        let operand = Operand { ty, shape: [row, rows, 1], bytes: &weights };
        assert_eq!(jobs(&Graph::product(&operand, &values).unwrap()), 1, "{count} tokens");
    }
    let (experts, used, count) = (4, 2, 12);
    let (weights, values) = (quantised(ty, rows * experts, row, 1), floats(2, row * count));
    let ids: Vec<i32> = (0..count as i32).flat_map(|token| [token % 3, 3]).collect();
    let operand = Operand { ty, shape: [row, rows, experts], bytes: &weights };
    assert_eq!(jobs(&Graph::experts(&operand, (&values, 1), (&ids, used))), experts as u64);
}

/// In f64 by ggml's decoding: each output, and the root of the sum of its terms' squares.
fn exact_product(
    weights: &[u8],
    (ty, rows, row): (sys::ggml_type, usize, usize),
    values: &[f32],
) -> Vec<(f64, f64)> {
    let Some(decode) = (unsafe { (*sys::ggml_get_type_traits(ty)).to_float }) else { panic!("type {ty}") };
    let mut decoded = vec![0f32; rows * row];
    unsafe { decode(weights.as_ptr().cast(), decoded.as_mut_ptr(), (rows * row) as i64) };
    let mut all = Vec::new();
    for token in values.chunks(row) {
        for weights in decoded.chunks(row) {
            let terms = weights.iter().zip(token).map(|(w, a)| f64::from(*w) * f64::from(*a));
            let (sum, squares) = terms.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
            all.push((sum, f64::sqrt(squares).max(1.0)));
        }
    }
    all
}

/// Experts of a mixture: each token's slots take their expert's matrix, with the bits of a product by it alone.
#[test]
fn experts_of_mixtures_use_the_kernels() {
    let (row, rows, experts, used, count) = (256, 48, 4, 2, 9);
    for ty in [sys::GGML_TYPE_Q8_0, sys::GGML_TYPE_Q6_K, sys::GGML_TYPE_F16] {
        let weights = quantised(ty, rows * experts, row, 3);
        let each = weights.len() / experts;
        let ids: Vec<i32> = (0..count).flat_map(|t| [t % 4, (t + 1 + t % 3) % 4]).collect();
        for slots in [1, used] {
            let values = floats(5, row * slots * count as usize);
            for (threads, team) in workers() {
                let operand = Operand { ty, shape: [row, rows, experts], bytes: &weights };
                let graph = Graph::experts(&operand, (&values, slots), (&ids, used));
                let got = team.during(|| graph.compute(threads));
                for (i, id) in ids.iter().enumerate() {
                    let matrix = &weights[*id as usize * each..][..each];
                    let at = (i / used * slots + i % used % slots) * row;
                    let alone = outputs(
                        (matrix, ty, rows),
                        (&values[at..at + row], 1, row / CHUNK),
                        (1, entry(ty).plain),
                    );
                    assert_eq!(
                        bits(&got[i * rows..][..rows]),
                        bits(&alone),
                        "type {ty}, {threads} threads, a team of {}, {i}",
                        team.size()
                    );
                }
            }
        }
    }
}

/// Numbers of threads, as pairs: of ggml's own, and of a team of ours. In each pair one of the two is 1.
pub(super) fn workers() -> Vec<(i32, Team)> {
    let all = [(1, 1), (2, 1), (3, 1), (1, 2), (1, 5)];
    all.map(|(threads, team)| (threads, Team::new(team, &[]).expect("threads"))).into()
}

/// Nodes without products have the same bits by a team as by one thread.
#[test]
fn light_nodes_are_shared() {
    let made = |team: &Team| {
        let mut random = floats(4, 200_000).into_iter();
        let graph = Graph::light(&mut || random.next().unwrap());
        team.during(|| graph.compute(1))
    };
    let alone = made(&Team::new(1, &[]).unwrap());
    assert!(alone.iter().all(|x| x.is_finite()) && alone.iter().any(|x| *x != alone[0]));
    for threads in [2, 3, 8] {
        assert_eq!(bits(&made(&Team::new(threads, &[]).unwrap())), bits(&alone), "{threads} threads");
    }
}

/// Weights that are no numbers, and values that are none, make outputs that are none; nothing else does.
#[test]
fn what_is_no_number_stays_so() {
    let weights = quantised(sys::GGML_TYPE_Q8_0, 16, 64, 1);
    for bad in [f32::NAN, f32::INFINITY] {
        let mut values = floats(2, 128);
        values[70] = bad;
        let Some(isa) = Isa::here() else { return };
        let kernel = entry(sys::GGML_TYPE_Q8_0).tiles(isa);
        let got = outputs((&weights, sys::GGML_TYPE_Q8_0, 16), (&values, 2, 2), (1, kernel));
        assert!(got[..16].iter().all(|x| x.is_finite()) && got[16..].iter().all(|x| x.is_nan()), "{got:?}");
    }
}

/// The check at start sees one wrong weight, key, value or visible cell.
#[test]
fn a_planted_fault_is_found() {
    assert_eq!(super::check(), Ok(()));
    let (mut weights, values) = known::product();
    weights[40] ^= 1;
    assert!(known::compare_product(&weights, &values).is_err());
    let (queries, kv) = known::attention();
    assert_eq!(known::compare_attention(&queries, &kv), Ok(()));
    for (operand, place) in [(0, 5 * 64 + 5), (1, 5 * 64), (2, 5)] {
        let mut spoilt = kv.clone();
        // 0 as 1 or the other way round, another value, a cell that is hidden.
        spoilt[operand][place] ^= [0x3c00, 0x0400, 0xfc00][operand];
        assert!(known::compare_attention(&queries, &spoilt).is_err(), "{operand}");
    }
}

/// The variable for development takes what this processor has.
#[test]
fn instructions_are_chosen_by_name() {
    let widest = Isa::all_here().next();
    assert_eq!(Isa::chosen(None), Ok(widest));
    assert_eq!(Isa::chosen(Some("stock")), Ok(None));
    for isa in Isa::all_here() {
        assert_eq!(Isa::chosen(Some(isa.name())), Ok(Some(isa)));
    }
    let error = Isa::chosen(Some("sse")).unwrap_err();
    assert!(error.starts_with("LLGTRT_ISA: \"sse\" is not here; use one of: "), "{error}");
}

/// So many activations that tiles of rows take turns.
#[test]
fn many_activations_change_no_bit() -> Result<(), TestCaseError> {
    compare(sys::GGML_TYPE_Q4_K, (150, 8, 4100), (1, 3))
}
