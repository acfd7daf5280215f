//! Configuration to engine: the only file that names engines.

mod checkpoint;
mod files;
#[cfg(feature = "llama")]
mod model;
mod trtllm;

use super::ahead::Ahead;
use super::by_text::{TextDrafter, VocabPair};
use super::draft_model::DraftModel;
use super::head::{Drafting, HeadDrafter};
use super::helpers::Helpers;
#[cfg(feature = "llama")]
pub use super::llama::quantize;
use super::mlp::MlpSpeculator;
use super::sampled::Sampled;
use super::toy::{Toy, ToyConfig, ToyFault};
use super::{Caps, Drafter, Drafters, Forward, Info, Target, Tell};
use crate::config::{Backend, Config, DraftSource};
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

/// Who serves a target.
enum Kind<'a> {
    /// Nobody: no weights, with these options.
    Toy(&'a str),
    /// TensorRT-LLM's Executor.
    Trtllm,
    /// An engine that schedules by itself.
    Checkpoint,
    /// llama.cpp.
    #[cfg(feature = "llama")]
    Model,
}

fn kind(target: &str) -> Result<Kind<'_>> {
    match target.strip_prefix("toy") {
        Some(options) if options.is_empty() || options.starts_with(':') => Ok(Kind::Toy(options)),
        _ if trtllm::is_target(target) => Ok(Kind::Trtllm),
        _ if checkpoint::is_target(target) => Ok(Kind::Checkpoint),
        #[cfg(feature = "llama")]
        _ => Ok(Kind::Model),
        #[cfg(not(feature = "llama"))]
        _ => no_engine(target),
    }
}

/// Refuses an engine that does not read the target's format.
fn check_backend(target: &str, config: &Config) -> Result<()> {
    let backend = config.engine.backend;
    let (format, fits) = match kind(target)? {
        Kind::Toy(_) => ("the weightless engine", false),
        Kind::Trtllm => ("an engine folder of TensorRT-LLM", backend == Backend::TensorrtLlm),
        Kind::Checkpoint => ("a Hugging Face folder", backend != Backend::LlamaCpp),
        #[cfg(feature = "llama")]
        Kind::Model => ("a model for llama.cpp", backend == Backend::LlamaCpp),
    };
    if fits || backend == Backend::Auto {
        return Ok(());
    }
    let why = format!("is {}, but {target} is {format}; leave the setting out", backend.name());
    Err(Error::invalid("engine.backend", why))
}

#[cfg(not(feature = "llama"))]
fn no_engine<T>(target: &str) -> Result<T> {
    Err(Error::invalid("target", format!("{target} needs the embedded engine; build with the feature llama")))
}

/// Fails: it needs the embedded engine.
#[cfg(not(feature = "llama"))]
pub fn quantize(source: &str, _: &str, _: &str) -> Result<()> {
    no_engine(source)
}

/// Opens what `target` names: an engine folder (llama.cpp's or TensorRT-LLM's), a Hugging Face folder, a `.gguf` file,
/// or `toy[:options]` (see [`ToyConfig`]). `tell` hears what is being done.
///
/// # Errors
/// `Error::Invalid` naming `target` where there is no usable model.
pub fn open(target: &str, config: &Config, tell: Tell<'_>) -> Result<Opened> {
    tell(format!("opening {target}"));
    check_backend(target, config)?;
    match kind(target)? {
        Kind::Trtllm => trtllm::open(target, config),
        _ if config.speculative.draft_model().is_some_and(trtllm::is_target) => {
            let why =
                "is an engine of TensorRT-LLM, which the target is not; give both as folders of one engine";
            Err(Error::invalid("draft", why))
        }
        Kind::Toy(options) => open_toy(ToyConfig::parse(options)?, config, None),
        Kind::Checkpoint => checkpoint::open(target, config),
        #[cfg(feature = "llama")]
        Kind::Model => model::open(target, config, tell),
    }
}

/// The vocabulary alone, for the process that serves HTTP.
///
/// # Errors
/// As [`open`].
pub fn open_vocab(target: &str) -> Result<Arc<Vocab>> {
    match kind(target)? {
        Kind::Toy(options) => ToyConfig::parse(options)?.vocab(),
        Kind::Trtllm => trtllm::vocab(target),
        Kind::Checkpoint => checkpoint::vocab(target),
        #[cfg(feature = "llama")]
        Kind::Model => model::vocab(target),
    }
}

/// Cheap checks of a target's name, before anything is loaded.
///
/// # Errors
/// `Error::Invalid` naming `target` where there is no such folder or no model in it, or the key that asks for ranks which the
/// engine does not have, or for a context that the model does not reach.
pub fn check(target: &str, config: &Config) -> Result<()> {
    check_backend(target, config)?;
    match kind(target)? {
        Kind::Toy(options) => {
            ToyConfig::parse(options)?;
            if config.parallel.splits(config.speculative.draft_model().is_some()) {
                let why = "the weightless engine has no ranks; leave it at 1";
                return Err(Error::invalid("parallel.tp_size", why));
            }
            Ok(())
        }
        Kind::Trtllm => trtllm::check(target),
        Kind::Checkpoint => checkpoint::described(target).map(|_| ()),
        #[cfg(feature = "llama")]
        Kind::Model => model::check(target, config),
    }
}

/// Computes for the rank that leads, until that ends; see [`open`].
///
/// # Errors
/// `Error::Invalid` where there is no engine that has ranks of MPI.
pub fn follow(target: &str, config: &Config) -> Result<()> {
    if let Ok(Kind::Trtllm) = kind(target) {
        return trtllm::follow(target, config);
    }
    let why = format!("{target} has no engine of TensorRT-LLM, whose ranks MPI starts; start one process");
    Err(Error::invalid("target", why))
}

/// A weightless engine, with a planted fault if a test wants one; its draft model, if any, is weightless too.
///
/// # Errors
/// `Error::Invalid` naming the draft model where that is none of this kind.
pub fn open_toy(toy: ToyConfig, config: &Config, fault: Option<ToyFault>) -> Result<Opened> {
    let vocab = toy.vocab()?;
    let draft = config.speculative.draft_model().map(|name| -> Result<Beside> {
        let Ok(Kind::Toy(options)) = kind(name) else {
            let why = format!("{name} cannot draft for the weightless engine; name a toy");
            return Err(Error::invalid("speculative.draft_model", why));
        };
        let own = ToyConfig::parse(options)?;
        let kv = config.speculative.draft_kv(own.kv);
        let slots = if own.stateful > 0 { 2 * toy.slots } else { toy.slots };
        let words = own.vocab()?;
        let model = Box::new(Toy::new(ToyConfig { slots, kv, ..own }, &words));
        Ok((Drafting::Model(model), VocabPair::new(&vocab, words)?))
    });
    let draft = draft.transpose()?;
    std::thread::sleep(Duration::from_millis(toy.load_ms));
    let mut engine = Toy::new(toy, &vocab);
    engine.fault = fault;
    let masks = config.engine.mask_threads.unwrap_or(0) as usize;
    let mut opened = of_logits((Box::new(engine), draft), vocab, config, (1, masks))?;
    opened.info.limits.faults = true;
    opened.info.threads = 1;
    opened.info.summary = "weightless engine (toy)".into();
    Ok(opened)
}

/// What drafts beside a target, and its vocabulary beside the target's, if it is another one.
type Beside = (Drafting, Option<VocabPair>);

/// An engine that hands out logits, with its draft model, on so many threads, of which so many compute masks during a pass.
fn of_logits(
    (engine, draft): (Box<dyn Forward>, Option<Beside>),
    vocab: Arc<Vocab>,
    config: &Config,
    (threads, masks): (usize, usize),
) -> Result<Opened> {
    let helpers = Helpers::new(threads);
    let target = Box::new(Sampled::new(engine, masks, Arc::clone(&helpers), &config.speculative));
    let patience = Duration::from_millis(u64::from(config.engine.max_step_ms) / 4);
    let draft = draft.map(|draft| drafter(draft, target.caps(), patience, &helpers)).transpose()?;
    let drafters = drafters(config, target.as_ref(), draft, &helpers)?;
    let info = info_of(target.as_ref(), &vocab, config);
    Ok(Opened { target, drafters, vocab, info })
}

/// What drafts by a model, with this patience for long gaps.
///
/// # Errors
/// `Invalid` where a head, or a model with a state, has another vocabulary.
fn drafter(
    (draft, pair): Beside,
    target: &Caps,
    patience: Duration,
    helpers: &Arc<Helpers>,
) -> Result<Box<dyn Drafter>> {
    let (refuse, helpers) = (|why: &str| Err(Error::invalid("draft", why)), Arc::clone(helpers));
    match (draft, pair) {
        (Drafting::Head(head), None) => Ok(Box::new(HeadDrafter::new(head, target.n_vocab, helpers))),
        (Drafting::Head(_), Some(_)) => refuse(
            "has another vocabulary than the target, whose tokens a head reads; give the target's own head",
        ),
        (Drafting::Model(model), None) => {
            Ok(Box::new(DraftModel::new(model, target.n_vocab, patience, helpers)))
        }
        (Drafting::Model(model), Some(_)) if model.caps().stateful => refuse(
            "has another vocabulary than the target and a recurrent state: the last words of a text are read again as it grows, \
             which a state cannot take back; give a draft model with the target's vocabulary, or one without a state",
        ),
        (Drafting::Model(model), Some(pair)) => {
            let width = model.caps().n_vocab;
            let model = DraftModel::new(model, width, patience, helpers);
            Ok(Box::new(TextDrafter::new(model, pair, target.slots, target.n_vocab)?))
        }
    }
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
    let speculative = &config.speculative;
    let mut sources = speculative.sources();
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
    let names = Vec::from_iter(sources.iter().map(|source| source.name())).join(", ");
    let (most, accepted) = (speculative.draft_len(), speculative.acceptance());
    let chosen = if speculative.adaptive { "as many as pay, up to" } else { "always" };
    log::info!("speculation: {names} draft {chosen} {most} tokens; acceptance: {accepted:?}");
    if speculative.synthetic_acceptance.is_some() {
        log::warn!("speculation: acceptance is synthetic, for measurements; answers are worthless");
    }
    let mut models = Vec::<(_, Box<dyn Drafter>)>::new();
    for source in &sources {
        match (source, speculative.mlp_speculator()) {
            (DraftSource::MlpSpeculator, Some(folder)) => {
                models.push((*source, Box::new(MlpSpeculator::open(folder, target.caps())?)));
            }
            (DraftSource::DraftModel, _) => models.extend(draft.take().map(|draft| (*source, draft))),
            _ => {}
        }
    }
    let ahead = Ahead::new(speculative, target.caps().n_vocab, Arc::clone(helpers));
    Ok(Drafters { sources, ahead: Some(ahead), models })
}

/// What every engine's facts have in common.
fn info_of(target: &dyn Target, vocab: &Vocab, config: &Config) -> Info {
    let caps = target.caps();
    let most = if config.engine.context == 0 { u32::MAX } else { config.engine.context };
    let context = most.min(caps.kv_per_slot).min(u32::try_from(caps.kv_total).unwrap_or(u32::MAX));
    let max_prompt = match config.enable_chunked_context {
        true if caps.keeps_prompts => context.min(caps.max_step_tokens),
        true => context,
        false => config.max_num_tokens.min(caps.max_step_tokens),
    };
    Info {
        limits: Limits {
            n_vocab: vocab.len() as u32,
            context,
            max_prompt,
            default_output: config.server.default_max_tokens.unwrap_or(u32::MAX),
            faults: false,
            lacks: Default::default(),
        },
        max_running: config.max_batch_size.min(caps.slots),
        kv_tokens: caps.kv_total,
        threads: 0,
        plan: None,
        promise: caps.promise,
        summary: String::new(),
        weights: 0,
        eog: vocab.eog().to_vec(),
        bos: vocab.bos(),
        begin: vocab.begin(),
        chat_template: None,
        tool_use_template: None,
        rag_template: None,
    }
}
