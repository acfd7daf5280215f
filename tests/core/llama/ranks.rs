//! A model split over rank processes. A rank is this test binary itself: see [`rank`].

use super::world::{Texts, World, log_softmax, step};
use super::{config, demo, model, one_engine, opened};
use llgtrt::config::{Config, SplitKey};
use llgtrt::error::Error;
use llgtrt::exec::llama::open;
use llgtrt::exec::open::rank as serve_rank;
use llgtrt::exec::ranks::serve::RankOptions;
use llgtrt::exec::{Promise, Run};
use llgtrt::types::{Slot, Token};
use std::net::Ipv4Addr;

/// Nats that rows in another order of sums may differ by: 0.2 was seen, after text that is none. A shard in a wrong place
/// makes many.
const NOISE: f32 = 0.5;

/// A rank process. Does nothing in a normal test run, where nobody says how it was started.
#[test]
#[ignore = "the main function of a rank"]
fn rank() {
    let Ok(flags) = std::env::var("LLGTRT_TEST_RANK") else { return };
    let threads = flags.split(' ').skip_while(|flag| *flag != "--threads").nth(1).unwrap().parse().unwrap();
    let options = RankOptions { host: Ipv4Addr::LOCALHOST, port: 0, threads, gpu: None, worker: true };
    panic!("{:?}", serve_rank(&options));
}

/// The same with the target, and a draft model, over so many ranks.
fn on_ranks(mut config: Config, ranks: u32) -> Config {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let script = r#"LLGTRT_TEST_RANK="$*" exec "$0" llama::ranks::rank --exact --ignored --nocapture"#;
    config.parallel.program = ["sh", "-c", script, &program].map(str::to_owned).to_vec();
    config.parallel.tp_size = Some(ranks);
    config
}

/// What the log-probabilities of likely tokens differ by at most.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    let (a, b) = (log_softmax(a), log_softmax(b));
    a.iter().zip(&b).filter(|(_, b)| **b > -10.0).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// On two ranks a row has the same bits whatever shares the batch, as in one process; between the two they differ.
#[test]
fn two_ranks_keep_their_promise() {
    let _turn = one_engine();
    if let Some(path) = demo() {
        let config = config(8, 256);
        let text: Vec<Token> = (5..45).collect();
        let alone = step(&mut *opened(&path, &config).forward, 0, 0, &text, 8);
        let mut opened = opened(&path, &on_ranks(config, 2));
        assert!(opened.info.summary.ends_with("2 ranks of 1 thread"), "{}", opened.info.summary);
        let split = step(&mut *opened.forward, 0, 0, &text, 8);
        let most = alone.iter().zip(&split).map(|(a, b)| apart(a, b)).fold(0.0, f32::max);
        println!("{}: rows differ from one process's by {most} nats at most", path.display());
        assert!(most < NOISE, "{most}");
        opened.forward.truncate(Slot(0), 0).unwrap();
        let texts = Texts::new(&mut *opened.forward, 24, 40);
        let mut world = World::new(&mut *opened.forward, &texts, 11);
        (0..80).for_each(|_| world.step());
        let tally = world.tally;
        println!("  {tally:?}");
        assert!(tally.rows > 100 && tally.copies == 0 && tally.restores == 0, "{tally:?}");
        assert_eq!((opened.forward.caps().promise, tally.differ), (Promise::BitIdentical, 0), "{tally:?}");
    }
}

/// Layers shared out: the same numbers as in one process, and hidden states from ranks.
#[test]
fn layers_and_hidden_states() {
    let _turn = one_engine();
    if let Some(path) = demo() {
        let base = config(2, 128);
        let mut layers = on_ranks(base.clone(), 2);
        layers.parallel.split = SplitKey::Layer;
        let text: Vec<Token> = (5..25).collect();
        let run = Run { slot: Slot(0), start: 0, tokens: &text, outputs: 2, hidden: true };
        let mut rows = Vec::new();
        for config in [base.clone(), layers, on_ranks(base, 2)] {
            let mut opened = opened(&path, &config);
            let found = opened.forward.forward(&[run]).unwrap();
            rows.push((found.logits[1].to_vec(), found.hidden[1].to_vec()));
        }
        let far = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let most = rows[0].1.iter().map(|x| x.abs()).fold(0.0, f32::max);
        for (logits, hidden) in &rows[1..] {
            let (nats, far) = (apart(&rows[0].0, logits), far(&rows[0].1, hidden));
            println!("logits differ by {nats} nats at most, hidden states by {far} of up to {most}");
            assert!(nats < NOISE && far < 0.1 * most, "{nats} {far} {most}");
        }
    }
}

/// llama.cpp would end the process.
#[test]
fn a_model_with_too_few_heads_is_refused() {
    let one_head = on_ranks(config(2, 128), 2);
    let Err(Error::Invalid { what, why, .. }) = open(&model::random(), &one_head, None, &|_| ()) else {
        panic!()
    };
    assert_eq!(what, "target");
    assert!(why.contains("has 1 key and value heads for 2 ranks; lower parallel.tp_size"), "{why}");
}
