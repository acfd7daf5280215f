//! A server that answers as it is told, one thread per connection.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Lives as long as the test's process.
pub(crate) struct Server {
    pub(crate) port: u16,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    /// `script` answers one body; false ends the connection.
    pub(crate) fn start(script: impl Fn(&Value, &mut TcpStream) -> bool + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (bodies, script) = (Arc::new(Mutex::new(Vec::new())), Arc::new(script));
        let seen = bodies.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (script, seen) = (script.clone(), seen.clone());
                std::thread::spawn(move || {
                    let mut socket = socket.unwrap();
                    while let Some(body) = receive(&socket) {
                        seen.lock().unwrap().push(body.clone());
                        if !script(&body, &mut socket) {
                            break;
                        }
                    }
                });
            }
        });
        Server { port, bodies }
    }

    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().unwrap().clone()
    }
}

/// A request's body; none at the end of the connection.
fn receive(socket: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(socket);
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

/// A whole answer.
pub(crate) fn answer(socket: &mut TcpStream, status: u16, body: &Value) -> bool {
    let body = body.to_string();
    write!(socket, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len()).is_ok()
}

/// Ends the connection without an answer.
pub(crate) fn drop_it(_: &mut TcpStream) -> bool {
    false
}

fn head(socket: &mut TcpStream) {
    write!(
        socket,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .ok();
}

fn event(socket: &mut TcpStream, data: &str) {
    let event = format!("data: {data}\n\n");
    // In two chunks, so that no reader may take a chunk for an event.
    for part in [&event[..3], &event[3..]] {
        write!(socket, "{:x}\r\n{part}\r\n", part.len()).ok();
    }
}

/// Events, each after a pause, with the usual end.
pub(crate) fn stream(socket: &mut TcpStream, events: &[(Duration, Value)]) -> bool {
    head(socket);
    for (pause, data) in events {
        std::thread::sleep(*pause);
        event(socket, &data.to_string());
    }
    event(socket, "[DONE]");
    write!(socket, "0\r\n\r\n").is_ok()
}

/// One event of a chunked body that does not end.
pub(crate) fn half(socket: &mut TcpStream, data: &Value) -> bool {
    head(socket);
    event(socket, &data.to_string());
    false
}

/// A whole body without the last event.
pub(crate) fn no_done(socket: &mut TcpStream, data: &Value) -> bool {
    half(socket, data);
    write!(socket, "0\r\n\r\n").is_ok()
}

pub(crate) fn piece(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
}

/// The last event: seven prompt tokens of which three were cached, and so many of the answer.
pub(crate) fn usage(tokens: u64) -> Value {
    let details = json!({"cached_tokens": 3});
    let usage = json!({"prompt_tokens": 7, "completion_tokens": tokens, "prompt_tokens_details": details});
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
}
