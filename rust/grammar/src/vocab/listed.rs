//! A vocabulary whose tokens another library lists.

use super::added::AddedToken;
use super::encoder::{Model, TextEncoder};
use super::{Loaded, Vocab, VocabOptions, Word};
use crate::error::{Error, Result};
use crate::types::Token;
use std::sync::Arc;

impl Vocab {
    /// From the bytes of each token by its id, None for an id without a meaning. Those of `special` tokens are the text that they are
    /// written as. `encode` turns text into ids as the model's tokenizer does; without it, text that must come is allowed in any
    /// tokens that spell it.
    ///
    /// # Errors
    /// `Invalid` of "tokens", "special" or "eos" where an id is not below their number, or the vocabulary is too large.
    pub fn from_tokens(
        tokens: Vec<Option<Vec<u8>>>,
        special: &[Token],
        encode: Option<TextEncoder>,
        options: &VocabOptions,
    ) -> Result<Arc<Vocab>> {
        let n = options.n_vocab.unwrap_or(tokens.len());
        for (what, ids) in [("special", special), ("eos", &options.eog[..])] {
            if let Some(id) = ids.iter().find(|id| **id as usize >= n) {
                return Err(Error::invalid(what, format!("token {id} is not below {n}")));
            }
        }
        if options.eog.is_empty() {
            return Err(Error::invalid("eos", "must have at least one token"));
        }
        let word = |bytes: Option<Vec<u8>>| match bytes {
            Some(bytes) if !bytes.is_empty() => Word::text(bytes),
            _ => Word::UNUSED,
        };
        let mut words: Vec<Word> = tokens.into_iter().map(word).collect();
        let mut added = Vec::new();
        for token in special {
            if let Some(word) = words.get_mut(*token as usize) {
                let text = String::from_utf8_lossy(&word.bytes).into_owned();
                *word = Word::literal(&text, true);
                added.push(AddedToken::new(*token, &text));
            }
        }
        let model = encode.map_or(Model::Unknown, |encode| Model::Library(encode, None));
        Self::build(Loaded { words, added, model }, options)
    }

    /// A number that is the same for equal tokens, end tokens among them, on every machine: FNV-1a with 64 bits (Fowler, Noll and
    /// Vo).
    pub fn digest(&self) -> u64 {
        let kinds = self.words.iter().map(|word| (&word.bytes[..], word.kind as u8));
        let ends = self.eog.iter().map(|token| token.to_le_bytes());
        let bytes = kinds.flat_map(|(bytes, kind)| {
            let length = (bytes.len() as u32).to_le_bytes();
            bytes.iter().copied().chain(length).chain([kind]).collect::<Vec<u8>>()
        });
        let all = bytes.chain(ends.flatten());
        all.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(eog: &[Token]) -> VocabOptions {
        VocabOptions { eog: eog.to_vec(), ..VocabOptions::default() }
    }

    fn letters() -> Vec<Option<Vec<u8>>> {
        let mut tokens: Vec<_> = (0..=255u8).map(|byte| Some(vec![byte])).collect();
        tokens.extend([Some(b"abc".to_vec()), None, Some(b"<end>".to_vec())]);
        tokens
    }

    #[test]
    fn listed_tokens_are_what_they_are_given_as() {
        let vocab = Vocab::from_tokens(letters(), &[258], None, &options(&[258])).unwrap();
        assert_eq!(vocab.bytes(256), b"abc");
        assert_eq!(vocab.encode(&[("xabc<end>", false)]).unwrap().len(), 7);
        assert_eq!(vocab.encode(&[("xabc<end>", true)]).unwrap(), [120, 256, 258]);
        assert!(vocab.is_special(257) && vocab.is_special(258) && vocab.bytes(257).is_empty());
        let same = Vocab::from_tokens(letters(), &[258], None, &options(&[258])).unwrap();
        assert_eq!(vocab.digest(), same.digest());
        let other = Vocab::from_tokens(letters(), &[258], None, &options(&[0])).unwrap();
        assert_ne!(vocab.digest(), other.digest());
    }

    #[test]
    fn ids_that_are_none_are_refused_by_name() {
        let refused = |special: &[Token], eog: &[Token]| {
            Vocab::from_tokens(letters(), special, None, &options(eog)).unwrap_err().to_string()
        };
        assert_eq!(refused(&[300], &[258]), "special: token 300 is not below 259");
        assert_eq!(refused(&[], &[259]), "eos: token 259 is not below 259");
        assert_eq!(refused(&[], &[]), "eos: must have at least one token");
    }
}
