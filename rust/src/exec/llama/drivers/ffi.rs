//! The calls that load backends.

use super::{Backend, name, remedies};
use crate::exec::llama::ffi::{c_path, made, on_abort, on_log, text};
use llama_cpp_sys_2 as sys;
use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the library says of a backend without GPUs: Vulkan's is none then.
const NONE: &str = "ggml_backend_init returned NULL";

/// The folder of backends: beside the file that this code is in.
pub(super) fn folder() -> Option<PathBuf> {
    // SAFETY: the address is that of a function in this library, so the library is loaded, and its name lives as long as it is.
    let file = unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(folder as *const c_void, &raw mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(found.dli_fname)
    };
    Some(Path::new(OsStr::from_bytes(file.to_bytes())).parent()?.join("backends"))
}

/// Loads the backends in a folder, by their names.
pub(super) fn load_from(folder: &Path) -> Vec<Backend> {
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    // They bring the library's base along, under a name that ends with a number.
    let is_backend = |file: &PathBuf| {
        let name = name(file);
        name.starts_with("libggml-") && name.ends_with(".so") && name != "libggml-base.so"
    };
    let mut files = Vec::from_iter(files.filter_map(|file| Some(file.ok()?.path())).filter(is_backend));
    files.sort();
    let wrong = Vec::from_iter(files.iter().map(|file| load(file).err()));
    files.into_iter().zip(wrong).collect()
}

fn load(file: &Path) -> Result<(), String> {
    let unlinked = |why: String| format!("{}: {why}; {}", name(file), remedies(file)[0]);
    let path = c_path(file).map_err(unlinked)?;
    take_log(&path).map_err(unlinked)?;
    // SAFETY: the path ends with NUL; the library looks at the backend's version before it uses it.
    match made(|| unsafe { sys::ggml_backend_load(path.as_ptr()) }) {
        Err(why) if !why.contains(NONE) => Err(format!("{why}; make it again: ./launch/build-gpu.sh")),
        _ => Ok(()),
    }
}

/// A backend has a base of its own, with a log of its own, which has to be ours before the backend is asked for GPUs.
///
/// # Errors
/// A library that it is linked with is missing, as the system says.
fn take_log(path: &CStr) -> Result<(), String> {
    type SetLog = unsafe extern "C" fn(sys::ggml_log_callback, *mut c_void);
    type SetAbort = unsafe extern "C" fn(sys::ggml_abort_callback_t) -> sys::ggml_abort_callback_t;
    // SAFETY: an installed file, whose functions of these names have these types (ggml.h), as which null is None. The
    // system's text is its own until its next call.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            return Err(text(libc::dlerror()));
        }
        let log = libc::dlsym(library, c"ggml_log_set".as_ptr());
        let abort = libc::dlsym(library, c"ggml_set_abort_callback".as_ptr());
        if let Some(set) = std::mem::transmute::<*mut c_void, Option<SetLog>>(log) {
            set(Some(on_log), std::ptr::null_mut());
        }
        if let Some(set) = std::mem::transmute::<*mut c_void, Option<SetAbort>>(abort) {
            set(Some(on_abort));
        }
    }
    Ok(())
}
