//! The shortest way to the end, as bytes.

use super::places::Known;
use super::rows::Item;
use super::table::{Arg, END};
use super::{Ending, Endings};
use crate::types::Token;
use llguidance::derivre::StateID;
use llguidance::earley::lexerspec::LexemeIdx;

/// The way to the end, as far as it is written out.
pub(super) struct Text<'a> {
    pub(super) of: &'a Endings,
    pub(super) known: &'a mut Known,
    pub(super) bytes: Vec<u8>,
    /// The special token behind the bytes.
    pub(super) special: Option<Token>,
    /// Bytes that are enough.
    pub(super) most: usize,
}

impl Text<'_> {
    fn is_enough(&self) -> bool {
        self.special.is_some() || self.bytes.len() >= self.most
    }

    pub(super) fn lexeme(&mut self, state: StateID, lexeme: LexemeIdx) {
        match self.of.special(lexeme) {
            Some(tokens) => self.special = tokens.iter().next(),
            None => self.known.lexing.text(state, lexeme, self.most, &mut self.bytes),
        }
    }

    /// Writes what follows the symbol at the item's dot, up to the end of the text.
    pub(super) fn climb(&mut self, mut item: Item) {
        let table = &self.of.table;
        while !self.is_enough() {
            for (at, dot) in table.rest(item.dot + 1) {
                self.symbol(dot.symbol, table.arg(at, item.arg));
            }
            let lhs = table.dots[item.dot as usize].lhs;
            match self.known.costs.finish(item.origin, lhs).filter(|_| (lhs, item.origin) != (0, 0)) {
                Some(finish) => item = finish.item,
                None => return,
            }
        }
    }

    /// Writes the shortest text of a symbol.
    fn symbol(&mut self, symbol: u32, arg: Arg) {
        let table = &self.of.table;
        let mut open = vec![(symbol, arg)];
        while let Some((symbol, arg)) = open.pop().filter(|_| !self.is_enough()) {
            if let Some(lexeme) = table.symbols[symbol as usize].lexeme {
                let state = self.known.lexing.start_of(lexeme);
                self.lexeme(state, lexeme);
                continue;
            }
            let rule = self.known.prices.rule(table, symbol, arg);
            if rule != END {
                let parts: Vec<(u32, Arg)> =
                    table.rest(rule).map(|(at, dot)| (dot.symbol, table.arg(at, arg))).collect();
                open.extend(parts.into_iter().rev());
            }
        }
    }
}

impl Ending {
    /// Whether the shortest way, as long tokens as there are, has at most so many.
    pub(crate) fn is_near(&self, of: &Endings, most: usize) -> bool {
        let trie = of.common.env.tok_trie();
        let longest = trie.max_token_len();
        let Some((bytes, _)) = self.text(of, (most + 1).saturating_mul(longest)) else { return true };
        let mut rest = &bytes[..];
        for _ in 0..most {
            if rest.is_empty() {
                return true;
            }
            let (_, taken) = trie.prefix_token_id(&rest[..rest.len().min(longest)]);
            rest = &rest[taken.max(1)..];
        }
        rest.is_empty()
    }
}
