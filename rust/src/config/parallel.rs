//! The group `parallel`: ranks, over which models are split.

use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Ranks: processes with a device each, over which a model is split. A model on one device needs none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ParallelConfig {
    /// Devices that the target is split over; null = as many as `devices` or `rank_endpoints` name, else 1.
    #[schemars(range(min = 1, max = 16))]
    pub tp_size: Option<u32>,
    /// Devices that the draft model is split over; null = as many as `draft_devices` names, else as for the target.
    #[schemars(range(min = 1, max = 16))]
    pub draft_tp_size: Option<u32>,
    /// The target's devices: numbers of GPUs, or places in `rank_endpoints`; without either they are only counted.
    /// null = the first ones.
    #[schemars(inner(range(min = 0, max = 255)))]
    pub devices: Option<Vec<u32>>,
    /// The draft model's devices, in the same way.
    #[schemars(inner(range(min = 0, max = 255)))]
    pub draft_devices: Option<Vec<u32>>,
    /// `host:port` of each rank that runs already (`llgtrt rank`), on this machine or another. What goes there is neither
    /// authenticated nor encrypted. Empty = ranks are started on this machine as they are needed.
    #[schemars(inner(length(min = 1)))]
    pub rank_endpoints: Vec<String>,
    /// What ranks share: the matrices and heads of every layer (they compute at the same time), or the layers (one after
    /// the other).
    pub split: SplitKey,
    /// Seconds without any progress of a pass after which a rank is taken to hang; the engine is then started again.
    /// Time in which a rank of this machine computes is progress.
    #[schemars(range(max = 86_400), extend("exclusiveMinimum" = 0))]
    pub hang_seconds: f64,
    /// The command line that starts a rank on this machine. Not a key: the program knows its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub program: Vec<String>,
}

impl Default for ParallelConfig {
    fn default() -> Self {
        ParallelConfig {
            tp_size: None,
            draft_tp_size: None,
            devices: None,
            draft_devices: None,
            rank_endpoints: Vec::new(),
            split: SplitKey::Tensor,
            hang_seconds: 30.0,
            program: Vec::new(),
        }
    }
}

/// What ranks share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitKey {
    /// The matrices and heads of every layer.
    Tensor,
    /// The layers.
    Layer,
}

/// Names of the keys that say on how many devices a model is, and on which.
const PAIRS: [(&str, &str); 2] = [("tp_size", "devices"), ("draft_tp_size", "draft_devices")];

impl ParallelConfig {
    /// Devices of the target.
    pub fn target_size(&self) -> u32 {
        let endpoints = u32::try_from(self.rank_endpoints.len()).unwrap_or(u32::MAX);
        said(self.tp_size, self.devices.as_deref()).unwrap_or(endpoints.max(1))
    }

    /// Devices of a draft model.
    pub fn draft_size(&self) -> u32 {
        said(self.draft_tp_size, self.draft_devices.as_deref()).unwrap_or_else(|| self.target_size())
    }

    /// Whether there are ranks; `drafts`: there is a draft model.
    pub fn has_ranks(&self, drafts: bool) -> bool {
        !self.rank_endpoints.is_empty() || self.target_size() > 1 || (drafts && self.draft_size() > 1)
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
        self.validate_endpoints()
    }

    fn validate_endpoints(&self) -> Result<()> {
        let endpoints = &self.rank_endpoints;
        let refused = |why: String| Err(Error::invalid("parallel.rank_endpoints", why));
        for endpoint in endpoints {
            let port = endpoint.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
                return refused(format!("{endpoint} must be host:port, for example 127.0.0.1:50052"));
            }
        }
        if let Some(twice) = repeated(endpoints) {
            return refused(format!("names {twice} twice"));
        }
        let most = [self.target_size(), self.draft_size()].into_iter().max().unwrap_or(1) as usize;
        let named = [&self.devices, &self.draft_devices].into_iter().flatten().flatten().max();
        let wanted = most.max(named.map_or(0, |device| *device as usize + 1));
        if !endpoints.is_empty() && endpoints.len() < wanted {
            return refused(format!(
                "names {} for {wanted} devices; name one for each, or none: then ranks are started on this machine",
                endpoints.len()
            ));
        }
        Ok(())
    }
}

fn said(size: Option<u32>, devices: Option<&[u32]>) -> Option<u32> {
    size.or_else(|| devices.and_then(|devices| u32::try_from(devices.len()).ok()))
}

fn repeated<T: PartialEq>(items: &[T]) -> Option<&T> {
    items.iter().enumerate().find(|(i, item)| items[..*i].contains(item)).map(|(_, item)| item)
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
