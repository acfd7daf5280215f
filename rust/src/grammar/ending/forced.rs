//! Bytes that must come, and how they are cut into tokens.

use super::Endings;
use super::places::{Known, Spot};
use crate::types::Token;
use llguidance::derivre::NextByte;

/// Most forced bytes that are tokenized here; llguidance tokenizes longer ones.
const MOST_FORCED: usize = 1_024;
/// How many of the last tokens may depend on what follows.
const LOOKED_AT: usize = 4;

impl Known {
    /// The first of the tokens that must come, `last` being the token before.
    pub(super) fn forced_token(&mut self, of: &Endings, spot: Spot, last: Option<Token>) -> Option<Token> {
        let (forced, end) = if of.cuts_forced() { self.forced(of, spot)? } else { return None };
        self.first_forced(of, (&forced, end), last)
    }

    /// The bytes that must come, and where they lead; None where there are more than [`MOST_FORCED`].
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
        // A token that is asked for by its number may come in place of a byte.
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

    /// The first token of forced bytes that lead to `end`, if every continuation is tokenized so. As in llguidance, they are
    /// tokenized together with the token before where that leaves it as it is.
    pub(super) fn first_forced(
        &mut self,
        of: &Endings,
        (forced, end): (&[u8], Spot),
        last: Option<Token>,
    ) -> Option<Token> {
        // Where a token begins with all of them and may go on, no way to cut them is sure.
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

    /// How many of the last tokens of a text depend on what follows: the end of the text from one of them on begins a token that may go
    /// on. As in llguidance, the last [`LOOKED_AT`] are looked at.
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

    /// Whether a token begins with this text and has more bytes that may come behind it.
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
