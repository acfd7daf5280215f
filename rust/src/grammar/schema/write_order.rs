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
use super::write_list::{List, States, behind};
use super::write_object::Plan;
use crate::config::KeyOrder;
use crate::error::Result;
use llguidance::earley::{BitIdx, ParamCond, ParamExpr, ParamRef};

/// Most states of an object: conditions between n keys may take 2^n.
const MAX_STATES: usize = 100;

/// An object that is being written.
struct AnyOrder<'p> {
    plan: &'p mut Plan,
    /// By place, required keys first.
    bits: Vec<BitIdx>,
    required: BitIdx,
    states: States,
}

impl AnyOrder<'_> {
    /// How many of the required keys must have been there.
    fn required(&self, least: BitIdx) -> ParamCond {
        if least == 0 {
            return ParamCond::True;
        }
        ParamCond::BitCountGE(ParamRef::new(0, self.required), least)
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
        self.narrow("properties", &why)?;
        Ok(None)
    }

    /// Whether keys that have been there cannot be missed: where they are counted, nothing else may depend on them.
    fn allows_any_order(&self, f: F) -> bool {
        let keys = &self.reader.sets.keys;
        let atoms = keys.atoms(f);
        let is_counted = atoms.iter().any(is_count);
        let is_plain = keys.conjuncts(f).iter().all(|part| matches!(keys.node(*part), Node::Atom(_)));
        (is_plain || !is_counted) && !atoms.iter().any(|key| matches!(key, Key::Some(..)))
    }

    fn unordered(&mut self, plan: &mut Plan, f: F) -> Result<Option<Rule>> {
        let mut bits = vec![0; plan.keys.len()];
        let (required, optional): (Vec<_>, Vec<_>) = (0..bits.len()).partition(|at| plan.keys[*at].required);
        (0..).zip(required.iter().chain(&optional)).for_each(|(bit, at)| bits[*at] = bit);
        let required = required.len() as BitIdx;
        let mut object = AnyOrder { plan, bits, required, states: States::new() };
        self.unordered_state(&mut object, f, false)
    }

    /// The rule for the keys that follow; None where there are too many states.
    fn unordered_state(&mut self, object: &mut AnyOrder<'_>, f: F, comma: bool) -> Result<Option<Rule>> {
        if let Some(known) = object.states.get(&(f, comma)) {
            return Ok(Some(*known));
        }
        let rule = self.rule();
        object.states.insert((f, comma), rule);
        if object.states.len() > MAX_STATES {
            return Ok(None);
        }
        self.reader.arena.budget.spend(1)?;
        let Some(lines) = self.unordered_lines(object, f, comma)? else { return Ok(None) };
        self.out.rules[rule] = lines;
        Ok(Some(rule))
    }

    fn unordered_lines(&mut self, object: &mut AnyOrder<'_>, f: F, comma: bool) -> Result<Option<Vec<Line>>> {
        // Room is kept for the keys that are required.
        let others = List::Keys(object.plan.others);
        let ((_, most), _) = self.bounds(others, f);
        let short = most.map_or(0, |most| (u32::from(object.required) + 1).saturating_sub(most));
        let room = object.required((short as BitIdx).min(object.required));
        let mut lines = Vec::new();
        if self.may_stop(others, f) {
            lines.push((object.required(object.required), vec![literal("}")]));
        }
        for at in 0..object.plan.keys.len() {
            let bit = object.bits[at];
            let may_come = match object.plan.keys[at].required {
                // Bits of required keys are their places: as many have been there as come before.
                true if self.reader.config.key_order == KeyOrder::Required => object.required(bit),
                true => ParamCond::True,
                false => room.clone(),
            };
            for (value, rest) in self.steps(&object.plan.keys[at], f)? {
                let Some(value) = value else { continue };
                let Some(next) = self.unordered_state(object, rest, true)? else { return Ok(None) };
                let pair = self.known_pair(&object.plan.keys[at], value);
                let pair = pair.into_iter().chain([Symbol::past(next, bit)]);
                lines.push((and(is_clear(bit), may_come.clone()), behind(comma, pair)));
            }
        }
        let loops = self.rule();
        for (pair, rest) in self.next(others, f)? {
            let mut pair = behind(comma, pair);
            if comma && rest == f {
                self.out.rules[loops].push(pair);
            } else {
                let Some(next) = self.unordered_state(object, rest, true)? else { return Ok(None) };
                pair.push(Symbol::With(next, ParamExpr::SelfRef));
                lines.push((room.clone(), pair));
            }
        }
        let mut begin = Vec::new();
        if !self.reader.sets.keys.atoms(f).iter().any(is_count) {
            begin.push(Symbol::Needs(self.state(object.plan, 0, f, false)?));
        }
        if !self.out.rules[loops].is_empty() {
            begin.push(Symbol::Times(loops, 0, None));
        }
        let line = |(condition, line)| [vec![Symbol::If(condition)], begin.clone(), line].concat();
        Ok(Some(lines.into_iter().map(line).collect()))
    }
}

fn is_count(key: &Key) -> bool {
    matches!(key, Key::Least(..) | Key::Most(_))
}
