//! The functions of ggml whose places are taken: `launch/env.sh` gives ggml's own other names, by which what has no kernel
//! here is handed on.
//!
//! They are internal to ggml (`ggml-cpu/tiled/tiled.h`, `ops.h` and `ggml-cpu-impl.h` of the pinned crate): the check at
//! start looks whether they are still called as written here. Nothing in them may panic, which would end the process.

use super::team::{self, Piece, Team};
use llama_cpp_sys_2 as sys;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// `ggml_compute_params`: a thread's view of a computation.
#[repr(C)]
pub(super) struct Params {
    pub(super) ith: c_int,
    pub(super) nth: c_int,
    pub(super) wsize: usize,
    pub(super) wdata: *mut c_void,
    pub(super) threadpool: *mut c_void,
    pub(super) use_ref: bool,
}

unsafe extern "C" {
    fn ggml_barrier(threadpool: *mut c_void);
    fn ggml_threadpool_chunk_set(threadpool: *mut c_void, value: c_int);
    fn ggml_threadpool_chunk_add(threadpool: *mut c_void, value: c_int) -> c_int;
    fn ggml_compute_forward_flash_attn_ext_stock(params: *const Params, node: *mut sys::ggml_tensor);
}

impl Params {
    /// This thread's number, below [`threads`](Params::threads).
    pub(super) fn thread(&self) -> usize {
        self.ith.unsigned_abs() as usize
    }

    /// ggml's threads, each of which computes the node's own part of what is not shared.
    pub(super) fn threads(&self) -> usize {
        self.nth.unsigned_abs() as usize
    }

    /// Where the threads' common workspace begins.
    pub(super) fn workspace(&self) -> *mut u8 {
        self.wdata.cast()
    }

    /// Calls `compute` with parts of `items`, of `each`, and the number of the thread that computes them, below
    /// [`workers`](Params::workers). With threads of ggml's, waits for all of them first.
    pub(super) fn share(&self, items: usize, each: usize, compute: impl Fn(Range<usize>, usize) + Sync) {
        let part = |index: usize| index * each..items.min((index + 1) * each);
        if self.nth == 1 {
            let alone = || compute(0..items, 0);
            let run =
                |team: &Team| team.run(items.div_ceil(each), &|p: Piece| compute(part(p.index), p.thread));
            return team::current(run).unwrap_or_else(alone);
        }
        // SAFETY: the pool lives as long as the computation.
        unsafe {
            if self.ith == 0 {
                ggml_threadpool_chunk_set(self.threadpool, self.nth);
            }
            ggml_barrier(self.threadpool);
            let mut index = self.thread();
            while index * each < items {
                compute(part(index), self.thread());
                index = ggml_threadpool_chunk_add(self.threadpool, 1).unsigned_abs() as usize;
            }
        }
    }

    /// Threads that compute a node: ggml's, or those of the team that the one of ggml's hands it out to.
    pub(super) fn workers(&self) -> usize {
        workers(self.nth)
    }
}

/// As [`Params::workers`], where ggml has so many threads.
fn workers(threads: c_int) -> usize {
    let team = if threads == 1 { team::current(Team::size) } else { None };
    team.unwrap_or(threads.unsigned_abs() as usize)
}

/// Asks the system for short turns: who waits for a core then gets it soon (Linux 6.12; before that nothing changes).
pub(super) fn slice() {
    const NANOSECONDS: u64 = 100_000;
    thread_local!(static ASKED: Cell<bool> = const { Cell::new(false) });
    if ASKED.replace(true) {
        return;
    }
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: integers may all be 0; both calls are about this thread and get a structure of the size that they are told.
    unsafe {
        let mut own: libc::sched_attr = std::mem::zeroed();
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, size, 0) == 0 && own.sched_policy == 0 {
            (own.size, own.sched_runtime) = (size, NANOSECONDS);
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const own, 0);
        }
    }
}

use super::{attention::Job as Attention, matmul::Job};

/// Pauses, about a tenth of a millisecond, after which a thread that waits for another lets a third one have its core. Fewer
/// give the core away in every wait on a machine where something else always wants it.
const PAUSES: u32 = 4096;

/// What ggml's threads do, again and again, while they wait for each other. ggml's own pause alone would never let go of
/// the core; where two threads of a pass have come to share one, every wait would then last until the scheduler takes it
/// away, and a pass has hundreds.
#[unsafe(no_mangle)]
pub(super) extern "C" fn llgtrt_pause() {
    thread_local!(static PAUSED: Cell<u32> = const { Cell::new(0) });
    let paused = PAUSED.get().wrapping_add(1);
    PAUSED.set(paused);
    if paused.is_multiple_of(PAUSES) { std::thread::yield_now() } else { std::hint::spin_loop() }
}

/// Bytes of workspace for a product.
///
/// # Safety
/// Called by ggml alone, with a node of a graph.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn ggml_tiled_wdata_size(threads: c_int, node: *mut sys::ggml_tensor) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let threads = workers(threads);
        Job::of(node).map_or(0, |job| match (*node).op {
            sys::GGML_OP_MUL_MAT => job.shared_bytes(threads),
            _ => threads * job.bytes(usize::try_from((*node).ne[2]).unwrap_or(0), 1),
        })
    }
}

/// Counts a product and its multiplications; one of experts for each of them.
unsafe fn count(params: &Params, node: *const sys::ggml_tensor, own: bool) {
    if params.ith != 0 {
        return;
    }
    // SAFETY: a node of a graph, which has operands.
    let (node, row) = unsafe { (&*node, (*(*node).src[0]).ne[0]) };
    let work = node.ne.iter().product::<i64>().saturating_mul(row).unsigned_abs();
    super::ALL.fetch_add(work, Ordering::Relaxed);
    super::OTHERS.fetch_add(if own { 0 } else { work }, Ordering::Relaxed);
    super::PRODUCTS.fetch_add(u64::from(own), Ordering::Relaxed);
}

/// A matrix product; false: not computed.
///
/// # Safety
/// Called by ggml alone, by all threads of a computation.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn ggml_compute_forward_mul_mat_tiled(
    params: *const Params,
    node: *mut sys::ggml_tensor,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let params = &*params;
        let fits = |job: &Job| !params.use_ref && params.wsize >= job.shared_bytes(params.workers());
        let job = Job::of(node).filter(fits);
        count(params, node, job.is_some());
        job.map(|job| job.compute(params)).is_some()
    }
}

/// The product of one expert of a mixture; false: not computed.
///
/// # Safety
/// Called by ggml alone, by all threads of a computation.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn ggml_compute_forward_mul_mat_id_tiled(
    params: *const Params,
    node: *mut sys::ggml_tensor,
    expert: i64,
    tokens: i64,
    places: *const i32,
    scratch: *mut c_char,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let (params, node) = (&*params, &*node);
        let job = Job::of(node).filter(|_| !params.use_ref && tokens <= node.ne[2]);
        count(params, node, job.is_some());
        let Some(job) = job else { return false };
        let (Ok(expert), Ok(tokens), Ok(most)) =
            (usize::try_from(expert), usize::try_from(tokens), usize::try_from(node.ne[2]))
        else {
            return false;
        };
        let experts = &*node.src[0];
        let weights = experts.data.cast_const().cast::<u8>().add(expert * experts.nb[2]);
        // ggml's threads have records of their own; a team shares them.
        let own = scratch.cast::<u8>().add(params.thread() * job.bytes(most, 1));
        job.compute_expert(params, weights, (places.cast(), tokens), own);
        true
    }
}

/// Attention.
///
/// # Safety
/// Called by ggml alone, by all threads of a computation.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn ggml_compute_forward_flash_attn_ext(
    params: *const Params,
    node: *mut sys::ggml_tensor,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(job) = Attention::of(node).filter(|_| !(*params).use_ref) {
            super::ATTENTIONS.fetch_add(u64::from((*params).ith == 0), Ordering::Relaxed);
            return job.compute(&*params);
        }
        super::STOCK_ATTENTIONS.fetch_add(1, Ordering::Relaxed);
        ggml_compute_forward_flash_attn_ext_stock(params, node);
    }
}
