//! A model that is checked, placed, read and probed, before KV is laid out.

use super::context::{
    CELL_BLOCK, Context, GPU_PASS_TOKENS, HEAD_PASS_TOKENS, KvType, PASS_TOKENS, Shape, Workers,
};
use super::devices::Gpus;
use super::ffi::Model;
use super::file::{self, File};
use super::forward::Llama;
use super::gpus::{self, Layout};
use super::heads::Head;
use super::placement::Role;
use super::{kernels, plan, probe, threads};
use crate::config::{Config, EngineConfig, KvCacheType, KvHome, KvPlan, Numa};
use crate::error::{Error, Result};
use crate::exec::{Caps, Tell, cores, memory};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for the probe.
const PROBE: Duration = Duration::from_millis(800);
/// Two lines about one file are this far apart, and differ by this share of it: few files are told of more than once.
const APART: (Duration, f32) = (Duration::from_millis(500), 0.05);

/// A loaded model.
pub(super) struct Loaded<'a> {
    pub(super) gguf: &'a Path,
    pub(super) role: Role,
    /// Its context, and the scale of its positions, are those that this model has.
    pub(super) config: Config,
    pub(super) file: File,
    pub(super) layout: Layout,
    pub(super) model: Arc<Model>,
    pub(super) workers: Arc<Workers>,
    /// Most bytes that a tensor of K or V may have where they lie.
    largest: u64,
    pub(super) found: Found,
}

/// What a small context with slots told about a model.
#[derive(Default)]
pub(super) struct Found {
    pub(super) kv: KvType,
    pub(super) token_bytes: f64,
    /// Bytes of a sequence's state; 0 where it has none.
    pub(super) state_bytes: f64,
    /// Bytes that passes take on each GPU, beside KV.
    pub(super) computing: Vec<u64>,
    /// No rows were compared of a model with a state.
    pub(super) probe: probe::Found,
}

impl<'a> Loaded<'a> {
    /// Checks, loads and probes a GGUF file, with its layers for multi-token prediction where `mtp`. It computes on the `shared`
    /// threads where it wants as many.
    pub(super) fn load(
        (gguf, config, mtp): (&'a Path, &Config, bool),
        role: Role,
        gpus: &mut Gpus,
        shared: Option<&Arc<Workers>>,
        tell: Tell<'_>,
    ) -> Result<Self> {
        let file = file::read(gguf)?;
        if file.head.is_some() && role == Role::Target {
            let why = "is a head, which drafts for another model: give it as the draft model";
            return Err(Error::target(gguf, why));
        }
        let mut config = config.clone();
        plan::settle_context(&mut config.engine, file.trained, role == Role::Target)?;
        let mut layout = gpus::lay_out(&config, &file.layers, &gpus.known(), role)?;
        file.check_heads(layout.placement.ranks()).map_err(|why| Error::target(gguf, why))?;
        gpus.check(&layout.placement)?;
        layout.placement.read = is_read(&config.engine, &layout, file.bytes);
        layout.placement.locked = config.engine.mlock;
        layout.placement.mtp = mtp || matches!(file.head, Some(Head::Mtp));
        let by_layers = layout.on_gpus() > 0 && !layout.placement.splits_layers;
        let lower = if by_layers { "; lower engine.gpu_layers" } else { "" };
        let model = Model::load(gguf, &layout.placement, &reading(role.name(), gguf, tell))
            .map_err(|why| Error::target(gguf, format!("cannot be loaded: {why}{lower}")))?;
        if role == Role::Target && file.mtp == 1 && !mtp {
            log::info!(
                "the file has a layer that drafts (MTP): give the file as the draft model, too, to use it"
            );
        }
        if model.n_vocab() == 0 || !(model.generates() || file.head.is_some()) {
            return Err(Error::target(gguf, "is no model that generates text"));
        }
        gpus.loaded(&layout.weights);
        // One where GPUs compute all layers: what is left to do is little, and threads that wait would spin.
        let count = if config.engine.threads == 0 && layout.whole() { 1 } else { threads(&config) };
        let nodes = if config.engine.numa == Numa::Distribute { cores::nodes() } else { Vec::new() };
        let shared = shared.filter(|workers| workers.size() == count).map(Arc::clone);
        let workers = shared.map_or_else(|| Workers::team(count, &nodes), Ok).map_err(Error::Executor)?;
        let largest = gpus.largest_tensor(&layout.placement);
        if file.head.is_none() {
            tell(format!("probing {}: are rows equal whatever shares a pass?", role.name()));
        }
        let found = Found::default();
        let mut loaded = Loaded { gguf, role, config, file, layout, model, workers, largest, found };
        loaded.probe(gpus)?;
        Ok(loaded)
    }

    /// The head that a target's own file has, with this configuration.
    pub(super) fn own_head(&self, config: &Config) -> Result<Loaded<'a>> {
        let mut file = file::read(self.gguf)?;
        file.head = Some(Head::Mtp);
        let mut config = config.clone();
        plan::settle_context(&mut config.engine, file.trained, false)?;
        let mut head = Loaded {
            gguf: self.gguf,
            role: Role::Draft,
            config,
            file,
            layout: Layout { weights: vec![0; self.layout.weights.len()], ..self.layout.clone() },
            model: Arc::clone(&self.model),
            workers: Arc::clone(&self.workers),
            largest: self.largest,
            found: Found::default(),
        };
        head.settle_head();
        Ok(head)
    }

    /// What is known of a head, which computes nothing without its target. What it computes need not have equal bits.
    fn settle_head(&mut self) {
        // It is asked for whatever the target holds, and its KV is small.
        self.config.speculative.draft_kv_fraction = 1.0;
        let kv = kv_type(&self.config);
        let layer = 2 * kv.bytes(self.file.kv_row);
        self.found = Found { kv, token_bytes: layer as f64, ..Found::default() };
    }

    /// Its sequences carry a state: those of a head do not, whatever its target's do.
    pub(super) fn is_stateful(&self) -> bool {
        self.file.head.is_none() && self.model.is_recurrent()
    }

    fn probe(&mut self, gpus: &Gpus) -> Result<()> {
        if self.file.head.is_some() {
            self.settle_head();
            return Ok(());
        }
        let (found, covered) = kernels::cover(|| self.look(gpus));
        self.found = found?;
        // The scans of models with a state have no kernel either.
        let shared = covered && !self.model.is_recurrent();
        let threads = self.workers.size();
        if !shared && self.on_host() && threads > 1 && matches!(*self.workers, Workers::Team(_)) {
            log::info!("some of what it computes has no kernel here: llama.cpp's own threads share all");
            self.workers = Workers::pool(threads).map_err(Error::Executor)?;
            self.found = self.look(gpus)?;
        }
        Ok(())
    }

    /// Finds a KV type that the model takes, measures it, and probes. Where the type is left to us and our kernels don't compute
    /// the attention, rows in F16 depend on their neighbours, and those in BF16 do not.
    fn look(&self, gpus: &Gpus) -> Result<Found> {
        let found = self.look_at(kv_type(&self.config), gpus)?;
        let is_ours = self.config.engine.kv_cache_type == KvCacheType::Auto && self.layout.on_gpus() == 0;
        if is_ours && found.probe.differ > 0 {
            let other = self.look_at(KvType::Bf16, gpus)?;
            return Ok(if other.probe.differ == 0 { other } else { found });
        }
        Ok(found)
    }

    fn look_at(&self, kv: KvType, gpus: &Gpus) -> Result<Found> {
        let unfit = |why: String| Error::target(self.gguf, format!("cannot be served: {why}"));
        let plan = plan::laid_out(KvHome::Slots, probe::SLOTS, probe::TOKENS, u64::MAX);
        // With room for a whole pass, to see how much memory that takes on GPUs.
        const { assert!(probe::SLOTS * probe::TOKENS >= GPU_PASS_TOKENS) };
        let before = gpus.free();
        let (kv, context) = match self.context(kv, &plan, plan.cells, 0) {
            Err(why) if kv == KvType::Q8_0 => {
                log::warn!("engine.kv_cache_type: q8_0 does not fit this model ({why}); bf16 is used");
                (KvType::Bf16, self.context(KvType::Bf16, &plan, plan.cells, 0))
            }
            context => (kv, context),
        };
        let mut context = context.map_err(unfit)?;
        let lost = |(before, after): (&u64, u64)| before.saturating_sub(after);
        let computing = before.iter().zip(gpus.free()).map(lost).collect();
        let (token_bytes, state_bytes) = measure(&mut context).map_err(unfit)?;
        let found = Found { kv, token_bytes, state_bytes, computing, ..Found::default() };
        if self.model.is_recurrent() {
            return Ok(found);
        }
        let per_slot = self.file.trained.min(plan.per_slot);
        let caps = Caps::of_rows(self.model.n_vocab(), plan.sequences, per_slot);
        // As if rows took no time: so gaps that are filled are probed, too.
        let mut engine = Llama::new(context, caps, f64::INFINITY);
        let probe = probe::run(&mut engine, PROBE).map_err(|e| unfit(e.0))?;
        Ok(Found { probe, state_bytes: 0.0, ..found })
    }

    /// A context, within what the library would end the process for. `batch`: tokens of a step. `rollback`: tokens of a sequence
    /// with a state that can be taken back.
    pub(super) fn context(
        &self,
        kv: KvType,
        plan: &KvPlan,
        batch: u32,
        rollback: u32,
    ) -> Result<Context, String> {
        Context::new(&self.model, &self.shape((kv, batch, rollback), plan)?, &self.workers)
    }

    /// The context of this head.
    pub(super) fn context_of_head(
        &self,
        plan: &KvPlan,
        batch: u32,
        target: &Context,
    ) -> Result<Context, String> {
        // llama.cpp computes the scores of all tokens of a head's pass.
        let shape = Shape { pass: HEAD_PASS_TOKENS, ..self.shape((self.found.kv, batch, 0), plan)? };
        Context::of_head(&self.model, &shape, &self.workers, target)
    }

    fn shape<'b>(
        &'b self,
        (kv, batch, rollback): (KvType, u32, u32),
        plan: &'b KvPlan,
    ) -> Result<Shape<'b>, String> {
        let (cells, most) = (plan.cells, self.most_cells(kv));
        if u64::from(cells) > most {
            let why = format!("{cells} cells of {kv} are too large a tensor for the GPU, which takes {most}");
            return Err(why);
        }
        Ok(Shape {
            plan,
            batch,
            // A GPU is kept busy by more of them.
            pass: if self.layout.on_gpus() > 0 { GPU_PASS_TOKENS } else { PASS_TOKENS },
            kv,
            paged: self.paged(),
            rollback,
            positions: &self.config.engine,
        })
    }

    /// Most cells of this type that the tensors of one layer may have.
    pub(super) fn most_cells(&self, kv: KvType) -> u64 {
        self.largest / kv.bytes(self.file.kv_row).max(1) / u64::from(CELL_BLOCK) * u64::from(CELL_BLOCK)
    }

    /// All of it lies in this machine's memory.
    pub(super) fn on_host(&self) -> bool {
        self.layout.placement.devices.is_empty()
    }

    /// Its KV lies in host memory, and may lie in pages.
    pub(super) fn paged(&self) -> bool {
        self.on_host() && self.file.by_cells
    }
}

/// The configured type of K and V. Left to us, it is F16, as in llama.cpp: in Q8_0, Qwen2.5 0.5B gives other answers, as some of
/// its keys are far larger than the others.
pub fn kv_type(config: &Config) -> KvType {
    match config.engine.kv_cache_type {
        KvCacheType::Q8_0 => KvType::Q8_0,
        KvCacheType::Bf16 => KvType::Bf16,
        KvCacheType::Auto | KvCacheType::F16 => KvType::F16,
    }
}

/// Whether so many bytes of weights are read, not mapped: if that is left to us, where the CPU computes and at least as much memory
/// is left for all else. Mapped pages are small, so that reading weights for each token misses the processor's table of pages.
fn is_read(engine: &EngineConfig, layout: &Layout, bytes: u64) -> bool {
    let fits = || layout.placement.devices.is_empty() && bytes <= memory::available() / 2;
    engine.mmap.map_or_else(fits, |mapped| !mapped)
}

/// Tells that reading this file begins. The result takes the share that has been read, from 0 to 1, and tells more of it.
fn reading(name: &str, file: &Path, tell: Tell<'_>) -> impl Fn(f32) {
    let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
    let what = format!("{name}, {}, {} MiB", file.display(), bytes.div_ceil(1 << 20));
    let say = move |share: f32| tell(format!("reading {what}: {:.0}%", 100.0 * share));
    say(0.0);
    let told = Cell::new((Instant::now(), 0.0));
    move |share| {
        let (when, before) = told.get();
        if when.elapsed() >= APART.0 && share >= before + APART.1 {
            told.set((Instant::now(), share));
            say(share);
        }
    }
}

/// Bytes of one KV token and of a sequence's first, and whether the model computes anything.
fn measure(context: &mut Context) -> Result<(f64, f64), String> {
    const MORE: u32 = 32;
    let mut size = |from: u32, n: u32| {
        context.clear();
        for position in from..from + n {
            context.push(0, position, 0, position == 0);
        }
        context.decode().map_err(|e| e.to_string())?;
        if from == 0 && !context.logits(0).is_some_and(|row| row.iter().all(|x| x.is_finite())) {
            return Err("its weights give scores that are no numbers".to_owned());
        }
        Ok(context.state_size(0))
    };
    let (one, more) = (size(0, 1)?, size(1, MORE)?);
    context.remove(0, 0);
    Ok(((more.saturating_sub(one) as f64 / f64::from(MORE)).max(1.0), one as f64))
}

#[cfg(test)]
mod tests {
    use super::super::placement::{Device, Placement};
    use super::*;

    #[test]
    fn weights_are_read_where_there_is_room() {
        let layout = gpus::lay_out(&Config::default(), &[1, 1], &[], Role::Target).unwrap();
        let read = |mmap, bytes| is_read(&EngineConfig { mmap, ..EngineConfig::default() }, &layout, bytes);
        assert!(read(None, 1) && !read(None, u64::MAX));
        assert!(!read(Some(true), 1) && read(Some(false), u64::MAX));
        let rank = Placement { devices: vec![Device::Shard; 2], ..Placement::default() };
        assert!(!is_read(&EngineConfig::default(), &Layout { placement: rank, ..layout }, 1));
    }
}
