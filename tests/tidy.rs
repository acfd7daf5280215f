//! Rules of the house that no linter knows, held over every tracked file: sizes, module ranks, where `unsafe` may be,
//! top-level names. `unwrap`, `todo!` and their like are clippy's (the lint table in Cargo.toml).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 50;
const TRACKED_BYTES: u64 = 48 * 1024 * 1024;
/// Where code is made of instructions that only some processors have.
const KERNELS: &str = "rust/src/exec/llama/kernels/";
/// What may stand at the top of the repository.
const TOP: &[&str] = &[
    "python",
    "rust",
    "launch",
    "templates",
    "tests",
    "bench",
    "demo",
    "docs",
    "docker",
    "Cargo.toml",
    "Cargo.lock",
    "pyproject.toml",
    "rust-toolchain.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
];

/// The core's modules from the bottom up: a file uses its own module and earlier ones.
const RUST_ORDER: &[&str] = &[
    "error", "config", "types", "metrics", "vocab", "grammar", "request", "text", "sampler", "exec",
    "sequence", "sched", "engine", "process", "handle", "py",
];

/// The Python layer's modules from the bottom up.
#[rustfmt::skip]
const PYTHON_ORDER: &[&str] = &[
    "baseline", "interpreter", "_core", "logs", "flags", "rank", "settings", "files", "demo", "models", "mpi", "hub",
    "templates", "prompt", "engine", "engine_child", "metrics", "openai", "reference", "grammar", "vllm_plugin", "engines", "trtllm", "client", "offline", "llm", "__init__", "run", "build", "check", "calibrate",
    "connection", "page", "spans", "app", "serve", "start", "inside", "batch", "chat", "chat_inside", "cli", "cluster", "__main__",
];

/// Folders whose modules import each other without a circle, and the name that they have in Python.
const FOLDERS: &[(&str, &str)] = &[
    ("rust/grammar/src/", ""),
    ("rust/grammar/src/gbnf/", ""),
    ("rust/grammar/src/schema/", ""),
    ("python/llgtrt/build/", "llgtrt.build"),
    ("python/llgtrt/cluster/", "llgtrt.cluster"),
    ("python/llgtrt/engines/", "llgtrt.engines"),
    ("python/llgtrt/openai/", "llgtrt.openai"),
    ("python/llgtrt/vllm_plugin/", "llgtrt.vllm_plugin"),
    ("demo/", "demo"),
];

/// A tracked file: its path from the root, and its text (empty where it is not UTF-8).
struct File {
    path: String,
    text: String,
    bytes: u64,
}

impl File {
    fn is_code(&self) -> bool {
        [".rs", ".py", ".pyi", ".sh"].iter().any(|end| self.path.ends_with(end)) || self.path == ".ci/run"
    }

    fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.split('/').any(|part| part == "tests") || name == "tests.rs" || name.ends_with("_tests.rs")
    }

    /// Lines with their numbers from 1, without comment lines and up to an inline test module.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines: Vec<_> = self.text.lines().collect();
        let test_module = |index: usize| {
            lines[index].starts_with("#[cfg(test)]") && lines.get(index + 1).is_some_and(opens)
        };
        let end = (0..lines.len()).find(|&index| test_module(index)).unwrap_or(lines.len());
        let numbered = self.text.lines().take(end).enumerate().map(|(index, line)| (index + 1, line));
        numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn opens(line: &&str) -> bool {
    line.ends_with('{')
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every tracked file. A copy without git's folder has nothing to hold.
fn tracked() -> Vec<File> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let listed = listed.expect("git is installed");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("tracked names are UTF-8");
    let files: Vec<_> = names.split_terminator('\0').filter_map(read).collect();
    assert!(files.iter().any(|file| file.path == "rust/src/lib.rs"), "the list of tracked files is broken");
    files
}

/// `None` for a file that is deleted in the working tree.
fn read(name: &str) -> Option<File> {
    let bytes = fs::read(root().join(name)).ok()?;
    let size = bytes.len() as u64;
    Some(File { path: name.to_owned(), text: String::from_utf8(bytes).unwrap_or_default(), bytes: size })
}

fn hold(rule: &str, faults: Vec<String>) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}

#[test]
fn files_are_short() {
    let long = |file: &File| file.is_code() && file.text.lines().count() > FILE_LINES;
    let faults = tracked().into_iter().filter(long);
    hold(
        "a file has at most 400 lines",
        faults.map(|f| format!("{}: {}", f.path, f.text.lines().count())).collect(),
    );
}

#[test]
fn functions_are_short() {
    let mut faults = Vec::new();
    for file in tracked().iter().filter(|file| file.is_code()) {
        let lines: Vec<_> = file.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let length = function_length(&file.path, line, &lines[index + 1..]);
            if length > FUNCTION_LINES {
                faults.push(format!("{}:{}: {length}", file.path, index + 1));
            }
        }
    }
    hold("a function has at most 50 lines", faults);
}

/// Lines of the function that `first` opens, 0 where it opens none. Formatted code closes a function at its own
/// indentation, which is all that this looks at.
fn function_length(path: &str, first: &str, rest: &[&str]) -> usize {
    let indent = indentation(first);
    let head = first.trim_start();
    if path.ends_with(".rs") || !path.contains(".py") {
        let opens = if path.ends_with(".rs") { is_rust_function(head) } else { head.ends_with("() {") };
        if !opens || head.ends_with('}') || head.ends_with(';') {
            return 0;
        }
        let closes = |line: &&str| indentation(line) == indent && (line[indent..].starts_with('}'));
        return rest.iter().position(closes).map_or(0, |index| index + 2);
    }
    if !head.starts_with("def ") && !head.starts_with("async def ") {
        return 0;
    }
    let outside =
        |line: &&str| !line.trim().is_empty() && indentation(line) <= indent && !line.trim().starts_with(')');
    let end = rest.iter().position(outside).unwrap_or(rest.len());
    let blank = rest[..end].iter().rev().take_while(|line| line.trim().is_empty()).count();
    end - blank + 1
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn is_rust_function(head: &str) -> bool {
    let words = head.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '"'));
    let before = ["pub", "crate", "super", "in", "const", "async", "unsafe", "extern", "\"C\"", ""];
    words.into_iter().find(|word| !before.contains(word)) == Some("fn")
}

#[test]
fn functions_are_measured_right() {
    let rest = ["    a", "", "}", "fn b() {"];
    assert_eq!(function_length("a.rs", "pub(crate) const unsafe fn a() {", &rest), 4);
    assert_eq!(function_length("a.rs", "fn_pointer(a);", &rest), 0);
    assert_eq!(function_length("a.rs", "fn declared();", &rest), 0);
    assert_eq!(function_length("a.sh", "step() {", &rest), 4);
    let rest = ["    a: int,", ") -> None:", "    pass", "", "", "def b() -> None:"];
    assert_eq!(function_length("a.py", "def a(", &rest), 4);
    assert_eq!(function_length("a.py", "    async def a() -> None:", &["        pass"]), 2);
}

#[test]
fn modules_use_lower_ranks_only() {
    let mut faults = Vec::new();
    for file in tracked().iter().filter(|file| file.path.ends_with(".rs") && !file.is_test()) {
        let Some(module) = file.path.strip_prefix("rust/src/").and_then(|path| path.strip_suffix(".rs"))
        else {
            continue;
        };
        if module == "lib" {
            continue;
        }
        let own =
            place(RUST_ORDER, module).unwrap_or_else(|| panic!("{module} has no rank: add it to RUST_ORDER"));
        let code: Vec<_> = file.code().map(|(_, line)| line).collect();
        for used in uses(&code.join("\n"), "crate::") {
            if place(RUST_ORDER, &used).is_some_and(|rank| rank > own) {
                faults.push(format!("{} uses crate::{used}", file.path));
            }
        }
    }
    hold("a module uses lower ranks only", faults);
}

/// The rank of a path's first part in `order`.
fn place(order: &[&str], path: &str) -> Option<usize> {
    let first = path.split(['/', ':', '.']).next()?;
    order.iter().position(|name| *name == first)
}

/// The paths behind every `start` of `code`, a group's members one by one: `crate::{a::B, c}` is `a::B` and `c`.
fn uses(code: &str, start: &str) -> Vec<String> {
    let is_path = |c: &char| c.is_alphanumeric() || *c == '_' || *c == ':';
    let path = |text: &str| text.chars().take_while(is_path).collect::<String>();
    let begins = code.match_indices(start).filter(|(at, _)| !code[..*at].ends_with("::"));
    let behind = begins.map(|(at, found)| &code[at + found.len()..]);
    behind.flat_map(|rest| rest.strip_prefix('{').map_or_else(|| vec![rest], members)).map(path).collect()
}

/// The members of a group whose opening brace is gone: what stands between commas outside deeper braces.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        if depth == 0 && (c == ',' || c == '}') {
            found.push(group[start..at].trim());
            start = at + 1;
        }
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    found.retain(|member| !member.is_empty());
    found
}

#[test]
fn uses_are_read_right() {
    let text = "from p import a, b\n    from p.c.d import (\n    x,\n)\nfrom p import (\n    e,\n    f,\n)\nfrom pq import g";
    assert_eq!(imports(text, "p"), ["a", "b", "c.d", "e", "f", ")"]);
    assert_eq!(uses("use crate::a::B; crate::c()", "crate::"), ["a::B", "c"]);
    let groups = "use crate::{a::B, c::{d, e}, f};\nuse other::{x, y};";
    assert_eq!(uses(groups, "crate::"), ["a::B", "c::", "f"]);
    assert_eq!(uses("use super::super::a; use super::b;", "super::super::"), ["a"]);
}

#[test]
fn python_imports_point_downward() {
    let mut faults = Vec::new();
    for file in tracked().iter().filter(|file| file.path.ends_with(".py")) {
        let Some(module) = file.path.strip_prefix("python/llgtrt/") else { continue };
        let own = place(PYTHON_ORDER, module);
        let own = own.unwrap_or_else(|| panic!("{module} has no rank: add it to PYTHON_ORDER"));
        for used in imports(&file.text, "llgtrt") {
            if place(PYTHON_ORDER, &used).is_some_and(|rank| rank > own) {
                faults.push(format!("{} imports {used}", file.path));
            }
        }
    }
    hold("the Python layer imports downward only", faults);
}

/// What is imported from below `package`: `from package import a, b` and `from package.a import x` give `a` and `b`.
fn imports(text: &str, package: &str) -> Vec<String> {
    let mut found = Vec::new();
    // A list in parentheses becomes one line.
    for line in text.replace("(\n", "").replace(",\n", ",").lines() {
        let import = line.trim().strip_prefix("from ").and_then(|rest| rest.split_once(" import "));
        let Some((from, names)) = import else { continue };
        match from.strip_prefix(package) {
            Some("") => found.extend(names.split(',').map(|name| name.trim().to_owned())),
            Some(module) if module.starts_with('.') => found.push(module[1..].to_owned()),
            _ => {}
        }
    }
    found
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let files = tracked();
    for (folder, package) in FOLDERS {
        let mut open = edges(&files, folder, package);
        assert!(open.iter().any(|(_, used)| !used.is_empty()), "{folder}: the list of imports is broken");
        let waits =
            |used: &[String], open: &[(String, _)]| open.iter().any(|(module, _)| used.contains(module));
        while let Some(next) = open.iter().position(|(_, used)| !waits(used, &open)) {
            open.remove(next);
        }
        let left = open.into_iter().map(|(module, used)| format!("{folder}{module} uses {used:?}"));
        hold("modules import each other in a circle, or what does", left.collect());
    }
}

/// The modules that lie in `folder`, and what each of them uses.
fn edges(files: &[File], folder: &str, package: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        let Some(path) = file.path.strip_prefix(folder) else { continue };
        let Some((path, "rs" | "py")) = path.rsplit_once('.') else { continue };
        let module = path.split('/').next().unwrap_or_default();
        let code = file.code().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        let depth = path.trim_end_matches("/mod").split('/').count();
        let inner = folder.split_once("/src/").map_or("", |(_, inside)| inside).replace('/', "::");
        let mut used = imports(&code, package);
        used.extend(uses(&code, &"super::".repeat(depth)));
        used.extend(uses(&code, &format!("crate::{inner}")));
        let first = |path: String| path.split([':', '.']).next().unwrap_or_default().to_owned();
        found.push((module.to_owned(), used.into_iter().map(first).filter(|name| name != module).collect()));
    }
    found
}

#[test]
fn unsafe_stays_in_ffi_files() {
    let mut faults = Vec::new();
    let may = |path: &str| path.ends_with("/ffi.rs") || path.starts_with(KERNELS);
    let elsewhere = |file: &&File| file.path.ends_with(".rs") && !may(&file.path);
    for file in tracked().iter().filter(elsewhere).filter(|file| file.path != "tests/tidy.rs") {
        let is_word = |line: &str| {
            let code = line.split(" //").next().unwrap_or_default();
            code.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == "unsafe")
        };
        let lines = file.text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let found = lines.filter(|(_, line)| is_word(line));
        faults.extend(found.map(|(n, line)| format!("{}:{}: {line}", file.path, n + 1)));
    }
    hold("unsafe stands only in files named ffi.rs and in kernels", faults);
}

#[test]
fn nothing_is_left_for_later() {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
    hold("no notes to oneself", lines_with_word(&words));
}

#[test]
fn no_path_of_a_machine_is_named() {
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/home/", "user")];
    let starts =
        |line: &str, at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~}".contains(c));
    let named =
        |line: &str| places.iter().any(|place| line.match_indices(place).any(|(at, _)| starts(line, at)));
    let mut faults = Vec::new();
    for file in tracked() {
        let lines = file.text.lines().enumerate().filter(|(_, line)| named(line));
        faults.extend(lines.map(|(number, line)| format!("{}:{}: {line}", file.path, number + 1)));
    }
    hold("no path of one machine", faults);
}

fn lines_with_word(words: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in tracked().iter().filter(|file| file.is_code() || file.path.ends_with(".toml")) {
        for (number, line) in file.text.lines().enumerate() {
            let mut parts = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            if parts.any(|part| words.contains(&part)) {
                faults.push(format!("{}:{}: {line}", file.path, number + 1));
            }
        }
    }
    faults
}

#[test]
fn the_top_holds_agreed_names_only() {
    let files = tracked();
    let top = files.iter().filter_map(|file| file.path.split('/').next());
    let strange = top.filter(|name| !name.starts_with('.') && !TOP.contains(name));
    hold("only agreed names at the top", strange.map(str::to_owned).collect());
}

#[test]
fn the_repository_stays_small() {
    let bytes: u64 = tracked().iter().map(|file| file.bytes).sum();
    assert!(bytes < TRACKED_BYTES, "tracked files take {bytes} bytes, {TRACKED_BYTES} is the limit");
}
