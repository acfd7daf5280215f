//! The functions of ggml whose places are taken: `launch/env.sh` gives ggml's own other names, by which what has no kernel
//! here is handed on.
//!
//! They are internal to ggml (`ggml-cpu/tiled/tiled.h`, `ops.h` and `ggml-cpu-impl.h` of the pinned crate): the check at
//! start looks whether they are still called as written here. Nothing in them may panic, which would end the process.

use super::Counter;
use llama_cpp_sys_2 as sys;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;

/// `ggml_compute_params`: a thread's view of a computation.
#[repr(C)]
pub(super) struct Params {
    ith: c_int,
    nth: c_int,
    wsize: usize,
    wdata: *mut c_void,
    threadpool: *mut c_void,
    use_ref: bool,
}

unsafe extern "C" {
    fn ggml_barrier(threadpool: *mut c_void);
    fn ggml_threadpool_chunk_set(threadpool: *mut c_void, value: c_int);
    fn ggml_threadpool_chunk_add(threadpool: *mut c_void, value: c_int) -> c_int;
    fn ggml_compute_forward_flash_attn_ext_stock(params: *const Params, node: *mut sys::ggml_tensor);
}

#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C" {
    fn ggml_tiled_wdata_size_stock(threads: c_int, node: *mut sys::ggml_tensor) -> usize;
    fn ggml_compute_forward_mul_mat_tiled_stock(params: *const Params, node: *mut sys::ggml_tensor) -> bool;
    fn ggml_compute_forward_mul_mat_id_tiled_stock(
        params: *const Params,
        node: *mut sys::ggml_tensor,
        expert: i64,
        tokens: i64,
        places: *const i32,
        scratch: *mut c_char,
    ) -> bool;
}

impl Params {
    /// This thread's number, below [`threads`](Params::threads).
    pub(super) fn thread(&self) -> usize {
        self.ith.unsigned_abs() as usize
    }

    pub(super) fn threads(&self) -> usize {
        self.nth.unsigned_abs() as usize
    }

    /// Where the threads' common workspace begins.
    pub(super) fn workspace(&self) -> *mut u8 {
        self.wdata.cast()
    }

    /// Waits for all threads, then hands out `items` to them in parts of `each`: a thread that is held up takes fewer.
    pub(super) fn share(&self, items: usize, each: usize, mut compute: impl FnMut(Range<usize>)) {
        // SAFETY: the pool lives as long as the computation.
        unsafe {
            if self.ith == 0 {
                ggml_threadpool_chunk_set(self.threadpool, self.nth);
            }
            ggml_barrier(self.threadpool);
            let mut part = self.thread();
            while part * each < items {
                compute(part * each..items.min((part + 1) * each));
                part = ggml_threadpool_chunk_add(self.threadpool, 1).unsigned_abs() as usize;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
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
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        let threads = threads.unsigned_abs() as usize;
        Job::of(node).map_or(0, |job| match (*node).op {
            sys::GGML_OP_MUL_MAT => job.shared_bytes(threads),
            _ => threads * job.own_bytes(usize::try_from((*node).ne[2]).unwrap_or(0)),
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as above.
    unsafe {
        ggml_tiled_wdata_size_stock(threads, node)
    }
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
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        let params = &*params;
        let Some(job) = Job::of(node).filter(|_| !params.use_ref) else { return false };
        if params.wsize < job.shared_bytes(params.threads()) {
            return false;
        }
        Counter::Products.count(params.ith == 0);
        job.compute(params);
        true
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as above.
    unsafe {
        ggml_compute_forward_mul_mat_tiled_stock(params, node)
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
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        let (params, node) = (&*params, &*node);
        let Some(job) = Job::of(node).filter(|_| !params.use_ref && tokens <= node.ne[2]) else {
            return false;
        };
        let (Ok(expert), Ok(tokens), Ok(most)) =
            (usize::try_from(expert), usize::try_from(tokens), usize::try_from(node.ne[2]))
        else {
            return false;
        };
        let experts = &*node.src[0];
        let weights = experts.data.cast_const().cast::<u8>().add(expert * experts.nb[2]);
        let own = scratch.cast::<u8>().add(params.thread() * job.own_bytes(most));
        Counter::Products.count(params.ith == 0);
        job.compute_expert(params, weights, (places.cast(), tokens), own);
        true
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as above.
    unsafe {
        ggml_compute_forward_mul_mat_id_tiled_stock(params, node, expert, tokens, places, scratch)
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
        #[cfg(target_arch = "x86_64")]
        if let Some(job) = Attention::of(node).filter(|_| !(*params).use_ref) {
            Counter::Attentions.count((*params).ith == 0);
            job.compute(&*params);
            return;
        }
        ggml_compute_forward_flash_attn_ext_stock(params, node);
    }
}
