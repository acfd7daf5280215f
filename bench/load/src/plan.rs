//! What to measure.

use crate::answer::Answer;
use hyper::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::{File, read_to_string};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

/// One measurement. Bodies that run out are taken from the first again.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Where every body is posted to: `http://host:port/v1/chat/completions`.
    pub url: String,
    /// JSONL, one request body a line.
    pub bodies: PathBuf,
    /// Requests in all.
    pub requests: usize,
    /// When they are sent.
    pub arrivals: Arrivals,
    /// Whether a connection serves one request or many.
    #[serde(default)]
    pub connections: Connections,
    /// Sets `stream`, with usage in the last chunk, in every body; without it each body says so itself.
    pub stream: Option<bool>,
    /// Seconds after which a request is given up.
    #[serde(default = "timeout")]
    pub timeout_s: f64,
    /// A request is good where it kept all of these.
    pub goodput: Option<Limits>,
    /// An error event after some text ends an answer as `length` does, its chunks being its tokens: llama-server sends
    /// one where `max_tokens` ends JSON.
    #[serde(default)]
    pub errors_cut: bool,
    /// Where answers are written, one line of JSON each, in the order of the requests.
    pub answers: Option<PathBuf>,
}

/// How requests arrive.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Closed loop: so many clients, each sending its next request when it has an answer.
    Clients(usize),
    /// Poisson: so many requests per second on average, however many are open.
    Poisson {
        /// Requests per second.
        rate: f64,
        /// Of the arrival times.
        seed: u64,
    },
}

/// How connections are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// Taken again for the next request.
    #[default]
    Kept,
    /// A new one for each request, whose time counts.
    Fresh,
}

/// Limits in milliseconds.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// To the first text.
    pub first_ms: Option<f64>,
    /// Per token after the first chunk, on average.
    pub per_token_ms: Option<f64>,
    /// To the end of the answer.
    pub whole_ms: Option<f64>,
}

fn timeout() -> f64 {
    600.0
}

/// A server's address and path.
#[derive(Debug, Clone)]
pub struct Target {
    /// Host and port.
    pub authority: Authority,
    /// Path and query.
    pub path: PathAndQuery,
}

impl Target {
    /// Host and port, to connect to.
    #[must_use]
    pub fn address(&self) -> (String, u16) {
        let host = self.authority.host().trim_matches(['[', ']']).to_owned();
        (host, self.authority.port_u16().unwrap_or(80))
    }
}

impl Plan {
    /// Where to send.
    ///
    /// # Errors
    /// Anything but an `http://` URL with a host.
    pub fn target(&self) -> Result<Target, String> {
        let parts = self.url.parse::<Uri>().map_err(|e| format!("{}: {e}", self.url))?.into_parts();
        match (parts.scheme, parts.authority, parts.path_and_query) {
            (Some(scheme), Some(authority), Some(path)) if scheme == Scheme::HTTP => {
                Ok(Target { authority, path })
            }
            _ => Err(format!("{}: only http://host:port/path can be measured", self.url)),
        }
    }

    /// A request's time.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_s)
    }

    /// All bodies, as they are sent.
    ///
    /// # Errors
    /// Numbers out of range, a file that cannot be read, that is empty, or a line that is no JSON object.
    pub fn bodies(&self) -> Result<Vec<Body>, String> {
        let sensible = match self.arrivals {
            Arrivals::Clients(clients) => clients > 0,
            Arrivals::Poisson { rate, .. } => rate > 0.0 && rate.is_finite(),
        };
        if !sensible || self.requests == 0 || !(self.timeout_s > 0.0 && self.timeout_s <= 86_400.0) {
            return Err("requests, clients, rate and timeout_s (up to a day) must be above 0".into());
        }
        let text = read_to_string(&self.bodies).map_err(|e| format!("{}: {e}", self.bodies.display()))?;
        let mut bodies = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let fault = |e: &str| format!("{}:{}: {e}", self.bodies.display(), number + 1);
            let mut value: Value = serde_json::from_str(line).map_err(|e| fault(&e.to_string()))?;
            let body = value.as_object_mut().ok_or_else(|| fault("no JSON object"))?;
            if let Some(stream) = self.stream {
                body.insert("stream".into(), stream.into());
                body.shift_remove("stream_options");
                if stream {
                    body.insert("stream_options".into(), json!({"include_usage": true}));
                }
            }
            bodies.push(Body::new(&value));
        }
        if bodies.is_empty() {
            return Err(format!("{} has no bodies", self.bodies.display()));
        }
        Ok(bodies)
    }

    /// Writes the answers where the plan wants them.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_answers(&self, answers: &[Answer]) -> Result<(), String> {
        let Some(path) = &self.answers else { return Ok(()) };
        let write = || {
            let mut file = BufWriter::new(File::create(path)?);
            for answer in answers {
                serde_json::to_writer(&mut file, answer)?;
                file.write_all(b"\n")?;
            }
            file.flush()
        };
        write().map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// A request body.
#[derive(Debug, Clone)]
pub struct Body {
    /// What is sent.
    pub json: String,
    /// Whether the answer comes as events.
    pub stream: bool,
    /// Whether the answer must be JSON.
    pub wants_json: bool,
}

impl Body {
    fn new(value: &Value) -> Body {
        let form = value["response_format"]["type"].as_str();
        Body {
            json: value.to_string(),
            stream: value["stream"].as_bool().unwrap_or(false),
            wants_json: matches!(form, Some("json_object" | "json_schema")),
        }
    }
}
