//! The embedded engine on a random-weight model made here, and on the demo target where it is there.

mod arguments;
mod files;
mod head_files;
mod heads;
mod model;
mod ranks;
mod rows;
mod serving;
mod world;

use llgtrt::config::{Config, KvCacheType, KvHome, KvPlan};
use llgtrt::exec::llama::{Opened, open};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by a test that computes. Two engines with a thread per core each wait for one another at every barrier, and
/// take many times as long as one after the other.
fn one_engine() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A small server's configuration: 2 threads, KV of as many tokens as `slots` whole contexts have.
fn config(slots: u32, context: u32) -> Config {
    let mut config = Config { max_batch_size: slots, max_num_tokens: 256, ..Config::default() };
    config.kv_cache_max_tokens = Some(u64::from(slots) * u64::from(context.max(64)));
    config.engine.context = context;
    config.engine.threads = 2;
    config
}

/// The same where all share one pool, as they may on GPUs.
fn pooled(config: Config) -> Config {
    let per_slot = config.engine.context;
    let total = config.kv_cache_max_tokens.unwrap();
    let cells = u32::try_from(total).unwrap().next_multiple_of(256);
    let sequences = 2 * config.max_batch_size;
    Config { plan: Some(KvPlan { home: KvHome::Pool, sequences, cells, per_slot, total }), ..config }
}

/// A configuration with each home of KV that serves on CPUs or GPUs.
fn homes(slots: u32, context: u32) -> [(KvHome, Config); 3] {
    let pages = config(slots, context);
    let total = u64::from(slots) * u64::from(context);
    let cells = slots * context.next_multiple_of(256);
    let plan = KvPlan { home: KvHome::Slots, sequences: slots, cells, per_slot: context, total };
    let laid_out = Config { plan: Some(plan), ..pages.clone() };
    [(KvHome::Pages, pages.clone()), (KvHome::Slots, laid_out), (KvHome::Pool, pooled(pages))]
}

fn opened(path: &Path, config: &Config) -> Opened {
    open(path, config, None, &|_| ()).unwrap_or_else(|e| panic!("{e}"))
}

/// The demo target, if this checkout has it.
fn demo() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/target/model.gguf");
    if !path.is_file() {
        println!("skipped: no demo model");
        return None;
    }
    Some(path)
}

/// The random model, and the demo target where it is there.
fn models() -> Vec<PathBuf> {
    [Some(model::random()), demo()].into_iter().flatten().collect()
}

fn with_kv(mut config: Config, kv: KvCacheType) -> Config {
    config.engine.kv_cache_type = kv;
    config
}
