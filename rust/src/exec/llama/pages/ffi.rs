//! Buffers of host memory whose pages come as they are written. ggml's own buffer type is given another function that
//! allocates, used while a context of ours is laid out.

use super::Rows;
use crate::exec::llama::backend::ffi::{Alloc, Buffer, BufferType};
use llama_cpp_sys_2 as sys;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// What is being laid out by this thread.
#[derive(Default)]
struct Laying {
    /// With the buffer that each lies in.
    tensors: Vec<(Rows, *mut Buffer)>,
    /// Live buffers, with those of tensors of KV marked.
    buffers: Vec<(NonNull<Buffer>, bool)>,
}

thread_local! {
    static LAYING: RefCell<Option<Laying>> = const { RefCell::new(None) };
}

/// The pages of a context's KV, which the context owns: they are gone with it.
pub(in crate::exec::llama) struct Pages {
    tensors: Vec<Rows>,
    page: usize,
    /// Bytes of buffers that hold no KV.
    computing: u64,
}

/// Calls `make`, which makes a context, with KV in pages. `windowed`: some of the model's layers have a window; the library lays
/// out theirs behind the others (`llama_kv_cache_iswa`).
pub(in crate::exec::llama) fn laid_out<T>(windowed: bool, make: impl FnOnce() -> T) -> (T, Option<Pages>) {
    install();
    LAYING.set(Some(Laying::default()));
    let made = make();
    let Laying { tensors, buffers } = LAYING.take().unwrap_or_default();
    let mut computing = 0;
    for (buffer, kv) in buffers {
        // SAFETY: freed buffers leave the list, so it is alive; nobody else uses it now.
        let buffer = unsafe { &mut *buffer.as_ptr() };
        // The graph of every pass would call it.
        buffer.init_tensor = None;
        computing += if kv { 0 } else { buffer.size as u64 };
    }
    let first = tensors.first().map(|(_, buffer)| *buffer);
    let tensors = tensors
        .into_iter()
        .map(|(rows, buffer)| Rows { windowed: windowed && Some(buffer) != first, ..rows })
        .collect();
    (made, Some(Pages { tensors, page: rustix::param::page_size(), computing }))
}

/// Whether the system maps so many bytes of which only what is written takes memory.
pub(in crate::exec::llama) fn can_map(bytes: u64) -> bool {
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
    /// Bytes of the context's buffers that hold no KV.
    pub(in crate::exec::llama) fn computing(&self) -> u64 {
        self.computing
    }

    /// Copies the first `rows` rows of one sequence to another, in every tensor; of windowed layers those from `gone` on. `&mut`
    /// stands for the context's.
    pub(in crate::exec::llama) fn copy(&mut self, from: u32, to: u32, rows: u32, gone: u32) {
        for tensor in self.tensors.iter().filter(|_| from != to) {
            let rows = if tensor.windowed { gone.min(rows)..rows } else { 0..rows };
            if let (Some(source), Some(target)) = (tensor.of(from, rows.clone()), tensor.of(to, rows)) {
                // SAFETY: both lie in the tensor, which the context keeps, and two sequences' rows never overlap.
                unsafe {
                    ptr::copy_nonoverlapping(
                        source.start as *const u8,
                        target.start as *mut u8,
                        source.len(),
                    );
                }
            }
        }
    }

    /// Gives back the memory of these rows of a sequence, behind which it holds nothing. They read as zeros.
    pub(in crate::exec::llama) fn give_back(&mut self, sequence: u32, rows: &Range<u32>) {
        let pages = self.tensors.iter().filter_map(|t| t.pages(sequence, rows.clone(), self.page));
        // SAFETY: the pages hold nothing but rows of the tensor that nobody reads.
        pages.for_each(|pages| unsafe { discard(pages) });
    }

    /// Whether layers with a window lie apart, so that what has left it can go.
    pub(in crate::exec::llama) fn windowed(&self) -> bool {
        self.tensors.iter().any(|tensor| tensor.windowed)
    }

    /// Gives back the memory of a sequence's first cells in layers with a window, so many, which nobody reads any more.
    pub(in crate::exec::llama) fn move_window(&mut self, sequence: u32, cells: u32) {
        let windowed = self.tensors.iter().filter(|tensor| tensor.windowed);
        let pages = windowed.filter_map(|t| t.first_pages(sequence, cells, self.page));
        // SAFETY: as in `give_back`.
        pages.for_each(|pages| unsafe { discard(pages) });
    }
}

/// Gives back the memory of pages, which read as zeros then.
///
/// # Safety
/// They lie in a mapping of ours, and nobody uses what they hold.
unsafe fn discard(pages: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(pages.start as *mut c_void, pages.len(), libc::MADV_DONTNEED) };
}

/// What allocated before.
static STOCK: OnceLock<Alloc> = OnceLock::new();

fn install() {
    STOCK.get_or_init(|| {
        // SAFETY: the structure lives as long as the process, and no other thread lays out the first context.
        unsafe {
            let kind: *mut BufferType = sys::ggml_backend_cpu_buffer_type().cast();
            std::mem::replace(&mut (*kind).alloc_buffer, alloc)
        }
    });
}

/// Takes the place of `alloc_buffer`: maps pages while this thread lays out a context; at all other times ggml's own allocates.
unsafe extern "C" fn alloc(kind: *mut BufferType, size: usize) -> *mut Buffer {
    let laying = LAYING.with_borrow(Option::is_some);
    let Some(stock) = STOCK.get() else { return ptr::null_mut() };
    if !laying || size == 0 {
        // SAFETY: called as the library calls us.
        return unsafe { stock(kind, size) };
    }
    let Some(start) = map(size) else {
        log::error!(target: "llama", "no address space for {size} bytes of KV");
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
        new.init_tensor = Some(note);
        new.set_tensor = Some(set);
        new.clear = Some(clear);
        LAYING.with_borrow_mut(|laying| {
            let listed = NonNull::new(buffer).zip(laying.as_mut());
            listed.map(|(buffer, laying)| laying.buffers.push((buffer, false)))
        });
        buffer
    }
}

/// `free_buffer`.
unsafe extern "C" fn free(buffer: *mut Buffer) {
    LAYING.with_borrow_mut(|laying| {
        let buffers = laying.as_mut().map(|laying| &mut laying.buffers);
        buffers.map(|buffers| buffers.retain(|(listed, _)| listed.as_ptr() != buffer))
    });
    // SAFETY: mapped by `alloc` with this size, and freed once.
    unsafe { libc::munmap((*buffer).context, (*buffer).size) };
}

/// `init_tensor`: notes where tensors of KV lie.
unsafe extern "C" fn note(buffer: *mut Buffer, tensor: *mut sys::ggml_tensor) -> sys::ggml_status {
    // SAFETY: the library passes a tensor of this buffer.
    let tensor = unsafe { &*tensor };
    let is = |start: &str, of: &[std::ffi::c_char]| of.iter().zip(start.bytes()).all(|(a, b)| *a as u8 == b);
    if is("cache_", &tensor.name) && tensor.view_src.is_null() {
        // States of recurrent layers have a row for each sequence.
        let state = is("cache_r", &tensor.name) || is("cache_s_", &tensor.name);
        let rows = Rows {
            base: tensor.data as usize,
            row: tensor.nb[1],
            sequence: tensor.nb[2],
            sequences: usize::try_from(tensor.ne[2]).unwrap_or(0),
            windowed: false,
        };
        LAYING.with_borrow_mut(|laying| {
            let Some(laying) = laying else { return };
            laying.tensors.extend((!state).then_some((rows, buffer)));
            laying.buffers.iter_mut().filter(|b| b.0.as_ptr() == buffer).for_each(|b| b.1 = true);
        });
    }
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
