//! The calls that load backends.

use super::{BACKENDS, Backend, State};
use crate::exec::llama::ffi::{c_path, logged, on_abort, on_log};
use llama_cpp_sys_2 as sys;
use std::ffi::{CStr, OsStr, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the files of backends are called. They bring the library's base along, under a name that ends with a number.
const BACKEND: (&str, &str) = ("libggml-", ".so");

/// What the library says of a backend without GPUs.
const NONE: &str = "ggml_backend_init returned NULL";

/// Loads every backend that is installed, once for the process. Called while the library starts.
pub(in crate::exec::llama) fn load_all() {
    BACKENDS.get_or_init(|| folder().map_or_else(Vec::new, |folder| load_from(&folder)));
}

/// The folder of backends: beside the file that this code is in.
fn folder() -> Option<PathBuf> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is that of a function in this library, so the library is loaded, and its name lives as long as it is.
    let file = unsafe {
        if libc::dladdr(load_all as *const c_void, found.as_mut_ptr()) == 0 {
            return None;
        }
        let found = found.assume_init();
        if found.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(found.dli_fname)
    };
    Some(Path::new(OsStr::from_bytes(file.to_bytes())).parent()?.join("backends"))
}

/// Loads the backends in a folder, by their names.
pub(super) fn load_from(folder: &Path) -> Vec<Backend> {
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_backend = |file: &PathBuf| {
        let name = super::name(file);
        name.starts_with(BACKEND.0) && name.ends_with(BACKEND.1) && name != "libggml-base.so"
    };
    let mut files = Vec::from_iter(files.filter_map(|file| Some(file.ok()?.path())).filter(is_backend));
    files.sort();
    files.into_iter().map(|file| Backend { state: load(&file), file }).collect()
}

fn load(file: &Path) -> State {
    type SetLog = unsafe extern "C" fn(sys::ggml_log_callback, *mut c_void);
    type SetAbort = unsafe extern "C" fn(sys::ggml_abort_callback_t) -> sys::ggml_abort_callback_t;
    let path = match c_path(file) {
        Ok(path) => path,
        Err(why) => return State::Unlinked(why),
    };
    // A backend has a base of its own, with a log of its own, which has to be ours before the backend is asked for GPUs.
    // SAFETY: an installed file, whose functions of these names have these types (ggml.h); a function pointer is as wide as
    // what `dlsym` gives, and null is checked.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            // The text is the system's own, until its next call.
            return State::Unlinked(CStr::from_ptr(libc::dlerror()).to_string_lossy().into_owned());
        }
        let find = |name: &CStr| libc::dlsym(library, name.as_ptr());
        let (log, abort) = (find(c"ggml_log_set"), find(c"ggml_set_abort_callback"));
        if !log.is_null() {
            std::mem::transmute::<*mut c_void, SetLog>(log)(Some(on_log), std::ptr::null_mut());
        }
        if !abort.is_null() {
            std::mem::transmute::<*mut c_void, SetAbort>(abort)(Some(on_abort));
        }
    }
    // SAFETY: the path ends with NUL; the library looks at the backend's version before it uses it.
    let (backend, why) = logged(|| unsafe { sys::ggml_backend_load(path.as_ptr()) });
    // Vulkan's is none where there is no GPU.
    if backend.is_null() && !why.contains(NONE) { State::Foreign(why) } else { State::Asked }
}
