//! Opens what lies in a folder or a `.gguf` file: model, vocabulary, end tokens.

use super::{Opened, drafters, info_of};
use crate::config::{self, Config};
use crate::error::{Error, Result};
use crate::exec::ranks::serve::RankOptions;
use crate::exec::sampled::Sampled;
use crate::exec::{Info, llama};
use crate::types::Token;
use crate::vocab::{Vocab, VocabOptions};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
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

    /// The vocabulary of the opened model.
    fn whole_vocab(&self, model: &llama::ModelInfo) -> Result<Arc<Vocab>> {
        let mut eog = self.end_tokens()?;
        eog.extend(&model.end_ids);
        let options = VocabOptions {
            n_vocab: Some(model.n_vocab),
            eog,
            bos: model.begin,
            add_bos: Some(model.add_begin),
        };
        self.vocab(&options)
    }

    /// The end tokens that generation_config.json names.
    fn end_tokens(&self) -> Result<Vec<Token>> {
        let Some(path) = &self.generation else { return Ok(Vec::new()) };
        let json: serde_json::Value = serde_json::from_slice(&read(path)?)
            .map_err(|e| broken(path, &format!("is not valid JSON: {e}")))?;
        let ids = match json.get("eos_token_id") {
            None | Some(serde_json::Value::Null) => return Ok(Vec::new()),
            Some(serde_json::Value::Array(ids)) => ids.clone(),
            Some(id) => vec![id.clone()],
        };
        let id = |v: &serde_json::Value| v.as_u64().and_then(|n| Token::try_from(n).ok());
        ids.iter()
            .map(|v| id(v).ok_or_else(|| broken(path, "has an eos_token_id that is no token id")))
            .collect()
    }

    /// The one tokenizer: tokenizer.json where there is one (it must agree with the model's own bytes), else the
    /// model's own vocabulary.
    fn vocab(&self, options: &VocabOptions) -> Result<Arc<Vocab>> {
        let tables = llama::gguf::read_tables(&self.gguf)?;
        let Some(path) = &self.tokenizer else {
            return Vocab::from_gguf_tables(&tables, options);
        };
        let vocab = Vocab::from_tokenizer_json(&read(path)?, options)?;
        vocab.check_same_bytes(&tables)?;
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

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| broken(path, &format!("cannot be read: {e}")))
}

fn broken(path: &Path, why: &str) -> Error {
    Error::invalid("target", format!("{} {why}", path.display()))
}

pub(super) fn check_model(target: &str) -> Result<()> {
    Files::find(target).map(|_| ())
}

pub(super) fn model_vocab(target: &str, info: &Info) -> Result<Arc<Vocab>> {
    let options = VocabOptions {
        n_vocab: Some(info.limits.n_vocab as usize),
        eog: info.eog.clone(),
        bos: info.begin,
        add_bos: Some(info.bos.is_some()),
    };
    Files::find(target)?.vocab(&options)
}

pub(super) fn serve_device(options: &RankOptions) -> Result<()> {
    llama::devices::serve(options).map_err(Error::Executor)
}

pub(super) fn open_model(target: &str, config: &Config) -> Result<Opened> {
    let files = Files::find(target)?;
    let draft = config.speculative.draft_model().map(|name| DraftFiles::find(name, config)).transpose()?;
    let beside = draft.as_ref().map(|d| llama::DraftFile { gguf: &d.files.gguf, config: &d.config });
    let llama::Opened { forward, info: model, draft: drafting } =
        llama::open(&files.gguf, config, beside.as_ref())?;
    let vocab = files.whole_vocab(&model)?;
    let drafting = drafting.map(|opened| *opened);
    if let (Some(draft), Some(opened)) = (&draft, &drafting) {
        vocab.check_draft(&*draft.files.whole_vocab(&opened.info).map_err(llama::of_draft)?)?;
    }
    let drafting = drafting.map(|opened| opened.forward);
    let mask_threads = config.engine.mask_threads.unwrap_or_else(|| spare_cores(&model));
    let judges = (model.threads + mask_threads) as usize;
    let target = Box::new(Sampled::new(forward, mask_threads as usize, judges, &config.speculative));
    let info = info_of(target.as_ref(), &vocab, config, false);
    let info = Info {
        plan: Some(model.plan),
        summary: model.summary,
        weights: sampled(&files.gguf).map_err(|e| broken(&files.gguf, &format!("cannot be read: {e}")))?,
        chat_template: model.chat_template,
        begin: model.begin,
        ..info
    };
    Ok(Opened { drafters: drafters(config, target.as_ref(), drafting, judges)?, target, vocab, info })
}

/// Blocks of a file that are sampled, and their bytes.
const SAMPLES: (u64, u64) = (64, 4096);

/// A hash (FNV-1a) of a file's length and of blocks spread over it: to read all of a large one would take too long.
fn sampled(path: &Path) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut take = |bytes: &[u8]| {
        bytes.iter().for_each(|b| hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    };
    take(&length.to_le_bytes());
    let (count, size) = SAMPLES;
    let mut block = Vec::new();
    for number in 0..count {
        file.seek(SeekFrom::Start(length.saturating_sub(size) / (count - 1) * number))?;
        block.clear();
        Read::by_ref(&mut file).take(size).read_to_end(&mut block)?;
        take(&block);
    }
    Ok(hash)
}

/// Cores that the engine's threads leave free; masks overlap the forward pass on those. A pass on GPUs leaves a core free
/// where there is only one, too.
fn spare_cores(model: &llama::ModelInfo) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    cores.saturating_sub(model.threads).max(u32::from(model.on_gpus))
}

#[cfg(test)]
mod tests {
    use super::sampled;

    #[test]
    fn other_weights_have_another_hash() {
        let path = std::env::temp_dir().join(format!("llgtrt-sampled-{}", std::process::id()));
        let hash = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            sampled(&path).unwrap()
        };
        let weights: Vec<u8> = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
        let other: Vec<u8> = weights.iter().map(|b| b ^ 1).collect();
        assert_eq!(hash(&weights), hash(&weights));
        let all = [hash(&weights), hash(&other), hash(&weights[1..]), hash(&[]), hash(b"short")];
        assert!(all.iter().enumerate().all(|(i, h)| !all[..i].contains(h)), "{all:?}");
        std::fs::remove_file(&path).unwrap();
    }
}
