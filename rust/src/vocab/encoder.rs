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

/// What turns a piece of text into ids.
pub(super) enum Model {
    /// A pipeline of normaliser, pre-tokenizer and model without added tokens.
    Pipeline(Box<Tokenizer>),
    /// SentencePiece by scores.
    Spm(Spm),
    /// The longest token at each place.
    Greedy,
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
            Model::Spm(spm) => Ok(interleave(text, &cuts, |piece, out| spm.encode(piece, prefix, out))),
            Model::Greedy => Ok(interleave(text, &cuts, |piece, out| {
                out.extend(self.trie.greedy_tokenize(piece.as_bytes()))
            })),
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
            pieces.tokenize(|piece| Ok(self.as_text(tokenizer.get_model().tokenize(piece.get())?)))?;
            Ok(pieces.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
        };
        run().map_err(|e| Error::invalid("prompt", format!("cannot be encoded: {e}")))
    }

    /// Text never becomes a special token, even where the model's own table has one with this text.
    fn as_text(&self, tokens: Vec<tokenizers::Token>) -> Vec<tokenizers::Token> {
        let is_plain =
            |t: &tokenizers::Token| !self.trie.is_special_token(t.id) || self.trie.token(t.id).len() == 1;
        if tokens.iter().all(is_plain) {
            return tokens;
        }
        let spell = |t: tokenizers::Token| {
            let ids = if is_plain(&t) {
                vec![t.id]
            } else {
                self.trie.greedy_tokenize(&self.trie.token(t.id)[1..])
            };
            ids.into_iter().map(|id| tokenizers::Token::new(id, String::new(), (0, 0)))
        };
        tokens.into_iter().flat_map(spell).collect()
    }
}

type Piece = (tokenizers::NormalizedString, Option<Vec<tokenizers::Token>>);

fn split(whole: &tokenizers::NormalizedString, cuts: &[Cut], len: usize) -> Vec<Piece> {
    let slice = |range: &Range<usize>| {
        whole.slice(TextRange::Normalized(range.clone())).expect("Cuts are inside the text. This is a bug.")
    };
    let token = |cut: &Cut| tokenizers::Token::new(cut.id, String::new(), (0, 0));
    let mut pieces: Vec<(usize, Piece)> =
        cuts.iter().map(|cut| (cut.range.start, (slice(&cut.range), Some(vec![token(cut)])))).collect();
    pieces.extend(gaps(cuts, len).iter().map(|gap| (gap.start, (slice(gap), None))));
    pieces.sort_unstable_by_key(|p| p.0);
    pieces.into_iter().map(|p| p.1).collect()
}

/// Encodes what is between the cuts.
fn interleave(text: &str, cuts: &[Cut], mut encode: impl FnMut(&str, &mut Vec<Token>)) -> Vec<Token> {
    let mut out = Vec::new();
    let mut at = 0;
    for cut in cuts {
        if at < cut.range.start {
            encode(&text[at..cut.range.start], &mut out);
        }
        out.push(cut.id);
        at = cut.range.end;
    }
    if at < text.len() {
        encode(&text[at..], &mut out);
    }
    out
}

impl TokenizerEnv for Encoder {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<Token> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            self.encode_inner(text).unwrap_or_else(|| self.trie.greedy_tokenize(text.as_bytes()))
        })
    }
}
