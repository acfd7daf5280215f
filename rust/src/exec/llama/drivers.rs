//! What is missing where no GPU was found: the feature, the driver, or the GPU.

mod ffi;

use std::ffi::CStr;

/// Vulkan's loader.
const VULKAN: &CStr = c"libvulkan.so.1";
/// CUDA's driver.
const CUDA: &CStr = c"libcuda.so.1";
/// What chooses among Vulkan's devices, those that are no GPUs included.
const VULKAN_DEVICES: &str = "GGML_VK_VISIBLE_DEVICES";
/// What chooses among CUDA's.
const CUDA_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// Whether this build can compute on GPUs at all.
pub(super) const BUILT: bool = cfg!(any(feature = "cuda", feature = "vulkan"));

/// Why there is no GPU, and what to do.
pub(super) fn missing() -> String {
    let has = [(cfg!(feature = "cuda"), CUDA), (cfg!(feature = "vulkan"), VULKAN)]
        .map(|(built, library)| (built, built && ffi::has(library)));
    let set = [CUDA_DEVICES, VULKAN_DEVICES].map(|name| std::env::var(name).ok());
    explain(has, set)
}

/// For CUDA and Vulkan: whether the build has it and its library is there, and what its variable says.
fn explain([cuda, vulkan]: [(bool, bool); 2], [cuda_set, vulkan_set]: [Option<String>; 2]) -> String {
    let mut why = Vec::new();
    if cuda.0 {
        why.push(match (cuda.1, cuda_set) {
            (false, _) => "NVIDIA's driver is missing (libcuda.so.1); install it".to_owned(),
            (true, Some(set)) => format!("CUDA finds no GPU with {CUDA_DEVICES}={set}; see `nvidia-smi`"),
            (true, None) => {
                "NVIDIA's driver finds no GPU that this build was compiled for; see `nvidia-smi`".to_owned()
            }
        });
    }
    if vulkan.0 {
        why.push(match (vulkan.1, vulkan_set) {
            (false, _) => {
                "Vulkan's loader is missing (libvulkan.so.1); install it: apt-get install libvulkan1"
                    .to_owned()
            }
            (true, Some(set)) => {
                format!("Vulkan finds no GPU with {VULKAN_DEVICES}={set}; see `vulkaninfo --summary`")
            }
            (true, None) => "Vulkan finds no GPU; install its driver, Mesa's for example: apt-get install \
                             mesa-vulkan-drivers; see `vulkaninfo --summary`"
                .to_owned(),
        });
    }
    if why.is_empty() {
        why.push(
            "this build computes on CPUs alone; build with LLGTRT_FEATURES=python,llama,cuda or ,vulkan"
                .to_owned(),
        );
    }
    why.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let none = || [None, None];
        let said = |has, set| explain(has, set);
        assert!(said([(false, false); 2], none()).contains("LLGTRT_FEATURES=python,llama,cuda"));
        assert!(said([(true, false), (false, false)], none()).contains("libcuda.so.1"));
        let both = said([(true, true), (true, false)], [Some("7".into()), None]);
        assert!(both.contains("CUDA_VISIBLE_DEVICES=7") && both.contains("libvulkan.so.1"), "{both}");
        let index = said([(false, false), (true, true)], [None, Some("3".into())]);
        assert!(index.contains("GGML_VK_VISIBLE_DEVICES=3") && !index.contains("CUDA"), "{index}");
        assert!(said([(false, false), (true, true)], none()).contains("mesa-vulkan-drivers"));
    }

    #[test]
    fn libraries_are_looked_for() {
        assert!(ffi::has(c"libc.so.6") && !ffi::has(c"libllgtrt-no-such.so.1"));
    }
}
