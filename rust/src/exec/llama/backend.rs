//! Devices and buffers as the library's own backends make them.

pub(super) mod ffi;
