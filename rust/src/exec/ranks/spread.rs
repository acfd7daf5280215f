//! Which ranks there are, and which of them a model is on.

use super::Role;
use crate::config::ParallelConfig;
use crate::error::{Error, Result};

/// What a rank computes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Cores of this machine.
    Cpu,
    /// A GPU of this machine.
    Gpu(u32),
    /// What a rank has that runs already: its endpoint.
    Remote(String),
}

impl Place {
    /// Of a rank that is started here, its GPU, if it has one.
    pub(super) fn gpu(&self) -> Option<Option<u32>> {
        match self {
            Place::Cpu => Some(None),
            Place::Gpu(gpu) => Some(Some(*gpu)),
            Place::Remote(_) => None,
        }
    }

    /// The device in words.
    pub(super) fn device(&self, endpoint: &str, threads: Option<u32>) -> String {
        match (self, threads) {
            (Place::Cpu, Some(1)) => format!("CPU, 1 thread, {endpoint}"),
            (Place::Cpu, threads) => format!("CPU, {} threads, {endpoint}", threads.unwrap_or(0)),
            (Place::Gpu(gpu), _) => format!("GPU {gpu}, {endpoint}"),
            (Place::Remote(_), _) => endpoint.to_owned(),
        }
    }
}

/// The ranks of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) places: Vec<Place>,
    target: Vec<usize>,
    draft: Vec<usize>,
}

impl Spread {
    /// Ranks that a model is on, by their place; empty = the engine's own process.
    pub(super) fn of(&self, role: Role) -> &[usize] {
        match role {
            Role::Target => &self.target,
            Role::Draft => &self.draft,
        }
    }
}

/// Chooses ranks for the sizes and devices of a valid configuration.
///
/// # Errors
/// `Invalid` with the key's name where this machine has no such GPU, or endpoints serve nothing.
pub(super) fn spread(parallel: &ParallelConfig, gpus: u32, drafts: bool) -> Result<Spread> {
    let given = !parallel.rank_endpoints.is_empty();
    let size = parallel.target_size();
    // One device is this process, unless ranks are named and nothing else is said.
    let target_on = size > 1 || (given && (parallel.devices.is_some() || parallel.tp_size.is_none()));
    let draft_size = if drafts { parallel.draft_size() } else { 0 };
    let said = parallel.draft_devices.is_some() || (parallel.draft_tp_size.is_none() && target_on);
    let draft_on = draft_size > 1 || (draft_size == 1 && given && said);
    let counted = !given && gpus == 0;
    let ids = |on: bool, size: u32, devices: &Option<Vec<u32>>| match devices {
        _ if !on => Vec::new(),
        Some(devices) if !counted => devices.clone(),
        _ => (0..size).collect(),
    };
    let target = ids(target_on, size, &parallel.devices);
    let draft = ids(draft_on, draft_size, &parallel.draft_devices);
    for (key, ids) in [("devices", &target), ("draft_devices", &draft)] {
        if let Some(id) = ids.iter().find(|id| !given && !counted && **id >= gpus) {
            let why =
                format!("there is no GPU {id}: this machine has {gpus}; name as many devices as there are");
            return Err(Error::invalid(format!("parallel.{key}"), why));
        }
    }
    let mut all: Vec<u32> = target.iter().chain(&draft).copied().collect();
    all.sort_unstable();
    all.dedup();
    if all.is_empty() {
        let why = "serves neither target nor draft model; leave it out, or tp_size";
        return Err(Error::invalid("parallel.rank_endpoints", why));
    }
    let place = |id: &u32| match parallel.rank_endpoints.get(*id as usize) {
        Some(endpoint) => Place::Remote(endpoint.clone()),
        None if gpus > 0 => Place::Gpu(*id),
        None => Place::Cpu,
    };
    let index = |ids: &[u32]| ids.iter().filter_map(|id| all.binary_search(id).ok()).collect();
    Ok(Spread { places: all.iter().map(place).collect(), target: index(&target), draft: index(&draft) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parallel: &ParallelConfig, gpus: u32) -> (Vec<Place>, Vec<usize>, Vec<usize>) {
        let spread = spread(parallel, gpus, true).unwrap();
        (spread.places, spread.target, spread.draft)
    }

    #[test]
    fn without_gpus_devices_are_counted() {
        let two = ParallelConfig { tp_size: Some(2), ..ParallelConfig::default() };
        let cpus = vec![Place::Cpu, Place::Cpu];
        assert_eq!(of(&two, 0), (cpus.clone(), vec![0, 1], vec![0, 1]));
        let one = ParallelConfig { draft_tp_size: Some(1), ..two.clone() };
        assert_eq!(of(&one, 0), (cpus.clone(), vec![0, 1], vec![]));
        let named = ParallelConfig {
            devices: Some(vec![7]),
            draft_devices: Some(vec![3, 4]),
            ..ParallelConfig::default()
        };
        assert_eq!(of(&named, 0), (cpus, vec![], vec![0, 1]));
    }

    #[test]
    fn gpus_get_a_rank_each() {
        let named = ParallelConfig {
            devices: Some(vec![2, 0]),
            draft_devices: Some(vec![0, 1]),
            ..ParallelConfig::default()
        };
        let gpus = [0, 1, 2].map(Place::Gpu).to_vec();
        assert_eq!(of(&named, 4), (gpus, vec![2, 0], vec![0, 1]));
        let why = spread(&named, 2, true).unwrap_err().to_string();
        assert_eq!(
            why,
            "parallel.devices: there is no GPU 2: this machine has 2; name as many devices as there are"
        );
    }

    #[test]
    fn endpoints_are_ranks_that_run_already() {
        let rank_endpoints = vec!["a:1".to_owned(), "b:2".to_owned()];
        let remote = |at: &[usize]| at.iter().map(|i| Place::Remote(rank_endpoints[*i].clone())).collect();
        let both = ParallelConfig { rank_endpoints: rank_endpoints.clone(), ..ParallelConfig::default() };
        assert_eq!(of(&both, 8), (remote(&[0, 1]), vec![0, 1], vec![0, 1]));
        let apart = ParallelConfig { devices: Some(vec![1]), draft_devices: Some(vec![0]), ..both.clone() };
        assert_eq!(of(&apart, 0), (remote(&[0, 1]), vec![1], vec![0]));
        let none = ParallelConfig { tp_size: Some(1), draft_tp_size: Some(1), ..both };
        assert!(
            spread(&none, 0, true).unwrap_err().to_string().starts_with("parallel.rank_endpoints: serves")
        );
    }
}
