//! A rank's own process: what surrounds the library's server.

use super::exit_now;
use crate::error::{Error, Result};
use serde::Deserialize;
use std::fs::{read_dir, read_link, read_to_string};
use std::io::Read;
use std::net::Ipv4Addr;
use std::time::Duration;

/// What a worker says before its port.
const ANNOUNCED: &str = "llgtrt rank ";
/// Pause between two looks for the socket.
const LOOK: Duration = Duration::from_millis(5);

/// What a rank is asked to be.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RankOptions {
    /// Address to listen on.
    pub host: Ipv4Addr,
    /// Port to listen on; 0 = a free one.
    pub port: u16,
    /// Threads to compute on; 0 = as many as there are cores.
    pub threads: u32,
    /// The GPU to compute on; None = cores.
    pub gpu: Option<u32>,
    /// It belongs to an engine: it tells its port on standard output, and ends when its standard input does.
    pub worker: bool,
}

impl RankOptions {
    /// Threads to compute on, at least 1.
    pub fn threads(&self) -> u32 {
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        if self.threads > 0 { self.threads } else { cores() }
    }
}

/// Prepares this process to be a rank, before it listens.
///
/// # Errors
/// `Executor`: there is no thread left.
pub fn prepare(options: &RankOptions) -> Result<()> {
    let failed = |e: std::io::Error| Error::Executor(format!("a rank cannot be started: {e}"));
    if options.worker {
        // The end of standard input says the same, except where another process has inherited its other end.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        std::thread::Builder::new().name("parent".into()).spawn(await_end).map_err(failed)?;
    } else if !options.host.is_loopback() {
        log::warn!(
            "anybody who reaches {} may use this rank: its transport has neither authentication nor encryption",
            options.host
        );
    }
    let (host, worker) = (options.host, options.worker);
    let tell = move || match await_port() {
        Some(port) if worker => println!("{ANNOUNCED}{port}"),
        Some(port) => log::info!("this rank listens on {host}:{port}"),
        None => {}
    };
    std::thread::Builder::new().name("announce".into()).spawn(tell).map_err(failed)?;
    Ok(())
}

/// The port in a line of a worker's.
pub(super) fn announced(line: &str) -> Option<u16> {
    line.strip_prefix(ANNOUNCED)?.parse().ok()
}

fn await_end() {
    let mut stdin = std::io::stdin().lock();
    while matches!(stdin.read(&mut [0; 64]), Ok(n) if n > 0) {}
    exit_now(0);
}

/// Waits until this process listens. The library does not say on which port it does; None where the system does not
/// either.
fn await_port() -> Option<u16> {
    loop {
        if let Some(port) = listening_port()? {
            return Some(port);
        }
        std::thread::sleep(LOOK);
    }
}

/// The port that this process listens on, if it does.
fn listening_port() -> Option<Option<u16>> {
    let table = read_to_string("/proc/self/net/tcp").ok()?;
    let links = read_dir("/proc/self/fd").ok()?.filter_map(|fd| read_link(fd.ok()?.path()).ok());
    let own: Vec<_> = links.filter_map(|link| Some(link.to_str()?.to_owned())).collect();
    Some(table.lines().filter_map(listener).find(|(inode, _)| own.contains(inode)).map(|(_, port)| port))
}

/// Of a line of the system's table: the socket as links name it, and its port; None where it does not listen.
fn listener(line: &str) -> Option<(String, u16)> {
    const LISTENS: &str = "0A";
    let fields: Vec<_> = line.split_whitespace().collect();
    let port = fields.get(1)?.rsplit_once(':')?.1;
    let (state, inode) = (*fields.get(3)?, fields.get(9)?);
    Some((format!("socket:[{inode}]"), u16::from_str_radix(port, 16).ok()?)).filter(|_| state == LISTENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_this_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let table = read_to_string("/proc/self/net/tcp").unwrap();
        assert!(table.lines().filter_map(super::listener).any(|(_, port)| port == own));
        assert!(listening_port().unwrap().is_some());
    }

    #[test]
    fn only_a_workers_line_has_a_port() {
        assert_eq!(announced("llgtrt rank 4711"), Some(4711));
        assert_eq!((announced("llgtrt rank x"), announced("Devices:")), (None, None));
    }
}
