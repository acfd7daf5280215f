//! The calls of a context. As in `llama::ffi`, every argument is checked before the call.

use super::{Batch, CELL_BLOCK, DecodeError, KvType, MAX_SEQUENCES, Shape};
use crate::config::RopeScaling;
use crate::exec::llama::ffi::{Model, logged};
use crate::exec::llama::pages::ffi::{Pages, laid_out};
use crate::exec::llama::rope::Rope;
use crate::exec::llama::workers::Workers;
use crate::types::Token;
use llama_cpp_sys_2 as sys;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A context, its threads and its batch.
pub struct Context {
    context: NonNull<sys::llama_context>,
    memory: sys::llama_memory_t,
    batch: Batch,
    /// Token capacity of the batch.
    n_batch: usize,
    n_vocab: usize,
    n_embd: usize,
    sequences: u32,
    shared: bool,
    hidden: bool,
    /// Where KV lies, if in pages.
    pages: Option<Pages>,
    // Below: dropped after the context, which points into them.
    workers: Arc<Workers>,
    model: Arc<Model>,
}

// SAFETY: the context may be used by one thread at a time, whichever; `&mut` and the missing `Sync` see to that.
unsafe impl Send for Context {}

impl Context {
    /// Makes a context with flash attention that computes on these threads. Contexts that share them must be used by one
    /// thread, or in turns.
    ///
    /// # Errors
    /// The library's reason, e.g. too little memory or a head size that `kv` cannot hold.
    pub fn new(model: &Arc<Model>, shape: &Shape, workers: &Arc<Workers>) -> Result<Self, String> {
        let room = 1..=u32::MAX / 2;
        if !(1..=MAX_SEQUENCES).contains(&shape.sequences) || !room.contains(&shape.cells) {
            return Err(format!("{} sequences in {} cells are out of range", shape.sequences, shape.cells));
        }
        let params = context_params(shape, workers);
        // SAFETY: the model is alive; the parameters hold no pointers.
        let make = || unsafe { sys::llama_init_from_model(model.model.as_ptr(), params) };
        let ((context, why), pages) =
            if shape.paged { laid_out(model.n_swa() > 0, || logged(make)) } else { (logged(make), None) };
        let context = NonNull::new(context).ok_or(why)?;
        let mut context = Self::wrap(model, context, workers, shape.shared);
        context.pages = pages;
        if let Workers::Pool(pool) = &**workers {
            // SAFETY: both are alive, and the threads are dropped after the context.
            unsafe {
                sys::llama_attach_threadpool(context.context.as_ptr(), pool.as_ptr(), pool.as_ptr());
            }
        }
        Ok(context)
    }

    fn wrap(
        model: &Arc<Model>,
        context: NonNull<sys::llama_context>,
        workers: &Arc<Workers>,
        shared: bool,
    ) -> Self {
        let c = context.as_ptr();
        // SAFETY: the context is alive and the calls only read. The numbers may differ from what was asked for.
        let (memory, n_batch, sequences) =
            unsafe { (sys::llama_get_memory(c), sys::llama_n_batch(c), sys::llama_n_seq_max(c)) };
        let n_batch = n_batch as usize;
        Context {
            context,
            memory,
            batch: Batch::with_capacity(n_batch),
            n_batch,
            n_vocab: model.n_vocab(),
            n_embd: model.n_embd(),
            sequences,
            shared,
            hidden: false,
            pages: None,
            workers: Arc::clone(workers),
            model: Arc::clone(model),
        }
    }

    /// Most tokens in a batch.
    pub fn n_batch(&self) -> usize {
        self.n_batch
    }

    /// Width of a logits row.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Sequences.
    pub fn sequences(&self) -> u32 {
        self.sequences
    }

    fn sequence(&self, seq: u32) -> Option<i32> {
        (seq < self.sequences).then_some(seq.cast_signed())
    }

    /// Removes the tokens of `seq` from position `from` on. False where that is not possible: a model with a state
    /// in part, or no such sequence.
    pub fn remove(&mut self, seq: u32, from: u32) -> bool {
        let (Some(seq), Ok(from)) = (self.sequence(seq), i32::try_from(from)) else { return false };
        // SAFETY: the sequence exists.
        unsafe { sys::llama_memory_seq_rm(self.memory, seq, from, -1) }
    }

    /// Makes `to`, which must be empty, a copy of the first `len` tokens of `from`. Without `shared`, `to` then lists all tokens
    /// of `from`: the caller removes those behind `len`. Without pages, the data moves at the next decode. `gone`: cells that
    /// windows have left behind ([`Context::move_window`]). False: there are no such sequences.
    pub fn copy(&mut self, from: u32, to: u32, len: u32, gone: u32) -> bool {
        let (Some(f), Some(t), Ok(len)) = (self.sequence(from), self.sequence(to), i32::try_from(len)) else {
            return false;
        };
        // Onto a filled sequence, the cells would double.
        if f == t || self.last(to).is_some() {
            return false;
        }
        // Some models abort at a part of a sequence, be it the whole.
        let part = self.shared && self.last(from).is_some_and(|last| last >= len.cast_unsigned());
        let end = if part { len } else { -1 };
        // SAFETY: both exist and differ, and the whole sequence is copied where a part would abort.
        unsafe { sys::llama_memory_seq_cp(self.memory, f, t, 0, end) };
        if let Some(pages) = self.pages.as_mut().filter(|_| !self.shared) {
            pages.copy(from, to, len.cast_unsigned(), gone);
        }
        true
    }

    /// Whether [`Context::copy`] moves data at the next decode.
    pub fn copies_later(&self) -> bool {
        !self.shared && self.pages.is_none()
    }

    /// Gives back the memory of these cells of `seq`, behind which it holds nothing. Without pages, or in a pool, it stays.
    pub fn give_back(&mut self, seq: u32, cells: &Range<u32>) {
        if let Some(pages) = self.pages.as_mut().filter(|_| !self.shared) {
            pages.give_back(seq, cells);
        }
    }

    /// Cells that a layer with a window reads before a token; None where all cells stay.
    pub fn window(&self) -> Option<u32> {
        let pages = self.pages.as_ref().filter(|pages| !self.shared && pages.windowed());
        pages.map(|_| self.model.n_swa())
    }

    /// Gives back the memory of the first `cells` of `seq` in layers with a window, which its tokens to come don't read.
    pub fn move_window(&mut self, seq: u32, cells: u32) {
        if let Some(pages) = self.pages.as_mut().filter(|_| !self.shared) {
            pages.move_window(seq, cells);
        }
    }

    /// Tokens of a sequence with a state that can be taken back once after a pass that computed more: 0 where the library
    /// cannot for this model.
    pub fn rollback(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_rs_seq(self.context.as_ptr()) }
    }

    /// Bytes of host memory that passes need beside KV, as far as that was looked at. Room for a row of logits for each token of a
    /// pass is reserved, 300 MiB with 152,000 ids. It takes no memory until it is written: a row for each sequence counts.
    pub fn computing(&self) -> u64 {
        // SAFETY: the context is alive, and the call only reads.
        let pass = unsafe { sys::llama_n_ubatch(self.context.as_ptr()) };
        let unused =
            u64::from(pass.saturating_sub(self.sequences)) * (self.n_vocab * size_of::<f32>()) as u64;
        self.pages.as_ref().map_or(0, Pages::computing).saturating_sub(unused)
    }

    /// The highest position that `seq` holds.
    pub fn last(&self, seq: u32) -> Option<u32> {
        let seq = self.sequence(seq)?;
        // SAFETY: the sequence exists.
        u32::try_from(unsafe { sys::llama_memory_seq_pos_max(self.memory, seq) }).ok()
    }

    /// The lowest position that `seq` holds; above 0 where a sliding window has moved on.
    pub fn first(&self, seq: u32) -> Option<u32> {
        let seq = self.sequence(seq)?;
        // SAFETY: the sequence exists.
        u32::try_from(unsafe { sys::llama_memory_seq_pos_min(self.memory, seq) }).ok()
    }

    /// Empties the batch.
    pub fn clear(&mut self) {
        self.batch.clear();
    }

    /// Appends a token to the batch and gives back its index; `output`: its logits are wanted. None, and no change,
    /// where the batch is full or an argument is out of range.
    pub fn push(&mut self, token: Token, position: u32, seq: u32, output: bool) -> Option<usize> {
        let index = self.batch.tokens.len();
        let seq = self.sequence(seq)?;
        let position = i32::try_from(position).ok()?;
        let token =
            i32::try_from(token).ok().filter(|_| (token as usize) < self.n_vocab && index < self.n_batch)?;
        self.batch.push(token, position, seq, output);
        Some(index)
    }

    /// Tokens in the batch.
    pub fn pushed(&self) -> usize {
        self.batch.tokens.len()
    }

    /// Computes the batch. Its sequences must come in blocks, and without `shared` rise.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(&mut self) -> Result<(), DecodeError> {
        let n = self.batch.tokens.len();
        if n == 0 {
            return Err(DecodeError::Refused("it is empty".into()));
        }
        let b = &mut self.batch;
        b.pointers.clear();
        b.pointers.extend(b.sequences.iter_mut().map(std::ptr::from_mut));
        let batch = sys::llama_batch {
            n_tokens: i32::try_from(n).unwrap_or(i32::MAX),
            token: b.tokens.as_mut_ptr(),
            embd: std::ptr::null_mut(),
            pos: b.positions.as_mut_ptr(),
            n_seq_id: b.counts.as_mut_ptr(),
            seq_id: b.pointers.as_mut_ptr(),
            logits: b.outputs.as_mut_ptr(),
        };
        // SAFETY: `push` checked every token, sequence and the length; the lists have `n` entries and are only read.
        let decode = || logged(|| unsafe { sys::llama_decode(self.context.as_ptr(), batch) });
        let (code, why) = match &*self.workers {
            Workers::Team(team) => team.during(decode),
            Workers::Pool(_) => decode(),
        };
        match code {
            0 => Ok(()),
            1 => Err(DecodeError::NoCells(n)),
            -1 => Err(DecodeError::Refused(why)),
            code => Err(DecodeError::Failed(code, why)),
        }
    }

    /// Logits of the batch's token `index` after [`Context::decode`]; None where it is no output.
    pub fn logits(&self, index: usize) -> Option<&[f32]> {
        let index = self.output(index)?;
        // SAFETY: the index is one of the batch's outputs; null is checked. The row has `n_vocab` floats and stays
        // until the next decode, which needs `&mut`.
        unsafe { row(sys::llama_get_logits_ith(self.context.as_ptr(), index), self.n_vocab) }
    }

    /// The hidden state of the batch's token `index`; None where it is no output or [`Context::want_hidden`] is off.
    pub fn hidden(&self, index: usize) -> Option<&[f32]> {
        let index = self.output(index).filter(|_| self.hidden)?;
        // SAFETY: as in `logits`, with `n_embd` floats.
        unsafe { row(sys::llama_get_embeddings_ith(self.context.as_ptr(), index), self.n_embd) }
    }

    fn output(&self, index: usize) -> Option<i32> {
        self.batch.outputs.get(index).filter(|&&o| o != 0).and_then(|_| i32::try_from(index).ok())
    }

    /// Whether the next decodes keep hidden states. While on, every token of a batch costs an output.
    pub fn want_hidden(&mut self, on: bool) {
        if self.hidden != on {
            self.hidden = on;
            // SAFETY: the context is alive.
            unsafe { sys::llama_set_embeddings(self.context.as_ptr(), on) };
        }
    }

    /// Bytes that the state of `seq` takes; 0 where there is no such sequence.
    pub fn state_size(&mut self, seq: u32) -> usize {
        let Some(seq) = self.sequence(seq) else { return 0 };
        // SAFETY: the sequence exists.
        unsafe { sys::llama_state_seq_get_size(self.context.as_ptr(), seq) }
    }

    /// The state of `seq`, for which `bytes` are likely to be enough: to count them takes as long as to write them. Copies must
    /// have been made by a decode.
    pub fn state(&mut self, seq: u32, bytes: usize) -> Option<Vec<u8>> {
        let mut state = vec![0u8; bytes];
        let id = self.sequence(seq)?;
        for _ in 0..2 {
            // SAFETY: the sequence exists, and the buffer has the size that is given.
            let n = unsafe {
                sys::llama_state_seq_get_data(self.context.as_ptr(), state.as_mut_ptr(), state.len(), id)
            };
            if n > 0 {
                state.truncate(n);
                return Some(state);
            }
            state.resize(self.state_size(seq), 0);
        }
        None
    }

    /// Gives `seq` a state. False: the bytes are none, or there is no room; then `seq` is empty.
    pub fn set_state(&mut self, seq: u32, bytes: &[u8]) -> bool {
        let Some(seq) = self.sequence(seq) else { return false };
        // SAFETY: the sequence exists; the library checks the bytes against their length.
        let n =
            unsafe { sys::llama_state_seq_set_data(self.context.as_ptr(), bytes.as_ptr(), bytes.len(), seq) };
        n == bytes.len() && n > 0
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once.
        unsafe { sys::llama_free(self.context.as_ptr()) };
    }
}

/// # Safety
/// A pointer that is not null points to `len` floats that outlive `'a`.
unsafe fn row<'a>(start: *const f32, len: usize) -> Option<&'a [f32]> {
    // SAFETY: the caller's promise.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, len) })
}

fn context_params(shape: &Shape, workers: &Workers) -> sys::llama_context_params {
    let threads = if let Workers::Pool(pool) = workers { pool.size().cast_signed() } else { 1 };
    // SAFETY: takes nothing.
    let mut params = unsafe { sys::llama_context_default_params() };
    // A batch must have room for one output of every sequence.
    params.n_batch = shape.batch.max(shape.sequences);
    params.n_ctx = shape.cells.next_multiple_of(CELL_BLOCK);
    params.n_ubatch = shape.pass;
    params.n_seq_max = shape.sequences;
    params.n_rs_seq = shape.rollback;
    params.n_threads = threads;
    params.n_threads_batch = threads;
    params.flash_attn_type = sys::LLAMA_FLASH_ATTN_TYPE_ENABLED;
    let kv = match shape.kv {
        KvType::Q8_0 => sys::GGML_TYPE_Q8_0,
        KvType::Bf16 => sys::GGML_TYPE_BF16,
        KvType::F16 => sys::GGML_TYPE_F16,
    };
    params.type_k = kv;
    params.type_v = kv;
    params.kv_unified = shape.shared;
    // A cache that drops what has left the window could not be truncated, and would not say so.
    params.swa_full = true;
    params.no_perf = true;
    scale_positions(&mut params, &shape.rope);
    params
}

/// What is not set stays as the library has it: the model's.
fn scale_positions(params: &mut sys::llama_context_params, rope: &Rope) {
    let set = |to: &mut f32, value: Option<f64>| *to = value.map_or(*to, |value| value as f32);
    params.rope_scaling_type = match rope.scaling {
        RopeScaling::Auto => sys::LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED,
        RopeScaling::None => sys::LLAMA_ROPE_SCALING_TYPE_NONE,
        RopeScaling::Linear => sys::LLAMA_ROPE_SCALING_TYPE_LINEAR,
        RopeScaling::Yarn => sys::LLAMA_ROPE_SCALING_TYPE_YARN,
    };
    set(&mut params.rope_freq_base, rope.freq_base);
    set(&mut params.rope_freq_scale, rope.freq_scale);
    set(&mut params.yarn_ext_factor, rope.yarn_ext_factor);
    set(&mut params.yarn_attn_factor, rope.yarn_attn_factor);
    set(&mut params.yarn_beta_slow, rope.yarn_beta_slow);
    set(&mut params.yarn_beta_fast, rope.yarn_beta_fast);
    params.yarn_orig_ctx = rope.yarn_orig_ctx.unwrap_or(params.yarn_orig_ctx);
}
