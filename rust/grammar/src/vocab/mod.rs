//! The one tokenizer: text to ids, ids to bytes, the trie that masks are computed on, the end tokens.
//!
//! A vocabulary need not have a token for every byte: a text that needs such a byte cannot be generated, so masks leave it
//! out, and a prompt loses the byte, as in llama.cpp.
//!
//! A [`Vocab`] comes from a `tokenizer.json` or from a GGUF. Either way text becomes the ids that
//! llama.cpp would give it, with two wanted differences: the text of special tokens is recognised only in the parts
//! that a template wrote, and no text of a user can become a special token.

mod added;
mod bytes;
mod encoder;
mod gguf;
mod json;
mod listed;
mod pre;
mod spm;

pub use encoder::TextEncoder;
pub use gguf::{GgufEncoder, GgufKind, GgufToken, GgufVocab, cuts_text};

use crate::error::{Error, Result};
use crate::types::Token;
use added::AddedToken;
use encoder::{Encoder, Model};
use std::sync::Arc;
use toktrie::{TokEnv, TokRxInfo, TokTrie};

/// Longest token that the trie holds, in bytes; a longer one is never allowed under a grammar.
const LONGEST_IN_TRIE: usize = 1023;
/// Most bytes that all tokens together may have: more could be too many nodes for the trie.
const MOST_BYTES: usize = (1 << 22) - 1;

/// What a vocabulary file does not say by itself.
#[derive(Debug, Clone, Default)]
pub struct VocabOptions {
    /// Width of a logits row; ids above the file's own are unused. None: as many as the file has.
    pub n_vocab: Option<usize>,
    /// End-of-generation ids: the model's and generation_config's, in any order and with repeats. The first one's text
    /// is the template's `eos_token`.
    pub eog: Vec<Token>,
    /// The begin-of-sequence token.
    pub bos: Option<Token>,
    /// Whether `bos` goes before every prompt. None: as the GGUF says, and not for a tokenizer.json.
    pub add_bos: Option<bool>,
}

/// What an id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ordinary text.
    Text,
    /// A token of the form `<…>` that adds its text to the output, but that only a grammar's `<…>` may ask for.
    Marked,
    /// Control: adds nothing to the text.
    Special,
    /// Has no meaning; empty.
    Unused,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Marked => "marked text",
            Kind::Special => "a special token",
            Kind::Unused => "unused",
        }
    }
}

/// One id's bytes and kind.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    bytes: Vec<u8>,
    kind: Kind,
}

impl Word {
    const UNUSED: Word = Word { bytes: Vec::new(), kind: Kind::Unused };

    fn text(bytes: Vec<u8>) -> Word {
        Word { bytes, kind: Kind::Text }
    }

    /// A token that stands for its own text; `special` ones add nothing to the output.
    fn literal(text: &str, special: bool) -> Word {
        let marked = text.starts_with('<') && text.ends_with('>');
        let kind = match (special, marked) {
            (true, _) => Kind::Special,
            (false, true) => Kind::Marked,
            (false, false) => Kind::Text,
        };
        Word { bytes: text.as_bytes().to_vec(), kind }
    }

    /// As llguidance wants it: tokens that only a grammar's `<…>` may ask for begin with the marker byte.
    fn in_trie(&self) -> Vec<u8> {
        let mut bytes = match self.kind {
            Kind::Text => self.bytes.clone(),
            Kind::Marked | Kind::Special => [&[TokTrie::SPECIAL_TOKEN_MARKER][..], &self.bytes].concat(),
            Kind::Unused => Vec::new(),
        };
        if bytes.len() > LONGEST_IN_TRIE {
            bytes.clear();
        }
        bytes
    }
}

/// What a file gave.
pub(crate) struct Loaded {
    words: Vec<Word>,
    added: Vec<AddedToken>,
    model: Model,
}

/// A vocabulary and how to encode with it. Cheap to share (`Arc`), never changed after it is built.
pub struct Vocab {
    words: Vec<Word>,
    eog: Vec<Token>,
    eos: Token,
    bos: Option<Token>,
    add_bos: bool,
    encoder: Arc<Encoder>,
    env: TokEnv,
}

impl std::fmt::Debug for Vocab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocab").field("len", &self.len()).field("eog", &self.eog).finish_non_exhaustive()
    }
}

impl Vocab {
    /// Bytes 0..=255 as tokens 0..=255, a few merged pairs, and the specials of ChatML; for the weightless engine.
    ///
    /// # Errors
    /// None.
    pub fn toy() -> Result<Arc<Vocab>> {
        let mut words: Vec<Word> = (0..=255u8).map(|b| Word::text(vec![b])).collect();
        for w in ["{\"", "\":", "\", \"", "true", "false", "null", "\"}", " the", "ing"] {
            words.push(Word::text(w.as_bytes().to_vec()));
        }
        let mut added = Vec::new();
        for w in ["<|im_start|>", "<|im_end|>", "<|endoftext|>"] {
            added.push(AddedToken::new(words.len() as Token, w));
            words.push(Word::literal(w, true));
        }
        let n = words.len() as Token;
        let options = VocabOptions { eog: vec![n - 2, n - 1], ..VocabOptions::default() };
        Self::build(Loaded { words, added, model: Model::Greedy }, &options)
    }

    /// From the bytes of a Hugging Face `tokenizer.json` with a byte-level or byte-fallback model.
    ///
    /// A canonical Unicode normaliser (NFC, NFD) is left out: llama.cpp has none, and text must survive as it was
    /// written.
    ///
    /// # Errors
    /// `Invalid` of "tokenizer.json" where the file is damaged or of another kind, or has more ids than logits;
    /// of "generation_config.json" without end tokens.
    pub fn from_tokenizer_json(json: &[u8], options: &VocabOptions) -> Result<Arc<Vocab>> {
        Self::build(json::load(json)?, options)
    }

    /// From a GGUF. Its own end tokens come first, then those of `options`; `options.bos` and `options.add_bos` override
    /// its own.
    ///
    /// # Errors
    /// `Invalid` of "model.gguf" where its byte pairs contradict each other or the pre-tokenizer is unknown; of "tokenizer"
    /// where there are more ids than logits.
    pub fn from_gguf(gguf: GgufVocab, options: &VocabOptions) -> Result<Arc<Vocab>> {
        let options = VocabOptions {
            n_vocab: options.n_vocab,
            eog: [gguf.eog.clone(), options.eog.clone()].concat(),
            bos: options.bos.or(gguf.bos),
            add_bos: options.add_bos.or(Some(gguf.add_bos)),
        };
        Self::build(gguf.load()?, &options)
    }

    fn build(loaded: Loaded, options: &VocabOptions) -> Result<Arc<Vocab>> {
        let Loaded { mut words, added, model } = loaded;
        let n = options.n_vocab.unwrap_or(words.len());
        if n < words.len() {
            let why = format!(
                "has {} token ids, but the model has logits for {n}; they belong to different models",
                words.len()
            );
            return Err(Error::invalid("tokenizer", why));
        }
        words.resize(n, Word::UNUSED);
        let mut eog = options.eog.clone();
        let eos = *eog.first().ok_or_else(|| {
            let why = "no end token is known: put the model as model.gguf into a folder of its own, a \
                       generation_config.json with eos_token_id beside it, and give the folder";
            Error::invalid("generation_config.json", why)
        })?;
        if let Some(id) = eog.iter().chain(&options.bos).find(|id| **id as usize >= n) {
            return Err(Error::invalid("generation_config.json", format!("token id {id} is not below {n}")));
        }
        eog.sort_unstable();
        eog.dedup();
        let trie = trie(&words, &eog)?;
        let encoder = Arc::new(Encoder::new(trie, model, added, &words)?);
        let env: TokEnv = Arc::clone(&encoder) as TokEnv;
        let add_bos = options.add_bos.unwrap_or(false);
        Ok(Arc::new(Vocab { words, eog, eos, bos: options.bos, add_bos, encoder, env }))
    }

    /// Number of ids; equals the width of a logits row (unused ids included).
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Never true: a vocabulary has at least its bytes.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The bytes that a token stands for in text. Special tokens: their written form, e.g. `<|im_end|>`.
    pub fn bytes(&self, token: Token) -> &[u8] {
        self.words.get(token as usize).map_or(&[], |w| &w.bytes)
    }

    /// Bytes of the longest token.
    pub fn longest(&self) -> usize {
        self.words.iter().map(|w| w.bytes.len()).max().unwrap_or(0)
    }

    /// Whether the token is special (control, or unused): it adds nothing to the text.
    pub fn is_special(&self, token: Token) -> bool {
        self.words.get(token as usize).is_none_or(|w| matches!(w.kind, Kind::Special | Kind::Unused))
    }

    /// Whether only a grammar's `<…>` may ask for the token: its text is no way to write it.
    pub fn is_marked(&self, token: Token) -> bool {
        self.words.get(token as usize).is_some_and(|w| matches!(w.kind, Kind::Special | Kind::Marked))
    }

    /// All end-of-generation ids, ascending: the model's and generation_config's.
    pub fn eog(&self) -> &[Token] {
        &self.eog
    }

    /// Whether the token is white space and nothing else.
    pub(crate) fn is_blank(&self, token: Token) -> bool {
        let bytes = self.bytes(token);
        !bytes.is_empty() && bytes.iter().all(u8::is_ascii_whitespace)
    }

    /// Whether the token ends a generation.
    pub fn is_eog(&self, token: Token) -> bool {
        self.eog.binary_search(&token).is_ok()
    }

    /// The begin-of-sequence token, which templates may write.
    pub fn begin(&self) -> Option<Token> {
        self.bos
    }

    /// The begin-of-sequence token to put before a prompt, if the model wants one.
    pub fn bos(&self) -> Option<Token> {
        self.bos.filter(|_| self.add_bos)
    }

    /// The written form of the end token, for templates (`eos_token`).
    pub fn eos_text(&self) -> String {
        String::from_utf8_lossy(self.bytes(self.eos)).into_owned()
    }

    /// The written form of the begin token, for templates (`bos_token`); empty if there is none.
    pub fn bos_text(&self) -> String {
        self.bos.map_or_else(String::new, |b| String::from_utf8_lossy(self.bytes(b)).into_owned())
    }

    /// Encodes the parts' concatenation. The text of special tokens becomes those tokens only inside parts whose flag
    /// is true; elsewhere it is plain text. No begin-of-sequence token is added.
    ///
    /// # Errors
    /// None for valid UTF-8 with the shipped tokenizers.
    pub fn encode(&self, parts: &[(&str, bool)]) -> Result<Vec<Token>> {
        let mut text = String::with_capacity(parts.iter().map(|p| p.0.len()).sum());
        let mut templates: Vec<std::ops::Range<usize>> = Vec::new();
        for (part, template) in parts {
            let start = text.len();
            text.push_str(part);
            match templates.last_mut() {
                Some(last) if *template && last.end == start => last.end = text.len(),
                _ if *template => templates.push(start..text.len()),
                _ => {}
            }
        }
        let tokens = self.encoder.encode(&text, &templates)?;
        if tokens.iter().any(|t| *t as usize >= self.len()) {
            return Err(Error::invalid("prompt", "cannot be encoded"));
        }
        Ok(tokens)
    }

    /// The text bytes of the tokens; special tokens add nothing.
    pub fn decode(&self, tokens: &[Token]) -> Vec<u8> {
        tokens.iter().filter(|t| !self.is_special(**t)).flat_map(|t| self.bytes(*t)).copied().collect()
    }

    /// What llguidance computes masks on. Its encoding is canonical; it gives no special tokens for text.
    pub fn tok_env(&self) -> &TokEnv {
        &self.env
    }

    /// Whether a GGUF means the same bytes for every id. Ids that are unused on either side agree with unused.
    ///
    /// # Errors
    /// `Invalid` of "tokenizer.json" that names the first id that differs and both texts.
    pub fn check_same_bytes(&self, other: &GgufVocab) -> Result<()> {
        let theirs = other.words();
        let unused = Word::UNUSED;
        for id in 0..self.len().max(theirs.len()) {
            let mine = self.words.get(id).unwrap_or(&unused);
            let their = theirs.get(id).unwrap_or(&unused);
            if mine.bytes != their.bytes && (mine.kind != Kind::Unused || their.kind != Kind::Unused) {
                let text = |w: &Word| {
                    if w.bytes.is_empty() {
                        "unused".to_owned()
                    } else {
                        format!("\"{}\"", w.bytes.escape_ascii())
                    }
                };
                let why = format!(
                    "token {id} is {} here but {} in model.gguf: the files belong to different models",
                    text(mine),
                    text(their)
                );
                return Err(Error::invalid("tokenizer.json", why));
            }
        }
        Ok(())
    }
}

impl Vocab {
    /// Checks a draft model's vocabulary against this one, the target's. Ids that one side lacks must be unused on the
    /// other.
    ///
    /// # Errors
    /// `Invalid` of "draft" that names the first id whose bytes or kind differ.
    pub fn check_draft(&self, draft: &Vocab) -> Result<()> {
        let unused = Word::UNUSED;
        for id in 0..self.len().max(draft.len()) {
            let [mine, their] = [self, draft].map(|vocab| vocab.words.get(id).unwrap_or(&unused));
            if mine.kind == their.kind && mine.bytes == their.bytes {
                continue;
            }
            let text = |word: &Word| format!("{} \"{}\"", word.kind.words(), word.bytes.escape_ascii());
            let why = format!(
                "token {id} is {} in the draft model but {} in the target; give a draft model with the target's \
                 vocabulary",
                text(their),
                text(mine)
            );
            return Err(Error::invalid("draft", why));
        }
        Ok(())
    }
}

fn trie(words: &[Word], eog: &[Token]) -> Result<TokTrie> {
    let in_trie: Vec<Vec<u8>> = words.iter().map(Word::in_trie).collect();
    if words.len() >= 1 << 22 || in_trie.iter().map(Vec::len).sum::<usize>() > MOST_BYTES {
        return Err(Error::invalid("tokenizer", "the vocabulary is too large"));
    }
    Ok(TokTrie::from(&TokRxInfo::new(words.len() as u32, eog[0]), &in_trie).with_eos_tokens(eog))
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
