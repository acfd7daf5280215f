//! llama.cpp as a `Forward`: GGUF models, embedded.
//!
//! Three homes of KV, told apart only in here. In **slots** each sequence has cells of its own, in order, so that its rows
//! have the same bits whatever shares the batch, as far as the kernels for its weight and KV types allow; the probe at start
//! looks whether they do. On CPUs slots lie in **pages** (`pages`): each has the whole context, and memory is what is used.
//! In one **pool** all sequences take cells from what there is, copies cost nothing, and rows depend on the order of cells in
//! their last bits: for GPUs, whose memory slots of whole contexts would not fit into, and for models with a state.
//!
//! All sequences share a pass. Two groups in turns would hide the host's part of a step and read the weights twice for
//! it: 22.5 ms in place of 17.4 for 16 sequences (`bench/README.md`).

mod backend;
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
mod lay_out;
mod look;
mod pages;
pub mod placement;
mod plan;
mod probe;
pub mod rope;
mod shards;
pub mod vocab;
pub mod workers;

use crate::config::{Config, KvHome, KvPlan, Numa};
use crate::error::{Error, Result};
use crate::exec::progress::{Reading, Tell};
use crate::exec::{Forward, Promise, cores, memory};
use context::{CELL_BLOCK, Context, KvType, Shape};
use devices::Gpus;
use ffi::Model;
use gpus::Layout;
use lay_out::Pair;
pub use look::kv_type;
use look::{Found, look};
use placement::{Role, Split};
use rope::Rope;
use std::path::Path;
use std::sync::Arc;
use workers::Workers;

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
    /// All or some layers carry a state.
    pub recurrent: bool,
    /// Width of the sliding attention window in tokens; 0 = none.
    pub sliding_window: u32,
    /// Where KV lives.
    pub plan: KvPlan,
    /// Threads that compute its passes.
    pub threads: u32,
    /// GPUs compute all of its layers, so that the machine's cores have little to do with passes.
    pub on_gpus: bool,
    /// One line: model, GPUs, layout, KV type, threads. The same at every start of the same model and configuration.
    pub summary: String,
}

/// A model that is loaded, before anything computes.
struct Parts {
    model: Arc<Model>,
    workers: Arc<Workers>,
    layout: Layout,
    /// All of it lies in this machine's memory.
    on_host: bool,
    file: file::File,
    rope: Rope,
    /// Most bytes that a tensor of K or V may have where they lie.
    largest: u64,
}

impl Parts {
    /// Most cells of this type that the tensors of one layer may have.
    fn most_cells(&self, kv: KvType) -> u64 {
        self.largest / kv.bytes(self.file.kv_row).max(1) / u64::from(CELL_BLOCK) * u64::from(CELL_BLOCK)
    }

    /// Tokens that one pass takes. A GPU is kept busy by more of them.
    fn pass(&self) -> u32 {
        if self.layout.on_gpus() > 0 { context::GPU_PASS_TOKENS } else { context::PASS_TOKENS }
    }

    /// Its KV lies in host memory, and may lie in pages.
    fn paged(&self) -> bool {
        self.on_host && self.file.by_cells
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
        Context::new(&self.model, shape, &self.workers)
    }
}

/// A model that is loaded and probed, before KV is laid out.
struct Loaded {
    parts: Parts,
    found: Found,
    /// Longest context, in tokens.
    context: u32,
}

/// Cheap checks of a GGUF file.
///
/// # Errors
/// `Invalid` of "target" where it is damaged or cannot be served.
pub fn check(gguf: &Path) -> Result<()> {
    file::read(gguf).map(|_| ())
}

/// Checks, loads and probes a GGUF file. Models with as many threads compute on the same ones.
fn load(
    of: &ModelFile<'_>,
    role: Role,
    gpus: &mut Gpus,
    workers: Option<&Arc<Workers>>,
    tell: Tell<'_>,
) -> Result<Loaded> {
    let ModelFile { gguf, config } = *of;
    let file = file::read(gguf)?;
    let (rope, context) = Rope::of(&config.engine, file.trained, role == Role::Target)?;
    let layout = gpus.lay_out(config, &file.layers, role)?;
    file.check_heads(gguf, layout.placement.ranks())?;
    gpus.check(&layout.placement)?;
    let lower = match layout.placement.split {
        Split::Layer if layout.on_gpus() > 0 => "; lower engine.gpu_layers",
        _ => "",
    };
    let reading = Reading::new(role.name(), gguf, tell);
    let model = Model::load(gguf, &layout.placement, &|share| reading.at(share))
        .map_err(|why| refused(gguf, &format!("cannot be loaded: {why}{lower}")))?;
    if model.n_vocab() == 0 || !model.generates() {
        return Err(refused(gguf, "is no model that generates text"));
    }
    gpus.loaded(&layout.weights);
    let count = worker_count(config, layout.whole());
    let shared = workers.filter(|workers| workers.size() == count).map(Arc::clone);
    let workers = shared.map_or_else(|| Workers::team(count, &numa(config)), Ok).map_err(Error::Executor)?;
    let largest = gpus.largest_tensor(&layout.placement);
    let on_host = layout.placement.devices.is_empty();
    let mut parts = Parts { model, workers, layout, on_host, file, rope, largest };
    tell(format!("probing {}: are rows equal whatever shares a pass?", role.name()));
    let (found, covered) = kernels::cover(|| look(gguf, &parts, config, gpus));
    let mut found = found?;
    // The scans of models with a state have no kernel either.
    let shared = covered && !parts.model.is_recurrent();
    if !shared && parts.on_host && count > 1 && matches!(*parts.workers, Workers::Team(_)) {
        log::info!("some of what it computes has no kernel here: llama.cpp's own threads share all");
        parts.workers = Workers::pool(count).map_err(Error::Executor)?;
        found = look(gguf, &parts, config, gpus)?;
    }
    Ok(Loaded { found, context, parts })
}

/// The file of a model, and how to open it.
pub struct ModelFile<'a> {
    /// A GGUF file.
    pub gguf: &'a Path,
    /// A draft model's is the target's, with what its own folder says about KV and threads.
    pub config: &'a Config,
}

/// Opens a GGUF file: checks it, loads it, probes it and lays out KV. A draft model is opened beside it; it holds as many
/// KV tokens as the target, or the configured fraction of that.
///
/// # Errors
/// `Invalid` with `what` = "target" or "draft" where a file is damaged or cannot be served, or where the draft model's
/// KV cannot be truncated; `Executor` where there is too little memory.
pub fn open(gguf: &Path, config: &Config, draft: Option<&ModelFile<'_>>, tell: Tell<'_>) -> Result<Opened> {
    ffi::init();
    kernels::check().map_err(|why| Error::Executor(format!("{why}; build with `. launch/env.sh`")))?;
    let free = memory::available();
    settle_on_nodes(config);
    let mut gpus = Gpus::find();
    let target = load(&ModelFile { gguf, config }, Role::Target, &mut gpus, None, tell)?;
    gpus.log(&config.engine, &target.parts.layout);
    let workers = Some(&target.parts.workers);
    let drafting = draft.map(|draft| load(draft, Role::Draft, &mut gpus, workers, tell));
    let drafting = drafting.transpose().map_err(of_draft)?;
    let pair = Pair { target: &target, config, draft: draft.zip(drafting.as_ref()) };
    pair.open(free, &gpus, tell)
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

fn describe(Loaded { parts, found, .. }: &Loaded, plan: &KvPlan, gpus: &Gpus) -> ModelInfo {
    let Parts { model, workers, layout, .. } = parts;
    let kv = if plan.home == KvHome::Pool { "one pool" } else { "slots" };
    let threads = workers.size();
    let summary = format!(
        "llama.cpp: {}, {:.1} MiB; {}KV {} in {kv}; {threads} thread{}",
        // What the library calls a model of a size that it does not know.
        model.description().replace(" ?B", ""),
        mib(model.bytes() as f64),
        gpus.place(layout),
        found.kv,
        if threads == 1 { "" } else { "s" },
    );
    ModelInfo {
        context: plan.per_slot,
        chat_template: model.chat_template(),
        recurrent: model.is_recurrent(),
        sliding_window: model.n_swa(),
        plan: *plan,
        threads,
        on_gpus: layout.whole(),
        summary,
    }
}

/// What was found at this start: room for KV, and the probe's verdict.
fn log_found(plan: &KvPlan, token_bytes: u64, found: &Found, promise: Promise) {
    let (total, size) = (plan.total, mib(plan.total as f64 * token_bytes as f64));
    let layout = match plan.home {
        KvHome::Pool => format!("{total} KV tokens shared by {} slots, {size:.0} MiB", plan.sequences),
        KvHome::Slots => {
            format!("{total} KV tokens in {} slots of {}, {size:.0} MiB", plan.sequences, plan.per_slot)
        }
        KvHome::Pages => format!(
            "up to {total} KV tokens, {size:.0} MiB as they are used, in {} slots of {}",
            plan.sequences, plan.per_slot
        ),
    };
    let probe = found.probe.as_ref().map_or_else(
        || "no probe".to_owned(),
        |p| format!("probe: {} of {} rows differ, {} ms", p.differ, p.rows, p.took.as_millis()),
    );
    log::info!("{layout}; {promise} ({probe})");
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Threads that compute here. One where GPUs compute all layers (`whole`): what is left to do is little, and threads that wait
/// would spin.
fn worker_count(config: &Config, whole: bool) -> u32 {
    match config.engine.threads {
        0 if whole => 1,
        _ => threads(config),
    }
}

/// Memory nodes whose processors threads are bound to in turns; none where they are left to the system.
fn numa(config: &Config) -> Vec<Vec<usize>> {
    if config.engine.numa == Numa::Distribute { cores::nodes() } else { Vec::new() }
}

/// Before threads are counted and weights are read.
fn settle_on_nodes(config: &Config) {
    match config.engine.numa {
        Numa::Auto => {}
        Numa::Distribute => ffi::distribute(),
        Numa::Isolate => cores::this_node(&cores::nodes()).into_iter().for_each(|node| cores::bind(node)),
    }
}

/// The engine's threads on the CPU: as configured, or the physical cores that this process may use.
pub fn threads(config: &Config) -> u32 {
    if config.engine.threads > 0 { config.engine.threads } else { cores::physical() }
}

fn refused(gguf: &Path, why: &str) -> Error {
    Error::invalid("target", format!("{} {why}", gguf.display()))
}
