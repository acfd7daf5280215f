//! llama.cpp as a `Forward`: GGUF models, embedded.
//!
//! Two layouts of KV, told apart only in here. In **slots** each sequence has cells of its own, in order, so that its
//! rows have the same bits whatever shares the batch, as far as the kernels for its weight and KV types allow; the
//! probe at start looks whether they do. **Shared**, all sequences take cells from one pool: contexts that slots
//! could not hold, copies that cost nothing, and rows that depend on the order of cells in their last bits.
//!
//! All sequences share a pass. Two groups in turns would hide the host's part of a step and read the weights twice for
//! it: 22.5 ms in place of 17.4 for 16 sequences (`bench/README.md`).

pub mod context;
pub mod devices;
mod drivers;
pub mod ffi;
mod file;
mod forward;
mod gaps;
pub mod gguf;
mod gpus;
mod kernels;
mod look;
mod on;
pub mod placement;
mod plan;
mod probe;
mod threads;
pub mod vocab;

use crate::config::{Config, KvPlan, SplitKey};
use crate::error::{Error, Result};
use crate::exec::progress::{Reading, Tell};
use crate::exec::ranks::{Ranks, Role, Shard};
use crate::exec::{Caps, Copying, Forward, Promise, memory};
use context::{CELL_BLOCK, Context, KvType, Pools, Shape};
use devices::Gpus;
use ffi::Model;
use forward::Llama;
use gaps::Times;
use gpus::Layout;
pub use look::kv_type;
use look::{Found, look};
use on::On;
use plan::Facts;
use std::path::Path;
use std::sync::Arc;
use threads::{Least, Threads};

/// An opened model.
pub struct Opened {
    /// The engine.
    pub forward: Box<dyn Forward>,
    /// What the file says.
    pub info: ModelInfo,
    /// The draft model, where one was asked for.
    pub draft: Option<Box<Opened>>,
}

/// Facts of a model file.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// Longest context in tokens: what the model was trained for, or less where the configuration or memory say so.
    pub context: u32,
    /// The model's own chat template.
    pub chat_template: Option<String>,
    /// All or some layers carry a state: no prefix reuse, no speculation.
    pub recurrent: bool,
    /// Width of the sliding attention window in tokens; 0 = none.
    pub sliding_window: u32,
    /// Where KV lives.
    pub plan: KvPlan,
    /// Most threads that compute its passes, those of ranks included.
    pub threads: u32,
    /// GPUs compute all of its layers, so that the machine's cores have little to do with passes.
    pub on_gpus: bool,
    /// One line: model, GPUs, layout, KV type, threads. The same at every start of the same model and configuration.
    pub summary: String,
}

/// A model that is loaded, before anything computes.
struct Parts {
    model: Arc<Model>,
    pools: Arc<Pools>,
    layout: Layout,
    /// Most threads that compute its passes, those of ranks included.
    threads: u32,
    /// Tokens of context that it was trained for, and most sequences that may run at a time.
    trained: u32,
    sequences: u32,
    /// Numbers in its longest row of K or V, and the most bytes that a tensor of them may have where they lie.
    row: u64,
    largest: u64,
}

impl Parts {
    /// Most cells of this type that the tensors of one layer may have.
    fn most_cells(&self, kv: KvType) -> u64 {
        self.largest / kv.bytes(self.row).max(1) / u64::from(CELL_BLOCK) * u64::from(CELL_BLOCK)
    }

    /// A context, within what the library would end the process for.
    fn context(&self, shape: &Shape) -> Result<Context, String> {
        let most = self.most_cells(shape.kv);
        if u64::from(shape.cells) > most {
            let (cells, kv) = (shape.cells, shape.kv);
            return Err(format!(
                "{cells} cells of {kv} are too large a tensor for the GPU, which takes {most}"
            ));
        }
        Context::new(&self.model, shape, &self.pools)
    }
}

/// A model that is loaded and probed, before KV is laid out.
struct Loaded {
    parts: Parts,
    found: Found,
    /// Longest context, in tokens.
    context: u32,
    on: On,
}

/// Cheap checks of a GGUF file.
///
/// # Errors
/// `Invalid` of "target" where it is damaged or cannot be served.
pub fn check(gguf: &Path) -> Result<()> {
    file::read(gguf, 1).map(|_| ())
}

/// Checks, loads and probes a GGUF file. Models with as many threads compute on the same ones.
fn load(
    of: &ModelFile<'_>,
    on: On,
    gpus: &mut Gpus,
    pools: Option<&Arc<Pools>>,
    tell: Tell<'_>,
) -> Result<Loaded> {
    let ModelFile { gguf, config } = *of;
    let file = file::read(gguf, on.parts(config))?;
    let layout = match on.is_here() {
        true => gpus.lay_out(config, &file.layers, on.device(config))?,
        false => gpus.of_ranks(config, on.placement(config), file.layers.len())?,
    };
    gpus.check(&layout.placement)?;
    let lower = if layout.on_gpus() > 0 { "; lower engine.gpu_layers" } else { "" };
    let reading = Reading::new(on.name(), gguf, tell);
    let model = Model::load(gguf, &layout.placement, &|share| reading.at(share))
        .map_err(|why| refused(gguf, &format!("cannot be loaded: {why}{lower}")))?;
    if model.n_vocab() == 0 || !model.generates() {
        return Err(refused(gguf, "is no model that generates text"));
    }
    gpus.loaded(&layout.weights);
    let sizes = pool_sizes(config, on.is_here(), layout.whole());
    let pools = match pools.filter(|pools| pools.sizes() == sizes) {
        Some(pools) => Arc::clone(pools),
        None => Pools::new(&sizes).map_err(Error::Executor)?,
    };
    let largest = gpus.largest_tensor(&layout.placement);
    let threads = if on.is_here() { sizes[0] } else { threads(config) };
    let (trained, sequences) = (file.trained, file.sequences);
    let parts = Parts { model, pools, layout, threads, trained, sequences, row: file.kv_row, largest };
    tell(format!("probing {}: are rows equal whatever shares a pass?", on.name()));
    let found = look(gguf, &parts, config)?;
    Ok(Loaded { found, context: longest_context(config, parts.trained), parts, on })
}

/// The file of a model, and how to open it.
pub struct ModelFile<'a> {
    /// A GGUF file.
    pub gguf: &'a Path,
    /// A draft model's is the target's, with what its own folder says about KV and threads.
    pub config: &'a Config,
}

/// Opens a GGUF file: checks it, loads it, probes it and lays out KV. A draft model is opened beside it; it holds as many
/// KV tokens as the target, or the configured fraction of that. Ranks are started as the configuration asks for.
///
/// # Errors
/// `Invalid` with `what` = "target" or "draft" where a file is damaged or cannot be served, or where the draft model's
/// KV cannot be truncated; `Executor` where there is too little memory, and as [`Ranks::start`].
pub fn open(gguf: &Path, config: &Config, draft: Option<&ModelFile<'_>>, tell: Tell<'_>) -> Result<Opened> {
    ffi::init();
    kernels::check().map_err(|why| Error::Executor(format!("{why}; build with `. launch/env.sh`")))?;
    let mut gpus = Gpus::find();
    let ranks = Ranks::start(config, gpus.count() as u32, threads(config))?;
    let _busy = ranks.as_ref().map(|ranks| ranks.busy());
    let target =
        load(&ModelFile { gguf, config }, On::new(ranks.as_ref(), Role::Target), &mut gpus, None, tell)?;
    gpus.log(&config.engine, &target.parts.layout);
    let on = On::new(ranks.as_ref(), Role::Draft);
    let drafting = draft.map(|draft| load(draft, on, &mut gpus, Some(&target.parts.pools), tell));
    let drafting = drafting.transpose().map_err(of_draft)?;
    let facts = facts(&target, config, draft.map(|d| d.config).zip(drafting.as_ref()), &gpus);
    let plan = config.plan.unwrap_or_else(|| plan::plan(config, &facts));
    tell(format!("laying out {} KV tokens", plan.total));
    let forward = build(&target, config, &plan)?;
    let info = describe(&target, &plan, &gpus);
    log_found(&plan, &target.found, forward.caps().promise);
    let opened = match drafting.as_ref().zip(draft) {
        Some((loaded, file)) => Some(Box::new(open_draft(loaded, file, &plan, &gpus).map_err(of_draft)?)),
        None => None,
    };
    if let Some(ranks) = &ranks {
        log_ranks(ranks, config, &Vec::from_iter(std::iter::once(&target).chain(&drafting)));
    }
    Ok(Opened { forward, info, draft: opened })
}

/// What lies where.
fn log_ranks(ranks: &Ranks, config: &Config, loaded: &[&Loaded]) {
    let models: Vec<&Model> = loaded.iter().map(|loaded| &*loaded.parts.model).collect();
    let layers = config.parallel.split == SplitKey::Layer;
    let shards = models.iter().zip([Role::Target, Role::Draft]);
    let shards: Vec<_> = shards.map(|(m, role)| (role, Shard { bytes: m.bytes(), layers })).collect();
    log::info!("ranks:\n{}", ranks.table(&shards, &|endpoint| on::memory_at(&models, endpoint)));
}

/// What KV is laid out by. A token takes room in the draft model's KV too.
fn facts(target: &Loaded, config: &Config, draft: Option<(&Config, &Loaded)>, gpus: &Gpus) -> Facts {
    let gpus = gpus.free();
    let memory = |model: &Loaded, config: &Config| {
        let fraction = config.kv_cache_free_gpu_mem_fraction.clamp(0.0, 1.0);
        let own = std::iter::once(model.on.room(config, &model.parts.model));
        Vec::from_iter(own.chain(gpus.iter().map(|free| *free as f64 * fraction)))
    };
    let bytes = |model: &Loaded| {
        Vec::from_iter(model.parts.layout.kv.iter().map(|part| part * model.found.token_bytes))
    };
    let (mut needed, mut fit) = (bytes(target), f64::INFINITY);
    let mut cells = target.parts.most_cells(target.found.kv);
    if let Some((config, draft)) = draft {
        let share = config.speculative.draft_kv_fraction;
        let own = bytes(draft);
        needed.iter_mut().zip(&own).for_each(|(all, own)| *all += share * own);
        let most = config.kv_cache_max_tokens.map_or(f64::INFINITY, |most| most as f64);
        fit = most.min(gpus::fit(&memory(draft, config), &own)) / share;
        cells = cells.min((draft.parts.most_cells(draft.found.kv) as f64 / share) as u64);
    }
    let Parts { model, sequences, .. } = &target.parts;
    Facts {
        sequences: *sequences,
        context: target.context,
        fit: fit.min(gpus::fit(&memory(target, config), &needed)) as u64,
        cells,
        equal: target.found.equal(),
        windowed: model.n_swa() > 0,
        stateful: model.is_recurrent(),
    }
}

/// A draft model with as many slots as the target. Its context may be shorter: beyond it nothing is drafted.
fn open_draft(loaded: &Loaded, file: &ModelFile<'_>, plan: &KvPlan, gpus: &Gpus) -> Result<Opened> {
    let plan = plan::of_draft(*plan, loaded.context, &file.config.speculative);
    let forward = build(loaded, file.config, &plan)?;
    if !forward.caps().rollback {
        return Err(refused(file.gguf, "cannot draft: its KV cannot be truncated"));
    }
    let info = describe(loaded, &plan, gpus);
    log::info!("draft model: {}; {} KV tokens", info.summary, plan.total);
    Ok(Opened { forward, info, draft: None })
}

/// An error of opening a target, as one of opening a draft model; one about a key stays that.
pub fn of_draft(error: Error) -> Error {
    match error {
        Error::Invalid { what, why, code } if what == "target" => {
            Error::Invalid { what: "draft".into(), why, code }
        }
        other => other,
    }
}

fn longest_context(config: &Config, trained: u32) -> u32 {
    let asked = config.engine.context;
    if asked > trained {
        log::warn!(
            "engine.context: {asked} is more than the {trained} tokens that the model was trained for"
        );
    }
    if asked == 0 { trained } else { asked.min(trained) }
}

/// The context that serves.
fn build(loaded: &Loaded, config: &Config, plan: &KvPlan) -> Result<Box<dyn Forward>> {
    let Loaded { parts: Parts { model, .. }, found, on, .. } = loaded;
    let step = config.max_num_tokens.max(1);
    let shape = Shape {
        shared: plan.shared,
        sequences: plan.sequences,
        cells: plan.cells,
        // Room for rows that fill gaps.
        batch: step.saturating_add(plan.sequences),
        kv: found.kv,
    };
    let mut context = loaded.parts.context(&shape).map_err(|why| {
        Error::Executor(format!("KV for {} tokens: {why}; lower kv_cache_max_tokens", plan.total))
    })?;
    if let Some(beats) = on.beats() {
        context.count(beats);
    }
    // The library moves KV between such ranks row by row: to compute it again is faster.
    let split = on.parts(config) > 1;
    let truncates = !model.is_recurrent() && (model.n_swa() == 0 || !plan.shared);
    let caps = Caps {
        n_embd: model.n_embd(),
        kv_total: plan.total,
        max_step_tokens: step.min(u32::try_from(context.n_batch()).unwrap_or(u32::MAX)),
        max_logits: max_logits(config),
        prefix_reuse: truncates,
        rollback: truncates,
        copying: match (truncates, plan.shared) {
            (false, _) => Copying::Never,
            (true, false) if split => Copying::Never,
            (true, false) => Copying::Moves,
            (true, true) => Copying::Shares,
        },
        ragged: plan.shared,
        promise: if !plan.shared && found.equal() { Promise::BitIdentical } else { Promise::NearTies },
        probed: found.probe.as_ref().map_or_else(Vec::new, |probe| probe.passes.clone()),
        ..Caps::of_rows(model.n_vocab(), plan.sequences, plan.per_slot)
    };
    if !truncates {
        log::warn!("this model's KV cannot be truncated: no prefix reuse and no speculation");
    }
    let times = Times::new(&caps.probed);
    let threads = if found.any_threads { Threads::Least(Least::default()) } else { Threads::All };
    Ok(on.watched(Box::new(Llama::new(context, caps, plan.shared, times, threads)), !split))
}

/// Logits of a step that may take a quarter of the memory that KV leaves, 256 MiB at least.
fn max_logits(config: &Config) -> u64 {
    let left = memory::available() as f64 * (1.0 - config.kv_cache_free_gpu_mem_fraction.clamp(0.0, 1.0));
    ((left / 4.0) as u64).max(256 << 20) / size_of::<f32>() as u64
}

fn describe(Loaded { parts, found, on, .. }: &Loaded, plan: &KvPlan, gpus: &Gpus) -> ModelInfo {
    let Parts { model, pools, layout, .. } = parts;
    let kv = if plan.shared { "one pool" } else { "slots" };
    let threads = if found.any_threads { "up to " } else { "" }.to_owned() + &pools.sizes()[0].to_string();
    let workers = on.summary().unwrap_or_else(|| format!("{threads} threads"));
    let summary = format!(
        "llama.cpp: {}, {:.1} MiB; {}KV {} in {kv}; {workers}",
        // What the library calls a model of a size that it does not know.
        model.description().replace(" ?B", ""),
        mib(model.bytes() as f64),
        gpus.place(layout),
        found.kv,
    );
    ModelInfo {
        context: plan.per_slot,
        chat_template: model.chat_template(),
        recurrent: model.is_recurrent(),
        sliding_window: model.n_swa(),
        plan: *plan,
        threads: parts.threads,
        on_gpus: layout.whole(),
        summary,
    }
}

/// What was found at this start: room for KV, and the probe's verdict.
fn log_found(plan: &KvPlan, found: &Found, promise: Promise) {
    let layout = match plan.shared {
        true => format!("{} KV tokens shared by {} slots", plan.total, plan.sequences),
        false => format!("{} KV tokens in {} slots of {}", plan.total, plan.sequences, plan.per_slot),
    };
    let probe = found.probe.as_ref().map_or_else(
        || "no probe".to_owned(),
        |p| format!("probe: {} of {} rows differ, {} ms", p.differ, p.rows, p.took.as_millis()),
    );
    let size = mib(f64::from(plan.cells) * found.token_bytes);
    log::info!("{layout}, {size:.0} MiB; {promise} ({probe})");
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Threads of the pools: the configured number alone, or numbers to choose from.
/// One where ranks compute, or GPUs all layers (`whole`): what is left to do is little, and threads that wait would spin.
fn pool_sizes(config: &Config, here: bool, whole: bool) -> Vec<u32> {
    match config.engine.threads {
        _ if !here => vec![1],
        0 if whole => vec![1],
        0 => threads::sizes(threads(config)),
        threads => vec![threads],
    }
}

/// The engine's most threads on the CPU: as configured, or the cores that this process may use.
pub fn threads(config: &Config) -> u32 {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if config.engine.threads > 0 { config.engine.threads } else { u32::try_from(cores()).unwrap_or(1) }
}

fn refused(gguf: &Path, why: &str) -> Error {
    Error::invalid("target", format!("{} {why}", gguf.display()))
}
