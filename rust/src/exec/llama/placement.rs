//! Where a model's weights and KV lie: plain data, which `ffi::Model::load` hands to the library.

use crate::config::ParallelConfig;

/// A device that holds a part of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The n-th GPU of this machine, in the library's order.
    Gpu(u32),
    /// A share of the machine's own memory, computed on its cores (`shards`).
    Shard,
}

/// How a model is split over its devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Split {
    /// By layers: one device computes after the other.
    #[default]
    Layer,
    /// Every matrix and the heads of every layer over all devices. GPUs compute at the same time.
    Tensor,
}

/// Where one model lies. The default is the CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// Devices in their order; empty = the CPU alone.
    pub devices: Vec<Device>,
    /// How the model is split over them.
    pub split: Split,
    /// Weights in host memory are locked there.
    pub locked: bool,
    /// Layers that lie on devices, the output being one more; None = all.
    pub gpu_layers: Option<u32>,
    /// Shares of the devices in their order; empty = equal ones ([`Split::Tensor`]), or by free memory.
    pub tensor_split: Vec<f32>,
}

impl Placement {
    /// Ranks: devices over which every layer is split; 1 = they are not.
    pub fn ranks(&self) -> usize {
        if self.split == Split::Tensor { self.devices.len() } else { 1 }
    }
}

/// A model of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The target.
    Target,
    /// The draft model.
    Draft,
}

impl Role {
    /// What the model is called.
    pub fn name(self) -> &'static str {
        match self {
            Role::Target => "the target",
            Role::Draft => "the draft model",
        }
    }

    /// Over how many devices the configuration splits it, which ones if it says so, and the key that does.
    pub fn devices(self, parallel: &ParallelConfig) -> (u32, Option<&[u32]>, &'static str) {
        match self {
            Role::Target => (parallel.target_size(), parallel.devices.as_deref(), "parallel.devices"),
            Role::Draft => {
                (parallel.draft_size(), parallel.draft_devices.as_deref(), "parallel.draft_devices")
            }
        }
    }
}
