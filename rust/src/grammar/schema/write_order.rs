//! Writes objects whose keys, or only whose optional keys, may stand anywhere (`grammar.key_order`).
//!
//! A rule for each state of the formula, whose parameter has a bit for each known key that has been there. What remains of the
//! formula speaks of keys only that have not been there, so that a state is alive where it would be at the beginning of an
//! object: that is seen from the walk in the order of the schema, which it needs. Where keys are counted, all states are alive
//! if the first is, since nothing else depends on what has been there.

use super::logic::{F, FALSE, Node};
use super::rules::{BITS, Line, Rule, Symbol, and, is_clear};
use super::set::Key;
use super::write::{Writer, literal};
use super::write_object::Plan;
use crate::config::KeyOrder;
use crate::error::Result;
use ahash::AHashMap;
use llguidance::earley::{BitIdx, ParamCond, ParamRef};

/// Most states of an object: conditions between n keys may take 2^n.
const MAX_STATES: usize = 100;

/// An object that is being written.
struct AnyOrder<'p> {
    plan: &'p mut Plan,
    /// By place, required keys first.
    bits: Vec<BitIdx>,
    required: BitIdx,
    /// Required keys come in their order.
    in_order: bool,
    /// What is left, and whether something stands before.
    states: AHashMap<(F, bool), Rule>,
    line: Vec<(F, bool, Rule)>,
}

impl AnyOrder<'_> {
    /// How many of the required keys must have been there.
    fn required(&self, least: BitIdx) -> ParamCond {
        if least == 0 {
            return ParamCond::True;
        }
        ParamCond::BitCountGE(ParamRef::new(0, self.required), least)
    }

    /// When the key of this place may come, `room` being when an optional one may.
    fn condition(&self, at: usize, room: &ParamCond) -> ParamCond {
        match self.plan.keys[at].required {
            // Bits of required keys are their places: as many have been there as come before.
            true if self.in_order => self.required(self.bits[at]),
            true => ParamCond::True,
            false => room.clone(),
        }
    }
}

impl Writer<'_, '_> {
    /// The rule, closing brace included, for the keys in any order; None where they come in the order of the schema.
    pub(super) fn any_order(&mut self, plan: &mut Plan, f: F) -> Result<Option<Rule>> {
        let by_schema = match self.reader.config.key_order {
            KeyOrder::Schema => true,
            KeyOrder::Required => plan.others == FALSE && plan.keys.iter().all(|key| key.required),
            KeyOrder::Any => false,
        };
        if by_schema || plan.keys.is_empty() {
            return Ok(None);
        }
        let why = if plan.keys.len() > BITS {
            format!("more than {BITS} keys come in the order of the schema")
        } else if !self.allows_any_order(f) {
            "keys that are counted under conditions come in the order of the schema".to_owned()
        } else if let Some(start) = self.unordered(plan, f)? {
            return Ok(Some(start));
        } else {
            "keys with so many conditions come in the order of the schema".to_owned()
        };
        let pointer = self.reader.arena[self.at].pointer.clone();
        self.reader.narrow(&pointer, "properties", &why)?;
        Ok(None)
    }

    /// Whether keys that have been there cannot be missed: where they are counted, nothing else may depend on them.
    fn allows_any_order(&self, f: F) -> bool {
        let keys = &self.reader.sets.keys;
        let atoms = keys.atoms(f);
        let is_counted = atoms.iter().any(is_count);
        let is_plain = self.parts(f).iter().all(|part| matches!(keys.node(*part), Node::Atom(_)));
        (is_plain || !is_counted) && !atoms.iter().any(|key| matches!(key, Key::Some(..)))
    }

    fn unordered(&mut self, plan: &mut Plan, f: F) -> Result<Option<Rule>> {
        let mut bits = vec![0; plan.keys.len()];
        let (required, optional): (Vec<_>, Vec<_>) = (0..bits.len()).partition(|at| plan.keys[*at].required);
        (0..).zip(required.iter().chain(&optional)).for_each(|(bit, at)| bits[*at] = bit);
        let required = required.len() as BitIdx;
        let in_order = self.reader.config.key_order == KeyOrder::Required;
        let mut object =
            AnyOrder { plan, bits, required, in_order, states: AHashMap::new(), line: Vec::new() };
        let start = self.unordered_state(&mut object, f, false);
        while let Some((f, comma, rule)) = object.line.pop() {
            if object.states.len() > MAX_STATES {
                return Ok(None);
            }
            self.reader.arena.budget.spend(1)?;
            self.unordered_lines(&mut object, (f, comma), rule)?;
        }
        Ok(Some(start))
    }

    fn unordered_state(&mut self, object: &mut AnyOrder<'_>, f: F, comma: bool) -> Rule {
        if let Some(known) = object.states.get(&(f, comma)) {
            return *known;
        }
        let rule = self.rule();
        object.states.insert((f, comma), rule);
        object.line.push((f, comma, rule));
        rule
    }

    fn unordered_lines(
        &mut self,
        object: &mut AnyOrder<'_>,
        (f, comma): (F, bool),
        rule: Rule,
    ) -> Result<()> {
        // Room is kept for the keys that are required.
        let most = self.most(f);
        let short = most.map_or(0, |most| (u32::from(object.required) + 1).saturating_sub(most));
        let room = object.required((short as BitIdx).min(object.required));
        let mut lines: Vec<(Line, ParamCond)> = Vec::new();
        if self.may_end(f) {
            lines.push((vec![literal("}")], object.required(object.required)));
        }
        for at in 0..object.plan.keys.len() {
            let bit = object.bits[at];
            for (value, rest) in self.steps(&object.plan.keys[at], f)? {
                let Some(value) = value else { continue };
                let next = Symbol::Past(self.unordered_state(object, rest, true), bit);
                let pair = self.known_pair(&object.plan.keys[at], value);
                let line = comma.then(|| literal(",")).into_iter().chain(pair).chain([next]);
                lines.push((line.collect(), and(is_clear(bit), object.condition(at, &room))));
            }
        }
        let loops = self.rule();
        for (names, value, rest) in self.free_steps(object.plan.others, f)? {
            let mut pair = self.pair(names, value, comma)?;
            if comma && rest == f {
                self.rules[loops].push(pair);
            } else {
                pair.push(Symbol::Same(self.unordered_state(object, rest, true)));
                lines.push((pair, room.clone()));
            }
        }
        let mut begin = Vec::new();
        if !self.reader.sets.keys.atoms(f).iter().any(is_count) {
            begin.push(Symbol::Needs(self.state(object.plan, 0, f, false)?));
        }
        if !self.rules[loops].is_empty() {
            begin.push(Symbol::Star(loops));
        }
        let (lines, conditions) =
            lines.into_iter().map(|(line, c)| ([&begin[..], &line].concat(), c)).unzip();
        self.rules[rule] = lines;
        self.conditions.insert(rule, conditions);
        Ok(())
    }

    /// How many more keys there may be.
    fn most(&self, f: F) -> Option<u32> {
        let most = |part: &F| match self.reader.sets.keys.node(*part) {
            Node::Atom(Key::Most(n)) => Some(*n),
            _ => None,
        };
        self.parts(f).iter().filter_map(most).min()
    }
}

fn is_count(key: &Key) -> bool {
    matches!(key, Key::Least(..) | Key::Most(_))
}
