//! How many slots, how many cells, how long a context: pure arithmetic.

use super::context::{CELL_BLOCK, MAX_SEQUENCES};
use crate::config::{Config, EngineConfig, KvHome, KvLayout, KvPlan, RopeScaling};
use crate::error::{Error, Result};

/// Slots in pages, at least: those beyond `max_batch_size` keep prefixes.
const SLOTS: u32 = 128;

/// Slots that are enough: where more sequences may run than whole contexts fit, but so many do, more are not worth a pool, in
/// which every row reads the cells of all sequences and of kept prefixes. (A 7B on an H200, 64 clients: 1.35 times the
/// tokens a second in slots.)
const ENOUGH: u32 = 16;

/// What is known of the model and the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Longest context, in tokens, and most sequences at a time.
    pub(super) context: u32,
    pub(super) sequences: u32,
    /// KV tokens that fit into the memory that KV may take.
    pub(super) fit: u64,
    /// Cells that the tensors of one layer may have where they lie: whole blocks, one at least.
    pub(super) cells: u64,
    /// Cells that the library may keep account of where KV lies in pages; None where it does not.
    pub(super) paged: Option<u64>,
    /// KV lies in host memory.
    pub(super) on_host: bool,
    /// The model has a sliding window: it can be truncated in slots only.
    pub(super) windowed: bool,
    /// The model carries a state: it cannot be truncated, and slots gain nothing.
    pub(super) stateful: bool,
}

/// Whole blocks of cells for so many slots, or for a pool of `most` tokens. Slots hold so many at most, too, or as many as they
/// have room for where these are fewer.
pub(super) fn laid_out(home: KvHome, sequences: u32, per_slot: u32, most: u64) -> KvPlan {
    let (cells, total) = match home {
        KvHome::Pool => (narrow(most.next_multiple_of(CELL_BLOCK.into())), most),
        KvHome::Slots | KvHome::Pages => {
            let all = u64::from(sequences) * u64::from(per_slot);
            (sequences * per_slot.next_multiple_of(CELL_BLOCK), all.min(most))
        }
    };
    KvPlan { home, sequences, cells, per_slot, total }
}

/// The plan of a draft model with this configuration and its context, beside a target with this plan. One with a state
/// (`stateful`) has twice as many slots ([`crate::exec::draft_model`]).
pub(super) fn of_draft(target: KvPlan, draft: &Config, stateful: bool) -> KvPlan {
    let KvPlan { home, sequences, per_slot, total, .. } = target;
    let part = |tokens| draft.speculative.draft_kv(tokens);
    let (longest, most) = match home {
        KvHome::Pool => (narrow(part(total)), part(total)),
        KvHome::Slots => (narrow(part(per_slot.into())), u64::MAX),
        KvHome::Pages => (per_slot, part(total)),
    };
    let sequences = if home == KvHome::Pool && stateful { 2 * sequences } else { sequences };
    laid_out(home, sequences, per_slot.min(draft.engine.context).min(longest), most)
}

/// Where KV lies, and how much of it.
///
/// - In pages, every slot has the whole context, or the KV tokens that memory may hold (`total`) where these are fewer.
/// - Elsewhere memory is laid out at once. If whole contexts for `max_batch_size` sequences fit, or for [`ENOUGH`], each sequence
///   gets a slot.
/// - If they do not fit in host memory, there are fewer or shorter slots. The same holds for a model with a sliding window, which
///   a pool cannot truncate.
/// - If they do not fit on GPUs or shards, all sequences share one pool. Each row then reads the cells of all of them.
/// - A model with a state always has a pool, since its slots hold no cells of their own.
pub(super) fn plan(config: &Config, facts: &Facts) -> KvPlan {
    let batch = config.max_batch_size.min(facts.sequences).clamp(1, MAX_SEQUENCES);
    let limit = config.kv_cache_max_tokens.unwrap_or(u64::MAX).min(facts.fit);
    if let Some(cells) = facts.paged {
        // No sequence has more than all may have together: shorter slots, and so more of them.
        let context = narrow(u64::from(facts.context).min(limit).max(1));
        let most = cells.min(most_cells(facts)) / u64::from(context.next_multiple_of(CELL_BLOCK));
        let most = narrow(most.clamp(1, MAX_SEQUENCES.into()));
        let sequences = batch.max(SLOTS).min(facts.sequences).clamp(1, most);
        return laid_out(KvHome::Pages, sequences, context, limit);
    }
    let tokens = (u64::from(batch) * u64::from(facts.context)).min(limit).clamp(1, most_cells(facts));
    // Whole contexts for as many slots as fit; one shorter slot where not even one does.
    let per_slot = u64::from(facts.context).min(tokens);
    let block = per_slot.next_multiple_of(u64::from(CELL_BLOCK));
    let fit = (tokens / per_slot).min(facts.fit / block).min(most_cells(facts) / block);
    let (slots, per_slot) = (narrow(fit.clamp(1, u64::from(batch))), narrow(per_slot));
    let shared = match config.engine.kv_layout {
        _ if facts.stateful => true,
        KvLayout::Slots => false,
        KvLayout::Shared => true,
        KvLayout::Auto => !facts.on_host && !facts.windowed && slots < batch.min(ENOUGH),
    };
    if !shared {
        return laid_out(KvHome::Slots, slots, per_slot, u64::MAX);
    }
    // Twice the batch, so that prefixes can be kept beside what runs, as far as there is room for states.
    let sequences = (batch * 2).min(MAX_SEQUENCES).min(facts.sequences);
    laid_out(KvHome::Pool, sequences, per_slot, tokens)
}

/// The library counts cells in 31 bits.
fn most_cells(facts: &Facts) -> u64 {
    let block = u64::from(CELL_BLOCK);
    (facts.cells / block * block).clamp(block, 1 << 30)
}

fn narrow(n: u64) -> u32 {
    u32::try_from(n).expect("bounded by 2^30 and a block. This is a bug.")
}

/// Sets the longest context, and by how much positions are scaled, for a model that was trained for so many tokens. `must`: a
/// context that it does not reach is refused, else shortened.
///
/// # Errors
/// `Invalid` naming `engine.context` where that is too long, and what to set.
pub(super) fn settle_context(engine: &mut EngineConfig, trained: u32, must: bool) -> Result<()> {
    let scale = engine.rope_freq_scale;
    let reach = scale.map_or(trained, |scale| (f64::from(trained) / scale) as u32);
    let asked = if engine.context == 0 { reach } else { engine.context };
    let reaches = asked <= reach || engine.rope_freq_base.is_some();
    let scales = matches!(engine.rope_scaling, RopeScaling::Linear | RopeScaling::Yarn) && scale.is_none();
    if must && !reaches && !scales {
        let without = if scale.is_some() { " and without engine.rope_freq_scale" } else { "" };
        let why = format!(
            "{asked} is more than the {reach} tokens that the model's positions reach: set {reach} or less, or have them scaled with engine.rope_scaling \"yarn\"{without}"
        );
        return Err(Error::invalid("engine.context", why));
    }
    if scales && !reaches {
        engine.rope_freq_scale = Some(f64::from(trained) / f64::from(asked));
    }
    engine.context = if reaches || scales { asked } else { reach };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(context: u32, fit: u64) -> Facts {
        Facts {
            context,
            sequences: u32::MAX,
            fit,
            cells: u64::MAX,
            paged: None,
            on_host: false,
            windowed: false,
            stateful: false,
        }
    }

    fn in_pages(context: u32, fit: u64) -> Facts {
        Facts { paged: Some(8 << 20), on_host: true, ..facts(context, fit) }
    }

    fn config(max_batch_size: u32, max_tokens: Option<u64>, layout: KvLayout) -> Config {
        let mut config = Config { max_batch_size, kv_cache_max_tokens: max_tokens, ..Config::default() };
        config.engine.kv_layout = layout;
        config
    }

    #[test]
    fn in_pages_every_slot_has_the_whole_context() {
        let p = plan(&config(16, None, KvLayout::Auto), &in_pages(8192, 500_000));
        let want =
            KvPlan { home: KvHome::Pages, sequences: 128, cells: 1 << 20, per_slot: 8192, total: 500_000 };
        assert_eq!(p, want);
        let many = plan(&config(200, Some(9_000), KvLayout::Auto), &in_pages(8192, 500_000));
        assert_eq!((many.sequences, many.total), (200, 9_000));
        let long = plan(&config(16, None, KvLayout::Auto), &in_pages(131_072, 500_000));
        assert_eq!(
            (long.sequences, long.per_slot),
            (64, 131_072),
            "what the library keeps account of is bounded"
        );
        let longest = plan(&config(16, None, KvLayout::Auto), &in_pages(16 << 20, 500_000));
        assert_eq!((longest.sequences, longest.per_slot, longest.total), (16, 500_000, 500_000));
        let alone = Facts { sequences: 1, ..in_pages(4096, 500_000) };
        assert_eq!(plan(&config(16, None, KvLayout::Auto), &alone).sequences, 1);
        let small = plan(&config(16, None, KvLayout::Auto), &in_pages(10, u64::MAX));
        assert_eq!((small.cells, small.total), (128 * 256, 1280));
    }

    #[test]
    fn each_bound_holds() {
        let full = plan(&config(128, None, KvLayout::Auto), &facts(4096, u64::MAX));
        let want = KvPlan {
            home: KvHome::Slots,
            sequences: 128,
            cells: 128 * 4096,
            per_slot: 4096,
            total: 128 * 4096,
        };
        assert_eq!(full, want);
        let memory = plan(&config(128, None, KvLayout::Slots), &facts(4096, 10_000));
        assert_eq!((memory.sequences, memory.total), (2, 8192));
        let asked = plan(&config(128, Some(40_000), KvLayout::Slots), &facts(4096, u64::MAX));
        assert_eq!((asked.sequences, asked.cells), (9, 9 * 4096));
    }

    #[test]
    fn sequences_that_cannot_share_a_pass_run_one_by_one() {
        let alone = Facts { sequences: 1, stateful: true, ..facts(4096, u64::MAX) };
        assert_eq!(plan(&config(8, None, KvLayout::Auto), &alone).sequences, 1);
        assert_eq!(plan(&config(8, None, KvLayout::Slots), &Facts { stateful: false, ..alone }).sequences, 1);
    }

    #[test]
    fn one_short_slot_where_no_whole_one_fits() {
        let want = KvPlan { home: KvHome::Slots, sequences: 1, cells: 1024, per_slot: 1000, total: 1000 };
        assert_eq!(plan(&config(4, Some(1000), KvLayout::Slots), &facts(4096, u64::MAX)), want);
        let on_host = Facts { on_host: true, ..facts(4096, u64::MAX) };
        assert_eq!(plan(&config(4, Some(1000), KvLayout::Auto), &on_host), want, "no pool in host memory");
    }

    #[test]
    fn gpus_have_a_pool_where_few_slots_fit() {
        let few = plan(&config(128, None, KvLayout::Auto), &facts(131_072, 500_000));
        let want =
            KvPlan { home: KvHome::Pool, sequences: 256, cells: 500_224, per_slot: 131_072, total: 500_000 };
        assert_eq!(few, want);
        let home = |config: &Config, facts: &Facts| plan(config, facts).home;
        let short = facts(4096, 50_000);
        assert_eq!(home(&config(128, None, KvLayout::Auto), &short), KvHome::Pool);
        let enough = plan(&config(128, None, KvLayout::Auto), &facts(4096, 16 * 4096));
        assert_eq!((enough.home, enough.sequences), (KvHome::Slots, ENOUGH));
        assert_eq!(home(&config(17, None, KvLayout::Auto), &facts(4096, 15 * 4096)), KvHome::Pool);
        let windowed = Facts { windowed: true, ..short };
        assert_eq!(home(&config(128, None, KvLayout::Auto), &windowed), KvHome::Slots);
        assert_eq!(home(&config(2, None, KvLayout::Auto), &facts(4096, u64::MAX)), KvHome::Slots);
        let stateful = Facts { stateful: true, ..short };
        assert_eq!(home(&config(2, None, KvLayout::Slots), &stateful), KvHome::Pool);
    }

    #[test]
    fn small_contexts_pay_for_whole_blocks() {
        let p = plan(&config(128, None, KvLayout::Slots), &facts(10, 2560));
        assert_eq!((p.sequences, p.cells, p.total), (10, 2560, 100));
    }

    #[test]
    fn a_draft_model_holds_the_fraction_that_is_asked_for() {
        let of_draft = |target, context, part| {
            let mut draft = Config::default();
            draft.engine.context = context;
            draft.speculative.draft_kv_fraction = part;
            of_draft(target, &draft, false)
        };
        let slots = plan(&config(4, None, KvLayout::Slots), &facts(4096, u64::MAX));
        assert_eq!(of_draft(slots, 8192, 1.0), slots);
        let half = of_draft(slots, 8192, 0.5);
        assert_eq!((half.sequences, half.per_slot, half.cells, half.total), (4, 2048, 8192, 8192));
        assert_eq!(of_draft(slots, 512, 0.5).per_slot, 512);
        let pool = plan(&config(4, Some(10_000), KvLayout::Shared), &facts(4096, u64::MAX));
        let tenth = of_draft(pool, 8192, 0.1);
        assert_eq!((tenth.total, tenth.cells, tenth.per_slot), (1000, 1024, 1000));
        assert_eq!((of_draft(pool, 8192, 1.0).total, of_draft(pool, 8192, 1e-9).total), (10_000, 1));
        let pages = plan(&config(4, Some(10_000), KvLayout::Auto), &in_pages(4096, u64::MAX));
        let half = of_draft(pages, 2048, 0.5);
        assert_eq!((half.sequences, half.per_slot, half.total), (128, 2048, 5_000));
    }

    #[test]
    fn no_tensor_is_larger_than_its_device_takes() {
        // 5,000 cells: 19 blocks.
        let bounded = |context| Facts { cells: 5_000, ..facts(context, u64::MAX) };
        let pool = plan(&config(128, None, KvLayout::Shared), &bounded(4096));
        assert_eq!((pool.cells, pool.total, pool.per_slot), (4864, 4864, 4096));
        let slots = plan(&config(128, None, KvLayout::Slots), &bounded(300));
        assert_eq!((slots.sequences, slots.cells), (9, 9 * 512));
        let one = plan(&config(128, None, KvLayout::Slots), &bounded(8192));
        assert_eq!((one.sequences, one.cells, one.per_slot), (1, 4864, 4864));
    }

    #[test]
    fn nothing_overflows() {
        for layout in [KvLayout::Slots, KvLayout::Shared, KvLayout::Auto] {
            let p = plan(&config(u32::MAX / 2, None, layout), &facts(i32::MAX as u32, u64::MAX));
            assert!(p.cells <= (1 << 30) + CELL_BLOCK && p.sequences <= MAX_SEQUENCES);
            let p = plan(&config(1, Some(0), layout), &facts(1, 0));
            assert!(p.cells >= CELL_BLOCK && p.total >= 1);
        }
        let p = plan(&config(u32::MAX / 2, None, KvLayout::Auto), &in_pages(1 << 30, u64::MAX));
        assert!(p.cells <= 1 << 30 && p.sequences == 1);
    }

    /// The scale and the context of a model that was trained for 4096 tokens.
    fn settled(engine: &EngineConfig, must: bool) -> Result<(Option<f64>, u32)> {
        let mut engine = engine.clone();
        settle_context(&mut engine, 4096, must)?;
        Ok((engine.rope_freq_scale, engine.context))
    }

    #[test]
    fn a_context_is_what_positions_reach() {
        let engine = |context| EngineConfig { context, ..EngineConfig::default() };
        assert_eq!(settled(&engine(0), true).unwrap().1, 4096);
        assert_eq!(settled(&engine(1000), true).unwrap().1, 1000);
        assert_eq!(settled(&engine(8192), false).unwrap(), (None, 4096));
        let error = settled(&engine(8192), true).unwrap_err().to_string();
        assert!(error.contains("engine.context") && error.contains("4096"), "{error}");
        // What the error says helps.
        for scaling in [RopeScaling::Yarn, RopeScaling::Linear] {
            let scaled = EngineConfig { rope_scaling: scaling, ..engine(8192) };
            assert_eq!(settled(&scaled, true).unwrap(), (Some(0.5), 8192));
        }
        let plain = EngineConfig { rope_scaling: RopeScaling::None, ..engine(8192) };
        assert!(settled(&plain, true).is_err());
    }

    #[test]
    fn a_scale_or_a_base_reaches_further() {
        let scaled =
            |context| EngineConfig { context, rope_freq_scale: Some(0.25), ..EngineConfig::default() };
        assert_eq!([0, 16384, 5000].map(|n| settled(&scaled(n), true).unwrap().1), [16384, 16384, 5000]);
        let error = settled(&scaled(20_000), true).unwrap_err().to_string();
        assert!(error.contains("16384") && error.contains("without engine.rope_freq_scale"), "{error}");
        let based = EngineConfig { context: 20_000, rope_freq_base: Some(1e6), ..EngineConfig::default() };
        assert_eq!(settled(&based, true).unwrap().1, 20_000);
    }
}
