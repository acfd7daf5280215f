//! What a model is opened on: ranks, or this process.

use super::devices::DeviceRef;
use super::ffi::Model;
use super::placement::{Placement, Split};
use crate::config::Config;
use crate::exec::Forward;
use crate::exec::ranks::{Ranks, Role};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Ranks, if there are any, and which of the two models it is.
#[derive(Clone)]
pub(super) struct On {
    ranks: Option<Arc<Ranks>>,
    role: Role,
}

impl On {
    pub(super) fn new(ranks: Option<&Arc<Ranks>>, role: Role) -> On {
        On { ranks: ranks.cloned(), role }
    }

    /// The ranks, where this model lies on them.
    fn ranks(&self) -> Option<&Arc<Ranks>> {
        self.ranks.as_ref().filter(|ranks| !ranks.endpoints(self.role).is_empty())
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// What the model is called.
    pub(super) fn name(&self) -> &'static str {
        match self.role {
            Role::Target => "the target",
            Role::Draft => "the draft model",
        }
    }

    pub(super) fn is_here(&self) -> bool {
        self.ranks().is_none()
    }

    /// Over how many ranks its matrices and heads are split; 1 = they are not.
    pub(super) fn parts(&self, config: &Config) -> usize {
        let placement = self.placement(config);
        if placement.split == Split::Tensor { placement.devices.len() } else { 1 }
    }

    /// On the ranks, where it lies on some.
    pub(super) fn placement(&self, config: &Config) -> Placement {
        let endpoints = self.ranks().map_or_else(Vec::new, |ranks| ranks.endpoints(self.role));
        Placement::of(config, &endpoints)
    }

    /// The one device that `parallel` names, if it does, and the key.
    pub(super) fn device(&self, config: &Config) -> (&'static str, Option<u32>) {
        let (key, named) = match self.role {
            Role::Target => ("parallel.devices", &config.parallel.devices),
            Role::Draft => ("parallel.draft_devices", &config.parallel.draft_devices),
        };
        let device = match named.as_deref() {
            Some([device]) => Some(*device),
            _ => None,
        };
        (key, device)
    }

    /// Free bytes where ranks with memory of their own hold the model, all parts of it being of one size.
    pub(super) fn own_memory(&self, model: &Model) -> Option<u64> {
        let _own = self.ranks().filter(|ranks| ranks.own_memory(self.role))?;
        let least = model.devices().iter().map(|device| device.memory().0).min()?;
        Some(least.saturating_mul(model.devices().len() as u64))
    }

    /// A counter of the pieces of passes that somebody watches.
    pub(super) fn beats(&self) -> Option<Arc<AtomicU64>> {
        self.ranks().map(|ranks| ranks.beats())
    }

    /// The engine, watched where it works with ranks; `saves`: it can save slots in less time than computing them again.
    pub(super) fn watched(&self, forward: Box<dyn Forward>, saves: bool) -> Box<dyn Forward> {
        match self.ranks() {
            Some(ranks) => ranks.watched(forward, saves),
            None => forward,
        }
    }

    /// "2 ranks of 1 thread".
    pub(super) fn summary(&self) -> Option<String> {
        self.ranks()?.summary(self.role)
    }
}

/// Free and total bytes of the device whose rank listens there.
pub(super) fn memory_at(models: &[&Model], endpoint: &str) -> Option<(u64, u64)> {
    let mut devices = models.iter().flat_map(|model| model.devices());
    // The library describes a rank's device by where it listens.
    devices.find(|device| device.description() == endpoint).copied().map(DeviceRef::memory)
}
