//! KV is laid out: how many tokens the memory may hold, and the engines that hold them.

use super::context::{CELL_BLOCK, Context, MAX_SEQUENCES, Shape};
use super::devices::Gpus;
use super::forward::Llama;
use super::plan::{self, Facts};
use super::{Loaded, ModelFile, Opened, Parts, describe, gpus, log_found, of_draft, pages, refused};
use crate::config::{Config, DraftSource, KvHome, KvLayout, KvPlan};
use crate::error::{Error, Result};
use crate::exec::cost::Cost;
use crate::exec::progress::Tell;
use crate::exec::{Caps, Copying, Forward, Promise, memory};

/// Bytes that llama.cpp keeps of each cell beside its K and V (`llama_kv_cells`: position, extension, shift, a bit for each
/// sequence).
const CELL: u64 = 48;
/// Part of the free memory that these bytes may take for all cells together, used or not.
const ACCOUNT: u64 = 64;
/// Most states that are kept of a sequence: tokens that are guessed further ahead are seldom accepted.
const ROLLBACK: u32 = 8;

/// A target that is loaded, and its draft model.
pub(super) struct Pair<'a> {
    pub(super) target: &'a Loaded,
    pub(super) config: &'a Config,
    pub(super) draft: Option<(&'a ModelFile<'a>, &'a Loaded)>,
}

impl Pair<'_> {
    /// Lays KV out. `free`: bytes of host memory before anything was loaded.
    ///
    /// # Errors
    /// `Executor` where memory is short, `Invalid` where the draft model's KV cannot be truncated.
    pub(super) fn open(&self, free: u64, gpus: &Gpus, tell: Tell<'_>) -> Result<Opened> {
        let Pair { target, config, .. } = *self;
        let free = self.left(free);
        let facts = self.facts(free, gpus);
        if facts.on_host && config.engine.kv_layout != KvLayout::Auto {
            let why = "is for GPUs: in host memory each sequence has a slot of its own; leave it out";
            return Err(Error::invalid("engine.kv_layout", why));
        }
        let mut plan = config.plan.unwrap_or_else(|| plan::plan(config, &facts));
        tell(format!("laying out {} KV tokens", plan.total));
        let context = lay_out(target, config, &plan, rollback(target, config))?;
        let draft_plan = |plan: &KvPlan| {
            self.draft.map(|(file, loaded)| {
                let stateful = loaded.parts.model.is_recurrent();
                plan::of_draft(*plan, loaded.context, stateful, &file.config.speculative)
            })
        };
        let drafting = self.draft.zip(draft_plan(&plan));
        let drafting = drafting.map(|((file, loaded), plan)| lay_out(loaded, file.config, &plan, 0));
        let drafting = drafting.transpose().map_err(of_draft)?;
        if plan.home == KvHome::Pages && config.plan.is_none() {
            let computing = context.computing() + drafting.as_ref().map_or(0, Context::computing);
            plan.total = plan.total.min(self.fit(free.saturating_sub(computing), gpus) as u64);
        }
        if plan.total < u64::from(CELL_BLOCK.min(plan.per_slot)) {
            let why =
                format!("there is memory for {} KV tokens: free some, or raise kv_cache_memory", plan.total);
            return Err(Error::Executor(why));
        }
        let forward = engine(target, config, (&plan, self.token_bytes()), context);
        log_found(&plan, self.token_bytes(), &target.found, forward.caps().promise);
        let draft = match (self.draft, draft_plan(&plan), drafting) {
            (Some((file, loaded)), Some(plan), Some(context)) => {
                let opened = open_draft(loaded, file, (&plan, gpus), context);
                Some(Box::new(opened.map_err(of_draft)?))
            }
            _ => None,
        };
        Ok(Opened { forward, info: describe(target, &plan, gpus), draft })
    }

    fn all(&self) -> impl Iterator<Item = &Loaded> {
        std::iter::once(self.target).chain(self.draft.map(|(_, loaded)| loaded))
    }

    /// What weights leave of host memory, mapped or read. Pages of mapped files look free to the system, and are not.
    fn left(&self, free: u64) -> u64 {
        let on_host = |loaded: &Loaded| {
            let on_gpus: u64 = loaded.parts.layout.weights.iter().sum();
            loaded.parts.model.bytes().saturating_sub(on_gpus)
        };
        free.saturating_sub(self.all().map(on_host).sum()).min(memory::available())
    }

    /// The draft model's share in a token's KV.
    fn share(&self) -> f64 {
        self.draft.map_or(0.0, |(file, _)| file.config.speculative.draft_kv_fraction)
    }

    /// Bytes of a token's KV in both models.
    fn token_bytes(&self) -> u64 {
        let draft = self.draft.map_or(0.0, |(_, loaded)| self.share() * loaded.found.token_bytes);
        (self.target.found.token_bytes + draft).ceil() as u64
    }

    /// KV tokens that fit into the memory that KV may take, where `free` bytes of the host's are left.
    fn fit(&self, free: u64, gpus: &Gpus) -> f64 {
        let on_gpus = gpus.free().into_iter().enumerate().map(|(i, free)| {
            let computing = self.all().filter_map(|loaded| loaded.found.computing.get(i));
            free.saturating_sub(computing.sum())
        });
        let on_gpus = Vec::from_iter(on_gpus);
        let memory = |config: &Config| {
            let on_gpus = on_gpus.iter().map(|free| budget(config, *free, true));
            Vec::from_iter(std::iter::once(budget(config, free, false)).chain(on_gpus))
        };
        let bytes = |loaded: &Loaded| {
            Vec::from_iter(loaded.parts.layout.kv.iter().map(|part| part * loaded.found.token_bytes))
        };
        let (mut needed, mut fit) = (bytes(self.target), f64::INFINITY);
        if let Some((ModelFile { config, .. }, draft)) = self.draft {
            let (share, own) = (self.share(), bytes(draft));
            needed.iter_mut().zip(&own).for_each(|(all, own)| *all += share * own);
            let most = config.kv_cache_max_tokens.map_or(f64::INFINITY, |most| most as f64);
            fit = most.min(gpus::fit(&memory(config), &own)) / share;
        }
        fit.min(gpus::fit(&memory(self.config), &needed))
    }

    /// Most sequences whose states take half of the memory that KV may take.
    fn states(&self, free: u64) -> u32 {
        let own = self.target.found.state_bytes * f64::from(1 + rollback(self.target, self.config));
        let each = own + self.draft.map_or(0.0, |(_, draft)| 2.0 * draft.found.state_bytes);
        let states = budget(self.config, free, false) / 2.0 / each.max(1.0);
        (states as u32).max(1)
    }

    /// What KV is laid out by.
    fn facts(&self, free: u64, gpus: &Gpus) -> Facts {
        let Loaded { parts, found, context, .. } = self.target;
        let mut cells = parts.most_cells(found.kv);
        if let Some((_, draft)) = self.draft {
            cells = cells.min((draft.parts.most_cells(draft.found.kv) as f64 / self.share()) as u64);
        }
        let doubled = self.draft.is_some_and(|(_, draft)| draft.parts.model.is_recurrent());
        let most = if doubled { MAX_SEQUENCES / 2 } else { MAX_SEQUENCES };
        let facts = Facts {
            sequences: parts.file.sequences.min(self.states(free)).min(most),
            context: *context,
            fit: self.fit(free, gpus) as u64,
            cells,
            paged: None,
            on_host: self.all().all(|loaded| loaded.parts.on_host),
            windowed: parts.model.n_swa() > 0,
            stateful: parts.model.is_recurrent(),
        };
        let account = free / ACCOUNT / CELL / self.all().count() as u64;
        let in_pages = !facts.stateful && self.all().all(|loaded| loaded.parts.paged());
        let paged = Facts { paged: Some(account).filter(|_| in_pages), ..facts };
        let needed = f64::from(plan::plan(self.config, &paged).cells) * self.token_bytes() as f64;
        if paged.paged.is_some() && !pages::ffi::can_map(needed as u64) {
            log::warn!("the system lets no more memory be mapped than there is: KV is laid out at once");
            return facts;
        }
        paged
    }
}

/// States of a sequence that are kept beside its last, for drafts that are refused: each takes as much memory as that.
fn rollback(loaded: &Loaded, config: &Config) -> u32 {
    let speculative = &config.speculative;
    let guesses = speculative.sources().iter().any(|source| *source != DraftSource::Forced);
    if loaded.parts.model.is_recurrent() && guesses { speculative.draft_len().min(ROLLBACK) } else { 0 }
}

/// Bytes that KV may take where so many are free.
fn budget(config: &Config, free: u64, on_gpu: bool) -> f64 {
    config.kv_cache_memory.map_or_else(|| free as f64 * config.kv_share(on_gpu), |bytes| bytes as f64)
}

/// The context that serves.
fn lay_out(loaded: &Loaded, config: &Config, plan: &KvPlan, rollback: u32) -> Result<Context> {
    let shape = Shape {
        shared: plan.home == KvHome::Pool,
        sequences: plan.sequences,
        cells: plan.cells,
        // Room for rows that fill gaps.
        batch: config.max_num_tokens.max(1).saturating_add(plan.sequences),
        pass: loaded.parts.pass(),
        kv: loaded.found.kv,
        paged: loaded.parts.paged(),
        rollback,
        rope: loaded.parts.rope,
    };
    loaded.parts.context(&shape).map_err(|why| {
        Error::Executor(format!("KV for {} tokens: {why}; lower kv_cache_max_tokens", plan.total))
    })
}

/// The engine on a context. `token_bytes`: of a token's KV, the draft model's included.
fn engine(
    loaded: &Loaded,
    config: &Config,
    (plan, token_bytes): (&KvPlan, u64),
    context: Context,
) -> Box<dyn Forward> {
    let Loaded { parts: Parts { model, .. }, found, .. } = loaded;
    let shared = plan.home == KvHome::Pool;
    let stateful = model.is_recurrent();
    let truncates = !stateful && (model.n_swa() == 0 || !shared);
    let rollback = if truncates { u32::MAX } else { context.rollback() };
    let reuses = truncates || (stateful && loaded.parts.file.copies);
    let step = config.max_num_tokens.max(1);
    let caps = Caps {
        n_embd: model.n_embd(),
        kv_total: plan.total,
        token_bytes: if plan.home == KvHome::Pages { token_bytes } else { 0 },
        max_step_tokens: step.min(u32::try_from(context.n_batch()).unwrap_or(u32::MAX)),
        max_logits: max_logits(config),
        prefix_reuse: reuses,
        stateful,
        rollback,
        copying: match (reuses, shared) {
            (false, _) => Copying::Never,
            (true, false) => Copying::Moves,
            (true, true) => Copying::Shares,
        },
        ragged: shared,
        promise: if !shared && found.equal() { Promise::BitIdentical } else { Promise::NearTies },
        probed: found.probe.as_ref().map_or_else(Vec::new, |probe| probe.passes.clone()),
        ..Caps::of_rows(model.n_vocab(), plan.sequences, plan.per_slot)
    };
    if !caps.prefix_reuse {
        log::warn!("this model's KV cannot be truncated: no prefix reuse");
    }
    let rows = Cost::new(&caps.probed).rows_of_a_pass();
    Box::new(Llama::new(context, caps, shared, rows))
}

/// A draft model with as many slots as the target. Its context may be shorter: beyond it nothing is drafted.
fn open_draft(
    loaded: &Loaded,
    file: &ModelFile<'_>,
    (plan, gpus): (&KvPlan, &Gpus),
    context: Context,
) -> Result<Opened> {
    let forward = engine(loaded, file.config, (plan, 0), context);
    let caps = forward.caps();
    if caps.stateful && (plan.home != KvHome::Pool || !caps.prefix_reuse) {
        return Err(refused(file.gguf, "carries a state: it can draft for a target that carries one, too"));
    }
    if !caps.stateful && caps.rollback == 0 {
        return Err(refused(file.gguf, "cannot draft: its KV cannot be truncated"));
    }
    let info = describe(loaded, plan, gpus);
    log::info!("draft model: {}; {} KV tokens", info.summary, plan.total);
    Ok(Opened { forward, info, draft: None })
}

/// Logits of a step that may take a quarter of the memory that KV leaves, 256 MiB at least.
fn max_logits(config: &Config) -> u64 {
    let left = memory::available() as f64 * (1.0 - config.kv_share(false));
    ((left / 4.0) as u64).max(256 << 20) / size_of::<f32>() as u64
}
