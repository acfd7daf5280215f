//! Which layers of a model lie on which GPUs, and what part of KV each place holds: pure arithmetic.

use super::drivers;
use super::placement::{Device, Placement, Role};
use crate::config::{Config, EngineConfig, SplitKey};
use crate::error::{Error, Result};
use std::iter::once;

/// Share of a GPU's free memory that weights take at most where no number of layers is asked for: the rest is for KV and
/// for what passes need.
const WEIGHTS: f64 = 0.875;

/// A GPU of this machine.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    /// As the library calls it, and what it is.
    pub(super) name: String,
    /// Free bytes; 0 where that is not known.
    pub(super) free: u64,
}

/// Where a model's layers lie. Lists of GPUs have an entry for each of the machine's.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) placement: Placement,
    /// The model's layers, the output included.
    pub(super) layers: u32,
    /// Bytes of weights on each GPU.
    pub(super) weights: Vec<u64>,
    /// Parts of a KV token: in the machine's own memory, then on each GPU.
    pub(super) kv: Vec<f64>,
}

impl Layout {
    /// Layers on GPUs.
    pub(super) fn on_gpus(&self) -> u32 {
        self.placement.gpu_layers.unwrap_or(0)
    }

    /// Whether GPUs compute every layer.
    pub(super) fn whole(&self) -> bool {
        self.on_gpus() == self.layers
    }
}

/// Places a model whose layers take so many bytes, the output last: over the devices that `parallel` counts or names; one
/// alone where `engine` says, or else on the GPU that is named.
///
/// # Errors
/// `Invalid` naming the key that asks for a GPU that is not there, or says something else than another.
pub(super) fn lay_out(config: &Config, layers: &[u64], gpus: &[Gpu], role: Role) -> Result<Layout> {
    let own = &config.engine;
    let keys = &config.parallel;
    let (count, named, key) = match role {
        Role::Target => (keys.target_size(), keys.devices.as_deref(), "parallel.devices"),
        Role::Draft => (keys.draft_size(), keys.draft_devices.as_deref(), "parallel.draft_devices"),
    };
    if count > 1 {
        let devices = named.map_or_else(|| Vec::from_iter(0..count), <[u32]>::to_vec);
        return split(config, layers, gpus, (key, &devices));
    }
    // Without GPUs, devices are only counted.
    let device = named.and_then(<[u32]>::first).copied();
    let device = device.filter(|_| own.main_gpu.is_none() && !gpus.is_empty());
    if device.is_some() && own.tensor_split.is_some() {
        let why = "names one GPU, and engine.tensor_split shares of all; leave one of them out";
        return Err(Error::invalid(key, why));
    }
    let engine = EngineConfig { main_gpu: own.main_gpu.or(device), ..own.clone() };
    let key = if device.is_some() { key } else { "engine.main_gpu" };
    place(&engine, layers, gpus).map_err(|error| error.renamed("engine.main_gpu", key))
}

/// Splits a model over several devices, which `parallel` names under that key: GPUs, or as many shards of this machine's
/// memory where it has none.
fn split(config: &Config, layers: &[u64], gpus: &[Gpu], (key, devices): (&str, &[u32])) -> Result<Layout> {
    if let Some(key) = placing(&config.engine) {
        let why = "parallel splits the model over devices; name them there, and leave this out";
        return Err(Error::invalid(key, why));
    }
    let n = gpus.len();
    if let Some(id) = devices.iter().find(|id| n > 0 && **id as usize >= n) {
        let why = format!("there is no GPU {id}: this machine has {n}; name as many devices as there are");
        return Err(Error::invalid(key, why));
    }
    match config.parallel.split {
        SplitKey::Tensor => Ok(split_matrices(layers, gpus, devices)),
        SplitKey::Layer if gpus.is_empty() => {
            let why = "layers are split over GPUs, and there is none";
            Err(Error::invalid("parallel.split", format!("{why}: {}; leave it out", drivers::missing())))
        }
        SplitKey::Layer => {
            let share = |(i, share): (usize, f64)| if devices.contains(&(i as u32)) { share } else { 0.0 };
            let shares = by_memory(gpus).into_iter().enumerate().map(share).collect();
            place(&EngineConfig { tensor_split: Some(shares), ..config.engine.clone() }, layers, gpus)
        }
    }
}

/// Gives each of these devices an equal part of every layer.
fn split_matrices(layers: &[u64], gpus: &[Gpu], devices: &[u32]) -> Layout {
    let each = |part: &u32| if gpus.is_empty() { Device::Shard } else { Device::Gpu(*part) };
    let share = 1.0 / devices.len() as f64;
    let on = |i: usize| if devices.contains(&(i as u32)) { share } else { 0.0 };
    let bytes = layers.iter().sum::<u64>() as f64;
    let host = f64::from(u8::from(gpus.is_empty()));
    Layout {
        placement: Placement {
            devices: devices.iter().map(each).collect(),
            splits_layers: true,
            gpu_layers: (!gpus.is_empty()).then_some(layers.len() as u32),
            ..Placement::default()
        },
        layers: layers.len() as u32,
        weights: (0..gpus.len()).map(|i| (on(i) * bytes) as u64).collect(),
        kv: once(host).chain((0..gpus.len()).map(on)).collect(),
    }
}

/// The first key that places layers on GPUs.
fn placing(engine: &EngineConfig) -> Option<&'static str> {
    let keys = [
        ("engine.main_gpu", engine.main_gpu.is_some()),
        ("engine.tensor_split", engine.tensor_split.is_some()),
        ("engine.gpu_layers", engine.gpu_layers.is_some()),
    ];
    keys.into_iter().find_map(|(key, is_set)| is_set.then_some(key))
}

/// Places a model's layers as `engine` says.
fn place(engine: &EngineConfig, layers: &[u64], gpus: &[Gpu]) -> Result<Layout> {
    let shares = shares(engine, gpus)?;
    let none = shares.iter().all(|share| *share <= 0.0);
    let fits = |count: usize| {
        let weights = weights(layers, &assigned(layers.len(), count, &shares), gpus.len());
        weights.iter().zip(gpus).all(|(bytes, gpu)| *bytes as f64 <= gpu.free as f64 * WEIGHTS)
    };
    let count = match engine.gpu_layers {
        _ if none => 0,
        Some(count) => layers.len().min(count as usize),
        None => (0..=layers.len()).rev().find(|count| fits(*count)).unwrap_or(0),
    };
    let homes = assigned(layers.len(), count, &shares);
    let blocks = &homes[..layers.len() - 1];
    let part = |place| blocks.iter().filter(|home| **home == place).count() as f64 / blocks.len() as f64;
    let kv = once(None).chain((0..gpus.len()).map(Some)).map(part).collect();
    let used = Vec::from_iter((0..gpus.len()).filter(|i| count > 0 && shares[*i] > 0.0));
    let placement = Placement {
        devices: used.iter().map(|i| Device::Gpu(*i as u32)).collect(),
        gpu_layers: Some(count as u32),
        tensor_split: used.iter().map(|i| shares[*i] as f32).collect(),
        ..Placement::default()
    };
    Ok(Layout { placement, layers: layers.len() as u32, weights: weights(layers, &homes, gpus.len()), kv })
}

/// The share of each GPU; 0 = it is not used.
fn shares(engine: &EngineConfig, gpus: &[Gpu]) -> Result<Vec<f64>> {
    if engine.gpu_layers == Some(0) {
        return Ok(vec![0.0; gpus.len()]);
    }
    if let (Some(key), []) = (placing(engine), gpus) {
        return Err(Error::invalid(key, format!("there is no GPU: {}", drivers::missing())));
    }
    let known = gpus.iter().enumerate().map(|(i, gpu)| format!("{i} = {}", gpu.name));
    let known = Vec::from_iter(known).join(", ");
    match (engine.main_gpu, &engine.tensor_split) {
        (Some(main), _) if main as usize >= gpus.len() => {
            let why = format!("there is no GPU {main}; there are {known}");
            Err(Error::invalid("engine.main_gpu", why))
        }
        (Some(main), _) => Ok((0..gpus.len()).map(|i| f64::from(u8::from(i == main as usize))).collect()),
        (None, Some(given)) if given.len() != gpus.len() => {
            let why = format!("has {} shares for {} GPUs: {known}", given.len(), gpus.len());
            Err(Error::invalid("engine.tensor_split", why))
        }
        (None, Some(given)) => Ok(given.clone()),
        (None, None) => Ok(by_memory(gpus)),
    }
}

/// Shares by free memory: in MiB, as numbers that the library's floats tell apart.
fn by_memory(gpus: &[Gpu]) -> Vec<f64> {
    gpus.iter().map(|gpu| (gpu.free >> 20).max(1) as f64).collect()
}

/// The GPU of each of `layers` where the last `count` lie on GPUs, as the library deals them out.
fn assigned(layers: usize, count: usize, shares: &[f64]) -> Vec<Option<usize>> {
    let sum: f64 = shares.iter().sum();
    let ends = Vec::from_iter(shares.iter().scan(0.0, |end, share| {
        *end += share / sum;
        Some(*end as f32)
    }));
    let home = |layer: usize| {
        let place = layer.checked_sub(layers - count)? as f32 / count as f32;
        // The last one's end may be less than 1 by rounding.
        Some(ends.iter().position(|end| *end > place).unwrap_or(ends.len() - 1))
    };
    (0..layers).map(home).collect()
}

/// Bytes on each GPU.
fn weights(layers: &[u64], homes: &[Option<usize>], gpus: usize) -> Vec<u64> {
    let on = |gpu| layers.iter().zip(homes).filter(move |(_, home)| **home == Some(gpu));
    (0..gpus).map(|gpu| on(gpu).map(|(bytes, _)| bytes).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn gpus(free: &[u64]) -> Vec<Gpu> {
        free.iter().map(|gib| Gpu { name: "a GPU".into(), free: gib * GIB }).collect()
    }

    fn engine(gpu_layers: Option<u32>) -> EngineConfig {
        EngineConfig { gpu_layers, ..EngineConfig::default() }
    }

    fn counts(layout: &Layout) -> (u32, Vec<u64>) {
        (layout.on_gpus(), layout.weights.iter().map(|bytes| bytes / GIB).collect())
    }

    fn refusal(engine: &EngineConfig, free: &[u64]) -> (String, String) {
        told(place(engine, &[GIB; 5], &gpus(free)).unwrap_err())
    }

    fn told(error: Error) -> (String, String) {
        match error {
            Error::Invalid { what, why, .. } => (what, why),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_fits_lies_on_gpus() {
        let place = |config: &EngineConfig, free: &[u64]| place(config, &[GIB; 5], &gpus(free)).unwrap();
        let all = place(&engine(None), &[8]);
        assert!(all.whole() && all.placement.devices == [Device::Gpu(0)] && all.kv == [0.0, 1.0]);
        let some = place(&engine(None), &[4]);
        // Three of 4 GiB: two blocks and the output.
        assert_eq!((counts(&some), some.kv.as_slice()), ((3, vec![3]), &[0.5, 0.5][..]));
        assert!(!some.whole());
        let nothing = place(&engine(None), &[1]);
        assert_eq!((nothing.on_gpus(), nothing.placement.devices.len()), (0, 0));
        assert_eq!(place(&engine(Some(2)), &[1]).on_gpus(), 2, "asked for, whether it fits or not");
        assert_eq!(place(&engine(Some(65_535)), &[1]).on_gpus(), 5);
        let cpu = place(&engine(Some(0)), &[8]);
        assert_eq!(
            (cpu.on_gpus(), cpu.placement, cpu.kv),
            (0, place(&engine(None), &[]).placement, vec![1.0, 0.0])
        );
        assert_eq!(place(&engine(None), &[]).kv, [1.0]);
    }

    #[test]
    fn shares_deal_layers_out() {
        let place = |config: &EngineConfig, free: &[u64]| place(config, &[GIB; 5], &gpus(free)).unwrap();
        let by_memory = place(&engine(None), &[6, 4]);
        assert_eq!(counts(&by_memory), (5, vec![3, 2]));
        assert_eq!(by_memory.kv, [0.0, 0.75, 0.25]);
        let given = EngineConfig { tensor_split: Some(vec![1.0, 0.0, 4.0]), ..engine(None) };
        let given = place(&given, &[8, 8, 8]);
        assert_eq!(
            (counts(&given), given.placement.devices),
            ((5, vec![1, 0, 4]), vec![Device::Gpu(0), Device::Gpu(2)])
        );
        assert_eq!(given.placement.tensor_split, [1.0, 4.0]);
        let main = place(&EngineConfig { main_gpu: Some(1), ..engine(None) }, &[80, 8]);
        assert_eq!((counts(&main), main.placement.devices), ((5, vec![0, 5]), vec![Device::Gpu(1)]));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let main = EngineConfig { main_gpu: Some(2), ..engine(None) };
        let (what, why) = refusal(&main, &[8, 8]);
        assert!(what == "engine.main_gpu" && why.contains("no GPU 2") && why.contains("1 = a GPU"), "{why}");
        assert_eq!(refusal(&main, &[]).0, "engine.main_gpu");
        let shares = EngineConfig { tensor_split: Some(vec![1.0]), ..engine(None) };
        assert!(refusal(&shares, &[8, 8]).1.contains("1 shares for 2 GPUs"));
        let (what, why) = refusal(&engine(Some(1)), &[]);
        assert!(what == "engine.gpu_layers" && why.starts_with("there is no GPU: "), "{why}");
    }

    fn parallel(keys: &str, devices: &[u32], free: &[u64]) -> Result<Layout, (String, String)> {
        let config: Config = serde_json::from_str(keys).unwrap();
        split(&config, &[GIB; 5], &gpus(free), ("parallel.devices", devices)).map_err(told)
    }

    #[test]
    fn every_layer_is_split_over_gpus_or_shards() {
        let all = parallel("{}", &[0, 2], &[8, 8, 8]).unwrap();
        assert!(all.whole() && all.placement.devices == [Device::Gpu(0), Device::Gpu(2)]);
        assert_eq!((counts(&all), all.kv.as_slice()), ((5, vec![2, 0, 2]), &[0.0, 0.5, 0.0, 0.5][..]));
        let shards = parallel("{}", &[0, 1, 2], &[]).unwrap();
        assert_eq!((shards.placement.ranks(), shards.on_gpus(), shards.kv), (3, 0, vec![1.0]));
        assert_eq!(shards.placement.devices, [Device::Shard; 3]);
    }

    #[test]
    fn whole_layers_are_dealt_out_to_the_named_gpus() {
        let layers = r#"{"parallel": {"split": "layer"}}"#;
        let some = parallel(layers, &[0, 2], &[8, 8, 2]).unwrap();
        assert_eq!((some.placement.splits_layers, counts(&some)), (false, (5, vec![4, 0, 1])));
        assert_eq!(parallel(layers, &[0, 1], &[]).unwrap_err().0, "parallel.split");
    }

    #[test]
    fn a_split_at_odds_with_the_machine_is_refused() {
        let (what, why) = parallel("{}", &[1, 2], &[8, 8]).unwrap_err();
        assert_eq!(what, "parallel.devices");
        assert_eq!(why, "there is no GPU 2: this machine has 2; name as many devices as there are");
        let placed = parallel(r#"{"engine": {"gpu_layers": 3}}"#, &[0, 1], &[8, 8]);
        assert_eq!(placed.unwrap_err().0, "engine.gpu_layers");
    }
}
