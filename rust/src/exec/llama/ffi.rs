//! The C interface of llama.cpp (crate `llama-cpp-sys-2` 0.1.161): the only unsafe code of this engine.
//!
//! A failed assertion in C++ ends the process and cannot be caught. So every argument is checked here before the
//! call, and what remains is what the library reports by itself.

use super::devices::{self, ffi::DeviceRef};
use super::drivers;
use super::pages;
use super::placement::Placement;
use crate::types::Token;
use crate::vocab::{GgufKind, GgufToken};
use llama_cpp_sys_2 as sys;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::{Arc, LazyLock, Once};

/// Library messages of one thread: the line that is being put together, and the first error since the last look.
#[derive(Default)]
struct Messages {
    line: String,
    level: sys::ggml_log_level,
    error: Option<String>,
}

thread_local! {
    // The library logs on the thread that calls it.
    static MESSAGES: RefCell<Messages> = RefCell::default();
}

/// Starts the library once for the process, its log on the `log` crate's target `llama`.
pub fn init() {
    static ONCE: Once = Once::new();
    // SAFETY: both callbacks are plain functions that live as long as the process and never unwind.
    ONCE.call_once(|| unsafe {
        sys::llama_log_set(Some(on_log), ptr::null_mut());
        // Without a callback an abort prints a backtrace, for which it starts a debugger.
        sys::ggml_set_abort_callback(Some(on_abort));
        sys::llama_backend_init();
        LazyLock::force(&drivers::BACKENDS);
    });
}

/// Has the library bind its threads to all memory nodes in turns, and read no weights ahead, before a model is loaded.
pub fn distribute() {
    // SAFETY: it reads what nodes there are; the library ignores all calls but the first.
    unsafe { sys::llama_numa_init(sys::GGML_NUMA_STRATEGY_DISTRIBUTE) };
}

pub(super) unsafe extern "C" fn on_log(level: sys::ggml_log_level, message: *const c_char, _: *mut c_void) {
    // SAFETY: the library passes a text that ends with NUL and outlives the call.
    let message = unsafe { text(message) };
    // A thread that ends has no messages any more, and unwinding into C++ would abort.
    let _ = MESSAGES.try_with(|m| m.borrow_mut().take(level, &message));
}

impl Messages {
    /// Takes a piece of text; `level` begins a line, or continues it.
    fn take(&mut self, level: sys::ggml_log_level, text: &str) {
        if level != sys::GGML_LOG_LEVEL_CONT {
            self.level = level;
            self.line.clear();
        }
        self.line.push_str(text);
        if !self.line.ends_with('\n') {
            return;
        }
        let line = self.line.trim_end();
        // Its errors are part of ours; its warnings and notes are for whoever looks for them.
        let noise =
            if self.level == sys::GGML_LOG_LEVEL_DEBUG { log::Level::Trace } else { log::Level::Debug };
        log::log!(target: "llama", noise, "{line}");
        if self.level == sys::GGML_LOG_LEVEL_ERROR && self.error.is_none() {
            // "function: what happened"
            self.error = Some(line.split_once(": ").map_or(line, |(_, what)| what).to_owned());
        }
        self.line.clear();
    }
}

pub(super) unsafe extern "C" fn on_abort(message: *const c_char) {
    // SAFETY: as in `on_log`.
    eprintln!("llama.cpp ended the process: {}", unsafe { text(message) }.trim_end());
}

/// A text of the library's.
///
/// # Safety
/// It ends with NUL.
pub(super) unsafe fn text(start: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned()
}

/// What `call` made, or the first error that the library logged meanwhile.
pub(super) fn made<T>(call: impl FnOnce() -> *mut T) -> Result<NonNull<T>, String> {
    let (made, why) = logged(call);
    NonNull::new(made).ok_or(why)
}

/// Runs `call` and gives back the first error that the library logged meanwhile.
pub(super) fn logged<T>(call: impl FnOnce() -> T) -> (T, String) {
    MESSAGES.with_borrow_mut(|m| m.error = None);
    let value = call();
    let error = MESSAGES.with_borrow_mut(|m| m.error.take());
    (value, error.unwrap_or_else(|| "no reason given".to_owned()))
}

pub(super) fn c_path(path: &Path) -> Result<CString, String> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(|_| "the path holds a NUL byte".to_owned())
}

type Read<'a> = &'a dyn Fn(f32);

/// True: goes on.
unsafe extern "C" fn on_read(share: f32, read: *mut c_void) -> bool {
    // SAFETY: `Model::load` passes a pointer to it, which lives until the call is over.
    let read = unsafe { *read.cast::<Read<'_>>() };
    read(share);
    true
}

/// A loaded model.
pub struct Model(pub(super) NonNull<sys::llama_model>);

// SAFETY: a loaded model is only read, and the library documents no thread that it belongs to.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Model {
    /// Loads a file whose layer count was checked (`super::file::read`): 0 or more than 512 layers abort. `read` hears the
    /// share that has been read.
    ///
    /// # Errors
    /// The library's reason, or what of `placement` is not there.
    pub fn load(path: &Path, placement: &Placement, read: Read<'_>) -> Result<Arc<Self>, String> {
        // The list ends with null. Without one the library would take every GPU that there is.
        let devices = devices::find(&placement.devices)?.into_iter().map(DeviceRef::as_ptr);
        let mut devices = Vec::from_iter(devices.chain([ptr::null_mut()]));
        let shares = shares(placement)?;
        // SAFETY: takes nothing.
        let own = unsafe { sys::llama_model_default_params() };
        let params = sys::llama_model_params {
            devices: devices.as_mut_ptr(),
            tensor_split: shares.as_ptr(),
            split_mode: match placement.splits_layers {
                true => sys::LLAMA_SPLIT_MODE_TENSOR,
                false => sys::LLAMA_SPLIT_MODE_LAYER,
            },
            load_mode: match (placement.read, placement.locked) {
                (false, false) => own.load_mode,
                (false, true) => sys::LLAMA_LOAD_MODE_MMAP_MLOCK,
                (true, false) => sys::LLAMA_LOAD_MODE_NONE,
                (true, true) => sys::LLAMA_LOAD_MODE_MLOCK,
            },
            load_mtp: placement.mtp,
            n_gpu_layers: placement.gpu_layers.map_or(own.n_gpu_layers, |n| n.try_into().unwrap_or(i32::MAX)),
            progress_callback: Some(on_read),
            progress_callback_user_data: (&raw const read).cast_mut().cast(),
            ..own
        };
        // SAFETY: the lists and `read` live until the call is over.
        let open = || unsafe { Model::open(path, params) };
        if placement.read { pages::ffi::read(open) } else { open() }
    }

    /// Loads a file's vocabulary without its weights. The caller checks first that no two tokens have the same text: the
    /// library ends the process where they do.
    ///
    /// # Errors
    /// The library's reason.
    pub fn load_vocab(path: &Path) -> Result<Arc<Self>, String> {
        // SAFETY: the library's own parameters, which point to nothing of ours.
        unsafe {
            let own = sys::llama_model_default_params();
            Model::open(path, sys::llama_model_params { vocab_only: true, ..own })
        }
    }

    /// # Safety
    /// What the parameters point to lives until this is over: the library reads it while it loads, and not later.
    unsafe fn open(path: &Path, params: sys::llama_model_params) -> Result<Arc<Self>, String> {
        init();
        let path = c_path(path)?;
        // SAFETY: the path ends with NUL and outlives the call; for the parameters, the caller's promise.
        made(|| unsafe { sys::llama_model_load_from_file(path.as_ptr(), params) }).map(Model).map(Arc::new)
    }

    /// A part of the model, which lives as long and is never null.
    fn vocab(&self) -> *const sys::llama_vocab {
        // SAFETY (here and below): the model and its vocabulary are alive, and the call only reads.
        unsafe { sys::llama_model_get_vocab(self.0.as_ptr()) }
    }

    /// Tokens in the vocabulary.
    pub fn n_vocab(&self) -> usize {
        usize::try_from(unsafe { sys::llama_vocab_n_tokens(self.vocab()) }).unwrap_or(0)
    }

    /// Floats in a hidden state.
    pub fn n_embd(&self) -> usize {
        usize::try_from(unsafe { sys::llama_model_n_embd_out(self.0.as_ptr()) }).unwrap_or(0)
    }

    /// Width of the sliding attention window in tokens; 0 = none.
    pub fn n_swa(&self) -> u32 {
        u32::try_from(unsafe { sys::llama_model_n_swa(self.0.as_ptr()) }).unwrap_or(0)
    }

    /// Whether all (recurrent) or some (hybrid) layers carry a state instead of KV.
    pub fn is_recurrent(&self) -> bool {
        let model = self.0.as_ptr();
        unsafe { sys::llama_model_is_recurrent(model) || sys::llama_model_is_hybrid(model) }
    }

    /// Whether the model generates text token by token: it has a decoder, no encoder that must run first, and does not write all
    /// of a text at once.
    pub fn generates(&self) -> bool {
        let model = self.0.as_ptr();
        unsafe {
            sys::llama_model_has_decoder(model)
                && !sys::llama_model_has_encoder(model)
                && !sys::llama_model_is_diffusion(model)
        }
    }

    /// Bytes of all weights.
    pub fn bytes(&self) -> u64 {
        unsafe { sys::llama_model_size(self.0.as_ptr()) }
    }

    /// Architecture, size and weight type, as the library puts it.
    pub fn description(&self) -> String {
        let mut room = [0; 128];
        // It ends with NUL, however little room there is.
        unsafe {
            sys::llama_model_desc(self.0.as_ptr(), room.as_mut_ptr(), room.len());
            text(room.as_ptr())
        }
    }

    /// The model's own chat template, or the one of this name.
    pub fn chat_template(&self, name: Option<&CStr>) -> Option<String> {
        let name = name.map_or(ptr::null(), CStr::as_ptr);
        let start = unsafe { sys::llama_model_chat_template(self.0.as_ptr(), name) };
        (!start.is_null()).then(|| unsafe { text(start) })
    }

    /// All ids that end a generation: the file's own end token first, the others rising.
    pub fn end_ids(&self) -> Vec<Token> {
        let ids = 0..Token::try_from(self.n_vocab()).unwrap_or(0);
        // Every id is below the vocabulary's size, which fits the library's i32.
        let is_end = |id: &Token| unsafe { sys::llama_vocab_is_eog(self.vocab(), id.cast_signed()) };
        let mut ends: Vec<Token> = ids.filter(is_end).collect();
        let own = unsafe { sys::llama_vocab_eos(self.vocab()) };
        // Stable: the others keep their order.
        ends.sort_by_key(|id| id.cast_signed() != own);
        ends
    }

    /// One of `LLAMA_VOCAB_TYPE_*`.
    pub fn vocab_type(&self) -> sys::llama_vocab_type {
        unsafe { sys::llama_vocab_type(self.vocab()) }
    }

    /// What the id is; it must be below [`Model::n_vocab`].
    pub fn token(&self, id: Token) -> GgufToken {
        assert!((id as usize) < self.n_vocab(), "a token of the vocabulary");
        let (vocab, id) = (self.vocab(), id.cast_signed());
        // The text ends with NUL.
        let text = unsafe { text(sys::llama_vocab_get_text(vocab, id)) };
        let attributes = unsafe { sys::llama_vocab_get_attr(vocab, id) };
        let is = |attribute| attributes & attribute != 0;
        let kind = match () {
            () if is(sys::LLAMA_TOKEN_ATTR_CONTROL) => GgufKind::Special,
            () if is(sys::LLAMA_TOKEN_ATTR_UNKNOWN) => GgufKind::Unknown,
            () if is(sys::LLAMA_TOKEN_ATTR_USER_DEFINED) => GgufKind::UserDefined,
            () if is(sys::LLAMA_TOKEN_ATTR_BYTE) => GgufKind::Byte,
            () if is(sys::LLAMA_TOKEN_ATTR_NORMAL) => GgufKind::Normal,
            () => GgufKind::Unused,
        };
        let write =
            |to: *mut u8, room| unsafe { sys::llama_token_to_piece(vocab, id, to.cast(), room, 0, true) };
        // Written out where it is special.
        let mut bytes = filled(64, write).unwrap_or_default();
        // The library's answer for a text with characters that stand for no byte.
        if bytes.starts_with(b"[UNK_BYTE_") {
            bytes = text.clone().into_bytes();
        }
        let score = unsafe { sys::llama_vocab_get_score(vocab, id) };
        GgufToken { text, bytes, kind, strips_right: is(sys::LLAMA_TOKEN_ATTR_RSTRIP), score }
    }

    /// The ids of a text; None where it is too long for the library. `special`: the text of special tokens becomes those.
    pub fn encode(&self, text: &str, special: bool) -> Option<Vec<Token>> {
        let len = i32::try_from(text.len()).ok()?;
        let (vocab, start) = (self.vocab(), text.as_ptr().cast());
        // The text has `len` bytes of UTF-8.
        let write = |to, room| unsafe { sys::llama_tokenize(vocab, start, len, to, room, false, special) };
        filled(text.len() + 8, write)?.into_iter().map(|id| Token::try_from(id).ok()).collect()
    }

    /// The token that begins a text, and whether the model wants it before a prompt.
    pub fn begin(&self) -> (Option<Token>, bool) {
        let id = unsafe { sys::llama_vocab_bos(self.vocab()) };
        let wanted = unsafe { sys::llama_vocab_get_add_bos(self.vocab()) };
        (Token::try_from(id).ok(), wanted)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made by the loader, freed once; contexts hold an `Arc` and are gone.
        unsafe { sys::llama_model_free(self.0.as_ptr()) }
    }
}

/// What `write` writes into a buffer of so many entries, which it is given with its length: it says how many it wrote, or
/// as a negative number how many it needs. None where no buffer would do, for which the least number stands.
fn filled<T: Clone + Default>(room: usize, write: impl Fn(*mut T, i32) -> i32) -> Option<Vec<T>> {
    let mut buffer = vec![T::default(); room];
    loop {
        let n = write(buffer.as_mut_ptr(), i32::try_from(buffer.len()).ok()?);
        buffer.resize(usize::try_from(n.checked_abs()?).ok()?, T::default());
        if n >= 0 {
            return Some(buffer);
        }
    }
}

/// The shares as the library wants them: one for each device that it could have. All 0: equal ones, or by free memory.
fn shares(placement: &Placement) -> Result<Vec<f32>, String> {
    // SAFETY: takes nothing.
    let most = unsafe { sys::llama_max_devices() };
    let (devices, given) = (placement.devices.len(), &placement.tensor_split);
    if devices > most {
        return Err(format!("{devices} devices; llama.cpp takes {most} at most"));
    }
    // What is finite in 64 bits need not be in 32.
    if given.len() > devices || !given.iter().all(|share| share.is_finite()) {
        return Err(format!("shares {given:?} do not suit {devices} devices: one number from 0 for each"));
    }
    let mut shares = given.clone();
    shares.resize(most, 0.0);
    Ok(shares)
}
