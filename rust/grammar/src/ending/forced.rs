//! Forced bytes, the only ones that may come next, and how they are tokenized.

use super::Endings;
use super::places::{Known, Spot};
use crate::types::Token;
use llguidance::derivre::NextByte;

/// Most forced bytes that are tokenized here; llguidance tokenizes longer ones.
const MOST_FORCED: usize = 1_024;
/// How many of the last tokens are checked for whether they depend on what follows.
const LOOKED_AT: usize = 4;

impl Known {
    /// The first token of the forced bytes. `last`: the token before.
    pub(super) fn forced_token(&mut self, of: &Endings, spot: Spot, last: Option<Token>) -> Option<Token> {
        let (forced, end) = if of.cuts_forced() { self.forced(of, spot)? } else { return None };
        self.first_forced(of, (&forced, end), last)
    }

    /// The forced bytes, and where they lead. None if there are more than [`MOST_FORCED`].
    pub(super) fn forced(&mut self, of: &Endings, mut spot: Spot) -> Option<(Vec<u8>, Spot)> {
        let mut bytes = Vec::new();
        while bytes.len() < MOST_FORCED {
            let byte = if self.may_end(of, spot) { None } else { self.forced_byte(of, spot) };
            let Some((byte, next)) = byte.and_then(|byte| Some((byte, self.step(of, spot, byte)?))) else {
                return Some((bytes, spot));
            };
            bytes.push(byte);
            spot = next;
        }
        None
    }

    /// The only byte that may come.
    fn forced_byte(&mut self, of: &Endings, spot: Spot) -> Option<u8> {
        // A token that a rule asks for by its number may come in place of a byte.
        if !self.by_number(of, spot).is_empty() {
            return None;
        }
        match self.lexing.next_byte(spot.state) {
            NextByte::ForcedByte(byte) => return Some(byte),
            NextByte::SomeBytes2(some) if some.iter().all(|byte| self.step(of, spot, *byte).is_some()) => {
                return None;
            }
            _ => {}
        }
        let mut found = None;
        for byte in 0..=255 {
            if self.step(of, spot, byte).is_some() && found.replace(byte).is_some() {
                return None;
            }
        }
        found
    }

    /// The first token of forced bytes that lead to `end`, if all continuations have it. Like llguidance, tokenizes them together with the
    /// token before, unless that changes that token.
    pub(super) fn first_forced(
        &mut self,
        of: &Endings,
        (forced, end): (&[u8], Spot),
        last: Option<Token>,
    ) -> Option<Token> {
        // If a longer token begins with all of them, all depends on what follows.
        if forced.is_empty() || self.goes_on(of, forced, end) {
            return None;
        }
        let env = &of.common.env;
        let trie = env.tok_trie();
        let before: Vec<Token> = last.into_iter().collect();
        let all = [&trie.decode_raw(&before), forced].concat();
        let (mut tokens, mut fixed) = env.tokenize_bytes_marker(&all);
        let mut first = before.len();
        if tokens.starts_with(&before) {
            fixed = fixed.max(first);
        } else {
            (tokens, fixed) = env.tokenize_bytes_marker(forced);
            first = 0;
        }
        let unsure = self.unsure(of, &tokens[fixed..], end);
        tokens.truncate(tokens.len() - unsure);
        tokens.get(first).copied()
    }

    /// How many of the last tokens depend on what follows, because the end of the text begins a longer token that may come. Like llguidance,
    /// checks the last [`LOOKED_AT`] tokens.
    fn unsure(&mut self, of: &Endings, tokens: &[Token], end: Spot) -> usize {
        let trie = of.common.env.tok_trie();
        let text = trie.decode_raw(&tokens[tokens.len().saturating_sub(LOOKED_AT)..]);
        let Some(first) = (0..text.len()).find(|at| self.goes_on(of, &text[*at..], end)) else { return 0 };
        let mut bytes = text.len();
        let ends = tokens.iter().rev().map(|token| {
            bytes -= trie.token_len(*token);
            bytes
        });
        1 + ends.take_while(|begin| *begin > first).count()
    }

    /// Whether a longer token begins with this text and may come.
    fn goes_on(&mut self, of: &Endings, text: &[u8], end: Spot) -> bool {
        let mut found = false;
        for trie in of.common.all_tries() {
            let Some(below) = trie.below(text) else { continue };
            trie.walk(below, end, |spot, at| {
                let next = if found { None } else { self.step(of, spot, trie.nodes()[at].byte) };
                found |= next.is_some() && !trie.tokens(at).is_empty();
                next
            });
        }
        found
    }
}
