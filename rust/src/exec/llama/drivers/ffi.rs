//! Drivers' libraries over `dlopen`, so that the extension loads where there is none, too.

use std::ffi::CStr;

/// Whether the library is there to be loaded. What it is loaded for keeps it: it is not unloaded.
pub(super) fn has(name: &CStr) -> bool {
    // SAFETY: the name ends with NUL; what the library runs when it is loaded is the driver's own.
    !unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }.is_null()
}

/// The four functions of Vulkan's loader that ggml's backend is linked with; all others it asks these for.
#[cfg(feature = "vulkan")]
mod loader {
    use super::super::VULKAN;
    use std::ffi::{CStr, c_char, c_void};
    use std::sync::OnceLock;

    /// A function of whatever type.
    type Function = Option<unsafe extern "C" fn()>;
    type Get = unsafe extern "C" fn(*mut c_void, *const c_char) -> Function;
    type Features = unsafe extern "C" fn(*mut c_void, *mut c_void);
    type Copy = unsafe extern "C" fn(*mut c_void, u64, u64, u32, *const c_void);

    /// What ggml asks for first, before it has an instance.
    const VERSION: &CStr = c"vkEnumerateInstanceVersion";
    const VK_ERROR_INITIALIZATION_FAILED: i32 = -3;

    struct Loader {
        instance: Get,
        device: Get,
        features: Features,
        copy: Copy,
    }

    fn loader() -> Option<&'static Loader> {
        static LOADER: OnceLock<Option<Loader>> = OnceLock::new();
        LOADER.get_or_init(load).as_ref()
    }

    fn load() -> Option<Loader> {
        // SAFETY: both texts end with NUL. The loader's functions of these names have these types (vulkan_core.h), and
        // a function pointer is as wide as what `dlsym` gives; null is checked.
        unsafe {
            let library = libc::dlopen(VULKAN.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if library.is_null() {
                return None;
            }
            let find = |name: &CStr| {
                let found = libc::dlsym(library, name.as_ptr());
                (!found.is_null()).then_some(found)
            };
            Some(Loader {
                instance: std::mem::transmute::<*mut c_void, Get>(find(c"vkGetInstanceProcAddr")?),
                device: std::mem::transmute::<*mut c_void, Get>(find(c"vkGetDeviceProcAddr")?),
                features: std::mem::transmute::<*mut c_void, Features>(find(
                    c"vkGetPhysicalDeviceFeatures2",
                )?),
                copy: std::mem::transmute::<*mut c_void, Copy>(find(c"vkCmdCopyBuffer")?),
            })
        }
    }

    /// In place of a loader: ggml takes the error for a machine without Vulkan.
    unsafe extern "C" fn no_version(_: *mut u32) -> i32 {
        VK_ERROR_INITIALIZATION_FAILED
    }

    /// # Safety
    /// Called by ggml alone, as Vulkan says; so are the others.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn vkGetInstanceProcAddr(instance: *mut c_void, name: *const c_char) -> Function {
        // SAFETY: the caller's arguments are handed on; the name ends with NUL.
        let found = loader().and_then(|loader| unsafe { (loader.instance)(instance, name) });
        // SAFETY: as above.
        let version = !name.is_null() && unsafe { CStr::from_ptr(name) } == VERSION;
        if found.is_some() || !version {
            return found;
        }
        // SAFETY: a pointer to a function, which its caller turns back into its own type.
        Some(unsafe {
            std::mem::transmute::<unsafe extern "C" fn(*mut u32) -> i32, unsafe extern "C" fn()>(no_version)
        })
    }

    /// # Safety
    /// See above.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn vkGetDeviceProcAddr(device: *mut c_void, name: *const c_char) -> Function {
        // SAFETY: the caller's arguments are handed on.
        loader().and_then(|loader| unsafe { (loader.device)(device, name) })
    }

    /// # Safety
    /// See above.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn vkGetPhysicalDeviceFeatures2(device: *mut c_void, features: *mut c_void) {
        if let Some(loader) = loader() {
            // SAFETY: the caller's arguments are handed on.
            unsafe { (loader.features)(device, features) }
        }
    }

    /// # Safety
    /// See above.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn vkCmdCopyBuffer(
        commands: *mut c_void,
        from: u64,
        to: u64,
        count: u32,
        regions: *const c_void,
    ) {
        if let Some(loader) = loader() {
            // SAFETY: the caller's arguments are handed on.
            unsafe { (loader.copy)(commands, from, to, count, regions) }
        }
    }
}
