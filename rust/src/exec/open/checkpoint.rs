//! Opens Hugging Face folders, which vLLM and TensorRT-LLM's LLM API take as they are.

use super::files::{json, sampled, vocab_beside};
use super::{Opened, info_of};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exec::Drafters;
use crate::exec::external::{self, Checkpoint};
use crate::vocab::Vocab;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a model of the Hugging Face format lies there, and nothing that another engine takes.
pub(super) fn is_target(target: &str) -> bool {
    let path = Path::new(target);
    path.join("config.json").is_file() && !path.join("model.gguf").is_file() && weights(path).is_some()
}

/// The first file of its weights.
fn weights(path: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(path).ok()?.filter_map(|file| Some(file.ok()?.path()));
    files.filter(|file| file.extension().is_some_and(|end| end == "safetensors")).min()
}

/// Tokens and longest context, as `config.json` says them; models of several parts have them one level down.
pub(super) fn described(target: &str) -> Result<(u32, u32)> {
    let file = Path::new(target).join("config.json");
    let json = json(&file)?;
    let get = |key: &str| {
        let found = json.get(key).or_else(|| json.get("text_config")?.get(key));
        let number = found.and_then(|number| u32::try_from(number.as_u64()?).ok());
        number.ok_or_else(|| Error::target(&file, format!("has no number {key}")))
    };
    Ok((get("vocab_size")?, get("max_position_embeddings")?))
}

pub(super) fn vocab(target: &str) -> Result<Arc<Vocab>> {
    vocab_beside(Path::new(target), described(target)?.0)
}

pub(super) fn open(target: &str, config: &Config) -> Result<Opened> {
    let draft = config.speculative.draft_model();
    if let Some(name) = draft.filter(|name| !is_target(name)) {
        let why = format!(
            "{name} is no Hugging Face folder, which the target is; give both as folders of one kind"
        );
        return Err(Error::invalid("draft", why));
    }
    let vocab = vocab(target)?;
    let (n_vocab, longest) = described(target)?;
    let most = if config.engine.context == 0 { longest } else { config.engine.context.min(longest) };
    let path = Path::new(target);
    let checkpoint = Checkpoint { path, draft, n_vocab, max_seq_len: most };
    let external::Opened { target: engine, lacks, summary } = external::open(&checkpoint, config)?;
    let beside = draft.map_or(String::new(), |name| format!("; draft {name}"));
    let mut info = info_of(engine.as_ref(), &vocab, config);
    info.limits.lacks = lacks;
    info.summary = format!("{summary}{beside}");
    info.weights = sampled(&weights(path).unwrap_or_else(|| path.join("config.json")))?;
    Ok(Opened { drafters: Drafters::default(), target: engine, vocab, info })
}
