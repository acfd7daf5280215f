//! The calls that find devices.

use crate::exec::llama::ffi::init;
use llama_cpp_sys_2 as sys;
use std::ffi::CStr;
use std::ptr::NonNull;

/// A device of the library. It lives as long as the process.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRef(NonNull<sys::ggml_backend_device>);

// SAFETY: the library's devices belong to no thread and are never freed.
unsafe impl Send for DeviceRef {}
// SAFETY: as above.
unsafe impl Sync for DeviceRef {}

impl DeviceRef {
    /// Of a device that is never freed.
    pub(in crate::exec::llama) fn of(device: NonNull<sys::ggml_backend_device>) -> DeviceRef {
        DeviceRef(device)
    }

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
    for device in all.filter(is_gpu).map(DeviceRef) {
        let (integrated, place) = device.kind_and_place();
        if place.as_ref().is_some_and(|place| places.contains(place)) {
            continue;
        }
        places.extend(place);
        if integrated { &mut built_in } else { &mut cards }.push(device);
    }
    if cards.is_empty() { built_in } else { cards }
}

/// The cores of this machine as a device.
pub(in crate::exec::llama) fn cpu() -> Result<DeviceRef, String> {
    init();
    // SAFETY: takes a number.
    let device = unsafe { sys::ggml_backend_dev_by_type(sys::GGML_BACKEND_DEVICE_TYPE_CPU) };
    NonNull::new(device).map(DeviceRef).ok_or_else(|| "llama.cpp finds no CPU".into())
}
