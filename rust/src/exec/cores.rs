//! Cores that this process may use.

use std::collections::BTreeSet;
use std::path::Path;

/// Physical cores among the processors that this process may run on, and no more than its control group pays for.
pub(crate) fn physical() -> u32 {
    let most = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    // It fails where there are more processors than its set has room for.
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return most };
    let allowed: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    of(Path::new("/sys/devices/system/cpu"), &allowed).clamp(1, most)
}

/// Different cores of these processors, by what the system says of each; one that it says nothing of is a core.
fn of(system: &Path, processors: &[usize]) -> u32 {
    let core = |processor: &usize| {
        let path = system.join(format!("cpu{processor}/topology/thread_siblings_list"));
        std::fs::read_to_string(path).unwrap_or_else(|_| processor.to_string())
    };
    processors.iter().map(core).collect::<BTreeSet<_>>().len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_one_core_count_once() {
        let root = std::env::temp_dir().join(format!("llgtrt-cores-{}", std::process::id()));
        for (processor, siblings) in [(0, "0,2\n"), (1, "1,3\n"), (2, "0,2\n"), (3, "1,3\n")] {
            let folder = root.join(format!("cpu{processor}/topology"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("thread_siblings_list"), siblings).unwrap();
        }
        assert_eq!([of(&root, &[0, 1, 2, 3]), of(&root, &[0, 2]), of(&root, &[1])], [2, 1, 1]);
        assert_eq!(of(&root, &[0, 4, 5]), 3);
        std::fs::remove_dir_all(root).unwrap();
        assert!(physical() >= 1);
    }
}
