//! GGUF files: their metadata, through llama.cpp's own reader, and other formats for their weights.
//!
//! The reader gives null for a damaged file; asking it for a value of another type ends the process, so every getter
//! here compares the type first.

use crate::error::{Error, Result};
use crate::exec::llama::ffi::{c_path, init, logged, made, text};
use crate::exec::llama::file;
use llama_cpp_sys_2 as sys;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::unix::fs::FileExt;
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

    /// A key's number, the type of its value or of a list's entries, and how many entries a list has.
    fn find(&self, key: &str) -> Option<(i64, sys::gguf_type, Option<usize>)> {
        let (file, key) = (self.0.as_ptr(), CString::new(key).ok()?);
        // SAFETY: the context is open, the key ends with NUL, and types are asked for of an existing number, a list's of a list.
        unsafe {
            let number = sys::gguf_find_key(file, key.as_ptr());
            let kind = (number >= 0).then(|| sys::gguf_get_kv_type(file, number))?;
            let is_list = kind == sys::GGUF_TYPE_ARRAY;
            let kind = if is_list { sys::gguf_get_arr_type(file, number) } else { kind };
            Some((number, kind, is_list.then(|| sys::gguf_get_arr_n(file, number))))
        }
    }

    pub(crate) fn string(&self, key: &str) -> Option<String> {
        let (number, sys::GGUF_TYPE_STRING, None) = self.find(key)? else { return None };
        // SAFETY: the value is a string in the open context and ends with NUL.
        let text = unsafe { CStr::from_ptr(sys::gguf_get_val_str(self.0.as_ptr(), number)) };
        text.to_owned().into_string().ok()
    }

    pub(crate) fn boolean(&self, key: &str) -> Option<bool> {
        let (number, sys::GGUF_TYPE_BOOL, None) = self.find(key)? else { return None };
        // SAFETY: the value is one of the open context, of this type.
        Some(unsafe { sys::gguf_get_val_bool(self.0.as_ptr(), number) })
    }

    /// An integer of 32 or 64 bits.
    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        let (file, (number, kind, None)) = (self.0.as_ptr(), self.find(key)?) else { return None };
        // SAFETY: as in `boolean`, each type with its own.
        unsafe {
            match kind {
                sys::GGUF_TYPE_UINT32 => Some(sys::gguf_get_val_u32(file, number).into()),
                sys::GGUF_TYPE_INT32 => Some(sys::gguf_get_val_i32(file, number).into()),
                sys::GGUF_TYPE_UINT64 => sys::gguf_get_val_u64(file, number).try_into().ok(),
                sys::GGUF_TYPE_INT64 => Some(sys::gguf_get_val_i64(file, number)),
                _ => None,
            }
        }
    }

    /// An integer, or the largest of a list of them, of 32 bits there.
    pub(crate) fn largest(&self, key: &str) -> Option<u64> {
        let (number, kind, Some(len)) = self.find(key)? else { return self.integer(key)?.try_into().ok() };
        let read: fn([u8; 4]) -> i64 = match kind {
            sys::GGUF_TYPE_UINT32 => |bytes| u32::from_ne_bytes(bytes).into(),
            sys::GGUF_TYPE_INT32 => |bytes| i32::from_ne_bytes(bytes).into(),
            _ => return None,
        };
        // SAFETY: there are `len` entries of 32 bits, which live as long as the context.
        let entry =
            |i| unsafe { sys::gguf_get_arr_data(self.0.as_ptr(), number).cast::<[u8; 4]>().add(i).read() };
        (0..len).map(entry).map(read).max()?.try_into().ok()
    }

    /// None also where a string is no UTF-8.
    pub(crate) fn strings(&self, key: &str) -> Option<Vec<String>> {
        let (number, sys::GGUF_TYPE_STRING, Some(len)) = self.find(key)? else { return None };
        // SAFETY: there are `len` such entries; each ends with NUL and lives as long as the context.
        let text = |i| unsafe { CStr::from_ptr(sys::gguf_get_arr_str(self.0.as_ptr(), number, i)) };
        (0..len).map(|i| text(i).to_owned().into_string().ok()).collect()
    }

    /// The numbers of a tensor of 64-bit integers in this file, which lies at `path`; None where it has none of this name and type.
    pub(crate) fn numbers(&self, path: &Path, tensor: &str) -> Option<Vec<i64>> {
        let (file, name) = (self.0.as_ptr(), CString::new(tensor).ok()?);
        // SAFETY: the context is open, the name ends with NUL, and the number is one of a tensor.
        let (start, bytes) = unsafe {
            let number = sys::gguf_find_tensor(file, name.as_ptr());
            if number < 0 || sys::gguf_get_tensor_type(file, number) != sys::GGML_TYPE_I64 {
                return None;
            }
            let start = sys::gguf_get_data_offset(file) + sys::gguf_get_tensor_offset(file, number);
            (start as u64, sys::gguf_get_tensor_size(file, number))
        };
        let mut data = vec![0; bytes];
        File::open(path).ok()?.read_exact_at(&mut data, start).ok()?;
        Some(data.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
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
