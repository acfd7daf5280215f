//! Writes keys of which nothing is left to say: all states of an object share their rules.

use super::set::Key;
use super::write::Writer;
use super::write_object::{Known, Plan};
use crate::error::Result;
use crate::sets::logic::{F, TRUE};
use crate::written::rules::{Line, Rule, Symbol};

impl Writer<'_, '_> {
    /// The first key from this place on that the formula speaks of; None where nothing is left, or not of single keys.
    pub(super) fn spoken_of(&self, plan: &Plan, at: usize, f: F) -> Option<usize> {
        let mut next = plan.keys.len();
        for key in self.reader.sets.keys.atoms(f) {
            let place = match key {
                Key::If(name, _) | Key::Has(name, _) => plan.places.get(&name).copied(),
                Key::Declared | Key::Open => None,
                _ => return None,
            };
            next = place.filter(|place| *place >= at).map_or(next, |place| next.min(place));
        }
        Some(next).filter(|_| f != TRUE)
    }

    /// Keys that the formula does not speak of are the same in all states: these share the rules for a run of them.
    pub(super) fn past_others(
        &mut self,
        plan: &mut Plan,
        (at, next): (usize, usize),
        f: F,
        comma: bool,
    ) -> Result<Vec<Line>> {
        let run = self.run(plan, (at, next), comma)?;
        let mut lines = vec![vec![Symbol::Rule(run), Symbol::Rule(self.state(plan, next, f, true)?)]];
        if !comma && plan.keys[at..next].iter().all(|key| !key.required) {
            lines.push(vec![Symbol::Rule(self.state(plan, next, f, false)?)]);
        }
        Ok(lines)
    }

    /// The rule for the keys of these places, put together by halves; at least one of them where nothing stands before (`comma` is
    /// false).
    fn run(&mut self, plan: &mut Plan, (from, to): (usize, usize), comma: bool) -> Result<Rule> {
        if let Some(known) = plan.runs.get(&(from, to, comma)) {
            return Ok(*known);
        }
        self.reader.arena.budget.spend(1)?;
        let may_be_absent = |keys: &[Known]| keys.iter().all(|key| !key.required);
        let lines = if to - from == 1 {
            let key = &plan.keys[from];
            let pair = self.known_pair(key, key.value)?;
            let mut lines = vec![self.behind(comma, pair)?];
            if !key.required {
                lines.extend(comma.then(Vec::new));
                self.optional(plan, from)?;
            }
            lines
        } else {
            // At the same places for all runs, so that they share their halves.
            let half = (from ^ (to - 1)).ilog2();
            let middle = (to - 1) >> half << half;
            let second = Symbol::Rule(self.run(plan, (middle, to), true)?);
            let mut lines = vec![vec![Symbol::Rule(self.run(plan, (from, middle), comma)?), second]];
            if !comma && may_be_absent(&plan.keys[from..middle]) {
                lines.push(vec![Symbol::Rule(self.run(plan, (middle, to), false)?)]);
            }
            lines
        };
        let rule = self.out.rule(lines);
        plan.runs.insert((from, to, comma), rule);
        Ok(rule)
    }
}
