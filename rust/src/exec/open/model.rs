//! Opens what lies in a folder or a `.gguf` file: model, vocabulary, end tokens.

use super::files::{broken, end_tokens, read, sampled};
use super::{Opened, draft_model, drafters, info_of};
use crate::config::{self, Config};
use crate::error::{Error, Result};
use crate::exec::helpers::Helpers;
use crate::exec::progress::Tell;
use crate::exec::sampled::Sampled;
use crate::exec::{Info, llama};
use crate::vocab::{Vocab, VocabOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a target.
struct Files {
    gguf: PathBuf,
    /// Beside the model in an engine folder.
    tokenizer: Option<PathBuf>,
    generation: Option<PathBuf>,
}

impl Files {
    fn find(target: &str) -> Result<Files> {
        let path = Path::new(target);
        let wrong = |why: &str| Err(Error::invalid("target", format!("{target} {why}")));
        if path.is_file() {
            return Ok(Files { gguf: path.to_owned(), tokenizer: None, generation: None });
        }
        if !path.is_dir() {
            return wrong("does not exist; give an engine folder or a .gguf file");
        }
        let gguf = path.join("model.gguf");
        if !gguf.is_file() {
            return wrong("has no model.gguf; put the model there, or give the path of a .gguf file");
        }
        let beside = |name: &str| Some(path.join(name)).filter(|p| p.is_file());
        Ok(Files { gguf, tokenizer: beside("tokenizer.json"), generation: beside("generation_config.json") })
    }

    /// The vocabulary, before any weights are read.
    ///
    /// One tokenizer: tokenizer.json where there is one (it must agree with the model's own bytes), else the model's own.
    fn vocab(&self) -> Result<Arc<Vocab>> {
        llama::check(&self.gguf)?;
        let own = llama::vocab::read(&self.gguf)?;
        let mut eog = self.generation.as_deref().map_or_else(|| Ok(Vec::new()), end_tokens)?;
        eog.extend(&own.eog);
        let options =
            VocabOptions { n_vocab: Some(own.tokens.len()), eog, bos: own.bos, add_bos: Some(own.add_bos) };
        let Some(path) = &self.tokenizer else {
            return Vocab::from_gguf(own, &options);
        };
        let vocab = Vocab::from_tokenizer_json(&read(path)?, &options)?;
        vocab.check_same_bytes(&own)?;
        Ok(vocab)
    }
}

/// The files of a draft model, and its configuration.
struct DraftFiles {
    files: Files,
    config: Config,
}

impl DraftFiles {
    /// The folder's own `runtime.json` may say something about KV and threads.
    fn find(name: &str, config: &Config) -> Result<DraftFiles> {
        let files = Files::find(name).map_err(llama::of_draft)?;
        let own = Path::new(name).join("runtime.json");
        let config = match own.is_file() {
            true => config::for_draft(config, &own)?,
            false => config.clone(),
        };
        Ok(DraftFiles { files, config })
    }
}

pub(super) fn check_model(target: &str) -> Result<()> {
    Files::find(target).map(|_| ())
}

pub(super) fn model_vocab(target: &str) -> Result<Arc<Vocab>> {
    Files::find(target)?.vocab()
}

pub(super) fn open_model(target: &str, config: &Config, tell: Tell<'_>) -> Result<Opened> {
    let files = Files::find(target)?;
    let draft = config.speculative.draft_model().map(|name| DraftFiles::find(name, config)).transpose()?;
    let beside = draft.as_ref().map(|d| llama::ModelFile { gguf: &d.files.gguf, config: &d.config });
    let vocab = files.vocab()?;
    if let Some(draft) = &draft {
        vocab.check_draft(&*draft.files.vocab().map_err(llama::of_draft)?)?;
    }
    let llama::Opened { forward, info: model, draft: drafting } =
        llama::open(&files.gguf, config, beside.as_ref(), tell)?;
    let drafting = drafting.map(|opened| *opened);
    let mask_threads = config.engine.mask_threads.unwrap_or_else(|| spare_cores(&model));
    let helpers = Helpers::new((model.threads + mask_threads) as usize);
    let threads = mask_threads as usize;
    let target = Box::new(Sampled::new(forward, threads, Arc::clone(&helpers), &config.speculative));
    let info = info_of(target.as_ref(), &vocab, config, false);
    let info = Info {
        plan: Some(model.plan),
        summary: model.summary,
        weights: sampled(&files.gguf).map_err(|e| broken(&files.gguf, &format!("cannot be read: {e}")))?,
        chat_template: model.chat_template,
        ..info
    };
    let drafting = drafting.map(|opened| draft_model(opened.forward, target.as_ref(), config, &helpers));
    Ok(Opened { drafters: drafters(config, target.as_ref(), drafting, &helpers)?, target, vocab, info })
}

/// Cores that the engine's threads leave free; masks overlap the forward pass on those. A pass on GPUs leaves a core free
/// where there is only one, too.
fn spare_cores(model: &llama::ModelInfo) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    cores.saturating_sub(model.threads).max(u32::from(model.on_gpus))
}
