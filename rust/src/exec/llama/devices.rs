//! The library's devices.

pub mod ffi;

use super::drivers;
use super::gpus::{self, Gpu, Layout};
use super::kernels;
use super::placement::{Device, Placement, Role, Split};
use super::shards;
use crate::config::{Config, EngineConfig};
use crate::error::Error;
use crate::exec::memory;
pub use ffi::DeviceRef;

/// Bytes beyond all memory.
const LARGEST: u64 = 1 << 50;
/// Bytes to which the largest tensor is known.
const GRAIN: u64 = 4096;

/// The GPUs of this machine.
pub(super) struct Gpus {
    devices: Vec<DeviceRef>,
    /// Bytes of weights that were loaded onto each.
    loaded: Vec<u64>,
    /// Which were looked at by [`Gpus::check`].
    checked: Vec<bool>,
}

impl Gpus {
    pub(super) fn find() -> Gpus {
        let devices = ffi::gpus();
        Gpus { loaded: vec![0; devices.len()], checked: vec![false; devices.len()], devices }
    }

    pub(super) fn count(&self) -> usize {
        self.devices.len()
    }

    /// Places a model whose layers take so many bytes, the output last: over the devices that `parallel` counts or names; one
    /// alone where `engine` says, or else on the GPU that is named.
    ///
    /// # Errors
    /// `Invalid` naming the key that asks for a GPU that is not there, or says something else than another.
    pub(super) fn lay_out(&self, config: &Config, layers: &[u64], role: Role) -> Result<Layout, Error> {
        let own = &config.engine;
        let (count, named, key) = role.devices(&config.parallel);
        if count > 1 {
            let devices = named.map_or_else(|| Vec::from_iter(0..count), <[u32]>::to_vec);
            return gpus::split(config, layers, &self.known(), (key, &devices));
        }
        // Without GPUs, devices are only counted.
        let device = named.and_then(<[u32]>::first).copied();
        let device = device.filter(|_| own.main_gpu.is_none() && self.count() > 0);
        if device.is_some() && own.tensor_split.is_some() {
            let why = "names one GPU, and engine.tensor_split shares of all; leave one of them out";
            return Err(Error::invalid(key, why));
        }
        let engine = EngineConfig { main_gpu: own.main_gpu.or(device), ..own.clone() };
        gpus::place(&engine, layers, &self.known()).map_err(|error| match error {
            Error::Invalid { what, why, code } if what == "engine.main_gpu" && device.is_some() => {
                Error::Invalid { what: key.into(), why, code }
            }
            other => other,
        })
    }

    /// Their names and what is free of their memory.
    pub(super) fn known(&self) -> Vec<Gpu> {
        self.devices.iter().zip(self.free()).map(|(device, free)| Gpu { name: name(*device), free }).collect()
    }

    /// Free bytes of each. Some drivers always say that all is free.
    pub(super) fn free(&self) -> Vec<u64> {
        let free = |(device, loaded): (&DeviceRef, &u64)| match device.memory() {
            // It shares the machine's, and says nothing.
            (0, 0) => memory::available(),
            (free, total) => free.min(total.saturating_sub(*loaded)),
        };
        self.devices.iter().zip(&self.loaded).map(free).collect()
    }

    /// Weights of so many bytes were loaded onto them.
    pub(super) fn loaded(&mut self, weights: &[u64]) {
        self.loaded.iter_mut().zip(weights).for_each(|(all, more)| *all += more);
    }

    /// The most bytes that a tensor may have on each of those that hold a model.
    pub(super) fn largest_tensor(&self, placement: &Placement) -> u64 {
        largest_tensor(&Vec::from_iter(self.used(placement)))
    }

    fn used(&self, placement: &Placement) -> impl Iterator<Item = DeviceRef> {
        used(placement).filter_map(|index| self.devices.get(index).copied())
    }

    /// Looks whether those that hold a model compute what is known.
    ///
    /// # Errors
    /// Which does not, and what it did.
    pub(super) fn check(&mut self, placement: &Placement) -> Result<(), Error> {
        for index in used(placement) {
            let Some(device) = self.devices.get(index).filter(|_| !self.checked[index]) else { continue };
            let name = name(*device);
            let wrong = |why| Error::Executor(format!("{name}: {why}; look for a newer driver"));
            kernels::check_on(*device).map_err(wrong)?;
            log::info!("{name}: computes what is known");
            self.checked[index] = true;
        }
        Ok(())
    }

    /// Says why no layer lies on GPUs, where nobody asked for that.
    pub(super) fn log(&self, engine: &EngineConfig, layout: &Layout) {
        if !drivers::any() || engine.gpu_layers.is_some() || !layout.placement.devices.is_empty() {
            return;
        }
        match &self.known()[..] {
            [] => log::info!("the CPU computes: {}", drivers::missing()),
            known => {
                let names = Vec::from_iter(known.iter().map(|gpu| gpu.name.as_str())).join(", ");
                log::warn!("the CPU computes: no layer fits into what is free of {names}");
            }
        }
    }

    /// What lies where, in words that end with a semicolon; nothing where all lies in the machine's memory.
    pub(super) fn place(&self, layout: &Layout) -> String {
        let names = Vec::from_iter(self.used(&layout.placement).map(name)).join(", ");
        match layout.on_gpus() {
            0 if layout.placement.devices.is_empty() => String::new(),
            0 => format!("split over {} ranks on the CPU; ", layout.placement.ranks()),
            _ if layout.placement.split == Split::Tensor => format!("split over {names}; "),
            _ if layout.whole() => format!("all {} layers on {names}; ", layout.layers),
            some => format!("{some} of {} layers on {names}, the others on the CPU; ", layout.layers),
        }
    }
}

/// The GPUs that a placement names.
fn used(placement: &Placement) -> impl Iterator<Item = usize> {
    placement.devices.iter().filter_map(|device| match device {
        Device::Gpu(index) => Some(*index as usize),
        Device::Shard => None,
    })
}

fn name(device: DeviceRef) -> String {
    format!("{} ({})", device.name(), device.description())
}

/// The devices that a placement names, in its order.
///
/// # Errors
/// There is no such GPU.
pub fn find(devices: &[Device]) -> Result<Vec<DeviceRef>, String> {
    let find = |device: &Device| match device {
        Device::Gpu(index) => gpu(*index),
        Device::Shard => shards::ffi::device(),
    };
    devices.iter().map(find).collect()
}

/// The most bytes that a tensor on one of these devices may have.
pub(super) fn largest_tensor(devices: &[DeviceRef]) -> u64 {
    let takes = |bytes: u64| devices.iter().all(|device| device.takes(bytes));
    if takes(LARGEST) {
        return LARGEST;
    }
    let (mut fits, mut fails) = (0, LARGEST);
    while fails - fits > GRAIN {
        let middle = fits + (fails - fits) / 2;
        if takes(middle) { fits = middle } else { fails = middle }
    }
    fits
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
