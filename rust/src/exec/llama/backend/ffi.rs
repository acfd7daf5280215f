//! Structures of the library's internal header for backends (`ggml-backend-impl.h` of the pinned crate). The library hands out
//! pointers to them; the bindings know no fields. What is not called or replaced here is a plain pointer.

use llama_cpp_sys_2 as sys;
use std::ffi::{c_char, c_int, c_void};

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
