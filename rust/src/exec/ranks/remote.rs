//! A look at a rank that runs already. The library ends the process where none answers, so it is asked first.

use crate::error::{Error, Result};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long it may take to answer. It serves one engine at a time, and does not answer a second one.
const PATIENCE: Duration = Duration::from_secs(5);
/// The greeting of ggml's RPC protocol, major version 7: command, length, capabilities.
const HELLO: (u8, usize) = (14, 24);
/// Its answer: length, three numbers of the version and a gap, capabilities.
const ANSWER: usize = 8 + 4 + HELLO.1;
/// The protocol's major version in this build.
const VERSION: u8 = 7;

/// Looks whether a rank of the same protocol answers at `host:port`.
///
/// # Errors
/// `Invalid`: none does.
pub(super) fn check(endpoint: &str) -> Result<()> {
    let refused = |why: String| Err(Error::invalid("parallel.rank_endpoints", format!("{endpoint} {why}")));
    match greet(endpoint) {
        Ok(VERSION) => Ok(()),
        Ok(other) => refused(format!(
            "speaks version {other} of ggml's RPC protocol, not {VERSION}; start the same release of llgtrt there"
        )),
        Err(e) if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&e.kind()) => {
            refused("does not answer: it serves another engine, or hangs".into())
        }
        Err(e) => refused(format!("is no rank ({e}); start `llgtrt rank --host … --port …` there")),
    }
}

/// The major version that the rank speaks.
fn greet(endpoint: &str) -> io::Result<u8> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in endpoint.to_socket_addrs()?.filter(std::net::SocketAddr::is_ipv4) {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return greet_on(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn greet_on(mut stream: TcpStream) -> io::Result<u8> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut hello = vec![HELLO.0];
    hello.extend((HELLO.1 as u64).to_le_bytes());
    hello.resize(hello.len() + HELLO.1, 0);
    stream.write_all(&hello)?;
    let mut answer = [0; ANSWER];
    stream.read_exact(&mut answer)?;
    Ok(answer[8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The refusal of an endpoint that gives this answer to a greeting.
    fn refusal(answer: Option<&'static [u8]>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let there = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; 9 + HELLO.1];
            stream.read_exact(&mut hello).unwrap();
            assert_eq!(&hello[..2], &[14, 24]);
            if let Some(bytes) = answer {
                stream.write_all(bytes).unwrap();
            }
        });
        let found = check(&endpoint).map_or_else(|e| e.to_string(), |()| String::new());
        there.join().unwrap();
        found.replace(&endpoint, "there")
    }

    #[test]
    fn what_answers_otherwise_is_named() {
        const OLD: [u8; ANSWER] = {
            let mut answer = [0; ANSWER];
            answer[8] = 6;
            answer
        };
        assert!(refusal(Some(&OLD)).starts_with("parallel.rank_endpoints: there speaks version 6"));
        assert!(refusal(None).starts_with("parallel.rank_endpoints: there is no rank"));
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        assert!(check(&nobody).unwrap_err().to_string().contains("is no rank"));
    }
}
