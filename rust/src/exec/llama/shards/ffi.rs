//! The shard as a device of the library. The structures are `ggml-backend-impl.h`'s of the pinned crate.

use crate::exec::llama::devices::DeviceRef;
use crate::exec::llama::devices::ffi::cpu;
use llama_cpp_sys_2 as sys;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

type Other = *const c_void;

/// `ggml_backend_device`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    get_name: Other,
    get_description: Other,
    get_memory: Other,
    get_type: Other,
    get_props: unsafe extern "C" fn(*mut Device, *mut sys::ggml_backend_dev_props),
    init_backend: unsafe extern "C" fn(*mut Device, *const c_char) -> sys::ggml_backend_t,
    get_buffer_type: unsafe extern "C" fn(*mut Device) -> *mut BufferType,
    get_host_buffer_type: Other,
    buffer_from_host_ptr: Other,
    supports_op: Other,
    supports_buft: unsafe extern "C" fn(*mut Device, *mut BufferType) -> bool,
    offload_op: Other,
    event_new: Other,
    event_free: Other,
    event_synchronize: Other,
    reg: Other,
    context: *mut c_void,
}

/// `ggml_backend_buffer_type`.
#[repr(C)]
#[derive(Clone, Copy)]
struct BufferType {
    get_name: Other,
    alloc_buffer: unsafe extern "C" fn(*mut BufferType, usize) -> *mut Buffer,
    alloc_buffer_n: Other,
    get_alignment: Other,
    get_max_size: Other,
    get_alloc_size: Other,
    get_alloc_size_n: Other,
    is_host: Other,
    device: *mut Device,
    context: *mut c_void,
}

/// `ggml_backend_buffer`.
#[repr(C)]
struct Buffer {
    before: [Other; 8],
    cpy_tensor: unsafe extern "C" fn(*mut Buffer, *const sys::ggml_tensor, *mut sys::ggml_tensor) -> bool,
    clear: Other,
    reset: Other,
    buft: *mut BufferType,
    context: *mut c_void,
    size: usize,
    usage: c_int,
}

/// The device, and the type of its buffers. They live as long as the process.
struct Shard {
    device: *mut Device,
    buffers: *mut BufferType,
}

// SAFETY: both are written once, before anybody knows them, and only read after that.
unsafe impl Send for Shard {}
// SAFETY: as above.
unsafe impl Sync for Shard {}

static SHARD: OnceLock<Option<Shard>> = OnceLock::new();

/// The device of every shard. Each use as a device of a model has buffers, and a backend, of its own.
///
/// # Errors
/// The library finds no CPU.
pub(in crate::exec::llama) fn device() -> Result<DeviceRef, String> {
    let cpu = cpu()?;
    let shard = SHARD.get_or_init(|| make(cpu));
    let device = shard.as_ref().and_then(|shard| NonNull::new(shard.device));
    device.map(|device| DeviceRef::of(device.cast())).ok_or_else(|| "llama.cpp's CPU has no memory".into())
}

fn make(cpu: DeviceRef) -> Option<Shard> {
    // SAFETY: the library's CPU and its buffer type are alive as long as the process, and have the layout written here.
    unsafe {
        let whole: *mut Device = cpu.as_ptr().cast();
        let host: *mut BufferType = sys::ggml_backend_cpu_buffer_type().cast();
        if host.is_null() {
            return None;
        }
        let none = ptr::null();
        let buffers = Box::into_raw(Box::new(BufferType { alloc_buffer, is_host: none, ..*host }));
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
        let device = Box::into_raw(Box::new(device));
        (*buffers).device = device;
        Some(Shard { device, buffers })
    }
}

fn buffers() -> *mut BufferType {
    SHARD.get().and_then(Option::as_ref).map_or(ptr::null_mut(), |shard| shard.buffers)
}

/// As the CPU's, but that a file's pages cannot be its weights.
unsafe extern "C" fn get_props(device: *mut Device, props: *mut sys::ggml_backend_dev_props) {
    let Ok(cpu) = cpu() else { return };
    // SAFETY: the library passes a live device and room for its properties; the name is the CPU's.
    unsafe {
        sys::ggml_backend_dev_get_props(cpu.as_ptr(), props);
        (*props).caps.buffer_from_host_ptr = false;
        (*props).caps.host_buffer = false;
        (*props).type_ = sys::ggml_backend_dev_type(device.cast());
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

unsafe extern "C" fn get_buffer_type(_: *mut Device) -> *mut BufferType {
    buffers()
}

unsafe extern "C" fn supports_buft(_: *mut Device, buft: *mut BufferType) -> bool {
    buft == buffers()
}

/// A buffer of the CPU's that says it is a shard's.
unsafe extern "C" fn alloc_buffer(own: *mut BufferType, size: usize) -> *mut Buffer {
    // SAFETY: the CPU's buffer type is alive, and a new buffer is null or ours alone.
    unsafe {
        let buffer: *mut Buffer =
            sys::ggml_backend_buft_alloc_buffer(sys::ggml_backend_cpu_buffer_type(), size).cast();
        if !buffer.is_null() {
            (*buffer).buft = own;
            (*buffer).cpy_tensor = cpy_tensor;
        }
        buffer
    }
}

/// From shard to shard; without it the library would copy twice.
unsafe extern "C" fn cpy_tensor(
    _: *mut Buffer,
    from: *const sys::ggml_tensor,
    to: *mut sys::ggml_tensor,
) -> bool {
    // SAFETY: the library passes live tensors of one layout with buffers; a shard's data is host memory.
    unsafe {
        let source: *const Buffer = (*from).buffer.cast_const().cast();
        let is_shard = !source.is_null() && (*source).buft == buffers();
        if is_shard {
            ptr::copy((*from).data.cast::<u8>().cast_const(), (*to).data.cast(), sys::ggml_nbytes(from));
        }
        is_shard
    }
}
