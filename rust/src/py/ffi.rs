//! Memory of arrays that Python lends by DLPack (<https://dmlc.github.io/dlpack>), as NumPy and torch do.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::c_void;

/// `kDLCPU`, and `kDLCUDAHost` for pinned memory.
const IN_HOST_MEMORY: [i32; 2] = [1, 3];
/// `kDLInt` and `kDLUInt`.
const WHOLE_NUMBERS: [u8; 2] = [0, 1];

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: i32,
    device_id: i32,
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// The rows of an array of 32-bit whole numbers with one or two dimensions.
pub(super) struct Rows<'py> {
    /// The memory is there as long as this is.
    _capsule: Bound<'py, PyAny>,
    first: *mut u32,
    rows: usize,
    /// Numbers from one row to the next.
    stride: usize,
    width: usize,
}

impl<'py> Rows<'py> {
    /// # Errors
    /// `TypeError` or `ValueError` where it is no such array in host memory.
    pub(super) fn of(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        let lend = array.getattr("__dlpack__").map_err(|_| {
            PyTypeError::new_err(
                "the mask must be a NumPy array, a torch tensor or another array with __dlpack__",
            )
        })?;
        let capsule = lend.call0()?;
        let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(c"dltensor"))?;
        // SAFETY: a capsule with this name has a DLManagedTensor, which begins with its DLTensor.
        let tensor = unsafe { pointer.cast::<Tensor>().as_ref() };
        let refuse = |why: &str| Err(PyValueError::new_err(format!("the mask must {why}")));
        if !IN_HOST_MEMORY.contains(&tensor.device) {
            return refuse("be in host memory; copy it to the device afterwards");
        }
        if !WHOLE_NUMBERS.contains(&tensor.code) || tensor.bits != 32 || tensor.lanes != 1 {
            return refuse("have 32-bit whole numbers (int32)");
        }
        if !(1..=2).contains(&tensor.dimensions) {
            return refuse("have one dimension, or two: rows and words");
        }
        let dimensions = tensor.dimensions as usize;
        // SAFETY: DLPack has as many numbers there as dimensions; no strides are those of an array without gaps.
        let (shape, strides) = unsafe {
            let strides =
                (!tensor.strides.is_null()).then(|| std::slice::from_raw_parts(tensor.strides, dimensions));
            (std::slice::from_raw_parts(tensor.shape, dimensions), strides)
        };
        let width = shape[dimensions - 1] as usize;
        let rows = if dimensions == 2 { shape[0] as usize } else { 1 };
        let stride = match strides {
            Some(strides) if width > 1 && strides[dimensions - 1] != 1 => {
                return refuse("have the words of a row one after another");
            }
            Some(strides) if rows > 1 && strides[0] < width as i64 => {
                return refuse("have rows that do not overlap");
            }
            Some(strides) if rows > 1 => strides[0] as usize,
            _ => width,
        };
        let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize).cast::<u32>();
        if !first.is_aligned() || first.is_null() && rows * width > 0 {
            return refuse("lie on a multiple of 4 bytes");
        }
        Ok(Rows { _capsule: capsule, first, rows, stride, width })
    }

    /// The rows, one by one.
    pub(super) fn slices(&mut self) -> Vec<&mut [u32]> {
        if self.width == 0 {
            return Vec::new();
        }
        let row = |row: usize| {
            // SAFETY: the array is lent for as long as `self` is, and its rows do not overlap.
            unsafe { std::slice::from_raw_parts_mut(self.first.add(row * self.stride), self.width) }
        };
        (0..self.rows).map(row).collect()
    }
}
