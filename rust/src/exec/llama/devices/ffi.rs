//! The calls that find devices.

use crate::exec::llama::ffi::init;
use llama_cpp_sys_2 as sys;
use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;

/// A device of the library. It lives as long as the process.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRef(NonNull<sys::ggml_backend_device>);

// SAFETY: the library's devices belong to no thread and are never freed.
unsafe impl Send for DeviceRef {}
// SAFETY: as above.
unsafe impl Sync for DeviceRef {}

impl DeviceRef {
    /// The library's pointer.
    pub(in crate::exec::llama) fn as_ptr(self) -> sys::ggml_backend_dev_t {
        self.0.as_ptr()
    }

    /// Its short name, e.g. `CUDA0`.
    pub fn name(self) -> String {
        // SAFETY: the device is alive; its name is a text that lives as long.
        unsafe { CStr::from_ptr(sys::ggml_backend_dev_name(self.as_ptr())) }.to_string_lossy().into_owned()
    }

    /// What it is, e.g. `NVIDIA H100`.
    pub fn description(self) -> String {
        // SAFETY: as in `name`.
        let text = unsafe { CStr::from_ptr(sys::ggml_backend_dev_description(self.as_ptr())) };
        text.to_string_lossy().into_owned()
    }

    /// Free and total bytes of its memory.
    pub fn memory(self) -> (u64, u64) {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the device is alive, and both numbers are ours.
        unsafe { sys::ggml_backend_dev_memory(self.as_ptr(), &raw mut free, &raw mut total) };
        (free as u64, total as u64)
    }
}

/// The GPUs of this machine.
pub fn gpus() -> Vec<DeviceRef> {
    init();
    // SAFETY (both): every index is below the count.
    let all = (0..unsafe { sys::ggml_backend_dev_count() })
        .filter_map(|index| NonNull::new(unsafe { sys::ggml_backend_dev_get(index) }));
    let is_gpu = |device: &NonNull<_>| {
        // SAFETY: the device is alive.
        let kind = unsafe { sys::ggml_backend_dev_type(device.as_ptr()) };
        kind == sys::GGML_BACKEND_DEVICE_TYPE_GPU || kind == sys::GGML_BACKEND_DEVICE_TYPE_IGPU
    };
    all.filter(is_gpu).map(DeviceRef).collect()
}

/// The devices of the rank that listens at `endpoint` (`host:port`). Ends the process where none does.
///
/// # Errors
/// The endpoint is no text for the library, or the rank has no device.
pub(super) fn rank(endpoint: &str) -> Result<Vec<DeviceRef>, String> {
    type AddServer = unsafe extern "C" fn(*const c_char) -> sys::ggml_backend_reg_t;
    let name = CString::new(endpoint).map_err(|_| "an endpoint holds a NUL byte".to_owned())?;
    let add = function(c"ggml_backend_rpc_add_server")?;
    // SAFETY: the library's function of this name has this type (ggml-rpc.h); the text ends with NUL.
    let server = unsafe { std::mem::transmute::<*mut std::ffi::c_void, AddServer>(add)(name.as_ptr()) };
    if server.is_null() {
        return Err(format!("the rank at {endpoint} has no device"));
    }
    // SAFETY (both): the registry is alive and every index is below its count.
    let devices = (0..unsafe { sys::ggml_backend_reg_dev_count(server) })
        .filter_map(|index| NonNull::new(unsafe { sys::ggml_backend_reg_dev_get(server, index) }));
    Ok(devices.map(DeviceRef).collect())
}

/// A function of the RPC backend, which is in no header that the bindings know.
fn function(name: &CStr) -> Result<*mut std::ffi::c_void, String> {
    init();
    // SAFETY: both texts end with NUL; a registry that is not null is alive.
    let function = unsafe {
        let registry = sys::ggml_backend_reg_by_name(c"RPC".as_ptr());
        if registry.is_null() {
            return Err("this build has no ranks; build with `. launch/env.sh`".into());
        }
        sys::ggml_backend_reg_get_proc_address(registry, name.as_ptr())
    };
    if function.is_null() {
        Err(format!("this build has no {}", name.to_string_lossy()))
    } else {
        Ok(function)
    }
}
