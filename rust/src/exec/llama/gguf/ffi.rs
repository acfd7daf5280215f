//! GGUF files: their metadata, through llama.cpp's own reader, and other formats for their weights.
//!
//! The reader gives null for a damaged file; asking it for a value of another type ends the process, so every getter
//! here compares the type first.

use crate::error::{Error, Result};
use crate::exec::llama::ffi::{c_path, init, logged, made, text};
use crate::exec::llama::file;
use llama_cpp_sys_2 as sys;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::{self, NonNull};

/// What the quantiser makes, by name.
const QFORMATS: [(&str, sys::llama_ftype); 5] = [
    ("f16", sys::LLAMA_FTYPE_MOSTLY_F16),
    ("bf16", sys::LLAMA_FTYPE_MOSTLY_BF16),
    ("q8_0", sys::LLAMA_FTYPE_MOSTLY_Q8_0),
    ("q4_0", sys::LLAMA_FTYPE_MOSTLY_Q4_0),
    ("q4_k_m", sys::LLAMA_FTYPE_MOSTLY_Q4_K_M),
];

/// Writes the model of `source`, whose weights are F32, F16 or BF16, to `target` with its matrices as `qformat`. Rows whose
/// length the format's blocks don't divide get the library's next best format.
///
/// # Errors
/// `Invalid` naming "qformat" for an unknown one, or "source" where there is no readable model; `Executor` with the
/// library's reason where it fails. What `target` holds then is of no use.
pub fn quantize(source: &str, target: &str, qformat: &str) -> Result<()> {
    let Some((_, kind)) = QFORMATS.iter().find(|(name, _)| *name == qformat) else {
        let names = QFORMATS.map(|(name, _)| name).join(", ");
        return Err(Error::invalid("qformat", format!("{qformat} is not known; must be one of {names}")));
    };
    file::read(Path::new(source)).map_err(|error| error.renamed("target", "source"))?;
    let failed = |why| Error::Executor(format!("{source} cannot be quantised: {why}"));
    let [from, to] = [source, target].map(|path| c_path(Path::new(path)).map_err(failed));
    let (from, to) = (from?, to?);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // SAFETY: the parameters are the library's own, plain data whose pointers are null; both paths end with NUL and
    // outlive the call, which turns its exceptions into a number.
    let (code, why) = logged(|| unsafe {
        let mut params = sys::llama_model_quantize_default_params();
        params.ftype = *kind;
        params.nthread = i32::try_from(threads).unwrap_or(1);
        sys::llama_model_quantize(from.as_ptr(), to.as_ptr(), &raw const params)
    });
    if code == 0 { Ok(()) } else { Err(failed(why)) }
}

/// Reads the value of a key, by its number. It ends the process where the value has another type.
type Getter<T> = unsafe extern "C" fn(*const sys::gguf_context, i64) -> T;

/// An open file's metadata; tensors are not read.
pub(crate) struct Metadata(NonNull<sys::gguf_context>);

impl Metadata {
    /// # Errors
    /// The library's reason where the file is missing or damaged.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        init();
        let path = c_path(path)?;
        let params = sys::gguf_init_params { no_alloc: true, ctx: ptr::null_mut() };
        // SAFETY: the path ends with NUL and outlives the call; without `ctx` only metadata is read.
        made(|| unsafe { sys::gguf_init_from_file(path.as_ptr(), params) }).map(Metadata)
    }

    /// The number of a key with a value of this type.
    fn find(&self, key: &str, kind: sys::gguf_type) -> Option<i64> {
        let (file, key) = (self.0.as_ptr(), CString::new(key).ok()?);
        // SAFETY: the context is open, the key ends with NUL, and the type is asked for an existing number only.
        unsafe {
            let number = sys::gguf_find_key(file, key.as_ptr());
            (number >= 0 && sys::gguf_get_kv_type(file, number) == kind).then_some(number)
        }
    }

    /// The number of a list with entries of this type, and how many there are.
    fn list(&self, key: &str, kind: sys::gguf_type) -> Option<(i64, usize)> {
        let (file, number) = (self.0.as_ptr(), self.find(key, sys::GGUF_TYPE_ARRAY)?);
        // SAFETY: the number is of a list in the open context.
        unsafe {
            (sys::gguf_get_arr_type(file, number) == kind)
                .then(|| (number, sys::gguf_get_arr_n(file, number)))
        }
    }

    /// What `get` reads of a key with a value of its type.
    fn value<T>(&self, key: &str, kind: sys::gguf_type, get: Getter<T>) -> Option<T> {
        let number = self.find(key, kind)?;
        // SAFETY: the number is of a value of this type in the open context.
        Some(unsafe { get(self.0.as_ptr(), number) })
    }

    pub(crate) fn string(&self, key: &str) -> Option<String> {
        let start = self.value(key, sys::GGUF_TYPE_STRING, sys::gguf_get_val_str)?;
        // SAFETY: the value ends with NUL and lives as long as the context.
        unsafe { utf8(start) }
    }

    pub(crate) fn boolean(&self, key: &str) -> Option<bool> {
        self.value(key, sys::GGUF_TYPE_BOOL, sys::gguf_get_val_bool)
    }

    /// An integer of 32 or 64 bits.
    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        let u32 = || self.value(key, sys::GGUF_TYPE_UINT32, sys::gguf_get_val_u32).map(i64::from);
        let i32 = || self.value(key, sys::GGUF_TYPE_INT32, sys::gguf_get_val_i32).map(i64::from);
        let u64 = || self.value(key, sys::GGUF_TYPE_UINT64, sys::gguf_get_val_u64)?.try_into().ok();
        u32()
            .or_else(i32)
            .or_else(u64)
            .or_else(|| self.value(key, sys::GGUF_TYPE_INT64, sys::gguf_get_val_i64))
    }

    /// An integer, or the largest of a list of them.
    pub(crate) fn largest(&self, key: &str) -> Option<u64> {
        let u32s = || self.entries(key, sys::GGUF_TYPE_UINT32)?.map(|n| u32::from_ne_bytes(n).into()).max();
        let i32s = || self.entries(key, sys::GGUF_TYPE_INT32)?.map(|n| i32::from_ne_bytes(n).into()).max();
        self.integer(key).or_else(u32s).or_else(i32s)?.try_into().ok()
    }

    /// The entries of a list of numbers of 32 bits.
    fn entries(&self, key: &str, kind: sys::gguf_type) -> Option<impl Iterator<Item = [u8; 4]>> {
        let (number, len) = self.list(key, kind)?;
        // SAFETY: there are `len` such entries, which live as long as the context.
        let entry = move |i| unsafe {
            sys::gguf_get_arr_data(self.0.as_ptr(), number).cast::<[u8; 4]>().add(i).read()
        };
        Some((0..len).map(entry))
    }

    /// None also where a string is no UTF-8.
    pub(crate) fn strings(&self, key: &str) -> Option<Vec<String>> {
        let (number, len) = self.list(key, sys::GGUF_TYPE_STRING)?;
        // SAFETY: there are `len` such entries; each ends with NUL and lives as long as the context.
        let string = |i| unsafe { utf8(sys::gguf_get_arr_str(self.0.as_ptr(), number, i)) };
        (0..len).map(string).collect()
    }

    /// Names and bytes of the tensors in this file.
    pub(crate) fn tensors(&self) -> Vec<(String, u64)> {
        let file = self.0.as_ptr();
        // SAFETY: the context is open, and every number is below the count; names end with NUL.
        unsafe {
            let tensor =
                |i| (text(sys::gguf_get_tensor_name(file, i)), sys::gguf_get_tensor_size(file, i) as u64);
            (0..sys::gguf_get_n_tensors(file)).map(tensor).collect()
        }
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        // SAFETY: the context is open and nobody else has it.
        unsafe { sys::gguf_free(self.0.as_ptr()) }
    }
}

/// None where the text is no UTF-8.
///
/// # Safety
/// It ends with NUL.
unsafe fn utf8(start: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(start) }.to_str().ok().map(str::to_owned)
}
