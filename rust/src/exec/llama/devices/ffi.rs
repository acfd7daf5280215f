//! Devices: those that the library finds and, for a machine without GPUs, one of ours.
//!
//! The library splits a model over devices that each have memory of their own. Its CPU is none: what lies in host memory it
//! takes to be whole. A shard is the CPU under another name, with a buffer type that does not say that it is host memory.
//! The engine's thread computes one shard after the other, and hands each one's work out to all threads, so that a
//! split costs the sums and copies between layers and nothing else. It gains nothing either: it is there so that what is
//! written for several GPUs can be tried, and tested, without them.

use crate::exec::llama::ffi::{init, text};
use llama_cpp_sys_2 as sys;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// A device of the library. It lives as long as the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceRef(NonNull<sys::ggml_backend_device>);

// SAFETY: the library's devices belong to no thread and are never freed.
unsafe impl Send for DeviceRef {}
// SAFETY: as above.
unsafe impl Sync for DeviceRef {}

impl DeviceRef {
    /// The library's pointer.
    pub(crate) fn as_ptr(self) -> sys::ggml_backend_dev_t {
        self.0.as_ptr()
    }

    /// Its short name and what it is, e.g. `CUDA0 (NVIDIA H100)`.
    pub(super) fn name(self) -> String {
        let props = self.props();
        // SAFETY: both texts end with NUL and live as long as the device.
        unsafe { format!("{} ({})", text(props.name), text(props.description)) }
    }

    /// Whether the device computes with a tensor of so many bytes. The library ends the process where KV is one with which
    /// its device cannot.
    pub(super) fn takes(self, bytes: u64) -> bool {
        let Ok(numbers) = i64::try_from(bytes.div_ceil(4)) else { return false };
        // SAFETY: the context has room for the two tensors, which get no data, and is freed after its last use; the
        // device is alive.
        unsafe {
            let mem_size = 4 * sys::ggml_tensor_overhead();
            let params = sys::ggml_init_params { mem_size, mem_buffer: ptr::null_mut(), no_alloc: true };
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

    /// Free and total bytes of its memory.
    pub(super) fn memory(self) -> (u64, u64) {
        let props = self.props();
        (props.memory_free as u64, props.memory_total as u64)
    }

    fn props(self) -> sys::ggml_backend_dev_props {
        // SAFETY: the device is alive and fills every field; all of them may be zero.
        unsafe {
            let mut props = std::mem::zeroed();
            sys::ggml_backend_dev_get_props(self.as_ptr(), &raw mut props);
            props
        }
    }
}

/// The GPUs of this machine: those on cards, or else those built into processors, each once though two backends know it.
pub(super) fn gpus() -> Vec<DeviceRef> {
    init();
    let (mut cards, mut built_in, mut places) = (Vec::new(), Vec::new(), Vec::new());
    // SAFETY (both): every index is below the count.
    for index in 0..unsafe { sys::ggml_backend_dev_count() } {
        let Some(device) = NonNull::new(unsafe { sys::ggml_backend_dev_get(index) }) else { continue };
        let device = DeviceRef(device);
        let props = device.props();
        // SAFETY: a device's place on the bus, where that is known, is a text that ends with NUL.
        let place = (!props.device_id.is_null()).then(|| unsafe { text(props.device_id) });
        let gpus = match props.type_ {
            sys::GGML_BACKEND_DEVICE_TYPE_GPU => &mut cards,
            sys::GGML_BACKEND_DEVICE_TYPE_IGPU => &mut built_in,
            _ => continue,
        };
        if !place.as_ref().is_some_and(|place| places.contains(place)) {
            places.extend(place);
            gpus.push(device);
        }
    }
    if cards.is_empty() { built_in } else { cards }
}

/// The cores of this machine as a device.
fn cpu() -> DeviceRef {
    // SAFETY: takes a number.
    let device = unsafe { sys::ggml_backend_dev_by_type(sys::GGML_BACKEND_DEVICE_TYPE_CPU) };
    DeviceRef(NonNull::new(device).expect("llama.cpp is built with its CPU. This is a bug."))
}

// Structures of the library's internal header for backends (`ggml-backend-impl.h` of the pinned crate). The library hands out
// pointers to them; the bindings know no fields. What is not called or replaced here is a plain pointer.

/// A function, or nothing, that is left as it is.
pub(crate) type Other = *const c_void;

/// `ggml_backend_device`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub get_name: Other,
    pub get_description: Other,
    pub get_memory: Other,
    pub get_type: Other,
    pub get_props: unsafe extern "C" fn(*mut Device, *mut sys::ggml_backend_dev_props),
    pub init_backend: unsafe extern "C" fn(*mut Device, *const c_char) -> sys::ggml_backend_t,
    pub get_buffer_type: unsafe extern "C" fn(*mut Device) -> *mut BufferType,
    pub get_host_buffer_type: Other,
    pub buffer_from_host_ptr: Other,
    pub supports_op: Other,
    pub supports_buft: unsafe extern "C" fn(*mut Device, *mut BufferType) -> bool,
    pub offload_op: Other,
    pub event_new: Other,
    pub event_free: Other,
    pub event_synchronize: Other,
    pub reg: Other,
    pub context: *mut c_void,
}

/// What allocates a buffer.
pub(crate) type Alloc = unsafe extern "C" fn(*mut BufferType, usize) -> *mut Buffer;

/// `ggml_backend_buffer_type`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BufferType {
    pub get_name: Other,
    pub alloc_buffer: Alloc,
    pub alloc_buffer_n: Other,
    pub get_alignment: Other,
    pub get_max_size: Other,
    pub get_alloc_size: Other,
    pub get_alloc_size_n: Other,
    pub is_host: Other,
    pub device: *mut Device,
    pub context: *mut c_void,
}

/// `ggml_backend_buffer`.
#[repr(C)]
pub(crate) struct Buffer {
    pub free_buffer: Option<unsafe extern "C" fn(*mut Buffer)>,
    pub get_base: Other,
    pub init_tensor: Option<unsafe extern "C" fn(*mut Buffer, *mut sys::ggml_tensor) -> sys::ggml_status>,
    pub memset_tensor: Other,
    pub set_tensor:
        Option<unsafe extern "C" fn(*mut Buffer, *mut sys::ggml_tensor, *const c_void, usize, usize)>,
    pub get_tensor: Other,
    pub set_tensor_2d: Other,
    pub get_tensor_2d: Other,
    pub cpy_tensor:
        Option<unsafe extern "C" fn(*mut Buffer, *const sys::ggml_tensor, *mut sys::ggml_tensor) -> bool>,
    pub clear: Option<unsafe extern "C" fn(*mut Buffer, u8)>,
    pub reset: Other,
    pub buft: *mut BufferType,
    pub context: *mut c_void,
    pub size: usize,
    pub usage: c_int,
}

/// A shard and the type of its buffers, which live as long as the process. The library knows it by its first field.
#[repr(C)]
struct Shard {
    device: Device,
    buffers: BufferType,
}

/// The device of every shard: the CPU with memory that the library does not take for the host's. Each use as a device of a
/// model has buffers, and a backend, of its own.
pub(super) fn shard() -> DeviceRef {
    static SHARD: OnceLock<DeviceRef> = OnceLock::new();
    init();
    let none = ptr::null();
    // SAFETY: the library's CPU and its buffer type live as long as the process, and have the layout of these structures.
    *SHARD.get_or_init(|| unsafe {
        let whole: *mut Device = cpu().as_ptr().cast();
        let host: *mut BufferType = sys::ggml_backend_cpu_buffer_type().cast();
        let device = Device {
            get_props,
            init_backend,
            get_buffer_type,
            supports_buft,
            get_host_buffer_type: none,
            buffer_from_host_ptr: none,
            offload_op: none,
            ..*whole
        };
        let buffers = BufferType { alloc_buffer, is_host: none, ..*host };
        let shard = NonNull::from(Box::leak(Box::new(Shard { device, buffers })));
        (*shard.as_ptr()).buffers.device = shard.as_ptr().cast();
        DeviceRef(shard.cast())
    })
}

/// As the CPU's, but that a file's pages cannot be its weights.
unsafe extern "C" fn get_props(_: *mut Device, props: *mut sys::ggml_backend_dev_props) {
    // SAFETY: the CPU is alive, and the library passes room for the properties.
    unsafe {
        sys::ggml_backend_dev_get_props(cpu().as_ptr(), props);
        (*props).caps.buffer_from_host_ptr = false;
        (*props).caps.host_buffer = false;
    }
}

/// A backend that computes on the thread that calls it, which shares the work with its team (`kernels::team`).
unsafe extern "C" fn init_backend(_: *mut Device, _: *const c_char) -> sys::ggml_backend_t {
    // SAFETY: a new backend is null or alive.
    unsafe {
        let backend = sys::ggml_backend_cpu_init();
        if !backend.is_null() {
            sys::ggml_backend_cpu_set_n_threads(backend, 1);
        }
        backend
    }
}

unsafe extern "C" fn get_buffer_type(shard: *mut Device) -> *mut BufferType {
    // SAFETY: the library passes the shard, which `shard` made.
    unsafe { &raw mut (*shard.cast::<Shard>()).buffers }
}

unsafe extern "C" fn supports_buft(shard: *mut Device, buft: *mut BufferType) -> bool {
    // SAFETY: as above.
    buft == unsafe { get_buffer_type(shard) }
}

/// A buffer of the CPU's that says it is a shard's.
unsafe extern "C" fn alloc_buffer(own: *mut BufferType, size: usize) -> *mut Buffer {
    // SAFETY: the CPU's buffer type is alive, and a new buffer is null or ours alone.
    unsafe {
        let buffer: *mut Buffer =
            sys::ggml_backend_buft_alloc_buffer(sys::ggml_backend_cpu_buffer_type(), size).cast();
        if !buffer.is_null() {
            (*buffer).buft = own;
            (*buffer).cpy_tensor = Some(cpy_tensor);
        }
        buffer
    }
}

/// From shard to shard; without it the library would copy twice.
unsafe extern "C" fn cpy_tensor(
    own: *mut Buffer,
    from: *const sys::ggml_tensor,
    to: *mut sys::ggml_tensor,
) -> bool {
    // SAFETY: the library passes live tensors of one layout with buffers; a shard's data is host memory.
    unsafe {
        let source: *const Buffer = (*from).buffer.cast_const().cast();
        let is_shard = !source.is_null() && (*source).buft == (*own).buft;
        if is_shard {
            ptr::copy((*from).data.cast::<u8>().cast_const(), (*to).data.cast(), sys::ggml_nbytes(from));
        }
        is_shard
    }
}
