//! The calls of a context. As in `llama::ffi`, every argument is checked before the
//! call: a token, a position or a sequence that is not there is a bug of the caller's, and panics.

use super::heads::States;
use super::workers::ffi::{Pool, Workers};
use super::{CELL_BLOCK, DecodeError, MAX_SEQUENCES, Shape};
use crate::config::{KvHome, KvPlan, RopeScaling};
use crate::exec::llama::ffi::{Model, logged, made};
use crate::exec::llama::pages::ffi::{Pages, laid_out};
use crate::types::Token;
use llama_cpp_sys_2 as sys;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A context of the library's.
pub(super) struct Raw {
    context: NonNull<sys::llama_context>,
    // Below: dropped after the context, which points into them.
    workers: Arc<Workers>,
    pub(super) model: Arc<Model>,
    /// The target's, whose weights a head may compute with.
    _target: Option<Arc<Raw>>,
}

// SAFETY: the library's context belongs to no thread.
unsafe impl Send for Raw {}
// SAFETY: only the context that made it computes with it. A head's reads of its target's which model it has, which never changes.
unsafe impl Sync for Raw {}

impl Raw {
    pub(super) fn as_ptr(&self) -> *mut sys::llama_context {
        self.context.as_ptr()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: made by `Context::make` and freed once, after the contexts that read its weights.
        unsafe { sys::llama_free(self.context.as_ptr()) };
    }
}

/// A context, its threads and its batch.
pub struct Context {
    pub(super) context: Arc<Raw>,
    memory: sys::llama_memory_t,
    /// Each token belongs to one sequence.
    pub(super) batch: sys::llama_batch,
    sequences: u32,
    shared: bool,
    hidden: bool,
    pub(super) states: States,
    /// Where KV of sequences with cells of their own lies, if in pages.
    pub(in crate::exec::llama) pages: Pages,
}

// SAFETY: the context may be used by one thread at a time, whichever; `&mut` and the missing `Sync` see to that. A head's and its
// target's are used by one thread, or in turns.
unsafe impl Send for Context {}

impl Context {
    /// Makes a context with flash attention that computes on these threads. Contexts that share them must be used by one
    /// thread, or in turns.
    ///
    /// # Errors
    /// The library's reason, e.g. too little memory or a head size that `kv` cannot hold.
    pub fn new(model: &Arc<Model>, shape: &Shape<'_>, workers: &Arc<Workers>) -> Result<Self, String> {
        Self::make(model, shape, workers, None)
    }

    /// One of a head, whose `target` it is used in turns with.
    pub(super) fn make(
        model: &Arc<Model>,
        shape: &Shape<'_>,
        workers: &Arc<Workers>,
        target: Option<&Context>,
    ) -> Result<Self, String> {
        let KvPlan { home, sequences, cells, .. } = *shape.plan;
        let shared = home == KvHome::Pool;
        if !(1..=MAX_SEQUENCES).contains(&sequences) || !(1..=u32::MAX / 2).contains(&cells) {
            return Err(format!("{sequences} sequences in {cells} cells are out of range"));
        }
        let target = target.map(|target| Arc::clone(&target.context));
        let mut params = context_params(shape, workers);
        if let Some(target) = &target {
            (params.ctx_other, params.ctx_type) = (target.as_ptr(), model.head_type());
        }
        // SAFETY: the model is alive; the parameters point to nothing but the target's context, which this one holds.
        let make = || made(|| unsafe { sys::llama_init_from_model(model.0.as_ptr(), params) });
        let (context, mut pages) =
            if shape.paged { laid_out(model.n_swa(), make) } else { (make(), Pages::default()) };
        let (workers, model) = (Arc::clone(workers), Arc::clone(model));
        let context = Arc::new(Raw { context: context?, workers, model, _target: target });
        if shared {
            // Cells of all sequences lie side by side: none has pages of its own.
            pages.tensors.clear();
        }
        let c = context.as_ptr();
        if let Workers::Pool(Pool { pool, .. }) = &*context.workers {
            // SAFETY: both are alive, and the threads are dropped after the context.
            unsafe { sys::llama_attach_threadpool(c, pool.as_ptr(), pool.as_ptr()) };
        }
        // SAFETY: the context is alive. The lists have room for all tokens of a batch, with one sequence each.
        let (memory, batch) = unsafe {
            (sys::llama_get_memory(c), sys::llama_batch_init(sys::llama_n_batch(c).cast_signed(), 0, 1))
        };
        Ok(Context {
            context,
            memory,
            batch,
            sequences,
            shared,
            hidden: false,
            states: States::default(),
            pages,
        })
    }

    /// Most tokens in a batch: at least as many as were asked for.
    pub fn n_batch(&self) -> usize {
        // SAFETY: the context is alive, and the call only reads.
        unsafe { sys::llama_n_batch(self.context.as_ptr()) as usize }
    }

    fn sequence(&self, seq: u32) -> i32 {
        assert!(seq < self.sequences, "sequence {seq} of {}", self.sequences);
        seq.cast_signed()
    }

    /// Removes the tokens of `seq` from position `from` on. False where that is not possible: a model with a state in part.
    pub fn remove(&mut self, seq: u32, from: u32) -> bool {
        let seq = self.sequence(seq);
        // SAFETY: the sequence exists.
        unsafe { sys::llama_memory_seq_rm(self.memory, seq, position(from), -1) }
    }

    /// Makes `to`, which must be empty, a copy of the first `len` tokens of `from`. Without `shared`, `to` then lists all tokens
    /// of `from`: the caller removes those behind `len`. Without pages, the data moves at the next decode. `gone`: cells that
    /// windows have left behind. False: `to` is not empty.
    pub fn copy(&mut self, from: u32, to: u32, len: u32, gone: u32) -> bool {
        let (source, target) = (self.sequence(from), self.sequence(to));
        // Onto a filled sequence, the cells would double.
        if from == to || !self.held(to).is_empty() {
            return false;
        }
        // Some models abort at a part of a sequence, be it the whole.
        let part = self.shared && self.held(from).end > len;
        let end = if part { position(len) } else { -1 };
        // SAFETY: both exist and differ, and the whole sequence is copied where a part would abort.
        unsafe { sys::llama_memory_seq_cp(self.memory, source, target, 0, end) };
        self.pages.copy(from, to, len, gone);
        true
    }

    /// Tokens of a sequence with a state that can be taken back once after a pass that computed more: 0 where the library
    /// cannot for this model.
    pub fn rollback(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_rs_seq(self.context.as_ptr()) }
    }

    /// Tokens that one pass through the layers takes.
    pub fn pass(&self) -> u32 {
        // SAFETY: the context is alive, and the call only reads.
        unsafe { sys::llama_n_ubatch(self.context.as_ptr()) }
    }

    /// Bytes of host memory that passes need beside KV, as far as that was looked at. Room for a row of logits for each token of a
    /// pass is reserved, 300 MiB with 152,000 ids. It takes no memory until it is written: a row for each sequence counts.
    pub fn computing(&self) -> u64 {
        let unused = u64::from(self.pass().saturating_sub(self.sequences))
            * (self.context.model.n_vocab() * size_of::<f32>()) as u64;
        self.pages.computing.saturating_sub(unused)
    }

    /// The positions that `seq` holds. They begin above 0 where it has a state, or a sliding window has moved on.
    pub fn held(&self, seq: u32) -> Range<u32> {
        let seq = self.sequence(seq);
        // SAFETY: the sequence exists. Both are -1 where it holds nothing.
        let (first, last) = unsafe {
            (sys::llama_memory_seq_pos_min(self.memory, seq), sys::llama_memory_seq_pos_max(self.memory, seq))
        };
        first.max(0).cast_unsigned()..(last + 1).cast_unsigned()
    }

    /// Empties the batch.
    pub fn clear(&mut self) {
        self.batch.n_tokens = 0;
        self.states.clear();
    }

    /// Appends a token to the batch, which must have room; `output`: its logits are wanted.
    pub fn push(&mut self, token: Token, position: u32, seq: u32, output: bool) {
        let (index, seq, position) = (self.pushed(), self.sequence(seq), self::position(position));
        assert!(
            index < self.n_batch() && (token as usize) < self.context.model.n_vocab(),
            "token {token} is the {index}th, or none"
        );
        let b = &mut self.batch;
        // SAFETY: the lists have room for `n_batch` tokens, and only this context uses them.
        unsafe {
            b.token.add(index).write(token.cast_signed());
            b.pos.add(index).write(position);
            b.n_seq_id.add(index).write(1);
            (*b.seq_id.add(index)).write(seq);
            b.logits.add(index).write(output.into());
        }
        b.n_tokens += 1;
        self.states.push();
    }

    /// Tokens in the batch.
    pub fn pushed(&self) -> usize {
        self.batch.n_tokens.unsigned_abs() as usize
    }

    /// Computes the batch. Its sequences must come in blocks, and without `shared` rise.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(&mut self) -> Result<(), DecodeError> {
        // SAFETY: `push` wrote so many entries of every list, and checked them; they are only read.
        let batch = sys::llama_batch { embd: self.states.of_batch(), ..self.batch };
        let decode = || logged(|| unsafe { sys::llama_decode(self.context.as_ptr(), batch) });
        self.computed(decode)
    }

    /// Computes on the context's threads.
    pub(super) fn computed(&self, compute: impl FnOnce() -> (i32, String)) -> Result<(), DecodeError> {
        let (code, why) = match &*self.context.workers {
            Workers::Team(team) => team.during(compute),
            Workers::Pool(_) => compute(),
        };
        match code {
            0 => Ok(()),
            1 => Err(DecodeError::NoCells(self.pushed())),
            -1 => Err(DecodeError::Refused(why)),
            code => Err(DecodeError::Failed(code, why)),
        }
    }

    /// Logits of the batch's token `index` after [`Context::decode`]; None where it is no output.
    pub fn logits(&self, index: usize) -> Option<&[f32]> {
        let index = i32::try_from(index).ok()?;
        // SAFETY: null, where the index is none of the batch's outputs, is checked. The row has `n_vocab` floats and stays
        // until the next decode, which needs `&mut`.
        unsafe { row(sys::llama_get_logits_ith(self.context.as_ptr(), index), self.context.model.n_vocab()) }
    }

    /// The hidden state of the batch's token `index`; None where it is no output or [`Context::want_hidden`] is off.
    pub fn hidden(&self, index: usize) -> Option<&[f32]> {
        let index = i32::try_from(index).ok().filter(|_| self.hidden)?;
        // SAFETY: as in `logits`, with `n_embd` floats.
        unsafe {
            row(sys::llama_get_embeddings_ith(self.context.as_ptr(), index), self.context.model.n_embd())
        }
    }

    /// Whether the next decodes keep hidden states. While on, every token of a batch costs an output.
    pub fn want_hidden(&mut self, on: bool) {
        // The library writes to its log at each call.
        if self.hidden != on {
            self.hidden = on;
            // SAFETY: the context is alive.
            unsafe { sys::llama_set_embeddings(self.context.as_ptr(), on) };
        }
    }

    /// Bytes that the state of `seq` takes.
    pub fn state_size(&mut self, seq: u32) -> usize {
        let seq = self.sequence(seq);
        // SAFETY: the sequence exists.
        unsafe { sys::llama_state_seq_get_size(self.context.as_ptr(), seq) }
    }

    /// The state of `seq`, for which `bytes` are likely to be enough: to count them takes as long as to write them. Copies must
    /// have been made by a decode.
    pub fn state(&mut self, seq: u32, bytes: usize) -> Option<Vec<u8>> {
        let (context, id) = (self.context.as_ptr(), self.sequence(seq));
        let write = |bytes| {
            let mut state = vec![0u8; bytes];
            // SAFETY: the sequence exists, and the buffer has the size that is given.
            let n = unsafe { sys::llama_state_seq_get_data(context, state.as_mut_ptr(), bytes, id) };
            state.truncate(n);
            (n > 0).then_some(state)
        };
        write(bytes).or_else(|| write(self.state_size(seq)))
    }

    /// Gives `seq` a state. False: the bytes are none, or there is no room; then `seq` is empty.
    pub fn set_state(&mut self, seq: u32, bytes: &[u8]) -> bool {
        let (seq, start, len) = (self.sequence(seq), bytes.as_ptr(), bytes.len());
        // SAFETY: the sequence exists; the library checks the bytes against their length.
        let read = unsafe { sys::llama_state_seq_set_data(self.context.as_ptr(), start, len, seq) };
        read == len && read > 0
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `make` and freed once.
        unsafe { sys::llama_batch_free(self.batch) };
    }
}

fn position(position: u32) -> i32 {
    i32::try_from(position).expect("contexts end far below. This is a bug.")
}

/// # Safety
/// A pointer that is not null points to `len` floats that outlive `'a`.
pub(super) unsafe fn row<'a>(start: *const f32, len: usize) -> Option<&'a [f32]> {
    // SAFETY: the caller's promise.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, len) })
}

fn context_params(shape: &Shape<'_>, workers: &Workers) -> sys::llama_context_params {
    // SAFETY: takes nothing.
    let own = unsafe { sys::llama_context_default_params() };
    // A team computes on the thread that calls it.
    let threads = if let Workers::Pool(pool) = workers { pool.threads.cast_signed() } else { 1 };
    let keys = shape.positions;
    // What is not set stays as the library has it: the model's.
    let set = |key: Option<f64>, own: f32| key.map_or(own, |key| key as f32);
    sys::llama_context_params {
        // A batch must have room for one output of every sequence.
        n_batch: shape.batch.max(shape.plan.sequences),
        n_ctx: shape.plan.cells.next_multiple_of(CELL_BLOCK),
        n_ubatch: shape.pass,
        n_seq_max: shape.plan.sequences,
        n_rs_seq: shape.rollback,
        n_threads: threads,
        n_threads_batch: threads,
        flash_attn_type: sys::LLAMA_FLASH_ATTN_TYPE_ENABLED,
        type_k: shape.kv as sys::ggml_type,
        type_v: shape.kv as sys::ggml_type,
        kv_unified: shape.plan.home == KvHome::Pool,
        // With a cache that drops cells outside the window, truncating would fail without an error.
        swa_full: true,
        no_perf: true,
        rope_scaling_type: match keys.rope_scaling {
            RopeScaling::Auto => sys::LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED,
            RopeScaling::None => sys::LLAMA_ROPE_SCALING_TYPE_NONE,
            RopeScaling::Linear => sys::LLAMA_ROPE_SCALING_TYPE_LINEAR,
            RopeScaling::Yarn => sys::LLAMA_ROPE_SCALING_TYPE_YARN,
        },
        rope_freq_base: set(keys.rope_freq_base, own.rope_freq_base),
        rope_freq_scale: set(keys.rope_freq_scale, own.rope_freq_scale),
        yarn_ext_factor: set(keys.yarn_ext_factor, own.yarn_ext_factor),
        yarn_attn_factor: set(keys.yarn_attn_factor, own.yarn_attn_factor),
        yarn_beta_slow: set(keys.yarn_beta_slow, own.yarn_beta_slow),
        yarn_beta_fast: set(keys.yarn_beta_fast, own.yarn_beta_fast),
        yarn_orig_ctx: keys.yarn_orig_ctx.unwrap_or(own.yarn_orig_ctx),
        ..own
    }
}
