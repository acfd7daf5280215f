//! Tests that look at or end their whole process run in a process of their own: this binary, started again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Whether a process exists and is no zombie.
pub(super) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The children of this process, zombies included.
pub(super) fn children() -> Vec<u32> {
    let mine = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1).map(str::to_owned));
        parent == Some(std::process::id().to_string())
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|e| e.unwrap().file_name().to_str().and_then(|name| name.parse().ok()));
    pids.filter(mine).collect()
}

/// Open descriptors of this process.
pub(super) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Resident memory of this process in KiB.
pub(super) fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Starts one ignored test of this binary.
pub(super) fn start(test: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what the test prints until a line with `key`, and returns the rest of that line.
pub(super) fn read(child: &mut Child, key: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    lines.map(Result::unwrap).find_map(|line| line.split_once(key).map(|(_, rest)| rest.to_owned())).unwrap()
}
