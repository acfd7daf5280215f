//! What the tests of this folder share.

use flate2::read::GzDecoder;
use llgtrt::config::{GrammarConfig, KeyOrder, UndeclaredKeys};
use llgtrt::error::Result;
use llgtrt::grammar::{CompileHandle, Compiler, Grammar, GrammarSpec};
use llgtrt::types::Token;
use llgtrt::vocab::Vocab;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Schema, texts that satisfy it, texts that do not.
pub type Row = (serde_json::Value, &'static [&'static str], &'static [&'static str]);

/// Schemas by their letter: objects are open, their keys come in the order of the schema. However slow the machine is.
pub fn by_the_letter() -> GrammarConfig {
    GrammarConfig {
        key_order: KeyOrder::Schema,
        undeclared_keys: UndeclaredKeys::Schema,
        compile_seconds: 600.0,
        ..Default::default()
    }
}

/// A compiler on the toy vocabulary, and the bell that it rings.
pub struct Bench {
    pub vocab: Arc<Vocab>,
    pub compiler: Compiler,
    bell: Receiver<()>,
}

impl Bench {
    pub fn new() -> Self {
        Self::knowing(&BTreeMap::new())
    }

    /// With these documents, files by URI.
    pub fn knowing(documents: &BTreeMap<String, String>) -> Self {
        let documents = documents.clone();
        Self::with(&GrammarConfig { documents, ..by_the_letter() })
    }

    pub fn with(config: &GrammarConfig) -> Self {
        Self::running(config, 1)
    }

    /// For so many sequences at a time.
    pub fn running(config: &GrammarConfig, running: usize) -> Self {
        Self::of(Vocab::toy().unwrap(), config, running)
    }

    /// Over another vocabulary.
    pub fn of(vocab: Arc<Vocab>, config: &GrammarConfig, running: usize) -> Self {
        let (ring, bell) = channel();
        let ring = Mutex::new(ring);
        // The bench may be gone when a late compilation ends.
        let wake = Arc::new(move || {
            let _ = ring.lock().unwrap().send(());
        });
        let compiler = Compiler::new(Arc::clone(&vocab), config, running, wake).unwrap();
        Bench { vocab, compiler, bell }
    }

    pub fn wait(&self, handle: &mut CompileHandle) -> Result<Grammar> {
        loop {
            if let Some(result) = handle.poll() {
                return result.map(|compiled| compiled.begin());
            }
            // A compilation that rings no bell would hang here, and fails instead.
            self.bell.recv_timeout(Duration::from_secs(300)).expect("a compilation rings the bell");
        }
    }

    pub fn compile(&self, spec: &GrammarSpec) -> Result<Grammar> {
        self.wait(&mut self.compiler.compile(spec, 0))
    }

    pub fn schema(&self, schema: &serde_json::Value) -> Result<Grammar> {
        self.compile(&GrammarSpec::JsonSchema(schema.to_string()))
    }

    /// Whether the text can be generated, and maybe more: at each place the longest token that the mask allows is taken.
    pub fn begins(&self, grammar: &mut Grammar, text: &str) -> Result<bool> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let next = grammar.mask()?;
            let mask = next.mask().expect("a mask where a grammar holds");
            let fits = |t: &Token| !self.vocab.bytes(*t).is_empty() && rest.starts_with(self.vocab.bytes(*t));
            let next = mask.iter().filter(|t| !self.vocab.is_special(*t)).filter(fits);
            let Some(next) = next.max_by_key(|t| self.vocab.bytes(*t).len()) else { return Ok(false) };
            grammar.commit(next)?;
            rest = &rest[self.vocab.bytes(next).len()..];
        }
        Ok(true)
    }

    /// Whether the output may end here.
    pub fn may_end(&self, grammar: &mut Grammar) -> Result<bool> {
        let mask = grammar.mask()?;
        let may_end = self.vocab.eog().iter().filter(|t| mask.allows(**t)).count();
        assert!(may_end == 0 || may_end == self.vocab.eog().len(), "all end tokens or none");
        Ok(may_end > 0)
    }

    /// Whether the text can be generated whole.
    pub fn accepts(&self, grammar: &mut Grammar, text: &str) -> Result<bool> {
        Ok(self.begins(grammar, text)? && self.may_end(grammar)?)
    }

    /// Holds schemas to what they take.
    pub fn check(&self, rows: &[Row]) {
        for (schema, yes, no) in rows {
            let grammar = self.schema(schema).unwrap_or_else(|e| panic!("{schema}: {e}"));
            for (texts, expected) in [(yes, true), (no, false)] {
                for text in *texts {
                    let taken = self.accepts(&mut grammar.restart(), text);
                    assert_eq!(taken.ok(), Some(expected), "{text} in {schema}");
                }
            }
        }
    }

    /// Whether a text satisfies a schema that compiles.
    pub fn satisfies(&self, schema: &serde_json::Value, text: &str) -> bool {
        let mut grammar = self.schema(schema).unwrap();
        self.accepts(&mut grammar, text).unwrap()
    }
}

/// A small generator, seeded by the test.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `below`.
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// A file of the shared test data, unpacked if it is packed; None, with a word on stderr, where there is none.
pub fn data(name: &str) -> Option<String> {
    let root = std::env::var("LLGTRT_DATA")
        .map_or_else(|_| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let Ok(mut file) = std::fs::File::open(root.join(name)) else {
        eprintln!("skipped: no data ({name})");
        return None;
    };
    let mut text = String::new();
    let read = if name.ends_with(".gz") {
        GzDecoder::new(file).read_to_string(&mut text)
    } else {
        file.read_to_string(&mut text)
    };
    read.unwrap();
    Some(text)
}
