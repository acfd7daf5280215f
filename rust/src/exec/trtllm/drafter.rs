//! The draft model's executor as a [`Drafter`] that works by itself.

use super::interface::{Answer, Executor, Told};
use super::orders::{Abilities, Order as Request};
use super::target::Logits;
use super::walk::Walk;
use crate::config::Acceptance;
use crate::error::Result;
use crate::exec::{Ask, Collected, Drafter, JobId, Order, Remote, Wake};
use crate::types::Slot;
use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Instant;

/// An order that is with the executor.
struct Flight {
    order: Order,
    begun: Instant,
}

/// TensorRT-LLM with the model that drafts.
pub(super) struct TrtDrafter {
    executor: Executor,
    abilities: Abilities,
    /// Most draft tokens of a request of the target's.
    most: u32,
    /// Where its logits go, if they are to decide.
    logits: Option<Logits>,
    flights: HashMap<u64, Flight>,
    collected: Collected,
    wake: Option<Wake>,
    broken: bool,
}

impl TrtDrafter {
    pub(super) fn new(executor: Executor, abilities: Abilities, most: u32, logits: Option<Logits>) -> Self {
        TrtDrafter {
            executor,
            abilities,
            most,
            logits,
            flights: HashMap::new(),
            collected: Collected::default(),
            wake: None,
            broken: false,
        }
    }

    /// Hands a request in, or gives the order back as it is.
    fn fly(&mut self, order: Order) {
        let want = order.want.min(self.most.saturating_sub(order.job.draft.tokens.len() as u32));
        let walk = if self.broken || want == 0 { Ok(None) } else { walk(&order) };
        let walk = walk.unwrap_or_else(|error| {
            // What is wrong with the grammar shows where the target asks it.
            log::debug!("no draft: {error}");
            None
        });
        let Some(walk) = walk else { return self.give_back(order) };
        let text = [&order.known[..], &order.job.draft.tokens].concat();
        let mut request = Request::new(&order.job.sampler, &walk, (text, want), self.abilities);
        // Masked logits would have to be masked again: what the executor hands out is the model's own.
        let decides = self.logits.is_some()
            && order.job.draft.acceptance == Acceptance::Rejection
            && order.job.draft.tokens.is_empty()
            && !walk.masked();
        if decides {
            request.return_generation_logits = true;
        } else {
            request = request.greedy();
        }
        request.return_log_probs = false;
        match self.executor.enqueue(request, None, walk) {
            Ok(id) => {
                self.flights.insert(id, Flight { order, begun: Instant::now() });
            }
            Err(error) => {
                log::warn!("no draft: {error}");
                self.give_back(order);
            }
        }
    }

    fn give_back(&mut self, order: Order) {
        self.collected.orders.push(order);
        if let Some(wake) = &self.wake {
            wake();
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Answer(answer) => self.take(answer),
            Told::Failed(id, error) => {
                log::warn!("no draft: {error}");
                self.executor.cancel(id);
                if let Some(flight) = self.flights.remove(&id) {
                    self.give_back(flight.order);
                }
            }
            Told::Broken(why) => {
                if !self.broken {
                    log::error!("the draft model's executor failed, and drafts nothing any more: {why}");
                }
                self.broken = true;
                let ids: Vec<u64> = self.flights.keys().copied().collect();
                for flight in ids.iter().filter_map(|id| self.flights.remove(id)).collect::<Vec<_>>() {
                    self.give_back(flight.order);
                }
            }
        }
    }

    /// Attaches what was drawn; late answers are nobody's.
    fn take(&mut self, Answer { id, tokens, finish, logits, .. }: Answer) {
        if finish.is_none() {
            return;
        }
        let walk = self.executor.finish(id);
        let Some(Flight { mut order, begun }) = self.flights.remove(&id) else { return };
        let draft = &mut order.job.draft;
        let before = draft.tokens.len();
        draft.tokens.extend(tokens.iter().take(order.want as usize));
        if let Some(made) = walk.and_then(|walk| Executor::with_walk(&walk, |walk| walk.made.take())) {
            draft.masks.truncate(before);
            if draft.masks.len() == before {
                draft.masks.extend(made);
                draft.masks.truncate(draft.tokens.len() + 1);
            }
        }
        if let (Some(all), Some(logits)) = (&self.logits, logits) {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(order.job.slot, (draft.tokens.clone(), logits));
        }
        let drawn = (order.job.draft.tokens.len() - before) as u32;
        let work = Ask::work(&[Ask { drawn, ..order.ask() }]);
        self.collected.passes.extend(work.map(|work| (work, begun.elapsed())));
        self.collected.orders.push(order);
    }

    fn forget(&mut self, which: impl Fn(&Order) -> bool) -> Vec<Order> {
        let ids: Vec<u64> =
            self.flights.iter().filter(|(_, flight)| which(&flight.order)).map(|(id, _)| *id).collect();
        ids.iter().for_each(|id| self.executor.cancel(*id));
        ids.iter().filter_map(|id| self.flights.remove(id)).map(|flight| flight.order).collect()
    }
}

/// The masks of an order's request; None where nothing can be drafted.
fn walk(order: &Order) -> Result<Option<Walk>> {
    let job = &order.job;
    let drafted = job.draft.tokens.len();
    if job.draft.tokens.last().is_some_and(|last| job.sampler.is_end(*last)) {
        return Ok(None);
    }
    let mut walk = Walk::new(&job.sampler, order.known.len() + drafted);
    walk.position += drafted as u32;
    walk.runs_on = true;
    if let Some(grammar) = &job.grammar {
        let mut ahead = grammar.fork();
        job.draft.tokens.iter().try_for_each(|token| ahead.commit(*token))?;
        let first = match job.draft.masks.get(drafted) {
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
    /// Never asked: it is [`Remote`].
    fn propose(&mut self, _asks: &mut [Ask<'_>]) {}

    fn remote(&mut self) -> Option<&mut dyn Remote> {
        Some(self)
    }

    fn keep(&mut self, slot: Slot, len: u32) {
        if len == 0 {
            self.forget(|order| order.job.slot == slot);
        }
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

impl Remote for TrtDrafter {
    fn order(&mut self, orders: Vec<Order>) {
        orders.into_iter().for_each(|order| self.fly(order));
    }

    fn collect(&mut self) -> Collected {
        let told: Vec<Told> = self.executor.told().try_iter().collect();
        told.into_iter().for_each(|told| self.hear(told));
        std::mem::take(&mut self.collected)
    }

    fn cancel(&mut self, job: JobId) {
        for order in self.forget(|order| order.job.id == job) {
            self.give_back(order);
        }
    }

    fn wake_by(&mut self, wake: Wake) {
        self.executor.wake_by(wake.clone());
        self.wake = Some(wake);
    }
}
