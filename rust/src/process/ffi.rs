//! The few system calls of the engine process that have no safe form.

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Takes ownership of an inherited descriptor and keeps this process's own children from inheriting it. A standard
/// stream is moved away, and the null device takes its place.
///
/// # Errors
/// `fd` is not open.
pub(super) fn take(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl only looks the number up, and fails for one that is not open.
    if fd < 0 || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(io::Error::other(format!("descriptor {fd} is not open")));
    }
    if fd == 0 {
        let moved = fcntl_dupfd_cloexec(io::stdin(), 3)?;
        let null = File::open("/dev/null")?;
        // SAFETY: dup2 takes any two numbers; nothing in this process reads its standard input.
        let done = unsafe { libc::dup2(null.as_raw_fd(), fd) };
        return if done < 0 { Err(io::Error::last_os_error()) } else { Ok(moved) };
    }
    // SAFETY: it is open, and whoever started this process passed it for this use only.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Ctrl-C and SIGTERM reach a whole group of processes; it is the parent who decides when the engine ends.
pub(super) fn ignore_stop_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: SIG_IGN runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Gives freed memory back to the system, which the allocators, ours and the C library's, would do only when they are
/// asked for more.
pub(crate) fn return_freed() {
    // SAFETY: both have no requirements.
    unsafe {
        libmimalloc_sys::mi_collect(true);
        #[cfg(target_env = "gnu")]
        libc::malloc_trim(0);
    }
}

/// Ends this process now: no destructor runs, so none can hang or crash on an engine that is still computing.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: has no requirements and does not return.
    unsafe { libc::_exit(code) }
}
