//! Configuration to engine: the only file that names engines.

mod checkpoint;
mod files;
mod trtllm;

use super::ahead::Ahead;
use super::draft_model::DraftModel;
use super::helpers::Helpers;
use super::mlp::MlpSpeculator;
use super::progress::Tell;
use super::sampled::Sampled;
use super::toy::{Toy, ToyConfig, ToyFault};
use super::{Drafter, Drafters, Forward, Info, Target};
use crate::config::{Config, DraftSource};
use crate::error::{Error, Result};
use crate::request::Limits;
use crate::vocab::Vocab;
use std::sync::Arc;
use std::time::Duration;

/// An opened engine.
pub struct Opened {
    /// The engine.
    pub target: Box<dyn Target>,
    /// What drafts for it.
    pub drafters: Drafters,
    /// Its vocabulary.
    pub vocab: Arc<Vocab>,
    /// Facts about it.
    pub info: Info,
}

/// Opens what `target` names: an engine folder (llama.cpp's or TensorRT-LLM's), a Hugging Face folder, a `.gguf` file,
/// or `toy[:options]` (see [`ToyConfig`]). `tell` hears what is being done.
///
/// # Errors
/// `Error::Invalid` naming `target` where there is no usable model.
pub fn open(target: &str, config: &Config, tell: Tell<'_>) -> Result<Opened> {
    check_ranks(target, config)?;
    tell(format!("opening {target}"));
    match toy_options(target) {
        None if trtllm::is_target(target) => trtllm::open(target, config),
        _ if config.speculative.draft_model().is_some_and(trtllm::is_target) => {
            let why =
                "is an engine of TensorRT-LLM, which the target is not; give both as folders of one engine";
            Err(Error::invalid("draft", why))
        }
        Some(options) => open_toy(ToyConfig::parse(options)?, config, None),
        None if checkpoint::is_target(target) => checkpoint::open(target, config),
        None => open_model(target, config, tell),
    }
}

/// The vocabulary alone, for the process that serves HTTP.
///
/// # Errors
/// As [`open`].
pub fn open_vocab(target: &str) -> Result<Arc<Vocab>> {
    match toy_options(target) {
        Some(_) => Vocab::toy(),
        None if trtllm::is_target(target) => trtllm::vocab(target),
        None if checkpoint::is_target(target) => checkpoint::vocab(target),
        None => model_vocab(target),
    }
}

/// Cheap checks of a target's name, before anything is loaded.
///
/// # Errors
/// `Error::Invalid` naming `target` where there is no such folder or no model in it.
pub fn check_target(target: &str) -> Result<()> {
    match toy_options(target) {
        Some(options) => ToyConfig::parse(options).map(|_| ()),
        None if trtllm::is_target(target) => trtllm::check(target),
        None if checkpoint::is_target(target) => checkpoint::check(target),
        None => check_model(target),
    }
}

/// Refuses ranks for an engine that has none, before anything is loaded.
///
/// # Errors
/// `Error::Invalid` naming the key.
pub fn check_ranks(target: &str, config: &Config) -> Result<()> {
    let split = config.parallel.splits(config.speculative.draft_model().is_some());
    if toy_options(target).is_some() && split {
        return Err(Error::invalid("parallel.tp_size", "the weightless engine has no ranks; leave it at 1"));
    }
    Ok(())
}

/// Computes for the rank that leads, until that ends; see [`open`].
///
/// # Errors
/// `Error::Invalid` where there is no engine that has ranks of MPI.
pub fn follow(target: &str, config: &Config) -> Result<()> {
    if toy_options(target).is_some() || !trtllm::is_target(target) {
        let why =
            format!("{target} has no engine of TensorRT-LLM, whose ranks MPI starts; start one process");
        return Err(Error::invalid("target", why));
    }
    trtllm::follow(target, config)
}

fn toy_options(target: &str) -> Option<&str> {
    target.strip_prefix("toy").filter(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// A weightless engine, with a planted fault if a test wants one; its draft model, if any, is weightless too.
///
/// # Errors
/// `Error::Invalid` naming the draft model where that is none of this kind.
pub fn open_toy(toy: ToyConfig, config: &Config, fault: Option<ToyFault>) -> Result<Opened> {
    let vocab = Vocab::toy()?;
    let draft = match config.speculative.draft_model().map(|name| (name, toy_options(name))) {
        None => None,
        Some((_, Some(options))) => {
            let own = ToyConfig::parse(options)?;
            let kv = config.speculative.draft_kv(own.kv);
            let slots = if own.stateful > 0 { 2 * toy.slots } else { toy.slots };
            let toy = ToyConfig { slots, kv, ..own };
            Some(Box::new(Toy::new(toy, &vocab)) as Box<dyn Forward>)
        }
        Some((name, None)) => {
            let why = format!("{name} cannot draft for the weightless engine; name a toy");
            return Err(Error::invalid("speculative.draft_model", why));
        }
    };
    std::thread::sleep(Duration::from_millis(toy.load_ms));
    let mut engine = Toy::new(toy, &vocab);
    if let Some(fault) = fault {
        engine = engine.plant(fault);
    }
    let threads = config.engine.mask_threads.unwrap_or(0) as usize;
    let helpers = Helpers::new(1);
    let sampled = Sampled::new(Box::new(engine), threads, Arc::clone(&helpers), &config.speculative);
    let target: Box<dyn Target> = Box::new(sampled);
    let info = info_of(target.as_ref(), &vocab, config, true);
    let info = Info { summary: "weightless engine (toy)".into(), ..info };
    let draft = draft.map(|model| draft_model(model, target.as_ref(), config, &helpers));
    let drafters = drafters(config, target.as_ref(), draft, &helpers)?;
    Ok(Opened { drafters, target, vocab, info })
}

/// A draft model that hands out logits, for this target.
fn draft_model(
    model: Box<dyn Forward>,
    target: &dyn Target,
    config: &Config,
    helpers: &Arc<Helpers>,
) -> Box<dyn Drafter> {
    let patience = Duration::from_millis(u64::from(config.engine.max_step_ms) / 4);
    Box::new(DraftModel::new(model, target.caps().n_vocab, patience, Arc::clone(helpers)))
}

/// The configured sources of drafts; but for what the grammar forces, none where the target cannot take back what it refuses.
///
/// # Errors
/// `Invalid` where a draft model would have nothing to do, or a speculator cannot be opened.
fn drafters(
    config: &Config,
    target: &dyn Target,
    mut draft: Option<Box<dyn Drafter>>,
    helpers: &Arc<Helpers>,
) -> Result<Drafters> {
    let mut sources = config.speculative.sources();
    if target.caps().rollback == 0 {
        if draft.is_some() {
            let why = "drafts in vain: the target's KV cannot be truncated, so nothing that is refused could be taken \
                       back; leave the draft model out";
            return Err(Error::invalid("draft", why));
        }
        // What the grammar forces is never refused.
        sources.retain(|source| target.caps().stateful && *source == DraftSource::Forced);
        log::warn!("speculation: this model's KV cannot be truncated, so nothing is guessed ahead");
    }
    if sources.is_empty() {
        log::info!("speculation: off");
        return Ok(Drafters::default());
    }
    let width = target.caps().n_vocab;
    let names: Vec<_> = sources.iter().map(|source| source.name()).collect();
    let most = config.speculative.draft_len();
    let accepted = config.speculative.acceptance();
    let chosen = if config.speculative.adaptive { "as many as pay, up to" } else { "always" };
    log::info!("speculation: {} draft {chosen} {most} tokens; acceptance: {:?}", names.join(", "), accepted);
    if config.speculative.synthetic_acceptance.is_some() {
        log::warn!("speculation: acceptance is synthetic, for measurements; answers are worthless");
    }
    let ahead = Ahead::new(&config.speculative, width, Arc::clone(helpers));
    let mut drafters = Drafters { sources: sources.clone(), ahead: Some(ahead), models: Vec::new() };
    for source in sources.into_iter().filter(|source| source.is_model()) {
        let drafter: Box<dyn Drafter> = match source {
            DraftSource::MlpSpeculator => match config.speculative.mlp_speculator() {
                Some(folder) => Box::new(MlpSpeculator::open(folder, target.caps())?),
                None => continue,
            },
            _ => match draft.take() {
                Some(drafter) => drafter,
                None => continue,
            },
        };
        drafters.models.push((source, drafter));
    }
    Ok(drafters)
}

/// What every engine's facts have in common.
fn info_of(target: &dyn Target, vocab: &Vocab, config: &Config, faults: bool) -> Info {
    let caps = target.caps();
    let most = if config.engine.context == 0 { u32::MAX } else { config.engine.context };
    let context = most.min(caps.kv_per_slot).min(u32::try_from(caps.kv_total).unwrap_or(u32::MAX));
    let max_prompt = match config.enable_chunked_context {
        true if caps.keeps_prompts => context.min(caps.max_step_tokens),
        true => context,
        false => config.max_num_tokens.min(caps.max_step_tokens),
    };
    let default_output = config.server.default_max_tokens.unwrap_or(u32::MAX);
    Info {
        limits: Limits {
            n_vocab: vocab.len() as u32,
            context,
            max_prompt,
            default_output,
            faults,
            lacks: Default::default(),
        },
        max_running: config.max_batch_size.min(caps.slots),
        kv_tokens: caps.kv_total,
        plan: None,
        promise: caps.promise,
        summary: String::new(),
        weights: 0,
        eog: vocab.eog().to_vec(),
        bos: vocab.bos(),
        begin: vocab.begin(),
        chat_template: None,
    }
}

#[cfg(feature = "llama")]
mod model;
#[cfg(feature = "llama")]
pub use super::llama::gguf::quantize::quantize;
#[cfg(feature = "llama")]
use model::{check_model, model_vocab, open_model};

#[cfg(not(feature = "llama"))]
fn no_engine<T>(target: &str) -> Result<T> {
    Err(Error::invalid("target", format!("{target} needs the embedded engine; build with the feature llama")))
}

#[cfg(not(feature = "llama"))]
fn open_model(target: &str, _: &Config, _: Tell<'_>) -> Result<Opened> {
    no_engine(target)
}

#[cfg(not(feature = "llama"))]
fn model_vocab(target: &str) -> Result<Arc<Vocab>> {
    no_engine(target)
}

#[cfg(not(feature = "llama"))]
fn check_model(target: &str) -> Result<()> {
    no_engine(target)
}

/// Needs the embedded engine.
///
/// # Errors
/// Always.
#[cfg(not(feature = "llama"))]
pub fn quantize(source: &str, _: &str, _: &str) -> Result<()> {
    no_engine(source)
}
