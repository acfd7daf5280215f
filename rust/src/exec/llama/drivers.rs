//! Backends for GPUs: libraries in the folder `backends` beside the extension, which the library loads at start
//! (`launch/build-gpu.sh` makes them). One extension so serves with and without a GPU, and where none is found this module
//! says what is missing: the backend, the driver that it is linked with, or the GPU.

mod ffi;

pub(super) use ffi::load_all;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What chooses among the GPUs of CUDA, and among those of Vulkan.
const CHOICES: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES"];

/// A backend's file, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Backend {
    file: PathBuf,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It was asked for its GPUs.
    Asked,
    /// A library that it is linked with is missing, as the system says.
    Unlinked(String),
    /// It is not one of this library's version, as the library says.
    Foreign(String),
}

static BACKENDS: OnceLock<Vec<Backend>> = OnceLock::new();

fn backends() -> &'static [Backend] {
    BACKENDS.get().map_or(&[], Vec::as_slice)
}

/// Whether any backend is installed.
pub(super) fn any() -> bool {
    !backends().is_empty()
}

/// Why there is no GPU, and what to do.
pub(super) fn missing() -> String {
    explain(backends(), |name| std::env::var(name).ok())
}

fn explain(backends: &[Backend], variable: impl Fn(&str) -> Option<String>) -> String {
    if backends.is_empty() {
        return "no backend for GPUs is installed; make one: ./launch/build-gpu.sh cuda, or vulkan"
            .to_owned();
    }
    let set = CHOICES.iter().filter_map(|name| Some(format!("{name}={}", variable(name)?)));
    let set = set.map(|set| format!(" with {set}")).collect::<Vec<_>>().join(" and");
    let of = |Backend { file, state }: &Backend| match state {
        State::Asked => format!("{} finds no GPU{set}; {}", name(file), look(file)),
        State::Unlinked(why) => format!("{}: {why}; {}", name(file), driver(file)),
        State::Foreign(why) => format!("{why}; make it again: ./launch/build-gpu.sh"),
    };
    backends.iter().map(of).collect::<Vec<_>>().join("; ")
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_cuda(file: &Path) -> bool {
    name(file).contains("cuda")
}

fn driver(file: &Path) -> &'static str {
    if is_cuda(file) {
        "install NVIDIA's driver"
    } else {
        "install Vulkan's loader: apt-get install libvulkan1"
    }
}

fn look(file: &Path) -> &'static str {
    if is_cuda(file) {
        "see `nvidia-smi`"
    } else {
        "install its driver, Mesa's for example: apt-get install mesa-vulkan-drivers; see `vulkaninfo --summary`"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(file: &str, state: State) -> Backend {
        Backend { file: PathBuf::from(file), state }
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(explain(&[], |_| None).contains("./launch/build-gpu.sh cuda"));
        let why = "libcuda.so.1: cannot open shared object file";
        let unlinked = backend("/b/libggml-cuda.so", State::Unlinked(why.into()));
        let driver = explain(&[unlinked], |_| None);
        assert_eq!(driver, format!("libggml-cuda.so: {why}; install NVIDIA's driver"));
        let other = backend("/b/libggml-cuda.so", State::Foreign("incompatible API version".into()));
        assert!(explain(&[other], |_| None).ends_with("; make it again: ./launch/build-gpu.sh"));
        let both = ["/b/libggml-cuda.so", "/b/libggml-vulkan.so"].map(|file| backend(file, State::Asked));
        let both = explain(&both, |name| (name == "GGML_VK_VISIBLE_DEVICES").then(|| "3".into()));
        assert!(
            both.contains("libggml-cuda.so finds no GPU with GGML_VK_VISIBLE_DEVICES=3; see `nvidia-smi`")
        );
        assert!(both.contains("mesa-vulkan-drivers"), "{both}");
    }

    #[test]
    fn a_file_that_is_no_backend_is_refused() {
        let folder = std::env::temp_dir().join(format!("llgtrt-backends-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("libggml-cuda.so"), "no library").unwrap();
        // What others are linked with, and what is no library, are left alone.
        std::fs::write(folder.join("libggml-base.so.0"), "no library").unwrap();
        std::fs::write(folder.join("notes.txt"), "").unwrap();
        let found = ffi::load_from(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.len(), 1);
        assert!(
            matches!(&found[0].state, State::Unlinked(why) if why.contains("libggml-cuda.so")),
            "{found:?}"
        );
    }
}
