//! The group `parallel`: devices, over which models are split.

use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Ranks: devices over which a model is split.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ParallelConfig {
    /// Devices that the target is split over; null = as many as `devices` names, else 1.
    #[schemars(range(min = 1, max = 16))]
    pub tp_size: Option<u32>,
    /// Devices that the draft model is split over; null = as many as `draft_devices` names, else as for the target.
    #[schemars(range(min = 1, max = 16))]
    pub draft_tp_size: Option<u32>,
    /// The target's devices: numbers of GPUs. On a machine without GPUs they are only counted. null = the first ones.
    #[schemars(inner(range(min = 0, max = 255)))]
    pub devices: Option<Vec<u32>>,
    /// The draft model's devices, in the same way.
    #[schemars(inner(range(min = 0, max = 255)))]
    pub draft_devices: Option<Vec<u32>>,
    /// How a model is split: tensor = the matrices and heads of every layer (ranks compute at the same time); layer = whole
    /// layers (one rank after the other).
    pub split: SplitKey,
}

/// What ranks share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitKey {
    /// The matrices and heads of every layer.
    #[default]
    Tensor,
    /// The layers.
    Layer,
}

/// Names of the keys that say on how many devices a model is, and on which.
const PAIRS: [(&str, &str); 2] = [("tp_size", "devices"), ("draft_tp_size", "draft_devices")];

impl ParallelConfig {
    /// Devices of the target.
    pub fn target_size(&self) -> u32 {
        said(self.tp_size, self.devices.as_deref()).unwrap_or(1)
    }

    /// Devices of a draft model.
    pub fn draft_size(&self) -> u32 {
        said(self.draft_tp_size, self.draft_devices.as_deref()).unwrap_or_else(|| self.target_size())
    }

    /// Whether a model is split; `drafts`: there is a draft model.
    pub fn splits(&self, drafts: bool) -> bool {
        self.target_size() > 1 || (drafts && self.draft_size() > 1)
    }

    pub(super) fn validate(&self) -> Result<()> {
        let sizes = [(self.tp_size, &self.devices), (self.draft_tp_size, &self.draft_devices)];
        for ((size, devices), (size_key, key)) in sizes.into_iter().zip(PAIRS) {
            let Some(devices) = devices else { continue };
            let refused = |why: String| Err(Error::invalid(format!("parallel.{key}"), why));
            if devices.is_empty() || devices.len() > 16 {
                return refused("must name 1 to 16 devices, or be null".into());
            }
            if let Some(twice) = repeated(devices) {
                return refused(format!("names device {twice} twice"));
            }
            if let Some(size) = size.filter(|size| *size as usize != devices.len()) {
                return refused(format!(
                    "names {} devices, but {size_key} is {size}; leave one of them out",
                    devices.len()
                ));
            }
        }
        Ok(())
    }
}

fn said(size: Option<u32>, devices: Option<&[u32]>) -> Option<u32> {
    size.or_else(|| devices.and_then(|devices| u32::try_from(devices.len()).ok()))
}

fn repeated(devices: &[u32]) -> Option<&u32> {
    devices.iter().enumerate().find(|(i, device)| devices[..*i].contains(device)).map(|(_, device)| device)
}

/// Takes out of `below` what a layer that comes before it says in another way: how many devices, or which.
pub(super) fn make_way(below: &mut Value, over: &Value) {
    let (Some(over), Some(below)) =
        (over.get("parallel"), below.get_mut("parallel").and_then(Value::as_object_mut))
    else {
        return;
    };
    let says = |key: &str| over.get(key).is_some_and(|value| !value.is_null());
    for (size, devices) in PAIRS {
        if says(size) || says(devices) {
            below.remove(size);
            below.remove(devices);
        }
    }
}
