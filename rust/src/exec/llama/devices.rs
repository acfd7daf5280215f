//! The library's devices.

pub(super) mod ffi;

use super::drivers;
use super::gpus::{Gpu, Layout};
use super::kernels;
use super::placement::{Device, Placement};
use crate::config::EngineConfig;
use crate::error::Error;
use crate::exec::memory;
use ffi::DeviceRef;
use std::cell::Cell;

/// The bytes to which the largest tensor is known, and bytes beyond all memory, as powers of 2.
const TENSORS: std::ops::Range<u32> = 12..50;

/// A GPU of this machine.
struct Card {
    device: DeviceRef,
    /// Bytes of weights that were loaded onto it.
    loaded: u64,
    /// It was looked at by [`Gpus::check`].
    checked: Cell<bool>,
}

/// The GPUs of this machine.
pub(super) struct Gpus(Vec<Card>);

impl Gpus {
    pub(super) fn find() -> Gpus {
        let card = |device| Card { device, loaded: 0, checked: Cell::new(false) };
        Gpus(ffi::gpus().into_iter().map(card).collect())
    }

    /// Those that a placement names.
    fn used(&self, placement: &Placement) -> impl Iterator<Item = &Card> {
        placement.devices.iter().filter_map(|device| match device {
            Device::Gpu(index) => self.0.get(*index as usize),
            Device::Shard => None,
        })
    }

    /// Their names and what is free of their memory.
    pub(super) fn known(&self) -> Vec<Gpu> {
        self.0.iter().zip(self.free()).map(|(card, free)| Gpu { name: card.device.name(), free }).collect()
    }

    /// Free bytes of each. Some drivers always say that all is free.
    pub(super) fn free(&self) -> Vec<u64> {
        let free = |card: &Card| match card.device.memory() {
            // It shares the machine's, and says nothing.
            (0, 0) => memory::available(),
            (free, total) => free.min(total.saturating_sub(card.loaded)),
        };
        self.0.iter().map(free).collect()
    }

    /// Weights of so many bytes were loaded onto them.
    pub(super) fn loaded(&mut self, weights: &[u64]) {
        self.0.iter_mut().zip(weights).for_each(|(card, more)| card.loaded += more);
    }

    /// The most bytes that a tensor may have on each of those that hold a model.
    pub(super) fn largest_tensor(&self, placement: &Placement) -> u64 {
        let takes = |bytes: &u64| self.used(placement).all(|card| card.device.takes(*bytes));
        // Bit by bit, the highest first.
        TENSORS.rev().fold(0, |fits, bit| Some(fits + (1 << bit)).filter(takes).unwrap_or(fits))
    }

    /// Looks whether those that hold a model compute what is known.
    ///
    /// # Errors
    /// Which does not, and what it did.
    pub(super) fn check(&self, placement: &Placement) -> Result<(), Error> {
        for card in self.used(placement).filter(|card| !card.checked.replace(true)) {
            let name = card.device.name();
            let wrong = |why| Error::Executor(format!("{name}: {why}; look for a newer driver"));
            kernels::check_on(card.device).map_err(wrong)?;
            log::info!("{name}: computes what is known");
        }
        Ok(())
    }

    /// Says why no layer lies on GPUs, where nobody asked for that.
    pub(super) fn log(&self, engine: &EngineConfig, layout: &Layout) {
        let asked = engine.gpu_layers.is_some() || !layout.placement.devices.is_empty();
        if asked || drivers::BACKENDS.is_empty() {
            return;
        }
        let names = Vec::from_iter(self.0.iter().map(|card| card.device.name())).join(", ");
        match names.as_str() {
            "" => log::info!("the CPU computes: {}", drivers::missing()),
            names => log::warn!("the CPU computes: no layer fits into what is free of {names}"),
        }
    }

    /// What lies where, in words that end with a semicolon; nothing where all lies in the machine's memory.
    pub(super) fn place(&self, layout: &Layout) -> String {
        let names = Vec::from_iter(self.used(&layout.placement).map(|card| card.device.name())).join(", ");
        match layout.on_gpus() {
            0 if layout.placement.devices.is_empty() => String::new(),
            0 => format!("split over {} ranks on the CPU; ", layout.placement.ranks()),
            _ if layout.placement.splits_layers => format!("split over {names}; "),
            _ if layout.whole() => format!("all {} layers on {names}; ", layout.layers),
            some => format!("{some} of {} layers on {names}, the others on the CPU; ", layout.layers),
        }
    }
}

/// The devices that a placement names, in its order.
///
/// # Errors
/// There is no such GPU.
pub(super) fn find(devices: &[Device]) -> Result<Vec<DeviceRef>, String> {
    let gpus = ffi::gpus();
    let find = |device: &Device| match device {
        Device::Gpu(index) => gpus.get(*index as usize).copied().ok_or_else(|| match gpus.len() {
            0 => format!("there is no GPU {index}: this machine has none that this build can use"),
            n => format!("there is no GPU {index}: they are 0 to {}", n - 1),
        }),
        Device::Shard => Ok(ffi::shard()),
    };
    devices.iter().map(find).collect()
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
