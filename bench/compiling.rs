//! A compiler to measure, whose answers are waited for.

use llgtrt::config::GrammarConfig;
use llgtrt::grammar::{Compiler, Grammar, GrammarSpec};
use llgtrt::vocab::Vocab;
use std::error::Error;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

/// The core's compiler, on its own threads, and the channel by which it says that something is compiled.
pub(crate) struct Core(Compiler, Receiver<()>);

impl Core {
    /// With the default settings.
    pub(crate) fn new(vocab: &Arc<Vocab>) -> Result<Core, Box<dyn Error>> {
        let (sender, woken) = channel();
        let sender = Mutex::new(sender);
        let wake = Arc::new(move || {
            // Nobody listens any more where sending fails.
            let _ = sender.lock().map(|sender| sender.send(()));
        });
        Ok(Core(Compiler::new(vocab.clone(), &GrammarConfig::default(), 1, wake)?, woken))
    }

    /// The constraint at its beginning.
    pub(crate) fn compile(&self, spec: &GrammarSpec) -> Result<Grammar, Box<dyn Error>> {
        let mut handle = self.0.compile(spec, 0);
        loop {
            if let Some(result) = handle.poll() {
                return Ok(result?.begin());
            }
            self.1.recv()?;
        }
    }
}
