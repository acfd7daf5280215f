//! The threads that compute the passes of contexts.

use crate::exec::llama::kernels::team::Team;
use llama_cpp_sys_2 as sys;
use std::ptr::NonNull;
use std::sync::Arc;

/// Rounds of spinning (131,072 each) before a thread of ggml's that waits for the next pass sleeps.
const POLL: u32 = 1;
/// Most threads of a pool (`GGML_MAX_N_THREADS`).
const MAX_THREADS: u32 = 512;

/// Threads that compute passes. Contexts that never compute at the same time share them.
pub enum Workers {
    /// Our own, which share what there are kernels of ours for.
    Team(Team),
    /// ggml's own threads. They share every operation, and wait for each other after each one.
    Pool(Pool),
}

impl Workers {
    /// So many of our own, in turns on processors of these memory nodes.
    ///
    /// # Errors
    /// Where they cannot be started.
    pub fn team(threads: u32, nodes: &[Vec<usize>]) -> Result<Arc<Self>, String> {
        let team = Team::new(threads.clamp(1, MAX_THREADS), nodes);
        team.map(|team| Arc::new(Workers::Team(team)))
            .map_err(|e| format!("cannot start {threads} threads: {e}"))
    }

    /// So many of ggml's.
    ///
    /// # Errors
    /// Where they cannot be started.
    pub fn pool(threads: u32) -> Result<Arc<Self>, String> {
        let threads = threads.clamp(1, MAX_THREADS);
        // SAFETY: the parameters are the library's own defaults for this number of threads.
        let pool = unsafe {
            let mut params = sys::ggml_threadpool_params_default(threads.cast_signed());
            params.poll = POLL;
            sys::ggml_threadpool_new(&raw mut params)
        };
        let pool = NonNull::new(pool).ok_or_else(|| format!("cannot start {threads} threads"))?;
        Ok(Arc::new(Workers::Pool(Pool { pool, threads })))
    }

    /// Threads.
    pub fn size(&self) -> u32 {
        match self {
            Workers::Team(team) => u32::try_from(team.size()).unwrap_or(u32::MAX),
            Workers::Pool(pool) => pool.threads,
        }
    }
}

/// Threads of ggml's.
pub struct Pool {
    pub(in crate::exec::llama::context) pool: NonNull<sys::ggml_threadpool>,
    pub(in crate::exec::llama::context) threads: u32,
}

// SAFETY: a pool belongs to no thread, and the contexts that share it compute in turns (see `Context::new`).
unsafe impl Send for Pool {}
// SAFETY: as above; nothing is done through a shared reference but to attach it.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: made by `Workers::pool`, freed once; every context that uses it holds it alive.
        unsafe { sys::ggml_threadpool_free(self.pool.as_ptr()) };
    }
}
