//! The calls that find devices.

use crate::exec::llama::ffi::init;
use llama_cpp_sys_2 as sys;
use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;

/// The backend whose devices are ranks.
const RANKS: &str = "RPC";

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

    /// Whether the device computes with a tensor of so many bytes. The library ends the process where KV is one with which
    /// its device cannot.
    pub(super) fn takes(self, bytes: u64) -> bool {
        let params = sys::ggml_init_params {
            // SAFETY: takes nothing.
            mem_size: 4 * unsafe { sys::ggml_tensor_overhead() },
            mem_buffer: std::ptr::null_mut(),
            no_alloc: true,
        };
        let Ok(numbers) = i64::try_from(bytes.div_ceil(4)) else { return false };
        // SAFETY: the context has room for the two tensors, which get no data, and is freed after its last use; the
        // device is alive.
        unsafe {
            let context = sys::ggml_init(params);
            if context.is_null() {
                return false;
            }
            let tensor = sys::ggml_new_tensor_1d(context, sys::GGML_TYPE_F32, numbers);
            let takes =
                sys::ggml_backend_dev_supports_op(self.as_ptr(), sys::ggml_scale(context, tensor, 1.0));
            sys::ggml_free(context);
            takes
        }
    }

    /// The backend that it belongs to, e.g. `Vulkan`.
    fn backend(self) -> String {
        // SAFETY: the device is alive, and so are its registry and the name of that.
        unsafe {
            let registry = sys::ggml_backend_dev_backend_reg(self.as_ptr());
            CStr::from_ptr(sys::ggml_backend_reg_name(registry)).to_string_lossy().into_owned()
        }
    }

    /// Whether it is built into the processor, and its place on the bus where that is known.
    fn kind_and_place(self) -> (bool, Option<String>) {
        let mut props = std::mem::MaybeUninit::zeroed();
        // SAFETY: the device is alive and fills every field; all of them may be zero. The text lives as long.
        unsafe {
            sys::ggml_backend_dev_get_props(self.as_ptr(), props.as_mut_ptr());
            let props: sys::ggml_backend_dev_props = props.assume_init();
            let place = (!props.device_id.is_null())
                .then(|| CStr::from_ptr(props.device_id).to_string_lossy().into_owned());
            (props.type_ == sys::GGML_BACKEND_DEVICE_TYPE_IGPU, place)
        }
    }

    /// Free and total bytes of its memory.
    pub fn memory(self) -> (u64, u64) {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the device is alive, and both numbers are ours.
        unsafe { sys::ggml_backend_dev_memory(self.as_ptr(), &raw mut free, &raw mut total) };
        (free as u64, total as u64)
    }
}

/// The GPUs of this machine: those on cards, or else those built into processors, each once though two backends know it.
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
    let (mut cards, mut built_in) = (Vec::new(), Vec::new());
    let mut places = Vec::new();
    for device in all.filter(is_gpu).map(DeviceRef).filter(|device| device.backend() != RANKS) {
        let (integrated, place) = device.kind_and_place();
        if place.as_ref().is_some_and(|place| places.contains(place)) {
            continue;
        }
        places.extend(place);
        if integrated { &mut built_in } else { &mut cards }.push(device);
    }
    if cards.is_empty() { built_in } else { cards }
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

/// The cores of this machine as a device.
pub(super) fn cpu() -> Result<DeviceRef, String> {
    init();
    // SAFETY: takes a number.
    let device = unsafe { sys::ggml_backend_dev_by_type(sys::GGML_BACKEND_DEVICE_TYPE_CPU) };
    NonNull::new(device).map(DeviceRef).ok_or_else(|| "llama.cpp finds no CPU".into())
}

/// Serves the device at `endpoint` on so many threads. Comes back where it cannot listen there.
///
/// # Errors
/// The endpoint is no text for the library.
pub(super) fn serve(device: DeviceRef, endpoint: &str, threads: u32) -> Result<(), String> {
    type StartServer =
        unsafe extern "C" fn(*const c_char, *const c_char, usize, usize, *mut sys::ggml_backend_dev_t);
    let name = CString::new(endpoint).map_err(|_| "an endpoint holds a NUL byte".to_owned())?;
    let start = function(c"ggml_backend_rpc_start_server")?;
    let mut devices = [device.as_ptr()];
    // SAFETY: the library's function of this name has this type (ggml-rpc.h); the text ends with NUL, there is no cache
    // folder, and the list has one device.
    unsafe {
        let start = std::mem::transmute::<*mut std::ffi::c_void, StartServer>(start);
        start(name.as_ptr(), std::ptr::null(), threads as usize, 1, devices.as_mut_ptr());
    }
    Ok(())
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
