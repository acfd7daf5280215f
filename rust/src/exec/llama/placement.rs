//! Where a model's weights and KV lie: plain data, which `ffi::Model::load` hands to the library.

use crate::config::{Config, SplitKey};

/// A device that holds a part of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// The n-th GPU of this machine, in the library's order.
    Gpu(u32),
    /// All devices of the rank that listens there (`host:port`).
    Rank(String),
}

/// How a model is split over its devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Split {
    /// By layers: one device computes after the other.
    #[default]
    Layer,
    /// Every matrix and the heads of every layer over all devices, which compute at the same time.
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
    /// Where the configuration puts a model that lies on these ranks.
    pub fn of(config: &Config, ranks: &[String]) -> Placement {
        let devices = ranks.iter().cloned().map(Device::Rank).collect();
        let split = match config.parallel.split {
            SplitKey::Tensor if ranks.len() > 1 => Split::Tensor,
            _ => Split::default(),
        };
        Placement { devices, split, ..Placement::default() }
    }
}
