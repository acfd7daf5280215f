//! llama.cpp as a `Forward`: GGUF models, embedded.
//!
//! Three homes of KV, told apart only in here. In **slots** each sequence has cells of its own, in order, so that its rows
//! have the same bits whatever shares the batch, as far as the kernels for its weight and KV types allow; the probe at start
//! looks whether they do. On CPUs slots lie in **pages** (`pages`): each has the whole context, and memory is what is used.
//! In one **pool** all sequences take cells from what there is, copies cost nothing, and rows depend on the order of cells in
//! their last bits: for GPUs, whose memory slots of whole contexts would not fit into, and for models with a state.
//!
//! All sequences share a pass. Two groups in turns would hide the host's part of a step and read the weights twice for
//! it: 22.5 ms instead of 17.4 for 16 sequences (`bench/components.md`).

pub mod context;
mod devices;
mod drivers;
pub mod ffi;
pub(super) mod file;
mod forward;
mod gaps;
mod gguf {
    pub(super) mod ffi;
}
mod gpus;
mod head;
mod heads;
mod kernels;
mod lay_out;
mod loaded;
mod pages;
pub mod placement;
mod plan;
mod probe;
pub mod vocab;

use crate::config::{Config, EngineConfig, KvPlan, Numa};
use crate::error::{Error, Result};
use crate::exec::head::Drafting;
use crate::exec::{Forward, Tell, cores, memory};
use devices::Gpus;
pub use gguf::ffi::quantize;
use lay_out::Pair;
use loaded::Loaded;
pub use loaded::kv_type;
use placement::Role;
use std::path::Path;

/// An opened model.
pub struct Opened {
    /// The engine.
    pub forward: Box<dyn Forward>,
    /// What drafts, where that was asked for.
    pub draft: Option<Drafting>,
    /// Where KV lives.
    pub plan: KvPlan,
    /// The model's own chat template.
    pub chat_template: Option<String>,
    /// Its template for requests with functions.
    pub tool_use_template: Option<String>,
    /// Its template for requests with documents.
    pub rag_template: Option<String>,
    /// Threads that compute its passes.
    pub threads: u32,
    /// GPUs compute all of its layers, so that the machine's cores have little to do with passes.
    pub on_gpus: bool,
    /// One line: model, GPUs, layout, KV type, threads. The same at every start of the same model and configuration.
    pub summary: String,
}

/// Opens a GGUF file: checks it, loads it, probes it and lays out KV. A draft model is opened beside it, with a configuration
/// of its own: the target's, with what its folder says about KV and threads. It holds as many KV tokens as the target, or the
/// configured fraction of that.
///
/// # Errors
/// `Invalid` with `what` = "target" or "draft" where a file is damaged or cannot be served, or where the draft model's
/// KV cannot be truncated; `Executor` where there is too little memory.
pub fn open(gguf: &Path, config: &Config, draft: Option<(&Path, &Config)>, tell: Tell<'_>) -> Result<Opened> {
    ffi::init();
    kernels::check().map_err(Error::Executor)?;
    let free = memory::available();
    // Before threads are counted and weights are read.
    match config.engine.numa {
        Numa::Auto => {}
        Numa::Distribute => ffi::distribute(),
        Numa::Isolate => cores::this_node(&cores::nodes()).into_iter().for_each(|node| cores::bind(node)),
    }
    let mut gpus = Gpus::find();
    // The same file twice is a model and the head that it has; without one, a model that drafts for itself.
    let own = draft.filter(|(draft, _)| is_same(draft, gguf)).map(|(_, config)| config);
    let own = own.filter(|_| file::read(gguf).is_ok_and(|file| file.mtp > 0));
    let target = Loaded::load((gguf, config, own.is_some()), Role::Target, &mut gpus, None, tell)?;
    gpus.log(&config.engine, &target.layout);
    let workers = Some(&target.workers);
    let draft = draft.map(|(draft, config)| match own {
        Some(config) => target.own_head(config),
        None => Loaded::load((draft, config, false), Role::Draft, &mut gpus, workers, tell),
    });
    let draft = draft.transpose().map_err(of_draft)?;
    Pair { target, draft, gpus }.open(free, tell)
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Looks whether the model of a GGUF file reaches the context that is asked for.
///
/// # Errors
/// `Invalid` of the target where the file is damaged or cannot be served, or of `engine.context`.
pub fn check_context(gguf: &Path, engine: &EngineConfig) -> Result<()> {
    plan::settle_context(&mut engine.clone(), file::read(gguf)?.trained, true)
}

/// An error of opening a target, as one of opening a draft model; one about a key stays that.
pub fn of_draft(error: Error) -> Error {
    error.renamed("target", "draft")
}

/// The engine's threads on the CPU: as configured, or the physical cores that this process may use.
pub fn threads(config: &Config) -> u32 {
    if config.engine.threads > 0 { config.engine.threads } else { cores::physical() }
}
