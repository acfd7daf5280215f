//! The core's log on standard error. Its lines have the format of the server's (`python/llgtrt/logs.py`).

use env_logger::fmt::Formatter;
use log::Record;
use std::env;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

static AS_JSON: AtomicBool = AtomicBool::new(false);

#[derive(serde::Serialize)]
struct Line<'a> {
    time: String,
    level: &'a str,
    logger: &'a str,
    message: String,
}

/// Begins to log, as much as `LLGTRT_LOG` says (`debug`, `info`, `warn`, …). With `json` in `LLGTRT_LOG_FORMAT`, lines are JSON.
pub(super) fn begin() {
    if env::var("LLGTRT_LOG_FORMAT").is_ok_and(|format| format == "json") {
        as_json();
    }
    let env = env_logger::Env::new().filter_or("LLGTRT_LOG", "info");
    // A second call finds the logger installed, which is all that it wants.
    let _ = env_logger::Builder::from_env(env).format(write).try_init();
}

/// Lines are JSON from now on.
pub(super) fn as_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

fn write(out: &mut Formatter, record: &Record<'_>) -> io::Result<()> {
    let time = humantime::format_rfc3339_millis(SystemTime::now());
    let (level, logger) = (record.level().as_str(), record.target());
    if !AS_JSON.load(Ordering::Relaxed) {
        return writeln!(out, "{time} {level} {logger}: {}", record.args());
    }
    let line = Line { time: time.to_string(), level, logger, message: record.args().to_string() };
    writeln!(out, "{}", serde_json::to_string(&line)?)
}
