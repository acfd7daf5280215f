//! What is being done while an engine is opened, for those who wait for it.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

/// Hears a line about it.
pub type Tell<'a> = &'a dyn Fn(String);

/// Two lines about one file are this far apart, and differ by this share of it: few files are told of more than once.
const APART: (Duration, f32) = (Duration::from_millis(500), 0.05);

/// Tells how much of a file has been read.
pub struct Reading<'a> {
    tell: Tell<'a>,
    what: String,
    told: Cell<(Instant, f32)>,
}

impl<'a> Reading<'a> {
    /// Tells that reading this file begins.
    pub fn new(name: &str, file: &Path, tell: Tell<'a>) -> Self {
        let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
        let what = format!("{name}, {}, {} MiB", file.display(), bytes.div_ceil(1 << 20));
        let reading = Reading { tell, what, told: Cell::new((Instant::now(), 0.0)) };
        reading.say(0.0);
        reading
    }

    /// Takes in that this share has been read, from 0 to 1.
    pub fn at(&self, share: f32) {
        let (when, before) = self.told.get();
        if when.elapsed() >= APART.0 && share >= before + APART.1 {
            self.told.set((Instant::now(), share));
            self.say(share);
        }
    }

    fn say(&self, share: f32) {
        (self.tell)(format!("reading {}: {:.0}%", self.what, 100.0 * share));
    }
}
