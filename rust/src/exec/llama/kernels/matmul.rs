//! ggml's two operations of matrix products as [`Product`]s.

use super::ffi::{Params, llgtrt_pause};
use super::formats::CHUNK;
use super::isa::Isa;
use super::product::{Product, TILE, Tokens, sum_bytes};
use super::table::Entry;
use llama_cpp_sys_2 as sys;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a thread's part of the workspace begins at a multiple of.
const ALIGNED: usize = 64;
/// Parts for each thread that rows are handed out in.
const PARTS: usize = 4;
/// Chunks of activations that a thread packs in less time than handing them out takes.
const LEAST_CHUNKS: usize = 64;

/// A product that there is a kernel for.
pub(super) struct Job {
    entry: &'static Entry,
    isa: Isa,
    product: Product,
}

/// A number of a tensor.
pub(super) fn size(x: i64) -> Option<usize> {
    usize::try_from(x).ok()
}

/// Bytes from one to the next as floats.
fn floats(bytes: usize) -> Option<usize> {
    bytes.is_multiple_of(size_of::<f32>()).then_some(bytes / size_of::<f32>())
}

impl Job {
    /// The product that a node asks for, if there is a kernel: of all tokens for `MUL_MAT`, of none yet for `MUL_MAT_ID`.
    ///
    /// # Safety
    /// A node of a graph.
    pub(super) unsafe fn of(node: *const sys::ggml_tensor) -> Option<Self> {
        // SAFETY: the caller's promise; both operations have both operands.
        let (node, weights, values) = unsafe { (&*node, &*(*node).src[0], &*(*node).src[1]) };
        let isa = Isa::here()?;
        let row = size(weights.ne[0])?;
        let entry = Entry::of(weights.type_, row)?;
        let rows = size(weights.ne[1])?;
        let plain = weights.nb[0] == entry.bytes
            && values.type_ == sys::GGML_TYPE_F32
            && node.type_ == sys::GGML_TYPE_F32
            && values.ne[0] == weights.ne[0]
            && values.nb[0] == size_of::<f32>()
            && node.nb[0] == size_of::<f32>()
            && rows >= TILE;
        if !plain {
            return None;
        }
        let tokens = Tokens {
            count: 0,
            picked: ptr::null(),
            from: values.data.cast(),
            from_strides: [floats(values.nb[1])?, floats(values.nb[2])?],
            from_slots: usize::MAX,
            to: node.data.cast(),
            to_strides: [floats(node.nb[1])?, floats(node.nb[2])?],
        };
        let mut product = Product {
            weights: weights.data.cast_const().cast(),
            rows,
            stride: weights.nb[1],
            chunks: row / CHUNK,
            tokens,
            records: ptr::null_mut(),
        };
        if node.op == sys::GGML_OP_MUL_MAT {
            let one_matrix = weights.ne[2] == 1 && weights.ne[3] == 1;
            if !(one_matrix && even(values) && even(node)) {
                return None;
            }
            product.tokens.count = size(values.ne[1] * values.ne[2] * values.ne[3])?;
        } else {
            product.tokens.from_slots = size(values.ne[1]).filter(|n| *n > 0)?;
        }
        Some(Self { entry, isa, product })
    }

    /// Bytes of workspace for threads that share the records of so many tokens.
    pub(super) fn bytes(&self, tokens: usize, threads: usize) -> usize {
        let records = self.entry.record_bytes(self.product.chunks, tokens);
        records.next_multiple_of(ALIGNED) + threads * sum_bytes(tokens, self.product.chunks) + ALIGNED
    }

    /// The same for all tokens.
    pub(super) fn shared_bytes(&self, threads: usize) -> usize {
        self.bytes(self.product.tokens.count, threads)
    }

    /// Computes the product together with the other threads.
    ///
    /// # Safety
    /// The node's operands are computed, and all threads of `params` call this.
    pub(super) unsafe fn compute(mut self, params: &Params) {
        let (me, threads) = (params.thread(), params.threads());
        let records = self.entry.records(self.product.chunks);
        self.product.records = aligned(params.workspace());
        let this = &self;
        // SAFETY: the workspace has `shared_bytes`; threads write different records, then different rows.
        unsafe {
            if threads == 1 {
                this.share(params);
                return;
            }
            (this.entry.pack)(&this.product, records * me / threads..records * (me + 1) / threads);
            let (rows, part) = (this.product.rows, this.part(params));
            params.share(rows, part, |range, thread| this.compute_rows(range, thread));
        }
    }

    /// Packs all activations and computes all rows. If it pays to hand out both, they are pieces of one job, in which those of rows are
    /// taken last and wait for those of activations.
    ///
    /// # Safety
    /// As for [`compute`](Job::compute), and ggml computes the graph on one thread.
    unsafe fn share(&self, params: &Params) {
        let Product { chunks, rows, tokens, .. } = self.product;
        let records = self.entry.records(chunks);
        let each = records.div_ceil(params.workers().min(tokens.count * chunks / LEAST_CHUNKS).max(1));
        let (mut packs, part) = (records.div_ceil(each), self.part(params));
        if packs == 1 {
            // SAFETY: the caller's promise.
            unsafe { (self.entry.pack)(&self.product, 0..records) };
            packs = 0;
        }
        let packed = AtomicUsize::new(0);
        params.share(packs + rows.div_ceil(part), 1, |pieces, thread| {
            for piece in pieces {
                // SAFETY: pieces are different records, then different rows.
                unsafe {
                    if let Some(piece) = piece.checked_sub(packs) {
                        while packed.load(Ordering::Acquire) < packs {
                            llgtrt_pause();
                        }
                        self.compute_rows(piece * part..rows.min((piece + 1) * part), thread);
                    } else {
                        (self.entry.pack)(&self.product, piece * each..records.min((piece + 1) * each));
                        packed.fetch_add(1, Ordering::Release);
                    }
                }
            }
        });
    }

    /// Rows that are handed out together.
    fn part(&self, params: &Params) -> usize {
        self.product.rows.div_ceil(TILE * params.workers() * PARTS) * TILE
    }

    /// Computes some rows, from records that lie at `product.records`. Behind these, each thread has sums of its own.
    ///
    /// # Safety
    /// As for [`compute`](Job::compute), and no two are computed by one thread at a time.
    unsafe fn compute_rows(&self, rows: Range<usize>, thread: usize) {
        let Product { chunks, tokens, records, .. } = self.product;
        let sums = self.entry.record_bytes(chunks, tokens.count).next_multiple_of(ALIGNED)
            + thread * sum_bytes(tokens.count, chunks);
        // SAFETY: the caller's promise.
        unsafe { self.entry.tiles(self.isa)(&self.product, rows, records.wrapping_add(sums).cast()) };
    }

    /// Computes an expert's product: this thread's part of it, or all, together with the team.
    ///
    /// # Safety
    /// As for [`compute`](Job::compute); `picked` has slot and row of `count` tokens, and `scratch` [`bytes`](Job::bytes) of
    /// as many, for each worker behind this thread's place in it.
    pub(super) unsafe fn compute_expert(
        mut self,
        params: &Params,
        weights: *const u8,
        (picked, count): (*const [i32; 2], usize),
        scratch: *mut u8,
    ) {
        let (me, threads) = (params.thread(), params.threads());
        self.product.weights = weights;
        self.product.tokens.picked = picked;
        self.product.tokens.count = count;
        self.product.records = aligned(scratch);
        let this = &self;
        // SAFETY: the caller's promise.
        unsafe {
            if threads == 1 {
                this.share(params);
                return;
            }
            let tiles = this.product.rows.div_ceil(TILE);
            let range = tiles * me / threads * TILE..this.product.rows.min(tiles * (me + 1) / threads * TILE);
            (this.entry.pack)(&this.product, 0..this.entry.records(this.product.chunks));
            this.compute_rows(range, 0);
        }
    }
}

// SAFETY: nothing writes what a job reads while it is computed, and its threads write different rows.
unsafe impl Sync for Job {}

/// Whether all tokens are as far from each other as the first two.
fn even(x: &sys::ggml_tensor) -> bool {
    let step = |inner: usize, outer: usize| {
        x.ne[outer] == 1 || size(x.ne[inner]).is_some_and(|n| x.nb[outer] == n * x.nb[inner])
    };
    step(1, 2) && (step(2, 3))
}

fn aligned(work: *mut u8) -> *mut u8 {
    work.wrapping_add(work.align_offset(ALIGNED))
}
