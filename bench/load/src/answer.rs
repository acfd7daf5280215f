//! What came back for one request, read as it comes.

use crate::plan::Body;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Instant;

/// One request's answer; times are seconds since it was sent (Poisson: since it was due).
#[derive(Debug, Clone, Default, Serialize)]
pub struct Answer {
    /// The number of the request; its body is this modulo the number of bodies.
    pub request: usize,
    /// HTTP status; 0 where there was none.
    pub status: u16,
    /// Why this is no answer.
    pub error: Option<Failure>,
    /// What the server or the system said about it.
    pub message: Option<String>,
    /// Text of each choice.
    pub texts: Vec<String>,
    /// The finish reason of each choice.
    pub finish: Vec<Option<String>>,
    /// What the server counted; with `errors_cut`, the chunks of a cut answer.
    pub usage: Option<Usage>,
    /// When each piece of text came; empty where the answer came at once.
    #[serde(skip)]
    pub pieces: Vec<f64>,
    /// When the first piece of text came.
    pub first: Option<f64>,
    /// When the answer was complete.
    pub whole: f64,
    /// Whether finished texts are JSON; none where the body asked for no JSON or nothing finished.
    pub valid_json: Option<bool>,
}

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// No connection was to be had.
    Connect,
    /// The connection ended before the answer did.
    Dropped,
    /// It took longer than the plan allows.
    Timeout,
    /// A status other than 200.
    Status,
    /// An error event in a stream.
    Event,
    /// No answer of this interface.
    Malformed,
}

/// Tokens as the server counts them.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Of the prompt.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Of all choices.
    #[serde(default)]
    pub completion_tokens: u64,
    /// More about the prompt.
    pub prompt_tokens_details: Option<PromptDetails>,
}

/// More about the prompt.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct PromptDetails {
    /// Prompt tokens that were in the KV.
    pub cached_tokens: Option<u64>,
}

/// A whole answer or one event of a stream, of chat or completions.
#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: usize,
    #[serde(alias = "message")]
    delta: Option<Delta>,
    text: Option<String>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    arguments: Option<String>,
}

/// Most choices that an answer may name: the interface's own limit on `n`.
const CHOICES: usize = 128;

/// An answer that is being read.
#[derive(Debug)]
pub struct Reader {
    answer: Answer,
    begun: Instant,
    stream: bool,
    errors_cut: bool,
    rest: Vec<u8>,
    ended: bool,
}

impl Reader {
    /// An answer to `body` that was sent (or due) at `begun`.
    #[must_use]
    pub fn new(request: usize, body: &Body, begun: Instant, errors_cut: bool) -> Reader {
        let answer = Answer { request, ..Answer::default() };
        Reader { answer, begun, stream: body.stream, errors_cut, rest: Vec::new(), ended: false }
    }

    /// The head of the answer.
    pub fn status(&mut self, status: u16) {
        self.answer.status = status;
    }

    /// Some bytes of the answer; false where nothing more is wanted.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        self.rest.extend_from_slice(bytes);
        if !self.stream || self.answer.status != 200 {
            return true;
        }
        let at = self.begun.elapsed().as_secs_f64();
        let rest = std::mem::take(&mut self.rest);
        let mut lines = rest.split(|&b| b == b'\n').peekable();
        while let Some(line) = lines.next() {
            if lines.peek().is_none() {
                self.rest = line.to_vec();
            } else if let Some(event) = line.strip_prefix(b"data:") {
                self.event(event.trim_ascii(), at);
            }
        }
        self.answer.error.is_none()
    }

    fn event(&mut self, event: &[u8], at: f64) {
        if event == b"[DONE]" {
            self.ended = true;
            return;
        }
        match serde_json::from_slice::<Chunk>(event) {
            Err(error) => self.fail(Failure::Malformed, &error.to_string()),
            Ok(Chunk { error: Some(error), .. }) => {
                if self.errors_cut && !self.answer.pieces.is_empty() {
                    let completion_tokens = self.answer.pieces.len() as u64;
                    self.answer.usage = Some(Usage { completion_tokens, ..Usage::default() });
                    self.answer.finish.iter_mut().for_each(|finish| *finish = Some("length".into()));
                    self.ended = true;
                } else {
                    self.fail(Failure::Event, &error.to_string());
                }
            }
            Ok(chunk) => self.chunk(chunk, at),
        }
    }

    fn chunk(&mut self, chunk: Chunk, at: f64) {
        self.answer.usage = chunk.usage.or(self.answer.usage);
        for choice in chunk.choices {
            if choice.index >= CHOICES {
                return self.fail(Failure::Malformed, "a choice out of range");
            }
            let count = self.answer.texts.len().max(choice.index + 1);
            self.answer.texts.resize(count, String::new());
            self.answer.finish.resize(count, None);
            let mut text = choice.text.unwrap_or_default();
            if let Some(delta) = choice.delta {
                text += &delta.content.unwrap_or_default();
                let calls = delta.tool_calls.unwrap_or_default().into_iter();
                text.extend(calls.filter_map(|call| call.function?.arguments));
            }
            if self.stream && !text.is_empty() {
                self.answer.pieces.push(at);
            }
            self.answer.texts[choice.index] += &text;
            if choice.finish_reason.is_some() {
                self.answer.finish[choice.index] = choice.finish_reason;
            }
        }
    }

    /// Something ended it.
    pub fn fail(&mut self, failure: Failure, message: &str) {
        self.answer.error.get_or_insert(failure);
        self.answer.message.get_or_insert(message.to_owned());
    }

    /// The end of the answer, or of the attempt.
    #[must_use]
    pub fn finish(mut self) -> Answer {
        self.answer.whole = self.begun.elapsed().as_secs_f64();
        if self.answer.error.is_none() {
            if self.answer.status != 200 {
                let message = String::from_utf8_lossy(&self.rest).into_owned();
                self.fail(Failure::Status, &message);
            } else if !self.stream {
                match serde_json::from_slice(&std::mem::take(&mut self.rest)) {
                    Ok(chunk) => self.chunk(chunk, 0.0),
                    Err(error) => self.fail(Failure::Malformed, &error.to_string()),
                }
            } else if !self.ended {
                self.fail(Failure::Dropped, "the stream ended before [DONE]");
            }
        }
        if self.answer.error.is_none() && self.answer.texts.is_empty() {
            self.fail(Failure::Malformed, "no choices");
        }
        self.answer.first = self.answer.pieces.first().copied();
        self.answer
    }
}

impl Answer {
    /// Whether some choice ended at `max_tokens`.
    #[must_use]
    pub fn cut(&self) -> bool {
        self.finish.iter().flatten().any(|finish| finish == "length")
    }

    /// Looks whether texts that finished are JSON, where `body` wanted JSON.
    pub fn check(&mut self, body: &Body) {
        if self.error.is_some() || !body.wants_json {
            return;
        }
        let finished = self.texts.iter().zip(&self.finish).filter(|(_, f)| f.as_deref() == Some("stop"));
        let mut valid = finished.map(|(text, _)| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
        self.valid_json = valid.next().map(|first| first && valid.all(|v| v));
    }

    /// Seconds per token after the first chunk, on average.
    #[must_use]
    pub fn per_token(&self) -> Option<f64> {
        let (first, last) = (self.first?, self.pieces.last()?);
        let tokens = self.usage?.completion_tokens;
        (tokens > 1).then(|| (last - first) / (tokens - 1) as f64)
    }
}
