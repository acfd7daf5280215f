//! Drafts from a model with another vocabulary: it drafts text.
//!
//! The model reads the text so far in its own tokens (`reading`) and draws its likeliest tokens one by one. What it has
//! drawn is encoded for the target, together with the unfinished word before it. Whole words join the draft at once, the last one
//! when no more is drawn, for until then it may become another token. Between the words, what the grammar forces or proposes
//! joins the draft without a pass, and the model goes on behind it. The draft ends at the first token that the grammar refuses.
//!
//! Special tokens of the target, as those of its chat template, are the draft model's where it has one that is written in
//! the same way, and are left out where it has none. Penalties, biases and noise of the target's tokens mean nothing to the model.
//!
//! Drafting in text is the universal assisted generation of Timor and others (2025), without its check of distributions:
//! the target verifies the tokens as any others.

mod pair;
mod reading;

use super::draft_model::DraftModel;
use super::draft_walk::Walk;
use super::{Ask, Draft, Drafter};
use crate::config::DraftSource;
use crate::error::Result;
use crate::grammar::Next;
use crate::sampler::Sampler;
use crate::types::{Slot, Token};
pub use pair::VocabPair;
use pair::{begins_word, spelled};
use reading::{Reading, SEGMENT};
use std::collections::HashMap;
use std::time::Duration;

/// Proposes what a model with a vocabulary of its own would write.
pub struct TextDrafter {
    model: DraftModel,
    pair: VocabPair,
    /// Takes the likeliest token of the model's rows.
    sampler: Sampler,
    /// What the model has read, by slot.
    readings: Vec<Reading>,
    /// Width of the target's rows, in tokens.
    width: usize,
}

impl TextDrafter {
    /// A drafter for a target with so many `slots`, whose rows have `width` tokens. The width of the `model`'s rows is its own.
    ///
    /// # Errors
    /// None with a vocabulary that has tokens.
    pub fn new(model: DraftModel, pair: VocabPair, slots: u32, width: usize) -> Result<Self> {
        let sampler = Sampler::greedy(pair.own.clone())?;
        let readings = vec![Reading::default(); slots as usize];
        Ok(TextDrafter { model, pair, sampler, readings, width })
    }

    /// Reads a text of the target's tokens with `more` behind it; what the model holds beyond what stayed the same is cut off.
    fn read<'a>(&mut self, slot: Slot, text: impl Iterator<Item = &'a Token> + Clone, more: &[u8]) {
        let same = self.readings[slot.index()].read(&self.pair, text, more);
        self.model.keep(slot, same as u32);
    }

    /// Draws one token for each of these, all in the same passes; false where there is nothing to draw.
    fn draw(&mut self, lines: &mut [Line<'_, '_>]) -> bool {
        let mut drawing: Vec<_> =
            lines.iter_mut().filter_map(|line| line.goes_on().then_some(line)).collect();
        for line in &mut drawing {
            self.read(line.walk.ask.slot, line.walk.text(), &line.pending);
        }
        let TextDrafter { model, readings, sampler, pair, .. } = self;
        let mut drafts: Vec<_> = drawing.iter().map(|_| Draft::default()).collect();
        let both = drawing.iter().zip(&mut drafts);
        let both = both.map(|(line, draft)| (line, &readings[line.walk.ask.slot.index()], draft));
        // A text may be nothing but special tokens that the model lacks.
        let both = both.filter(|(_, reading, _)| !reading.own().is_empty());
        let mut asks: Vec<_> = both.map(|(line, reading, draft)| line.ask(reading, sampler, draft)).collect();
        model.propose(&mut asks);
        let told: HashMap<_, _> = asks.iter().map(|ask| (ask.slot, (ask.late, ask.drawn))).collect();
        for (line, draft) in drawing.iter_mut().zip(drafts) {
            let (late, drawn) = told.get(&line.walk.ask.slot).copied().unwrap_or_default();
            line.walk.ask.late |= late;
            line.walk.ask.drawn += drawn;
            line.take(draft.tokens.first().copied(), pair);
        }
        !drawing.is_empty()
    }
}

impl Drafter for TextDrafter {
    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        let line =
            |ask| Line { walk: Walk::new(ask, usize::MAX, self.width), pending: Vec::new(), is_over: false };
        let mut lines: Vec<_> = asks.iter_mut().map(line).collect();
        while !self.model.failed() && self.draw(&mut lines) {}
    }

    /// What is cut off is found when the text is read again.
    fn keep(&mut self, slot: Slot, len: u32) {
        if len == 0 {
            self.readings[slot.index()] = Reading::default();
            self.model.keep(slot, 0);
        }
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) {
        let reading = &self.readings[from.index()];
        let (part, own) = (reading.part(len as usize), reading.own_of(len as usize));
        self.readings[to.index()] = part;
        self.model.copy(from, to, own as u32);
    }

    fn delay(&mut self, slot: Slot, known: &[Token]) -> Option<f64> {
        self.read(slot, known.iter(), &[]);
        self.model.delay(slot, self.readings[slot.index()].own())
    }

    fn probed(&self) -> &[(u32, f64)] {
        self.model.probed()
    }

    fn caught_up(&mut self) -> Duration {
        self.model.caught_up()
    }

    fn held(&self) -> u64 {
        self.model.held()
    }

    fn failed(&self) -> bool {
        self.model.failed()
    }
}

/// One sequence's draft in the making.
struct Line<'a, 'b> {
    walk: Walk<'a, 'b>,
    /// What was drawn behind the walk, and is no whole word yet.
    pending: Vec<u8>,
    is_over: bool,
}

impl Line<'_, '_> {
    /// Asks the model for the next token of what it has read.
    fn ask<'a>(&self, reading: &'a Reading, sampler: &'a Sampler, draft: &'a mut Draft) -> Ask<'a> {
        let of = &self.walk.ask;
        Ask {
            slot: of.slot,
            age: of.age,
            group: of.group,
            known: reading.own(),
            draft,
            prompt: reading.own_of(of.prompt as usize) as u32,
            prediction: &[],
            grammar: None,
            sampler,
            want: 1,
            allows: [false; DraftSource::ALL.len()],
            drawn: 0,
            late: false,
        }
    }

    /// Whether a token is to be drawn. What the grammar forces behind whole words joins the draft.
    fn goes_on(&mut self) -> bool {
        !self.is_over && !self.walk.over && (!self.pending.is_empty() || self.walk.needs_row())
    }

    /// Takes what the model has drawn; None where it draws nothing more.
    fn take(&mut self, drawn: Option<Token>, pair: &VocabPair) {
        let text = drawn.filter(|token| !pair.own.is_special(*token) && pair.to_target(*token).is_none());
        let Some(token) = text else {
            self.join(pair, self.pending.len());
            let same = drawn.and_then(|token| pair.to_target(token));
            self.is_over = !same.is_some_and(|token| self.walk.add(token));
            return;
        };
        self.pending.extend_from_slice(pair.own.bytes(token));
        let cuts = self.pending.windows(2).rposition(|two| begins_word(two[0], two[1]));
        let whole = self.follows(pair).is_none_or(|tokens| tokens.len() >= self.walk.wants());
        self.join(pair, if whole { self.pending.len() } else { cuts.map_or(0, |at| at + 1) });
        self.is_over = whole || !self.may_come(pair);
    }

    /// Adds to the draft the tokens of what is pending that end within its first `len` bytes.
    fn join(&mut self, pair: &VocabPair, len: usize) {
        let mut end = 0;
        for token in self.follows(pair).unwrap_or_default() {
            let next = end + pair.target.bytes(token).len();
            if next > len || !self.walk.add(token) {
                break;
            }
            end = next;
        }
        self.pending.drain(..end);
    }

    /// The target's tokens of what is pending. None where the target would write the text with the unfinished word before it in
    /// other tokens than those that it has written: so that is not what it is about to write.
    fn follows(&self, pair: &VocabPair) -> Option<Vec<Token>> {
        let mut word: Vec<Token> = Vec::new();
        for token in self.walk.before().take(SEGMENT).take_while(|token| !pair.target.is_special(**token)) {
            let first = word.last().and_then(|next| pair.target.bytes(*next).first());
            let last = pair.target.bytes(*token).last();
            if matches!((last, first), (Some(last), Some(first)) if begins_word(*last, *first)) {
                break;
            }
            word.push(*token);
        }
        word.reverse();
        let text = [&pair.target.decode(&word), &self.pending[..]].concat();
        spelled(&pair.target, &text).strip_prefix(&word[..]).map(<[Token]>::to_vec)
    }

    /// Whether what is pending may come, as far as that can be told of an unfinished word.
    fn may_come(&mut self, pair: &VocabPair) -> bool {
        if self.pending.is_empty() {
            return true;
        }
        let tokens = self.follows(pair).unwrap_or_default();
        let Some((first, rest)) = tokens.split_first() else { return false };
        let pending = &self.pending;
        let begins = |token: Token| pair.target.bytes(token).starts_with(pending);
        let allows = |next: &Next| match next {
            next if next.allows(*first) => true,
            Next::Only(mask) if rest.is_empty() => mask.iter().any(begins),
            _ => false,
        };
        self.walk.next_is(allows)
    }
}

#[cfg(test)]
mod tests;
