//! Backends for GPUs: libraries in the folder `backends` beside the extension, which the library loads at start
//! (`launch/build-gpu.sh` makes them). One extension so serves with and without a GPU, and where none is found this module
//! says what is missing: the backend, the driver that it is linked with, or the GPU.

mod ffi;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// What chooses among the GPUs of CUDA, and among those of Vulkan.
const CHOICES: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES"];

/// A backend's file, and what is wrong with it and to be done; None where it was asked for its GPUs.
pub(super) type Backend = (PathBuf, Option<String>);

/// Every backend that is installed, loaded when the library starts.
pub(super) static BACKENDS: LazyLock<Vec<Backend>> =
    LazyLock::new(|| ffi::folder().map_or_else(Vec::new, |folder| ffi::load_from(&folder)));

/// Why there is no GPU, and what to do.
pub(super) fn missing() -> String {
    explain(&BACKENDS, |name| std::env::var(name).ok())
}

fn explain(backends: &[Backend], variable: impl Fn(&str) -> Option<String>) -> String {
    if backends.is_empty() {
        return "no backend for GPUs is installed; make one: ./launch/build-gpu.sh cuda, or vulkan"
            .to_owned();
    }
    let set = CHOICES.iter().filter_map(|name| Some(format!("{name}={}", variable(name)?)));
    let set = set.map(|set| format!(" with {set}")).collect::<Vec<_>>().join(" and");
    let of = |(file, wrong): &Backend| match wrong {
        Some(wrong) => wrong.clone(),
        None => format!("{} finds no GPU{set}; {}", name(file), remedies(file)[1]),
    };
    backends.iter().map(of).collect::<Vec<_>>().join("; ")
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Advice for a backend: what to do if its driver is missing, and what to do if it finds no GPU.
fn remedies(file: &Path) -> [&'static str; 2] {
    if name(file).contains("cuda") {
        return ["install NVIDIA's driver", "see `nvidia-smi`"];
    }
    [
        "install Vulkan's loader: apt-get install libvulkan1",
        "install its driver, Mesa's for example: apt-get install mesa-vulkan-drivers; see `vulkaninfo --summary`",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert!(explain(&[], |_| None).contains("./launch/build-gpu.sh cuda"));
        let wrong = "libggml-cuda.so: libcuda.so.1: cannot open shared object file; install NVIDIA's driver";
        let unlinked = (PathBuf::from("/b/libggml-cuda.so"), Some(wrong.to_owned()));
        assert_eq!(explain(&[unlinked], |_| None), wrong);
        let both = ["/b/libggml-cuda.so", "/b/libggml-vulkan.so"].map(|file| (PathBuf::from(file), None));
        let both = explain(&both, |name| (name == "GGML_VK_VISIBLE_DEVICES").then(|| "3".into()));
        assert!(
            both.contains("libggml-cuda.so finds no GPU with GGML_VK_VISIBLE_DEVICES=3; see `nvidia-smi`")
        );
        assert!(both.contains("mesa-vulkan-drivers"), "{both}");
    }

    #[test]
    fn a_file_that_is_no_backend_is_refused() {
        let folder = std::env::temp_dir().join(format!("llgtrt-backends-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("libggml-cuda.so"), "no library").unwrap();
        // A library, and no backend.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.split_whitespace().find(|word| word.contains("/libc.so")).unwrap();
        std::os::unix::fs::symlink(libc, folder.join("libggml-vulkan.so")).unwrap();
        // What others are linked with, and what is no library, are left alone.
        std::fs::write(folder.join("libggml-base.so.0"), "no library").unwrap();
        std::fs::write(folder.join("notes.txt"), "").unwrap();
        let found = ffi::load_from(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let wrong = Vec::from_iter(found.iter().filter_map(|(_, wrong)| wrong.as_deref()));
        let [broken, foreign] = wrong[..] else { panic!("{found:?}") };
        assert!(
            broken.starts_with("libggml-cuda.so: ") && broken.ends_with("; install NVIDIA's driver"),
            "{broken}"
        );
        assert!(foreign.ends_with("; make it again: ./launch/build-gpu.sh"), "{foreign}");
    }
}
