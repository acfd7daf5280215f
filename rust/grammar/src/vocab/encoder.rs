//! Text to ids: added tokens first, then the model on what is between them.

use super::added::{AddedToken, Cut, Finder, gaps};
use super::spm::Spm;
use super::{Kind, Word};
use crate::error::{Error, Result};
use crate::types::Token;
use std::ops::Range;
use tokenizers::normalizer::Range as TextRange;
use tokenizers::{Model as _, Normalizer as _, OffsetType, PreTokenizedString, PreTokenizer as _, Tokenizer};
use toktrie::{TokTrie, TokenizerEnv};

/// A character that no merge has: with it in front, the text behind is encoded as inside a text.
const SENTINEL: &str = "\u{2}";

/// Turns plain text into ids. An error is the reason why it cannot be encoded, as what is said of a prompt.
pub type TextEncoder = Box<dyn Fn(&str) -> Result<Vec<Token>, String> + Send + Sync>;

/// What turns a piece of text into ids.
pub(super) enum Model {
    /// A pipeline of normaliser, pre-tokenizer and model without added tokens.
    Pipeline(Box<Tokenizer>),
    /// SentencePiece by scores.
    Spm(Spm),
    /// The engine's library, and its token for text that has none.
    Library(TextEncoder, Option<Token>),
    /// The longest token at each place.
    Greedy,
    /// The same, where the model's own way is not known.
    Unknown,
}

/// Encodes prompts, and forced text for grammars.
pub(super) struct Encoder {
    trie: TokTrie,
    model: Model,
    /// Found in what a template wrote.
    special: Finder,
    /// Found everywhere in prompts.
    literal: Finder,
    /// Found in a grammar's text: those of `literal` that masks treat as text.
    text: Finder,
}

impl Encoder {
    pub(super) fn new(trie: TokTrie, model: Model, added: Vec<AddedToken>, words: &[Word]) -> Result<Self> {
        let of = |kinds: &[Kind]| {
            Finder::new(
                added.iter().filter(|t| kinds.contains(&words[t.id as usize].kind)).cloned().collect(),
            )
        };
        let (special, literal, text) =
            (of(&[Kind::Special])?, of(&[Kind::Marked, Kind::Text])?, of(&[Kind::Text])?);
        Ok(Encoder { trie, model, special, literal, text })
    }

    /// Encodes a prompt. Special tokens are recognised inside the `templates` ranges (ascending, apart) only.
    pub(super) fn encode(&self, text: &str, templates: &[Range<usize>]) -> Result<Vec<Token>> {
        let mut cuts = Vec::new();
        for (i, template) in templates.iter().enumerate() {
            let floor = cuts.last().map_or(0, |c: &Cut| c.range.end);
            let ceiling = templates.get(i + 1).map_or(text.len(), |next| next.start);
            self.special.find(text, template.clone(), floor..ceiling, &mut cuts);
        }
        self.finish(text, cuts, &self.literal, true)
    }

    /// Encodes text that stands inside other text; no special tokens come out, and the bytes stay the same.
    fn encode_inner(&self, text: &str) -> Option<Vec<Token>> {
        let tokens = self.finish(text, Vec::new(), &self.text, false).ok()?;
        if self.is_text(&tokens, text) {
            return Some(tokens);
        }
        let guarded = [SENTINEL, text].concat();
        let tokens = self.finish(&guarded, Vec::new(), &self.text, false).ok()?;
        let mut front = Vec::new();
        for (i, token) in tokens.iter().enumerate() {
            front.extend_from_slice(self.trie.token(*token));
            if front.trim_ascii_start() == SENTINEL.as_bytes() {
                return Some(tokens[i + 1..].to_vec()).filter(|rest| self.is_text(rest, text));
            }
        }
        None
    }

    fn is_text(&self, tokens: &[Token], text: &str) -> bool {
        let mut rest = text.as_bytes();
        tokens.iter().all(|t| {
            let bytes = self.trie.token(*t);
            let same = !bytes.is_empty() && !self.trie.is_special_token(*t) && rest.starts_with(bytes);
            rest = if same { &rest[bytes.len()..] } else { rest };
            same
        }) && rest.is_empty()
    }

    fn finish(&self, text: &str, special: Vec<Cut>, literal: &Finder, prefix: bool) -> Result<Vec<Token>> {
        let mut cuts = special.clone();
        for gap in gaps(&special, text.len()) {
            literal.find(text, gap.clone(), gap, &mut cuts);
        }
        cuts.sort_unstable_by_key(|c| c.range.start);
        match &self.model {
            Model::Pipeline(tokenizer) => self.pipeline(tokenizer, text, &cuts),
            Model::Spm(spm) => interleave(text, &cuts, |piece, out| {
                spm.encode(piece, prefix, out);
                Ok(())
            }),
            Model::Library(library, unknown) => interleave(text, &cuts, |piece, out| {
                for id in library(piece).map_err(|why| Error::invalid("prompt", why))? {
                    if Some(id) == *unknown { out.push(id) } else { out.extend(self.as_text(id)) }
                }
                Ok(())
            }),
            Model::Greedy | Model::Unknown => interleave(text, &cuts, |piece, out| {
                out.extend(self.trie.greedy_tokenize(piece.as_bytes()));
                Ok(())
            }),
        }
    }

    /// The whole text goes through the pipeline at once, so that pre-tokenizers that look at the text's beginning do.
    fn pipeline(&self, tokenizer: &Tokenizer, text: &str, cuts: &[Cut]) -> Result<Vec<Token>> {
        let run = || -> tokenizers::Result<Vec<Token>> {
            let mut pieces = PreTokenizedString::from(text);
            pieces.split(|_, whole| Ok(split(&whole, cuts, text.len())))?;
            if let Some(normalizer) = tokenizer.get_normalizer() {
                pieces.normalize(|piece| normalizer.normalize(piece))?;
            }
            if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut pieces)?;
            }
            pieces.tokenize(|piece| {
                let tokens = tokenizer.get_model().tokenize(piece.get())?.into_iter();
                Ok(tokens.flat_map(|t| self.as_text(t.id)).map(plain).collect())
            })?;
            Ok(pieces.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
        };
        run().map_err(|e| Error::invalid("prompt", format!("cannot be encoded: {e}")))
    }

    /// Text never becomes a special token, even where the model's own table has one with this text. An id past the
    /// vocabulary stands for a byte without a token.
    fn as_text(&self, id: Token) -> Vec<Token> {
        if id as usize >= self.trie.vocab_size() {
            return Vec::new();
        }
        let bytes = self.trie.token(id);
        let is_plain = !self.trie.is_special_token(id) || bytes.len() == 1;
        if is_plain { vec![id] } else { self.trie.greedy_tokenize(&bytes[1..]) }
    }
}

type Piece = (tokenizers::NormalizedString, Option<Vec<tokenizers::Token>>);

fn split(whole: &tokenizers::NormalizedString, cuts: &[Cut], len: usize) -> Vec<Piece> {
    let slice = |range: &Range<usize>| {
        whole.slice(TextRange::Normalized(range.clone())).expect("Cuts are inside the text. This is a bug.")
    };
    let mut pieces: Vec<(usize, Piece)> =
        cuts.iter().map(|cut| (cut.range.start, (slice(&cut.range), Some(vec![plain(cut.id)])))).collect();
    pieces.extend(gaps(cuts, len).iter().map(|gap| (gap.start, (slice(gap), None))));
    pieces.sort_unstable_by_key(|p| p.0);
    pieces.into_iter().map(|p| p.1).collect()
}

fn plain(id: Token) -> tokenizers::Token {
    tokenizers::Token::new(id, String::new(), (0, 0))
}

/// Encodes what is between the cuts.
fn interleave(
    text: &str,
    cuts: &[Cut],
    mut encode: impl FnMut(&str, &mut Vec<Token>) -> Result<()>,
) -> Result<Vec<Token>> {
    let mut out = Vec::new();
    let mut at = 0;
    for cut in cuts {
        if at < cut.range.start {
            encode(&text[at..cut.range.start], &mut out)?;
        }
        out.push(cut.id);
        at = cut.range.end;
    }
    if at < text.len() {
        encode(&text[at..], &mut out)?;
    }
    Ok(out)
}

impl TokenizerEnv for Encoder {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_is_canonical(&self) -> bool {
        !matches!(self.model, Model::Unknown)
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<Token> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            self.encode_inner(text).unwrap_or_else(|| self.trie.greedy_tokenize(text.as_bytes()))
        })
    }
}
