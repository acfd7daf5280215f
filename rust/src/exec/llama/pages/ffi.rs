//! Buffers of host memory whose pages come as they are written, and of huge pages for weights. ggml's own buffer type is given
//! another function that allocates, used while a context of ours is laid out, or a model of ours is read.

use super::Rows;
use crate::exec::llama::devices::ffi::{Alloc, Buffer, BufferType};
use llama_cpp_sys_2 as sys;
use rustix::param::page_size;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::LazyLock;

/// A live buffer of the context that is being laid out by this thread.
struct Laid {
    buffer: *mut Buffer,
    /// It holds KV or states.
    kv: bool,
    tensors: Vec<Rows>,
}

thread_local! {
    static LAYING: RefCell<Option<Vec<Laid>>> = const { RefCell::new(None) };
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// The pages of a context's KV, which the context owns: they are gone with it. None where it lies in other memory.
#[derive(Default)]
pub(crate) struct Pages {
    /// Where KV of sequences with cells of their own lies.
    pub(in crate::exec::llama) tensors: Vec<Rows>,
    /// Bytes of the context's buffers that hold no KV.
    pub(crate) computing: u64,
}

/// Calls `make`, which makes a context, with KV in pages. `window`: tokens that some of the model's layers see; the library lays
/// out theirs behind the others (`llama_kv_cache_iswa`).
pub(crate) fn laid_out<T>(window: u32, make: impl FnOnce() -> T) -> (T, Pages) {
    LazyLock::force(&STOCK);
    LAYING.set(Some(Vec::new()));
    let made = make();
    let mut pages = Pages::default();
    for Laid { buffer, kv, tensors } in LAYING.take().unwrap_or_default() {
        // SAFETY: freed buffers leave the list, so it is alive; nobody else uses it now.
        let buffer = unsafe { &mut *buffer };
        // The graph of every pass would call it.
        buffer.init_tensor = None;
        pages.computing += if kv { 0 } else { buffer.size as u64 };
        let window = if pages.tensors.is_empty() { 0 } else { window };
        pages.tensors.extend(tensors.into_iter().map(|rows| Rows { window, ..rows }));
    }
    (made, pages)
}

/// Calls `load`, which reads a model's file: its weights in host memory lie in huge pages, where the system has them.
pub(crate) fn read<T>(load: impl FnOnce() -> T) -> T {
    LazyLock::force(&STOCK);
    READING.set(true);
    let loaded = load();
    READING.set(false);
    loaded
}

/// Whether the system maps so many bytes of which only what is written takes memory.
pub(crate) fn can_map(bytes: u64) -> bool {
    let Some(start) = usize::try_from(bytes).ok().and_then(map) else { return false };
    // SAFETY: just mapped, and used by nobody.
    unsafe { libc::munmap(start.as_ptr(), bytes as usize) };
    true
}

fn map(bytes: usize) -> Option<NonNull<c_void>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping touches no memory that is in use.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    NonNull::new(start).filter(|_| start != libc::MAP_FAILED)
}

impl Pages {
    /// Copies the first `rows` rows of one sequence to another, in every tensor; of windowed layers those from `gone` on. `&mut`
    /// stands for the context's.
    pub(crate) fn copy(&mut self, from: u32, to: u32, rows: u32, gone: u32) {
        assert_ne!(from, to, "two sequences");
        for tensor in &self.tensors {
            let rows = if tensor.window > 0 { gone.min(rows)..rows } else { 0..rows };
            if let (Some(source), Some(target)) = (tensor.of(from, rows.clone()), tensor.of(to, rows)) {
                let (start, target) = (source.start as *const u8, target.start as *mut u8);
                // SAFETY: both lie in the tensor, which the context keeps, and two sequences' rows never overlap.
                unsafe { ptr::copy_nonoverlapping(start, target, source.len()) };
            }
        }
    }

    /// Gives back the memory of a sequence's rows from this one on, of which it holds none. They read as zeros.
    pub(crate) fn give_back(&mut self, sequence: u32, from: u32) {
        self.discard(sequence, |tensor| from..tensor.rows);
    }

    /// Cells that layers with a window read before a token; None where they don't lie apart, so that all cells stay.
    pub(crate) fn window(&self) -> Option<u32> {
        self.tensors.iter().map(|tensor| tensor.window).find(|window| *window > 0)
    }

    /// Gives back the memory of a sequence's first cells in layers with a window, so many, which nobody reads any more.
    pub(crate) fn move_window(&mut self, sequence: u32, cells: u32) {
        self.discard(sequence, |tensor| if tensor.window > 0 { 0..cells } else { 0..0 });
    }

    /// Frees the memory of these rows of a sequence in every tensor. No pass reads them any more; they would be zeros.
    fn discard(&mut self, sequence: u32, rows: impl Fn(&Rows) -> Range<u32>) {
        let pages = self.tensors.iter().filter_map(|t| t.pages(sequence, rows(t), page_size()));
        for Range { start, end } in pages {
            // SAFETY: the pages lie in a tensor that the context keeps, and hold nothing but these rows.
            unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
        }
    }
}

/// What allocated before a first context was laid out, in whose place `alloc` stands since.
static STOCK: LazyLock<Alloc> = LazyLock::new(|| {
    // SAFETY: the structure lives as long as the process, and no other thread lays out the first context.
    unsafe {
        let kind: *mut BufferType = sys::ggml_backend_cpu_buffer_type().cast();
        std::mem::replace(&mut (*kind).alloc_buffer, alloc)
    }
});

/// Replaces `alloc_buffer`: maps pages itself while this thread creates a context or loads a model, and else calls the function of ggml.
unsafe extern "C" fn alloc(kind: *mut BufferType, size: usize) -> *mut Buffer {
    let is_kv = LAYING.with_borrow(Option::is_some);
    if !is_kv && !READING.get() || size == 0 {
        // SAFETY: called as the library calls us.
        return unsafe { STOCK(kind, size) };
    }
    let Some(start) = map(size) else {
        log::error!(target: "llama", "no address space for {size} bytes");
        return ptr::null_mut();
    };
    // SAFETY: the mapping has this size and is page-aligned; the buffer is new and nobody else's.
    unsafe {
        let buffer: *mut Buffer = sys::ggml_backend_cpu_buffer_from_ptr(start.as_ptr(), size).cast();
        let new = &mut *buffer;
        if (new.context, new.size) != (start.as_ptr(), size) {
            log::error!(target: "llama", "buffers of this ggml are laid out in another way than is known");
            return ptr::null_mut();
        }
        new.buft = kind;
        new.free_buffer = Some(free);
        if !is_kv {
            libc::madvise(start.as_ptr(), size, libc::MADV_HUGEPAGE);
            return buffer;
        }
        new.init_tensor = Some(note);
        new.set_tensor = Some(set);
        new.clear = Some(clear);
        let laid = Laid { buffer, kv: false, tensors: Vec::new() };
        LAYING.with_borrow_mut(|all| all.get_or_insert_default().push(laid));
        buffer
    }
}

/// `free_buffer`.
unsafe extern "C" fn free(buffer: *mut Buffer) {
    LAYING.with_borrow_mut(|all| all.iter_mut().for_each(|all| all.retain(|laid| laid.buffer != buffer)));
    // SAFETY: mapped by `alloc` with this size, and freed once.
    unsafe { libc::munmap((*buffer).context, (*buffer).size) };
}

/// `init_tensor`: notes where tensors of KV lie.
unsafe extern "C" fn note(buffer: *mut Buffer, tensor: *mut sys::ggml_tensor) -> sys::ggml_status {
    // SAFETY: the library passes a tensor of this buffer, whose name ends with NUL.
    let (tensor, name) = unsafe { (&*tensor, CStr::from_ptr((*tensor).name.as_ptr()).to_bytes()) };
    if !name.starts_with(b"cache_") || !tensor.view_src.is_null() {
        return sys::GGML_STATUS_SUCCESS;
    }
    // States of recurrent layers have a row for each sequence.
    let state = name.starts_with(b"cache_r") || name.starts_with(b"cache_s_");
    let rows = Rows {
        base: tensor.data as usize,
        row: tensor.nb[1],
        rows: u32::try_from(tensor.ne[1]).unwrap_or(0),
        sequences: usize::try_from(tensor.ne[2]).unwrap_or(0),
        window: 0,
    };
    LAYING.with_borrow_mut(|all| {
        for laid in all.iter_mut().flatten().filter(|laid| laid.buffer == buffer) {
            laid.kv = true;
            laid.tensors.extend((!state).then_some(rows));
        }
    });
    sys::GGML_STATUS_SUCCESS
}

/// `set_tensor`; a sequence's whole part from another's of the same buffer is [`Pages::copy`]'s to move.
unsafe extern "C" fn set(
    buffer: *mut Buffer,
    tensor: *mut sys::ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the library passes a tensor of this buffer with room for so many bytes behind `offset`.
    unsafe {
        let start = (*buffer).context as usize;
        if (start..start + (*buffer).size).contains(&(data as usize)) && !(*tensor).view_src.is_null() {
            return;
        }
        ptr::copy_nonoverlapping(data.cast::<u8>(), (*tensor).data.cast::<u8>().add(offset), size);
    }
}

/// `clear`: fresh pages are zeros. Small ones, of which a short sequence takes no more than it needs.
unsafe extern "C" fn clear(buffer: *mut Buffer, value: u8) {
    // SAFETY: the buffer is a mapping of this size.
    unsafe {
        let Buffer { context, size, .. } = *buffer;
        if value == 0 {
            libc::madvise(context, size, libc::MADV_NOHUGEPAGE);
            libc::madvise(context, size, libc::MADV_DONTNEED);
        } else {
            ptr::write_bytes(context.cast::<u8>(), value, size);
        }
    }
}
