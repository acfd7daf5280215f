//! llama.cpp as a `Forward`: GGUF models, embedded.
//!
//! Two layouts of KV, told apart only in here. In **slots** each sequence has cells of its own, in order, so that its
//! rows have the same bits whatever shares the batch, as far as the kernels for its weight and KV types allow; the
//! probe at start looks whether they do. **Shared**, all sequences take cells from one pool: contexts that slots
//! could not hold, copies that cost nothing, and rows that depend on the order of cells in their last bits.

pub mod context;
pub mod ffi;
mod forward;
mod gaps;
pub mod gguf;
mod kernels;
mod plan;
mod probe;
mod threads;

use crate::config::{Config, KvCacheType, KvLayout, KvPlan};
use crate::error::Error;
use crate::exec::{Caps, Copying, ExecError, Forward, Promise, memory};
use crate::types::Token;
use context::{Context, KvType, Pools, Shape};
use ffi::Model;
use forward::Llama;
use gaps::Times;
use gguf::Metadata;
use plan::Facts;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use threads::{Least, Threads};

/// Layers that the library takes; with none or more it aborts.
const LAYERS: std::ops::RangeInclusive<i64> = 1..=512;
/// Time for the probe.
const PROBE: Duration = Duration::from_millis(800);
/// Time for the probe on different numbers of threads.
const PROBE_THREADS: Duration = Duration::from_millis(200);

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
    /// Tokens in the vocabulary.
    pub n_vocab: usize,
    /// Longest context in tokens: what the model was trained for, or less where the configuration or memory say so.
    pub context: u32,
    /// The model's own chat template.
    pub chat_template: Option<String>,
    /// Ids that end a generation, rising.
    pub end_ids: Vec<Token>,
    /// The token that begins a text.
    pub begin: Option<Token>,
    /// Whether prompts begin with it.
    pub add_begin: bool,
    /// All or some layers carry a state: no prefix reuse, no speculation.
    pub recurrent: bool,
    /// Width of the sliding attention window in tokens; 0 = none.
    pub sliding_window: u32,
    /// Where KV lives.
    pub plan: KvPlan,
    /// One line: model, layout, KV type, threads. The same at every start of the same model and configuration.
    pub summary: String,
}

/// A model that is loaded and probed, before KV is laid out.
struct Loaded {
    model: Arc<Model>,
    found: Found,
    /// Longest context, in tokens.
    context: u32,
    pools: Arc<Pools>,
}

/// Checks, loads and probes a GGUF file. Models with as many threads compute on the same ones.
fn load(gguf: &Path, config: &Config, pools: Option<&Arc<Pools>>) -> Result<Loaded, Error> {
    let trained = check(gguf)?;
    let model = Model::load(gguf).map_err(|why| refused(gguf, &format!("cannot be loaded: {why}")))?;
    if model.n_vocab() == 0 || !model.generates() {
        return Err(refused(gguf, "is no model that generates text"));
    }
    let sizes = pool_sizes(config);
    let pools = match pools.filter(|pools| pools.sizes() == sizes) {
        Some(pools) => Arc::clone(pools),
        None => Pools::new(&sizes).map_err(Error::Executor)?,
    };
    let found = look(gguf, &model, config, (trained, &pools))?;
    Ok(Loaded { model, found, context: longest_context(config, trained), pools })
}

/// The file and configuration of a draft model.
pub struct DraftFile<'a> {
    /// Its GGUF file.
    pub gguf: &'a Path,
    /// The target's configuration with what its own folder says about KV and threads.
    pub config: &'a Config,
}

/// Opens a GGUF file: checks it, loads it, probes it and lays out KV. A draft model is opened beside it; it holds as many
/// KV tokens as the target, or the configured fraction of that.
///
/// # Errors
/// `Invalid` with `what` = "target" or "draft" where a file is damaged or cannot be served, or where the draft model's
/// KV cannot be truncated; `Executor` where there is too little memory.
pub fn open(gguf: &Path, config: &Config, draft: Option<&DraftFile<'_>>) -> Result<Opened, Error> {
    ffi::init();
    kernels::check().map_err(|why| Error::Executor(format!("{why}; build with `. launch/env.sh`")))?;
    let target = load(gguf, config, None)?;
    let drafting = draft.map(|d| load(d.gguf, d.config, Some(&target.pools)));
    let drafting = drafting.transpose().map_err(of_draft)?;
    let facts = facts(&target, config, draft.map(|d| d.config).zip(drafting.as_ref()));
    let plan = config.plan.unwrap_or_else(|| plan::plan(config, &facts));
    let forward = build(&target, config, &plan)?;
    let info = describe(&target, &plan);
    log_found(&plan, &target.found, forward.caps().promise);
    let draft = match drafting.zip(draft) {
        Some((loaded, file)) => Some(Box::new(open_draft(&loaded, file, &plan).map_err(of_draft)?)),
        None => None,
    };
    Ok(Opened { forward: Box::new(forward), info, draft })
}

/// What KV is laid out by. A token takes room in the draft model's KV too.
fn facts(target: &Loaded, config: &Config, draft: Option<(&Config, &Loaded)>) -> Facts {
    let memory =
        |config: &Config| memory::available() as f64 * config.kv_cache_free_gpu_mem_fraction.clamp(0.0, 1.0);
    let mut bytes = target.found.token_bytes;
    let mut fit = f64::INFINITY;
    if let Some((config, draft)) = draft {
        let share = config.speculative.draft_kv_fraction;
        bytes += share * draft.found.token_bytes;
        let most = config.kv_cache_max_tokens.map_or(f64::INFINITY, |most| most as f64);
        fit = most.min(memory(config) / draft.found.token_bytes) / share;
    }
    Facts {
        context: target.context,
        fit: fit.min(memory(config) / bytes) as u64,
        equal: target.found.equal(),
        windowed: target.model.n_swa() > 0,
        stateful: target.model.is_recurrent(),
    }
}

/// A draft model with as many slots as the target. Its context may be shorter: beyond it nothing is drafted.
fn open_draft(loaded: &Loaded, file: &DraftFile<'_>, plan: &KvPlan) -> Result<Opened, Error> {
    let plan = plan::of_draft(*plan, loaded.context, &file.config.speculative);
    let forward = build(loaded, file.config, &plan)?;
    if !forward.caps().rollback {
        return Err(refused(file.gguf, "cannot draft: its KV cannot be truncated"));
    }
    let info = describe(loaded, &plan);
    log::info!("draft model: {}; {} KV tokens", info.summary, plan.total);
    Ok(Opened { forward: Box::new(forward), info, draft: None })
}

/// An error of opening a target, as one of opening a draft model.
pub fn of_draft(error: Error) -> Error {
    match error {
        Error::Invalid { why, code, .. } => Error::Invalid { what: "draft".into(), why, code },
        other => other,
    }
}

/// What the library would abort on, or accept to its harm, is refused before it loads the file. Gives back the context
/// that the model was trained for.
fn check(gguf: &Path) -> Result<u32, Error> {
    match std::fs::metadata(gguf) {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Err(refused(gguf, "is no file")),
        Err(e) => return Err(refused(gguf, &format!("cannot be read: {e}"))),
    }
    let file =
        Metadata::open(gguf).map_err(|why| refused(gguf, &format!("is no readable GGUF file: {why}")))?;
    let missing = |key: &str| refused(gguf, &format!("is damaged: {key} is missing or of a wrong type"));
    let arch = file.string("general.architecture").ok_or_else(|| missing("general.architecture"))?;
    let number = |name: &str| file.integer(&format!("{arch}.{name}")).ok_or_else(|| missing(name));
    let layers = number("block_count")?;
    if !LAYERS.contains(&layers) {
        return Err(refused(gguf, &format!("is damaged: it claims {layers} layers")));
    }
    let trained = number("context_length")?;
    u32::try_from(trained)
        .ok()
        .filter(|n| (probe::FEWEST_TOKENS..=1 << 30).contains(n))
        .ok_or_else(|| refused(gguf, &format!("is damaged: it claims a context of {trained} tokens")))
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

/// What a small context with slots told about the model.
struct Found {
    kv: KvType,
    token_bytes: f64,
    probe: Option<probe::Found>,
    /// Rows have the same bits on any number of threads, as far as was seen.
    any_threads: bool,
}

impl Found {
    fn equal(&self) -> bool {
        self.probe.as_ref().is_some_and(|p| p.differ == 0 && p.rows > 0)
    }
}

/// Finds a KV type that the model takes, measures it, and probes.
fn look(
    gguf: &Path,
    model: &Arc<Model>,
    config: &Config,
    (trained, pools): (u32, &Arc<Pools>),
) -> Result<Found, Error> {
    let cells = probe::SLOTS * probe::TOKENS;
    let shape = Shape { shared: false, sequences: probe::SLOTS, cells, batch: cells, kv: kv_type(config) };
    let open = |kv| Context::new(model, &Shape { kv, ..shape }, pools);
    let (kv, context) = match open(shape.kv) {
        Err(why) if shape.kv == KvType::Q8_0 => {
            log::warn!("engine.kv_cache_type: q8_0 does not fit this model ({why}); bf16 is used");
            (KvType::Bf16, open(KvType::Bf16))
        }
        context => (shape.kv, context),
    };
    let mut context = context.map_err(|why| refused(gguf, &format!("cannot be served: {why}")))?;
    let broken = |e: ExecError| refused(gguf, &format!("cannot be served: {e}"));
    let token_bytes = measure(&mut context).map_err(broken)?;
    let mut found = Found { kv, token_bytes, probe: None, any_threads: false };
    if config.engine.kv_layout != KvLayout::Shared && !model.is_recurrent() {
        let caps = Caps {
            n_embd: model.n_embd(),
            kv_per_slot: trained.min(probe::TOKENS),
            ..Caps::of_rows(model.n_vocab(), probe::SLOTS, probe::TOKENS)
        };
        // As if rows took no time: so gaps that are filled are probed, too.
        let mut engine = Llama::new(context, caps, false, Times::new(&[(1, 1.0)]), Threads::All);
        let probe = probe::run(&mut engine, PROBE).map_err(broken)?;
        if !probe.finite {
            return Err(refused(gguf, "is damaged: its weights give scores that are no numbers"));
        }
        found.probe = Some(probe);
        if pools.sizes().len() > 1 && found.equal() {
            engine.take_turns();
            found.any_threads = probe::run(&mut engine, PROBE_THREADS).map_err(broken)?.differ == 0;
        }
    }
    Ok(found)
}

/// Bytes of one KV token, and whether the model computes anything.
fn measure(context: &mut Context) -> Result<f64, ExecError> {
    const MORE: u32 = 32;
    let mut size = |from: u32, n: u32| -> Result<usize, ExecError> {
        context.clear();
        for position in from..from + n {
            context.push(0, position, 0, position == 0);
        }
        context.decode().map_err(|e| ExecError(e.to_string()))?;
        if from == 0 && !context.logits(0).is_some_and(|row| row.iter().all(|x| x.is_finite())) {
            return Err(ExecError("its weights give scores that are no numbers".into()));
        }
        Ok(context.state_size(0))
    };
    let (one, more) = (size(0, 1)?, size(1, MORE)?);
    context.remove(0, 0);
    Ok((more.saturating_sub(one) as f64 / f64::from(MORE)).max(1.0))
}

/// The context that serves.
fn build(loaded: &Loaded, config: &Config, plan: &KvPlan) -> Result<Llama, Error> {
    let Loaded { model, found, pools, .. } = loaded;
    let step = config.max_num_tokens.max(1);
    let shape = Shape {
        shared: plan.shared,
        sequences: plan.sequences,
        cells: plan.cells,
        // Room for rows that fill gaps.
        batch: step.saturating_add(plan.sequences),
        kv: found.kv,
    };
    let context = Context::new(model, &shape, pools).map_err(|why| {
        Error::Executor(format!("KV for {} tokens: {why}; lower kv_cache_max_tokens", plan.total))
    })?;
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
    Ok(Llama::new(context, caps, plan.shared, times, threads))
}

/// Logits of a step that may take a quarter of the memory that KV leaves, 256 MiB at least.
fn max_logits(config: &Config) -> u64 {
    let left = memory::available() as f64 * (1.0 - config.kv_cache_free_gpu_mem_fraction.clamp(0.0, 1.0));
    ((left / 4.0) as u64).max(256 << 20) / size_of::<f32>() as u64
}

fn describe(Loaded { model, found, pools, .. }: &Loaded, plan: &KvPlan) -> ModelInfo {
    let (begin, add_begin) = model.begin();
    let layout = if plan.shared { "one pool" } else { "slots" };
    let threads = if found.any_threads { "up to " } else { "" }.to_owned() + &pools.sizes()[0].to_string();
    let summary = format!(
        "llama.cpp: {}, {:.1} MiB; KV {} in {layout}; {threads} threads",
        // What the library calls a model of a size that it does not know.
        model.description().replace(" ?B", ""),
        mib(model.bytes() as f64),
        found.kv,
    );
    ModelInfo {
        n_vocab: model.n_vocab(),
        context: plan.per_slot,
        chat_template: model.chat_template(),
        end_ids: model.end_ids(),
        begin,
        add_begin,
        recurrent: model.is_recurrent(),
        sliding_window: model.n_swa(),
        plan: *plan,
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
fn pool_sizes(config: &Config) -> Vec<u32> {
    if config.engine.threads > 0 { vec![config.engine.threads] } else { threads::sizes(threads(config)) }
}

/// The engine's most threads: as configured, or the cores that this process may use.
pub fn threads(config: &Config) -> u32 {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if config.engine.threads > 0 { config.engine.threads } else { u32::try_from(cores()).unwrap_or(1) }
}

/// The configured type of K and V.
pub fn kv_type(config: &Config) -> KvType {
    match config.engine.kv_cache_type {
        KvCacheType::Q8_0 => KvType::Q8_0,
        KvCacheType::Bf16 => KvType::Bf16,
        KvCacheType::F16 => KvType::F16,
    }
}

fn refused(gguf: &Path, why: &str) -> Error {
    Error::invalid("target", format!("{} {why}", gguf.display()))
}
