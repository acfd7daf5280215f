//! KV is laid out: how many tokens the memory may hold, and the engines that hold them.

use super::context::{CELL_BLOCK, Context, MAX_SEQUENCES};
use super::devices::Gpus;
use super::forward::Llama;
use super::loaded::Loaded;
use super::placement::Role;
use super::plan::{self, Facts};
use super::{Drafting, Opened, heads, of_draft, pages, probe};
use crate::config::{Config, DraftSource, KvHome, KvLayout, KvPlan};
use crate::error::{Error, Result};
use crate::exec::cost::Cost;
use crate::exec::{Caps, Copying, Forward, Promise, Tell, memory};
use std::iter::once;
use std::sync::Arc;

/// Bytes that llama.cpp keeps of each cell beside its K and V (`llama_kv_cells`: position, extension, shift, a bit for each
/// sequence).
const CELL: u64 = 48;
/// Part of the free memory that these bytes may take for all cells together, used or not.
const ACCOUNT: u64 = 64;
/// Most states that are kept of a sequence: tokens that are guessed further ahead are seldom accepted.
const ROLLBACK: u32 = 8;

const MIB: f64 = 1_048_576.0;

/// A target that is loaded, and its draft model.
pub(super) struct Pair<'a> {
    pub(super) target: Loaded<'a>,
    pub(super) draft: Option<Loaded<'a>>,
    pub(super) gpus: Gpus,
}

impl Pair<'_> {
    /// Lays KV out. `free`: bytes of host memory before anything was loaded.
    ///
    /// # Errors
    /// `Executor` where memory is short, `Invalid` where the draft model's KV cannot be truncated.
    pub(super) fn open(&self, free: u64, tell: Tell<'_>) -> Result<Opened> {
        let Pair { target, draft, gpus } = self;
        let config = &target.config;
        // What weights leave of host memory, mapped or read. Pages of mapped files look free to the system, and are not.
        let on_host = |l: &Loaded<'_>| l.model.bytes().saturating_sub(l.layout.weights.iter().sum());
        let is_other = |l: &&Loaded<'_>| l.role == Role::Target || !Arc::ptr_eq(&l.model, &target.model);
        let free =
            free.saturating_sub(self.all().filter(is_other).map(on_host).sum()).min(memory::available());
        let facts = self.facts(free);
        if facts.on_host && config.engine.kv_layout != KvLayout::Auto {
            let why = "is for GPUs: in host memory each sequence has a slot of its own; leave it out";
            return Err(Error::invalid("engine.kv_layout", why));
        }
        let mut plan = config.plan.unwrap_or_else(|| plan::plan(config, &facts));
        tell(format!("laying out {} KV tokens", plan.total));
        let mut context = target.lay_out(&plan)?;
        let drafting = draft.as_ref().map(|draft| draft.lay_out_beside(plan, target, &mut context));
        let drafting = drafting.transpose().map_err(of_draft)?;
        if plan.home == KvHome::Pages && config.plan.is_none() {
            let computing = context.computing() + drafting.as_ref().map_or(0, Context::computing);
            plan.total = plan.total.min(self.fit(free.saturating_sub(computing)) as u64);
        }
        if plan.total < u64::from(CELL_BLOCK.min(plan.per_slot)) {
            let why =
                format!("there is memory for {} KV tokens: free some, or raise kv_cache_memory", plan.total);
            return Err(Error::Executor(why));
        }
        let forward: Box<dyn Forward> = Box::new(target.engine(&plan, self.token_bytes(), context));
        target.log(&plan, self.token_bytes(), forward.caps().promise);
        let drafting = draft.as_ref().zip(drafting);
        let drafting = drafting.map(|(draft, context)| draft.open_beside(plan, context, gpus));
        Ok(Opened {
            forward,
            draft: drafting.transpose().map_err(of_draft)?,
            plan,
            chat_template: target.model.chat_template(None),
            tool_use_template: target.model.chat_template(Some(c"tool_use")),
            rag_template: target.model.chat_template(Some(c"rag")),
            threads: target.workers.size(),
            on_gpus: target.layout.whole(),
            summary: target.summary(&plan, gpus),
        })
    }

    fn all(&self) -> impl Iterator<Item = &Loaded<'_>> {
        once(&self.target).chain(&self.draft)
    }

    /// Bytes of a token's KV in both models.
    fn token_bytes(&self) -> u64 {
        self.all().map(|loaded| loaded.share() * loaded.found.token_bytes).sum::<f64>().ceil() as u64
    }

    /// KV tokens that fit into the memory that KV may take, where `free` bytes of the host's are left.
    fn fit(&self, free: u64) -> f64 {
        let on_gpus = self.gpus.free().into_iter().enumerate().map(|(i, free)| {
            let computing = self.all().filter_map(|loaded| loaded.found.computing.get(i));
            free.saturating_sub(computing.sum())
        });
        let fit = |(place, free): (usize, u64)| {
            let bytes = |l: &Loaded<'_>| l.share() * l.layout.kv[place] * l.found.token_bytes;
            // Infinite, or no number, where none are needed: `min` takes the other then.
            let fit = |config: &Config, bytes: f64| budget(config, free, place > 0) / bytes;
            let drafts = self.draft.as_ref().map_or(f64::INFINITY, |draft| fit(&draft.config, bytes(draft)));
            drafts.min(fit(&self.target.config, self.all().map(bytes).sum()))
        };
        let asked = |draft: &Loaded<'_>| Some(draft.config.kv_cache_max_tokens? as f64 / draft.share());
        let most = self.draft.as_ref().and_then(asked).unwrap_or(f64::INFINITY);
        once(free).chain(on_gpus).enumerate().map(fit).fold(most, f64::min)
    }

    /// Most sequences whose states take half of the memory that KV may take.
    fn states(&self, free: u64) -> u32 {
        let bytes = |loaded: &Loaded<'_>| {
            let states = if loaded.role == Role::Target { 1 + loaded.rollback() } else { 2 };
            f64::from(states) * loaded.found.state_bytes
        };
        let each = self.all().map(bytes).sum::<f64>();
        ((budget(&self.target.config, free, false) / 2.0 / each.max(1.0)) as u32).max(1)
    }

    /// What KV is laid out by.
    fn facts(&self, free: u64) -> Facts {
        let Loaded { config, file, model, .. } = &self.target;
        let cells = |loaded: &Loaded<'_>| (loaded.most_cells(loaded.found.kv) as f64 / loaded.share()) as u64;
        let doubled = self.draft.as_ref().is_some_and(|draft| draft.is_stateful());
        let most = if doubled { MAX_SEQUENCES / 2 } else { MAX_SEQUENCES };
        let account = free / ACCOUNT / CELL / self.all().count() as u64;
        let in_pages = !model.is_recurrent() && self.all().all(Loaded::paged);
        let facts = Facts {
            sequences: file.sequences.min(self.states(free)).min(most),
            context: config.engine.context,
            fit: self.fit(free) as u64,
            cells: self.all().map(cells).min().unwrap_or(0),
            paged: in_pages.then_some(account),
            on_host: self.all().all(Loaded::on_host),
            windowed: model.n_swa() > 0,
            stateful: model.is_recurrent(),
        };
        let needed = f64::from(plan::plan(config, &facts).cells) * self.token_bytes() as f64;
        if in_pages && !pages::ffi::can_map(needed as u64) {
            log::warn!("the system lets no more memory be mapped than there is: KV is laid out at once");
            return Facts { paged: None, ..facts };
        }
        facts
    }
}

/// Bytes that KV may take where so many are free.
fn budget(config: &Config, free: u64, on_gpu: bool) -> f64 {
    config.kv_cache_memory.map_or_else(|| free as f64 * config.kv_share(on_gpu), |bytes| bytes as f64)
}

impl Loaded<'_> {
    /// States of a sequence that are kept beside its last, for drafts that are refused: each takes as much memory as that.
    fn rollback(&self) -> u32 {
        let speculative = &self.config.speculative;
        let guesses = speculative.sources().iter().any(|source| *source != DraftSource::Forced);
        let wants = self.role == Role::Target && self.model.is_recurrent() && guesses;
        if wants { speculative.draft_len().min(ROLLBACK) } else { 0 }
    }

    /// How many of a target's KV tokens it has.
    fn share(&self) -> f64 {
        if self.role == Role::Target { 1.0 } else { self.config.speculative.draft_kv_fraction }
    }

    /// The plan of this draft model.
    fn plan_beside(&self, target: KvPlan) -> KvPlan {
        plan::of_draft(target, &self.config, self.is_stateful())
    }

    /// The context that serves.
    fn lay_out(&self, plan: &KvPlan) -> Result<Context> {
        // Room for rows that fill gaps.
        let batch = self.config.max_num_tokens.max(1).saturating_add(plan.sequences);
        self.context(self.found.kv, plan, batch, self.rollback()).map_err(|why| {
            Error::Executor(format!("KV for {} tokens: {why}; lower kv_cache_max_tokens", plan.total))
        })
    }

    /// The context that drafts beside that of a target. A head reads hidden states of it from now on.
    fn lay_out_beside(&self, plan: KvPlan, target: &Loaded<'_>, beside: &mut Context) -> Result<Context> {
        let plan = self.plan_beside(plan);
        let Some(kind) = &self.file.head else { return self.lay_out(&plan) };
        let read = heads::check(self, kind, target)?;
        let context = self.context_of_head(&plan, beside.n_batch() as u32, beside);
        let context = context.map_err(|why| Error::target(self.gguf, format!("cannot draft: {why}")))?;
        beside.tap(read);
        Ok(context)
    }

    /// The engine on a context. `token_bytes`: of a token's KV, the draft model's included.
    fn engine(&self, plan: &KvPlan, token_bytes: u64, context: Context) -> Llama {
        let Loaded { config, file, model, found, .. } = self;
        let shared = plan.home == KvHome::Pool;
        let stateful = self.is_stateful();
        let truncates = !stateful && (model.n_swa() == 0 || !shared);
        let reuses = truncates || (stateful && file.copies);
        let equal = !shared && found.probe.rows > 0 && found.probe.differ == 0;
        // Logits of a step may take a quarter of the memory that KV leaves, 256 MiB at least.
        let most = memory::available() as f64 * (1.0 - config.kv_share(false)) / 4.0;
        let caps = Caps {
            n_embd: model.n_embd(),
            kv_total: plan.total,
            token_bytes: if plan.home == KvHome::Pages { token_bytes } else { 0 },
            max_step_tokens: config.max_num_tokens.clamp(1, context.n_batch() as u32),
            max_logits: (most as u64).max(256 << 20) / size_of::<f32>() as u64,
            prefix_reuse: reuses,
            stateful,
            rollback: if truncates { u32::MAX } else { context.rollback() },
            even_drafts: (stateful && context.rollback() > 0).then(|| context.pass()),
            copying: match plan.home {
                _ if !reuses => Copying::Never,
                KvHome::Slots => Copying::Slots,
                KvHome::Pages => Copying::Tokens,
                KvHome::Pool => Copying::Shares,
            },
            ragged: shared,
            promise: if equal { Promise::BitIdentical } else { Promise::NearTies },
            probed: found.probe.passes.clone(),
            ..Caps::of_rows(model.n_vocab(), plan.sequences, plan.per_slot)
        };
        if !caps.prefix_reuse {
            log::warn!("this model's KV cannot be truncated: no prefix reuse");
        }
        let rows = if shared { 0.0 } else { Cost::new(&caps.probed).rows_of_a_pass() };
        Llama::new(context, caps, rows)
    }

    /// A draft model's engine, with as many slots as the target. Its context may be shorter: beyond it nothing is drafted.
    fn open_beside(&self, target: KvPlan, context: Context, gpus: &Gpus) -> Result<Drafting> {
        let plan = self.plan_beside(target);
        let llama = self.engine(&plan, 0, context);
        let caps = &llama.caps;
        if caps.stateful && (plan.home != KvHome::Pool || !caps.prefix_reuse) {
            let why = "carries a state: it can draft for a target that carries one, too";
            return Err(Error::target(self.gguf, why));
        }
        if !caps.stateful && caps.rollback == 0 {
            return Err(Error::target(self.gguf, "cannot draft: its KV cannot be truncated"));
        }
        let is_head = self.file.head.is_some();
        let kind = if is_head { "head" } else { "draft model" };
        log::info!("{kind}: {}; {} KV tokens", self.summary(&plan, gpus), plan.total);
        Ok(if is_head { Drafting::Head(Box::new(llama)) } else { Drafting::Model(Box::new(llama)) })
    }

    fn summary(&self, plan: &KvPlan, gpus: &Gpus) -> String {
        let kv = if plan.home == KvHome::Pool { "one pool" } else { "slots" };
        let threads = self.workers.size();
        format!(
            "llama.cpp: {}, {:.1} MiB; {}KV {} in {kv}; {threads} thread{}",
            // What the library calls a model of a size that it does not know.
            self.model.description().replace(" ?B", ""),
            self.model.bytes() as f64 / MIB,
            gpus.place(&self.layout),
            self.found.kv,
            if threads == 1 { "" } else { "s" },
        )
    }

    /// Says what was found at this start: room for KV, and the probe's verdict.
    fn log(&self, plan: &KvPlan, token_bytes: u64, promise: Promise) {
        let KvPlan { sequences, per_slot, total, .. } = *plan;
        let size = total as f64 * token_bytes as f64 / MIB;
        let layout = match plan.home {
            KvHome::Pool => format!("{total} KV tokens shared by {sequences} slots, {size:.0} MiB"),
            KvHome::Slots => format!("{total} KV tokens in {sequences} slots of {per_slot}, {size:.0} MiB"),
            KvHome::Pages => format!(
                "up to {total} KV tokens, {size:.0} MiB as they are used, in {sequences} slots of {per_slot}"
            ),
        };
        let probe::Found { rows, differ, took, .. } = &self.found.probe;
        let probe = match rows {
            0 => "no probe".to_owned(),
            _ => format!("probe: {differ} of {rows} rows differ, {} ms", took.as_millis()),
        };
        let exact = if promise == Promise::BitIdentical { "bit-identical" } else { "up to near-ties" };
        log::info!("{layout}; exact: {exact} ({probe})");
    }
}
