//! The shard as a device of the library.

use crate::exec::llama::backend::ffi::{Buffer, BufferType, Device};
use crate::exec::llama::devices::DeviceRef;
use crate::exec::llama::devices::ffi::cpu;
use llama_cpp_sys_2 as sys;
use std::ffi::c_char;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// The device, and the type of its buffers. They live as long as the process.
struct Shard {
    device: NonNull<Device>,
    buffers: *mut BufferType,
}

// SAFETY: both are written once, before anybody knows them, and only read after that.
unsafe impl Send for Shard {}
// SAFETY: as above.
unsafe impl Sync for Shard {}

static SHARD: OnceLock<Shard> = OnceLock::new();

/// The device of every shard. Each use as a device of a model has buffers, and a backend, of its own.
///
/// # Errors
/// The library finds no CPU.
pub(in crate::exec::llama) fn device() -> Result<DeviceRef, String> {
    let cpu = cpu()?;
    Ok(DeviceRef::of(SHARD.get_or_init(|| make(cpu)).device.cast()))
}

/// The CPU with memory that the library does not take for the host's.
fn make(cpu: DeviceRef) -> Shard {
    let none = ptr::null();
    // SAFETY: the library's CPU and its buffer type live as long as the process, and have the layout of these structures.
    unsafe {
        let host: *mut BufferType = sys::ggml_backend_cpu_buffer_type().cast();
        let buffers = Box::into_raw(Box::new(BufferType { alloc_buffer, is_host: none, ..*host }));
        let whole: *mut Device = cpu.as_ptr().cast();
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
        let device = NonNull::from(Box::leak(Box::new(device)));
        (*buffers).device = device.as_ptr();
        Shard { device, buffers }
    }
}

fn buffers() -> *mut BufferType {
    SHARD.get().map_or(ptr::null_mut(), |shard| shard.buffers)
}

/// As the CPU's, but that a file's pages cannot be its weights.
unsafe extern "C" fn get_props(_: *mut Device, props: *mut sys::ggml_backend_dev_props) {
    let Ok(cpu) = cpu() else { return };
    // SAFETY: the CPU is alive, and the library passes room for the properties.
    unsafe {
        sys::ggml_backend_dev_get_props(cpu.as_ptr(), props);
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
            (*buffer).cpy_tensor = Some(cpy_tensor);
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
