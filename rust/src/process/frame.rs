//! Messages as bytes: a little-endian u32 length, then postcard.
//!
//! Postcard writes no field names and no types: both ends must be the same program, which parent and child are.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufReader, Read, Write};

/// Longest message in bytes. Far above any real one; what is longer is not a message.
pub const MAX_FRAME: u32 = 256 << 20;

/// A longer message's buffer is not kept for the next one, in bytes.
const KEEP: usize = 1 << 20;

/// The first message to a child: what to open. The configuration travels as JSON, so that its serde attributes are
/// free to be what its file format needs.
#[derive(Debug, Serialize, serde::Deserialize)]
pub(crate) struct Hello {
    pub(crate) target: String,
    pub(crate) config: String,
}

/// Writes messages, each with one `write`.
pub struct FrameWriter<W> {
    to: W,
    buffer: Vec<u8>,
}

impl<W: Write> FrameWriter<W> {
    /// Writes to `to`, which should not buffer.
    pub fn new(to: W) -> Self {
        FrameWriter { to, buffer: Vec::new() }
    }

    /// Writes one message; blocks while the other end's buffer is full.
    ///
    /// # Errors
    /// The other end is gone, or the message is longer than [`MAX_FRAME`].
    pub fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.extend([0; 4]);
        postcard::to_io(message, &mut self.buffer).map_err(invalid)?;
        let len = u32::try_from(self.buffer.len() - 4).ok().filter(|len| *len <= MAX_FRAME);
        let len = len.ok_or_else(|| invalid(format!("a message of {} bytes", self.buffer.len())))?;
        self.buffer[..4].copy_from_slice(&len.to_le_bytes());
        let sent = self.to.write_all(&self.buffer);
        forget(&mut self.buffer);
        sent
    }
}

/// Reads messages.
pub struct FrameReader<R> {
    from: BufReader<R>,
    buffer: Vec<u8>,
}

impl<R: Read> FrameReader<R> {
    /// Reads from `from`.
    pub fn new(from: R) -> Self {
        FrameReader { from: BufReader::with_capacity(64 << 10, from), buffer: Vec::new() }
    }

    /// The next message; blocks until it is complete. `None` where the other end is gone, in the middle of a message
    /// or not.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] where the bytes are no message of this type, others where reading fails.
    pub fn read<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let message = match self.fill() {
            Ok(()) => postcard::from_bytes(&self.buffer).map(Some).map_err(invalid),
            Err(e) => gone_is_none(e),
        };
        forget(&mut self.buffer);
        message
    }

    /// Reads one message's bytes into the buffer.
    fn fill(&mut self) -> io::Result<()> {
        let mut head = [0; 4];
        self.from.read_exact(&mut head)?;
        let len = u32::from_le_bytes(head);
        if len > MAX_FRAME {
            return Err(invalid(format!("a message of {len} bytes")));
        }
        // Grows with what comes, not with what is announced.
        let read = self.from.by_ref().take(len.into()).read_to_end(&mut self.buffer)?;
        if read < len as usize { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// Empties a buffer, and gives an unusually large one back.
fn forget(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEEP);
}

fn gone_is_none<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.kind() {
        // A process that dies with unread bytes resets its socket.
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Ok(None),
        _ => Err(error),
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
