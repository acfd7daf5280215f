//! Opens what lies in a folder or a `.gguf` file: model, vocabulary, end tokens.

use super::files::{end_tokens, read, sampled};
use super::{Opened, of_logits};
use crate::config::{self, Config};
use crate::error::{Error, Result};
use crate::exec::by_text::VocabPair;
use crate::exec::{Tell, llama};
use crate::vocab::{Vocab, VocabOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of a target's model: the target itself, or one in its engine folder.
pub(super) fn find(target: &str) -> Result<PathBuf> {
    let path = Path::new(target);
    let gguf = if path.is_file() { path.to_owned() } else { path.join("model.gguf") };
    if gguf.is_file() {
        return Ok(gguf);
    }
    let why = match path.is_dir() {
        true => "has no model.gguf; put the model there, or give the path of a .gguf file",
        false => "does not exist; give an engine folder or a .gguf file",
    };
    Err(Error::target(path, why))
}

/// Looks for the target's model, and whether it reaches the context that is asked for.
///
/// # Errors
/// As [`find`], and `Invalid` naming `engine.context`.
pub(super) fn check(target: &str, config: &Config) -> Result<()> {
    let gguf = find(target)?;
    if config.engine.context > 0 { llama::check_context(&gguf, &config.engine) } else { Ok(()) }
}

/// The vocabulary, before any weights are read.
///
/// One tokenizer: tokenizer.json where there is one (it must agree with the model's own bytes), else the model's own.
pub(super) fn vocab(target: &str) -> Result<Arc<Vocab>> {
    let (gguf, folder) = (find(target)?, Path::new(target));
    llama::file::read(&gguf)?;
    let own = llama::vocab::read(&gguf)?;
    let mut eog = end_tokens(&folder.join("generation_config.json"))?;
    eog.extend(&own.eog);
    let options =
        VocabOptions { n_vocab: Some(own.tokens.len()), eog, bos: own.bos, add_bos: Some(own.add_bos) };
    let file = folder.join("tokenizer.json");
    if !file.is_file() {
        return Vocab::from_gguf(own, &options);
    }
    let vocab = Vocab::from_tokenizer_json(&read(&file)?, &options)?;
    vocab.check_same_bytes(&own)?;
    Ok(vocab)
}

/// The file of a draft model, and its configuration: its folder's own `runtime.json` may say something about KV and threads.
fn find_draft(name: &str, config: &Config) -> Result<(PathBuf, Config)> {
    let gguf = find(name).map_err(llama::of_draft)?;
    let own = Path::new(name).join("runtime.json");
    let config = if own.is_file() { config::for_draft(config, &own)? } else { config.clone() };
    Ok((gguf, config))
}

pub(super) fn open(target: &str, config: &Config, tell: Tell<'_>) -> Result<Opened> {
    let gguf = find(target)?;
    let name = config.speculative.draft_model();
    let draft = name.map(|name| find_draft(name, config)).transpose()?;
    let vocab = vocab(target)?;
    let pair = |name| VocabPair::new(&vocab, self::vocab(name).map_err(llama::of_draft)?);
    let pair = name.map(pair).transpose()?.flatten();
    let draft = draft.as_ref().map(|(gguf, config)| (gguf.as_path(), config));
    let model = llama::open(&gguf, config, draft, tell)?;
    // Masks overlap the forward pass on cores that it leaves free: one at least where it is on GPUs.
    let spare = || {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        cores.saturating_sub(model.threads).max(u32::from(model.on_gpus))
    };
    let masks = config.engine.mask_threads.unwrap_or_else(spare);
    let computing = model.threads;
    let threads = ((computing + masks) as usize, masks as usize);
    let mut opened =
        of_logits((model.forward, model.draft.map(|draft| (draft, pair))), vocab, config, threads)?;
    opened.info.plan = Some(model.plan);
    opened.info.threads = computing;
    opened.info.summary = model.summary;
    opened.info.weights = sampled(&gguf)?;
    opened.info.chat_template = model.chat_template;
    opened.info.tool_use_template = model.tool_use_template;
    opened.info.rag_template = model.rag_template;
    Ok(opened)
}
