//! The library's devices: GPUs of this machine, and ranks.

pub mod ffi;

use super::placement::Device;
use crate::exec::ranks::serve::RankOptions;
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

/// Serves a device to an engine, one engine after the other, until the process ends.
///
/// # Errors
/// There is no such GPU, or the address cannot be listened on.
pub fn serve(options: &RankOptions) -> Result<(), String> {
    let device = options.gpu.map_or_else(ffi::cpu, gpu)?;
    let endpoint = format!("{}:{}", options.host, options.port);
    ffi::serve(device, &endpoint, options.threads())?;
    Err(format!("cannot listen on {endpoint}; choose another port"))
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
