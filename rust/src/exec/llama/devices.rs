//! The library's devices: GPUs of this machine, and ranks.

pub mod ffi;

use super::placement::Device;
pub use ffi::DeviceRef;

/// The devices that a placement names, in its order.
///
/// # Errors
/// There is no such GPU, or a rank offers no device. A rank that is not reached ends the process: look before.
pub fn find(devices: &[Device]) -> Result<Vec<DeviceRef>, String> {
    let mut found = Vec::new();
    for device in devices {
        match device {
            Device::Gpu(index) => found.push(gpu(*index)?),
            Device::Rank(endpoint) => found.extend(ffi::rank(endpoint)?),
        }
    }
    Ok(found)
}

fn gpu(index: u32) -> Result<DeviceRef, String> {
    let gpus = ffi::gpus();
    gpus.get(index as usize).copied().ok_or_else(|| match gpus.len() {
        0 => format!("there is no GPU {index}: this machine has none that this build can use"),
        n => format!("there is no GPU {index}: they are 0 to {}", n - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_is_not_there_is_named() {
        let why = find(&[Device::Gpu(4000)]).unwrap_err();
        assert!(why.starts_with("there is no GPU 4000: "), "{why}");
    }
}
