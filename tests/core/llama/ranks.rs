//! A model split over ranks in this machine's memory.

use super::world::{Texts, World, log_softmax, step};
use super::{config, demo, model, one_engine, opened};
use llgtrt::config::{Config, SplitKey};
use llgtrt::error::Error;
use llgtrt::exec::llama::open;
use llgtrt::exec::{Promise, Run};
use llgtrt::types::{Slot, Token};

/// Nats that rows in another order of sums may differ by: 0.2 was seen, after text that is none. A shard in a wrong place
/// makes many.
const NOISE: f32 = 0.5;

/// The same with the target, and a draft model, over so many ranks.
fn on_ranks(mut config: Config, ranks: u32) -> Config {
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
        assert!(opened.summary.contains("split over 2 ranks on the CPU"), "{}", opened.summary);
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
        assert!(tally.rows > 100 && tally.copies > 0 && tally.restores > 0, "{tally:?}");
        assert_eq!((opened.forward.caps().promise, tally.differ), (Promise::BitIdentical, 0), "{tally:?}");
    }
}

/// Hidden states come whole from ranks.
#[test]
fn hidden_states() {
    let _turn = one_engine();
    if let Some(path) = demo() {
        let base = config(2, 128);
        let text: Vec<Token> = (5..25).collect();
        let run = Run { slot: Slot(0), start: 0, tokens: &text, outputs: 2, hidden: true };
        let mut rows = Vec::new();
        for config in [base.clone(), on_ranks(base, 2)] {
            let mut opened = opened(&path, &config);
            let found = opened.forward.forward(&[run]).unwrap();
            rows.push((found.logits[1].to_vec(), found.hidden[1].to_vec()));
        }
        let far = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let most = rows[0].1.iter().map(|x| x.abs()).fold(0.0, f32::max);
        let (nats, far) = (apart(&rows[0].0, &rows[1].0), far(&rows[0].1, &rows[1].1));
        println!("logits differ by {nats} nats at most, hidden states by {far} of up to {most}");
        assert!(nats < NOISE && far < 0.1 * most, "{nats} {far} {most}");
    }
}

#[test]
fn layers_are_split_over_gpus_alone() {
    let mut layers = on_ranks(config(2, 128), 2);
    layers.parallel.split = SplitKey::Layer;
    let Err(Error::Invalid { what, why, .. }) = open(&model::random(), &layers, None, &|_| ()) else {
        panic!()
    };
    assert_eq!(what, "parallel.split");
    assert!(why.ends_with("leave it out"), "{why}");
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
