//! The draft model's executor as a [`Drafter`].

use super::interface::{Answer, Executor, Told};
use super::orders::{Abilities, Order};
use super::target::Logits;
use super::walk::Walk;
use crate::config::Acceptance;
use crate::error::Result;
use crate::exec::{Ask, Drafter};
use crate::types::Slot;
use std::collections::HashMap;
use std::sync::PoisonError;

/// TensorRT-LLM with the model that drafts.
pub(super) struct TrtDrafter {
    executor: Executor,
    abilities: Abilities,
    /// Most draft tokens of a request of the target's.
    most: u32,
    /// Where its logits go, if they are to decide.
    logits: Option<Logits>,
    broken: bool,
}

impl TrtDrafter {
    pub(super) fn new(executor: Executor, abilities: Abilities, most: u32, logits: Option<Logits>) -> Self {
        TrtDrafter { executor, abilities, most, logits, broken: false }
    }

    /// Hands a request in for an ask; its number. None where nothing can be drafted.
    fn request(&mut self, ask: &Ask<'_>) -> Result<Option<u64>> {
        let drafted = ask.draft.tokens.len();
        let want = ask.want.min(self.most.saturating_sub(drafted as u32));
        let Some(walk) = (if want > 0 { walk(ask)? } else { None }) else { return Ok(None) };
        let text = [ask.known, &ask.draft.tokens].concat();
        let mut order = Order::new(ask.sampler, &walk, (text, want), self.abilities);
        // Masked logits would have to be masked again: what the executor hands out is the model's own.
        let decides = self.logits.is_some()
            && ask.draft.acceptance == Acceptance::Rejection
            && drafted == 0
            && !walk.masked();
        if decides {
            order.return_generation_logits = true;
        } else {
            order = order.greedy();
        }
        order.return_log_probs = false;
        self.executor.enqueue(order, None, walk).map(Some)
    }

    /// Attaches what was drawn for an ask.
    fn attach(&mut self, ask: &mut Ask<'_>, Answer { id, tokens, logits, .. }: Answer) {
        let before = ask.draft.tokens.len();
        let new = tokens.iter().take(ask.want as usize);
        ask.drawn = new.len() as u32;
        ask.draft.tokens.extend(new);
        let walk = self.executor.finish(id);
        if let Some(made) = walk.and_then(|walk| Executor::with_walk(&walk, |walk| walk.made.take())) {
            ask.draft.masks.truncate(before);
            if ask.draft.masks.len() == before {
                ask.draft.masks.extend(made);
                ask.draft.masks.truncate(ask.draft.tokens.len() + 1);
            }
        }
        if let (Some(all), Some(logits)) = (&self.logits, logits) {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(ask.slot, (ask.draft.tokens.clone(), logits));
        }
    }

    /// Takes one piece of news for those `waiting` asks, by the numbers of their requests.
    fn hear(&mut self, told: Told, waiting: &mut HashMap<u64, &mut Ask<'_>>) {
        match told {
            Told::Answer(answer) if answer.finish.is_none() => {}
            // Late answers are nobody's.
            Told::Answer(answer) => {
                if let Some(ask) = waiting.remove(&answer.id) {
                    self.attach(ask, answer);
                }
            }
            Told::Failed(id, error) => {
                log::warn!("no draft: {error}");
                self.executor.cancel(id);
                waiting.remove(&id);
            }
            Told::Broken(why) => self.give_up(&why),
        }
    }

    fn give_up(&mut self, why: &str) {
        if !self.broken {
            log::error!("the draft model's executor failed, and drafts nothing any more: {why}");
        }
        self.broken = true;
    }
}

/// The masks of an ask's request; None where nothing can be drafted.
fn walk(ask: &Ask<'_>) -> Result<Option<Walk>> {
    let drafted = ask.draft.tokens.len();
    if ask.draft.tokens.last().is_some_and(|last| ask.sampler.is_end(*last)) {
        return Ok(None);
    }
    let mut walk = Walk::new(ask.sampler, ask.known.len() + drafted);
    walk.position += drafted as u32;
    walk.runs_on = true;
    if let Some(grammar) = &ask.grammar {
        let mut ahead = grammar.fork();
        ask.draft.tokens.iter().try_for_each(|token| ahead.commit(*token))?;
        let first = match ask.draft.masks.get(drafted) {
            Some(mask) => mask.clone(),
            None => ahead.mask()?,
        };
        if walk.rules.is_end(&first) {
            return Ok(None);
        }
        walk.known.push(first);
        walk.grammar = Some(ahead);
        walk.made = Some(Vec::new());
    }
    Ok(Some(walk))
}

impl Drafter for TrtDrafter {
    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        if self.broken {
            return;
        }
        let mut waiting = HashMap::new();
        for ask in asks {
            match self.request(ask) {
                Ok(None) => {}
                Ok(Some(id)) => _ = waiting.insert(id, ask),
                // What is wrong with the grammar shows where the target asks it.
                Err(error) => log::warn!("no draft: {error}"),
            }
        }
        while !waiting.is_empty() && !self.broken {
            match self.executor.told() {
                Ok(told) => self.hear(told, &mut waiting),
                Err(error) => self.give_up(&error.0),
            }
        }
    }

    fn keep(&mut self, slot: Slot, _len: u32) {
        if let Some(logits) = &self.logits {
            logits.lock().unwrap_or_else(PoisonError::into_inner).remove(&slot);
        }
    }

    fn reach(&self) -> u32 {
        self.most
    }

    fn failed(&self) -> bool {
        self.broken
    }
}
