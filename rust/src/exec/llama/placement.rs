//! Where a model's weights and KV lie: plain data, which `ffi::Model::load` hands to the library.

/// A device that holds a part of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The n-th GPU of this machine, in the library's order.
    Gpu(u32),
    /// A share of the machine's own memory, computed on its cores (`devices::ffi`).
    Shard,
}

/// Where one model lies. The default is the CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// Devices in their order; empty = the CPU alone.
    pub devices: Vec<Device>,
    /// Every layer is split over all devices, its matrices and heads; GPUs compute at the same time. Else each layer lies on one
    /// device, and they compute one after the other.
    pub splits_layers: bool,
    /// Weights in host memory are read, not mapped.
    pub read: bool,
    /// Weights in host memory are locked there.
    pub locked: bool,
    /// Layers for multi-token prediction are loaded, too.
    pub mtp: bool,
    /// Layers that lie on devices, the output being one more; None = all.
    pub gpu_layers: Option<u32>,
    /// Shares of the devices in their order; empty = equal ones where layers are split, else by free memory.
    pub tensor_split: Vec<f32>,
}

impl Placement {
    /// Ranks: devices over which every layer is split; 1 = they are not.
    pub fn ranks(&self) -> usize {
        if self.splits_layers { self.devices.len() } else { 1 }
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
}
