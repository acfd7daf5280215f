//! Processors that this process may use.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::collections::BTreeSet;
use std::path::Path;

const SYSTEM: &str = "/sys/devices/system";

/// Physical cores among the processors that this process may run on, and no more than its control group pays for.
pub(crate) fn physical() -> u32 {
    let most = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    // None where there are more processors than a set has room for.
    allowed().map_or(most, |allowed| of(Path::new(SYSTEM), &allowed).clamp(1, most))
}

/// The processors of each memory node that this thread may use; empty where the system does not tell.
pub(crate) fn nodes() -> Vec<Vec<usize>> {
    nodes_of(Path::new(SYSTEM), &allowed().unwrap_or_default())
}

/// Of `nodes`, the one that this thread runs on.
pub(crate) fn this_node(nodes: &[Vec<usize>]) -> Option<&Vec<usize>> {
    nodes.iter().find(|node| node.contains(&sched_getcpu()))
}

/// Lets this thread, and those that it starts, run on these processors only. It goes on as it was where the system refuses.
pub(crate) fn bind(processors: &[usize]) {
    let mut set = CpuSet::new();
    processors.iter().for_each(|processor| set.set(*processor));
    if let Err(error) = sched_setaffinity(None, &set) {
        log::warn!("engine.numa: a thread cannot be bound to its node: {error}");
    }
}

fn allowed() -> Option<Vec<usize>> {
    let set = sched_getaffinity(None).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Different cores of these processors, by what the system says of each; one that it says nothing of is a core.
fn of(system: &Path, processors: &[usize]) -> u32 {
    let core = |processor: &usize| {
        let path = system.join(format!("cpu/cpu{processor}/topology/thread_siblings_list"));
        std::fs::read_to_string(path).unwrap_or_else(|_| processor.to_string())
    };
    processors.iter().map(core).collect::<BTreeSet<_>>().len() as u32
}

/// The `allowed` processors of each node that has any, by rising numbers of nodes.
fn nodes_of(system: &Path, allowed: &[usize]) -> Vec<Vec<usize>> {
    let nodes = (0..CpuSet::MAX_CPU).map(|node| system.join(format!("node/node{node}")));
    let has = |node: &Path, cpu: usize| node.join(format!("cpu{cpu}")).exists();
    let nodes = nodes.filter(|node| node.is_dir());
    let nodes = nodes.map(|node| allowed.iter().copied().filter(|cpu| has(&node, *cpu)).collect());
    nodes.filter(|node: &Vec<usize>| !node.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_system(name: &str, files: &[(&str, &str)], test: impl FnOnce(&Path)) {
        let root = std::env::temp_dir().join(format!("llgtrt-{name}-{}", std::process::id()));
        for (file, text) in files {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        test(&root);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn processors_of_one_core_count_once() {
        let files = [
            ("cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
            ("cpu/cpu1/topology/thread_siblings_list", "1,3\n"),
            ("cpu/cpu2/topology/thread_siblings_list", "0,2\n"),
            ("cpu/cpu3/topology/thread_siblings_list", "1,3\n"),
        ];
        with_system("cores", &files, |root| {
            assert_eq!([of(root, &[0, 1, 2, 3]), of(root, &[0, 2]), of(root, &[1])], [2, 1, 1]);
            assert_eq!(of(root, &[0, 4, 5]), 3);
        });
        assert!(physical() >= 1);
    }

    #[test]
    fn nodes_are_told_apart() {
        let files = [
            ("node/node0/cpu0/online", ""),
            ("node/node0/cpu3/online", ""),
            ("node/node0/cpu8/online", ""),
            ("node/node1/cpu4/online", ""),
            ("node/node1/cpu5/online", ""),
            ("node/node2/meminfo", ""),
        ];
        with_system("nodes", &files, |root| {
            assert_eq!(nodes_of(root, &[0, 3, 4, 8, 9]), [vec![0, 3, 8], vec![4]]);
            assert!(nodes_of(&root.join("none"), &[0]).is_empty());
        });
    }

    #[test]
    fn a_bound_thread_has_the_processors_of_its_node() {
        let all = nodes();
        std::thread::spawn(move || {
            let Some(first) = this_node(&all).and_then(|node| node.first()) else { return };
            bind(&[*first]);
            assert_eq!(allowed(), Some(vec![*first]));
            assert_eq!(nodes(), [vec![*first]]);
        })
        .join()
        .unwrap();
    }
}
