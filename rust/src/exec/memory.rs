//! Free memory, as this process may use it.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Bytes that this process can still take: of the machine, or of its control group where that is less.
pub(crate) fn available() -> u64 {
    available_in(Path::new("/"))
}

/// As [`available`], with `proc` and `sys` under `root`.
fn available_in(root: &Path) -> u64 {
    let machine = number_in(&root.join("proc/meminfo"), "MemAvailable:");
    let machine = machine.map_or(u64::MAX, |kib| kib.saturating_mul(1024));
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    groups.lines().flat_map(|line| rooms(root, line)).fold(machine, u64::min)
}

/// Room below the limits of one line of `/proc/self/cgroup` (`id:controllers:/path`): of the group and all above it.
/// Inside a container the path may not exist, the top then is the container's own group.
fn rooms(root: &Path, line: &str) -> Vec<u64> {
    let (top, names, path) = match line.splitn(3, ':').collect::<Vec<_>>()[..] {
        [_, "", path] => ("sys/fs/cgroup", ["memory.max", "memory.current", "inactive_file"], path),
        [_, controllers, path] if controllers.split(',').any(|c| c == "memory") => {
            let names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];
            ("sys/fs/cgroup/memory", names, path)
        }
        _ => return Vec::new(),
    };
    let below: PathBuf = Path::new(path).components().skip(1).collect();
    below.ancestors().filter_map(|group| room(&root.join(top).join(group), names)).collect()
}

/// Limit less usage; file pages that nobody uses can be taken back.
fn room(group: &Path, [limit, usage, unused]: [&str; 3]) -> Option<u64> {
    let number = |name: &str| read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let unused = number_in(&group.join("memory.stat"), unused).unwrap_or(0);
    Some(number(limit)?.saturating_sub(number(usage)?.saturating_sub(unused)))
}

/// The number behind a name, in a file with one of these in each line.
fn number_in(file: &Path, name: &str) -> Option<u64> {
    let text = read_to_string(file).ok()?;
    let mut words = text.lines().map(str::split_whitespace).find(|w| w.clone().next() == Some(name))?;
    words.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths and contents.
    type Files<'a> = &'a [(&'a str, &'a str)];

    fn tree(name: &str, files: Files<'_>) -> PathBuf {
        let root = std::env::temp_dir().join(format!("llgtrt-memory-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_of_machine_and_groups_counts() {
        let meminfo = ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    1000 kB\n");
        let cases: [(&str, Files<'_>, u64); 4] = [
            (
                "machine",
                &[("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "max\n")],
                1_024_000,
            ),
            (
                "v2",
                &[
                    ("proc/self/cgroup", "0::/a/b\n"),
                    ("sys/fs/cgroup/a/memory.max", "500000\n"),
                    ("sys/fs/cgroup/a/memory.current", "200000\n"),
                    ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 50000\n"),
                    ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ],
                350_000,
            ),
            (
                "v2-container",
                &[
                    ("proc/self/cgroup", "0::/\n"),
                    ("sys/fs/cgroup/memory.max", "300000\n"),
                    ("sys/fs/cgroup/memory.current", "100000\n"),
                ],
                200_000,
            ),
            (
                "v1",
                &[
                    ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/x\n"),
                    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n"),
                    ("sys/fs/cgroup/memory/memory.usage_in_bytes", "300000\n"),
                    ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 10000\n"),
                ],
                110_000,
            ),
        ];
        for (name, files, want) in cases {
            let root = tree(name, &[files, &[meminfo]].concat());
            assert_eq!(available_in(&root), want, "{name}");
            std::fs::remove_dir_all(root).unwrap();
        }
    }

    #[test]
    fn this_machine_has_memory() {
        assert!((1 << 20..u64::MAX).contains(&available()));
    }
}
