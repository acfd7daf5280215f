//! Opens engine folders of TensorRT-LLM: checks, vocabulary, facts.

use super::files::{sampled, vocab_beside};
use super::{Opened, drafters, info_of};
use crate::config::{self, Config};
use crate::error::{Error, Result};
use crate::exec::Info;
use crate::exec::helpers::Helpers;
use crate::exec::trtllm::folder::{Folder, is_engine};
use crate::exec::trtllm::{self, Pair};
use crate::vocab::Vocab;
use std::path::Path;
use std::sync::Arc;

/// The folders of a target and its draft model, and the draft's configuration.
struct Folders {
    target: Folder,
    draft: Option<(Folder, Config)>,
}

impl Folders {
    fn find(target: &str, config: &Config) -> Result<Folders> {
        let folder = Folder::open("target", Path::new(target))?;
        let draft = config.speculative.draft_model().map(|name| draft(name, config)).transpose()?;
        if config.speculative.mlp_speculator().is_some() {
            let why =
                "TensorRT-LLM gives no hidden states to draft from; give an engine folder as the draft model";
            return Err(Error::invalid("speculative.mlp_speculator", why));
        }
        folder.check_pair(draft.as_ref().map(|(folder, _)| folder), config)?;
        Ok(Folders { target: folder, draft })
    }

    fn pair(&self) -> Pair<'_> {
        Pair { target: &self.target, draft: self.draft.as_ref().map(|(folder, config)| (folder, config)) }
    }
}

fn draft(name: &str, config: &Config) -> Result<(Folder, Config)> {
    let path = Path::new(name);
    if !is_engine(path) {
        let why = format!(
            "{name} holds no engine of TensorRT-LLM, which the target is; build one with llgtrt build --engine trtllm \
             --role draft"
        );
        return Err(Error::invalid("draft", why));
    }
    let own = path.join("runtime.json");
    let config = if own.is_file() { config::for_draft(config, &own)? } else { config.clone() };
    Ok((Folder::open("draft", path)?, config))
}

/// Whether the target is such a folder.
pub(super) fn is_target(target: &str) -> bool {
    is_engine(Path::new(target))
}

pub(super) fn check(target: &str) -> Result<()> {
    Folder::open("target", Path::new(target)).map(|_| ())
}

/// The vocabulary of the folder's tokenizer.json; `info`: what is known of it already.
pub(super) fn vocab(target: &str) -> Result<Arc<Vocab>> {
    let path = Path::new(target);
    let file = path.join("tokenizer.json");
    if !file.is_file() {
        let why =
            "there is none beside the engine; copy it there from the model that the engine was built from";
        return Err(Error::target(&file, why));
    }
    vocab_beside(path, Folder::open("target", path)?.n_vocab)
}

/// Opens the target and its draft model on the rank that leads.
pub(super) fn open(target: &str, config: &Config) -> Result<Opened> {
    let folders = Folders::find(target, config)?;
    let vocab = vocab(target)?;
    if let Some((draft, _)) = &folders.draft
        && draft.path.join("tokenizer.json").is_file()
    {
        vocab.check_draft(&*self::vocab(&draft.path.to_string_lossy())?)?;
    }
    let pair = folders.pair();
    let trtllm::Opened { target: engine, drafter, lacks } = trtllm::open(&pair, config)?;
    let mut effective = config.clone();
    effective.speculative.sources = Some(trtllm::sources(&pair, config));
    // Its rows depend on the drafts beside them, and so would answers on earlier ones.
    effective.speculative.prompt_lookup.history_tokens = 0;
    let info = info_of(engine.as_ref(), &vocab, config);
    let mut limits = info.limits;
    limits.max_prompt = limits.max_prompt.min(folders.target.max_input_len);
    limits.lacks = lacks;
    let engines = folders.target.path.join("rank0.engine");
    let info = Info { limits, summary: summary(&folders, config), weights: sampled(&engines)?, ..info };
    let drafters = drafters(&effective, engine.as_ref(), drafter, &Helpers::new(1))?;
    Ok(Opened { drafters, target: engine, vocab, info })
}

/// Computes on a rank that does not lead, until the leader ends.
pub(super) fn follow(target: &str, config: &Config) -> Result<()> {
    let folders = Folders::find(target, config)?;
    let rank = trtllm::rank(&folders.target)?;
    log::info!("rank {rank} computes for rank 0");
    trtllm::follow(&folders.pair(), config, rank)
}

fn summary(folders: &Folders, config: &Config) -> String {
    let one = |what: &str, folder: &Folder| {
        let Folder { architecture, version, ranks, .. } = folder;
        format!("{what} {architecture} on {ranks} rank(s), built by release {version}")
    };
    let mode = if config.trtllm.orchestrator { "orchestrator" } else { "leader" };
    let draft = folders.draft.as_ref().map(|(draft, _)| format!("; {}", one("draft", draft)));
    let target = one("target", &folders.target);
    format!("TensorRT-LLM in {mode} mode: {target}{}", draft.unwrap_or_default())
}
