//! Engine folders to executors, on the rank that leads and on those that follow.

use super::drafter::TrtDrafter;
use super::folder::{Folder, wants_logits};
use super::interface::{self, EXECUTOR, Executor};
use super::options::{Options, Place, places};
use super::pair::{BACKEND, Backend, Opened, Pair, sources};
use super::target::{Logits, Parts, TrtTarget};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exec::{self, Caps, Copying, Drafter, Promise};
use crate::request::{Feature, Lacks};

/// What no release of the Executor can do.
const LACKS: [Feature; 5] = [
    Feature::LogitBias,
    Feature::PromptLogprobs,
    Feature::TopLogprobs,
    Feature::AllowedLogprobs,
    Feature::Decisions,
];

/// Lets the core open what TensorRT-LLM serves.
pub(crate) fn install() {
    // A second import finds it there.
    let _ = BACKEND.set(Backend { open, follow, rank });
}

/// Loads both engines in this process, which leads or is alone.
///
/// # Errors
/// `Invalid` of `target` or `draft` where TensorRT-LLM is missing or refuses an engine.
fn open(pair: &Pair<'_>, config: &Config) -> Result<Opened> {
    let abilities = interface::abilities(&pair.target.path)?;
    let orchestrator = config.trtllm.orchestrator;
    let (target, draft) = executors(pair, config, 0)?;
    let target = target.expect("rank 0 has both. This is a bug.");
    if let Some(what) = [("target", Some(&target)), ("draft", draft.as_ref())]
        .iter()
        .find_map(|(what, executor)| executor.is_some_and(Executor::follows).then_some(*what))
    {
        let why =
            "its executor takes no requests on rank 0; start as many ranks as its engine has, with mpirun";
        return Err(Error::invalid(what, why));
    }
    let speculates = !sources(pair, config).is_empty();
    let logits = (wants_logits(config) && draft.is_some()).then(Logits::default);
    let most = pair.target.max_draft_len.min(config.speculative.draft_len());
    let parts = Parts {
        caps: caps(pair.target, config),
        abilities,
        most: most as usize,
        drafts: if speculates { most } else { 0 },
        block: pair.target.block,
        logits: logits.clone().unwrap_or_default(),
    };
    let drafter = draft.map(|draft| {
        let drafter: Box<dyn Drafter> = Box::new(TrtDrafter::new(draft, abilities, most, logits));
        drafter
    });
    let mut features = LACKS.to_vec();
    let mut lacking = |lacks: bool, feature: Feature| features.extend(lacks.then_some(feature));
    lacking(!abilities.min_p, Feature::MinP);
    lacking(!abilities.cache_salt, Feature::CacheSalt);
    lacking(!wants_logits(config), Feature::Rejection);
    for feature in [Feature::Grammar, Feature::AllowedTokens, Feature::IgnoreEos, Feature::MinTokens] {
        lacking(orchestrator, feature);
    }
    let engine = if orchestrator { "TensorRT-LLM in orchestrator mode" } else { "TensorRT-LLM" };
    let lacks = Lacks { engine: engine.into(), features };
    if !abilities.cache_salt && config.enable_kv_cache_reuse {
        log::warn!(
            "this release of TensorRT-LLM shares KV among all API keys (kv_cache_reuse_scope has no effect)"
        );
    }
    Ok(Opened { target: Box::new(TrtTarget::new(target, parts)), drafter, lacks })
}

/// Loads what this rank, which does not lead, computes, and computes until the leader ends.
///
/// # Errors
/// As [`open`].
fn follow(pair: &Pair<'_>, config: &Config, rank: u32) -> Result<()> {
    let (target, draft) = executors(pair, config, rank)?;
    // The leader ends its draft first, too.
    draft.into_iter().chain(target).for_each(Executor::follow);
    Ok(())
}

/// This process among those of an MPI job.
///
/// # Errors
/// Where the Python layer cannot be imported.
fn rank(folder: &Folder) -> Result<u32> {
    interface::rank(&folder.path)
}

/// The executors that `rank` takes part in: with all of both in one process of each rank, or, behind an orchestrator,
/// each on ranks of its own.
fn executors(pair: &Pair<'_>, config: &Config, rank: u32) -> Result<(Option<Executor>, Option<Executor>)> {
    let draft = pair.draft.map(|(folder, _)| folder);
    let own = pair.draft.map(|(_, own)| own.kv_share(true));
    let own = own.filter(|share| *share != config.kv_share(true));
    let speculates = !sources(pair, config).is_empty();
    let (ours, theirs) = places((pair.target, draft), config, own);
    let open = |what: &str, folder: &Folder, config: &Config, place: Place| {
        let takes_part = match &place.parallel.participant_ids {
            Some(ranks) => rank == 0 || ranks.contains(&rank),
            None => rank < folder.ranks,
        };
        // TensorRT-LLM asks nobody for masks where requests come from an orchestrator.
        let masks = (!place.parallel.orchestrator).then(|| threads(config));
        let options = Options::new(config, place, speculates);
        takes_part.then(|| Executor::open(EXECUTOR, (what, &folder.path), &options, masks)).transpose()
    };
    let target = open("target", pair.target, config, ours)?;
    let draft = match (pair.draft, theirs) {
        (Some((folder, own)), Some(place)) => open("draft", folder, own, place)?,
        _ => None,
    };
    Ok((target, draft))
}

fn threads(config: &Config) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // The executors' threads and the engine's want some, too.
    config.engine.mask_threads.map_or(cores.div_ceil(2), |threads| threads as usize)
}

fn caps(target: &Folder, config: &Config) -> Caps {
    let slots = config.max_batch_size;
    exec::Caps {
        // Copying and reusing are the executor's: it finds by tokens what it holds.
        prefix_reuse: false,
        rollback: if target.takes_drafts() { u32::MAX } else { 0 },
        copying: Copying::Never,
        keeps_prompts: true,
        completes: false,
        ragged: true,
        promise: Promise::NearTies,
        ..Caps::of_rows(target.n_vocab as usize, slots, target.max_seq_len)
    }
}
