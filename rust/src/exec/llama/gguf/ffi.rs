//! The metadata of a GGUF through llama.cpp's own reader, and its quantiser.
//!
//! The reader gives null for a damaged file; asking it for a value of another type ends the process, so every getter
//! here compares the type first.

use crate::exec::llama::ffi::{c_path, init, logged};
use llama_cpp_sys_2 as sys;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::{self, NonNull};

/// What the quantiser makes, by name.
pub(super) const QFORMATS: [(&str, sys::llama_ftype); 5] = [
    ("f16", sys::LLAMA_FTYPE_MOSTLY_F16),
    ("bf16", sys::LLAMA_FTYPE_MOSTLY_BF16),
    ("q8_0", sys::LLAMA_FTYPE_MOSTLY_Q8_0),
    ("q4_0", sys::LLAMA_FTYPE_MOSTLY_Q4_0),
    ("q4_k_m", sys::LLAMA_FTYPE_MOSTLY_Q4_K_M),
];

/// Writes `source`, which was checked (`llama::file::read`), to `target` with its matrices as `kind`.
///
/// # Errors
/// The library's reason.
pub(super) fn quantize(
    source: &Path,
    target: &Path,
    kind: sys::llama_ftype,
    threads: i32,
) -> Result<(), String> {
    init();
    let (source, target) = (c_path(source)?, c_path(target)?);
    // SAFETY: the parameters are the library's own, plain data whose pointers are null; both paths end with NUL and
    // outlive the call, which turns its exceptions into a number.
    let (failed, why) = logged(|| unsafe {
        let mut params = sys::llama_model_quantize_default_params();
        params.ftype = kind;
        params.nthread = threads;
        sys::llama_model_quantize(source.as_ptr(), target.as_ptr(), &raw const params)
    });
    if failed == 0 { Ok(()) } else { Err(why) }
}

/// An open file's metadata; tensors are not read.
pub(in crate::exec::llama) struct Metadata(NonNull<sys::gguf_context>);

impl Metadata {
    /// # Errors
    /// The library's reason where the file is missing or damaged.
    pub(in crate::exec::llama) fn open(path: &Path) -> Result<Self, String> {
        init();
        let path = c_path(path)?;
        let params = sys::gguf_init_params { no_alloc: true, ctx: ptr::null_mut() };
        // SAFETY: the path ends with NUL and outlives the call; without `ctx` only metadata is read.
        let (file, why) = logged(|| unsafe { sys::gguf_init_from_file(path.as_ptr(), params) });
        NonNull::new(file).map(Metadata).ok_or(why)
    }

    /// The key's number and type.
    fn find(&self, key: &str) -> Option<(i64, sys::gguf_type)> {
        let key = CString::new(key).ok()?;
        // SAFETY: the context is open, the key ends with NUL, and the type is asked for an existing number only.
        unsafe {
            let number = sys::gguf_find_key(self.0.as_ptr(), key.as_ptr());
            (number >= 0).then(|| (number, sys::gguf_get_kv_type(self.0.as_ptr(), number)))
        }
    }

    /// The number of an array of this type, and its length.
    fn array(&self, key: &str, kind: sys::gguf_type) -> Option<(i64, usize)> {
        let (number, _) = self.find(key).filter(|(_, found)| *found == sys::GGUF_TYPE_ARRAY)?;
        // SAFETY: the number is of an array in the open context.
        unsafe {
            let found = sys::gguf_get_arr_type(self.0.as_ptr(), number);
            (found == kind).then(|| (number, sys::gguf_get_arr_n(self.0.as_ptr(), number)))
        }
    }

    pub(in crate::exec::llama) fn string(&self, key: &str) -> Option<String> {
        let (number, _) = self.find(key).filter(|(_, kind)| *kind == sys::GGUF_TYPE_STRING)?;
        // SAFETY: the value is a string; it ends with NUL and lives as long as the context.
        let text = unsafe { CStr::from_ptr(sys::gguf_get_val_str(self.0.as_ptr(), number)) };
        text.to_str().ok().map(str::to_owned)
    }

    /// An integer of 32 or 64 bits.
    pub(in crate::exec::llama) fn integer(&self, key: &str) -> Option<i64> {
        let (number, kind) = self.find(key)?;
        let context = self.0.as_ptr();
        // SAFETY: each getter is called for its own type only.
        unsafe {
            match kind {
                sys::GGUF_TYPE_UINT32 => Some(sys::gguf_get_val_u32(context, number).into()),
                sys::GGUF_TYPE_INT32 => Some(sys::gguf_get_val_i32(context, number).into()),
                sys::GGUF_TYPE_UINT64 => sys::gguf_get_val_u64(context, number).try_into().ok(),
                sys::GGUF_TYPE_INT64 => Some(sys::gguf_get_val_i64(context, number)),
                _ => None,
            }
        }
    }

    /// An integer, or the largest of a list of them.
    pub(in crate::exec::llama) fn largest(&self, key: &str) -> Option<u64> {
        let listed = || {
            // SAFETY: the array holds `len` values of this type.
            let unsigned = |(number, len)| unsafe { self.copy::<u32>(number, len) };
            let unsigned = self.array(key, sys::GGUF_TYPE_UINT32).map(unsigned);
            let numbers = unsigned.map(|list| list.into_iter().map(i64::from).collect::<Vec<_>>());
            numbers.or_else(|| Some(self.i32s(key)?.into_iter().map(i64::from).collect()))?.into_iter().max()
        };
        self.integer(key).or_else(listed).and_then(|n| u64::try_from(n).ok())
    }

    /// Names and bytes of the tensors in this file.
    pub(in crate::exec::llama) fn tensors(&self) -> Vec<(String, u64)> {
        let file = self.0.as_ptr();
        // SAFETY: the context is open, and every number is below the count; names end with NUL and live as long.
        unsafe {
            let name = |i| CStr::from_ptr(sys::gguf_get_tensor_name(file, i)).to_string_lossy().into_owned();
            (0..sys::gguf_get_n_tensors(file))
                .map(|i| (name(i), sys::gguf_get_tensor_size(file, i) as u64))
                .collect()
        }
    }

    pub(in crate::exec::llama) fn boolean(&self, key: &str) -> Option<bool> {
        let (number, _) = self.find(key).filter(|(_, kind)| *kind == sys::GGUF_TYPE_BOOL)?;
        // SAFETY: the value is a truth value.
        Some(unsafe { sys::gguf_get_val_bool(self.0.as_ptr(), number) })
    }

    /// None also where a string is no UTF-8.
    pub(in crate::exec::llama) fn strings(&self, key: &str) -> Option<Vec<String>> {
        let (number, len) = self.array(key, sys::GGUF_TYPE_STRING)?;
        let string = |i| {
            // SAFETY: the array holds `len` strings; each ends with NUL and lives as long as the context.
            let text = unsafe { CStr::from_ptr(sys::gguf_get_arr_str(self.0.as_ptr(), number, i)) };
            text.to_str().ok().map(str::to_owned)
        };
        (0..len).map(string).collect()
    }

    fn i32s(&self, key: &str) -> Option<Vec<i32>> {
        let (number, len) = self.array(key, sys::GGUF_TYPE_INT32)?;
        // SAFETY: the array holds `len` values of this type.
        Some(unsafe { self.copy(number, len) })
    }

    /// # Safety
    /// `number` is an array of `len` values of type `T`, which is a number.
    unsafe fn copy<T: Copy + Default>(&self, number: i64, len: usize) -> Vec<T> {
        let mut values = vec![T::default(); len];
        if len > 0 {
            // SAFETY: by contract the source holds `len` values; it is not assumed to be aligned.
            unsafe {
                let data = sys::gguf_get_arr_data(self.0.as_ptr(), number);
                ptr::copy_nonoverlapping(
                    data.cast::<u8>(),
                    values.as_mut_ptr().cast::<u8>(),
                    len * size_of::<T>(),
                );
            }
        }
        values
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        // SAFETY: the context is open and nobody else has it.
        unsafe { sys::gguf_free(self.0.as_ptr()) }
    }
}
