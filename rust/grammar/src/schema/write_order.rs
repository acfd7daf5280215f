//! Writes objects whose keys, or only whose optional keys, may stand anywhere (`grammar.key_order`).
//!
//! A rule for each state of the formula, whose parameter has a bit for each known key that has been there. What remains of the
//! formula speaks of keys only that have not been there, so that a state is alive where it would be at the beginning of an
//! object: that is seen from the walk in the order of the schema, which it needs. Where keys are counted, all states are alive
//! if the first is, since nothing else depends on what has been there.
//!
//! Independent conditions would double the states, each of them. Some conditions can always be met by adding a key: where `if` asks
//! for a value of one key and `then` requires another, adding the other one is enough. They need no states. The parameter has bits for
//! what they ask, and the closing brace is allowed only where the bits say that all of them hold.
//!
//! Where a parameter has too few bits for all keys, keys without a bit are only counted. The filter beside the grammar keeps them from
//! coming twice.

use super::set::{Key, Term};
use super::write::Writer;
use super::write_list::{List, States, behind};
use super::write_object::Plan;
use crate::config::KeyOrder;
use crate::error::Result;
use crate::sets::logic::{F, FALSE, Logic, Node, TRUE};
use crate::written::rules::{BITS, Line, Rule, Symbol, and, is_clear};
use ahash::{AHashMap, AHashSet};
use llguidance::earley::{BitIdx, ParamCond, ParamExpr, ParamRef, ParamValue};
use std::rc::Rc;

/// Most states of an object: conditions between n keys may take 2^n, and each state may write all keys.
const MAX_STATES: usize = 100;
/// An object may take one part in so many of the steps of a compilation.
const SHARE: u64 = 100;
/// Why an object that takes more has the order of the schema.
const MANY: &str = "keys with so many conditions come in the order of the schema";

/// An object that is being written.
struct AnyOrder<'p> {
    plan: &'p mut Plan,
    /// By place, required keys first; None where keys are only counted.
    bits: Vec<Option<usize>>,
    required: usize,
    /// The part of the parameter that counts, and how many keys it counts.
    counted: Option<(ParamRef, usize)>,
    /// By place, what conditions ask of the value of a key, and the bit that is set where a value is as asked (`Has`), or where it is
    /// not (`If`).
    asked: Vec<Vec<(Key, usize)>>,
    /// What must hold where the object ends.
    end: ParamCond,
    states: States,
}

impl AnyOrder<'_> {
    /// How many of the required keys must have been there.
    fn required(&self, least: usize) -> ParamCond {
        if least == 0 {
            return ParamCond::True;
        }
        ParamCond::BitCountGE(ParamRef::new(0, self.required as BitIdx), least as BitIdx)
    }

    /// That a key has not been there, or not all that are counted.
    fn is_left(&self, at: usize) -> ParamCond {
        match (self.bits[at], self.counted) {
            (Some(bit), _) => is_clear(bit as BitIdx),
            (None, Some((part, most))) => ParamCond::LT(part, ParamValue(most as u64)),
            (None, None) => ParamCond::True,
        }
    }
}

impl Writer<'_, '_> {
    /// An object whose keys may stand anywhere, or why there is none.
    pub(super) fn any_order(
        &mut self,
        plan: &mut Plan,
        f: F,
    ) -> Result<std::result::Result<Line, &'static str>> {
        let budget = self.reader.arena.budget;
        Ok(budget.share(SHARE, || self.unordered(plan, f))?.unwrap_or(Err(MANY)))
    }

    fn unordered(&mut self, plan: &mut Plan, f: F) -> Result<std::result::Result<Line, &'static str>> {
        let (lasting, f) = self.lasting(f);
        if !self.allows_any_order(f) {
            return Ok(Err("keys that are counted under conditions come in the order of the schema"));
        }
        let Some(mut object) = self.remembered(plan, f, &lasting) else {
            return Ok(Err("so many keys, with conditions or counted, come in the order of the schema"));
        };
        self.can_follow(object.plan, f, &lasting)?;
        let inner = self.state(object.plan, 0, f, false)?;
        let start = self.unordered_state(&mut object, f, false)?;
        if object.states.len() > MAX_STATES {
            return Ok(Err(MANY));
        }
        Ok(Ok([self.brace("{"), vec![Symbol::Needs(inner), Symbol::fresh(start)]].concat()))
    }

    /// Conditions that can always be met by adding keys, and the rest of the formula, which does not speak of these keys.
    fn lasting(&mut self, f: F) -> (Vec<F>, F) {
        let (is_tried, keys) = (self.tallies, &mut self.reader.sets.keys);
        if !is_tried || keys.atoms(f).iter().any(is_count) {
            return (Vec::new(), f);
        }
        let (mut lasting, mut rest) = (Vec::new(), Vec::new());
        for part in keys.conjuncts(f) {
            let part = either_way(keys, part);
            let is_of_keys = keys.atoms(part).iter().all(|key| key.name().is_some());
            let all_there =
                keys.rebuild(part, false, &mut |_, key| if following(key).is_some() { TRUE } else { FALSE });
            let list = if is_of_keys && all_there == TRUE { &mut lasting } else { &mut rest };
            list.push(part);
        }
        loop {
            let atoms: Vec<Key> = rest.iter().flat_map(|part| keys.atoms(*part)).collect();
            let spoken_of: AHashSet<&str> = atoms.iter().filter_map(Key::name).collect();
            let is_apart = |key: &Key| following(key).is_none_or(|name| !spoken_of.contains(name));
            let (apart, others): (Vec<F>, Vec<F>) =
                lasting.into_iter().partition(|part| keys.atoms(*part).iter().all(is_apart));
            if others.is_empty() {
                return (apart, keys.all(rest));
            }
            lasting = apart;
            rest.extend(others);
        }
    }

    /// Notes rules for the values of the keys that may have to be added. Where one of these keys has no value, the grammar is written
    /// again, without bits for conditions.
    fn can_follow(&mut self, plan: &Plan, f: F, lasting: &[F]) -> Result<()> {
        let atoms: Vec<Key> = lasting.iter().flat_map(|part| self.reader.sets.keys.atoms(*part)).collect();
        for name in atoms.iter().filter_map(following) {
            let steps = self.steps(&plan.keys[plan.places[name]], f)?;
            let values =
                steps.into_iter().filter_map(|(value, _)| Some(vec![Symbol::Rule(self.value(value?))]));
            let values = values.collect();
            let any = self.out.rule(values);
            // Of noted rules each alternative must derive a text; of these values one is enough.
            let whole = self.out.rule(vec![vec![Symbol::Rule(any)]]);
            self.tallied.push(whole);
        }
        Ok(())
    }

    /// Gives the bits of the parameter to keys and to what conditions ask. None where there are too few bits.
    fn remembered<'p>(&mut self, plan: &'p mut Plan, f: F, lasting: &[F]) -> Option<AnyOrder<'p>> {
        let mut bits = vec![None; plan.keys.len()];
        let required: Vec<usize> = (0..bits.len()).filter(|at| plan.keys[*at].required).collect();
        required.iter().enumerate().for_each(|(bit, at)| bits[*at] = Some(bit));
        let (mut used, keys) = (required.len(), &self.reader.sets.keys);
        let (mut asked, mut known) = (vec![Vec::new(); bits.len()], AHashMap::new());
        for key in lasting.iter().flat_map(|part| keys.atoms(*part)) {
            let at = plan.places[key.name()?];
            let is_presence = matches!(key, Key::Has(_, TRUE) | Key::If(_, FALSE));
            let bit = match (known.get(&key), bits[at]) {
                (Some(_), _) => continue,
                (_, Some(bit)) if is_presence => bit,
                _ => used,
            };
            used = used.max(bit + 1);
            if is_presence {
                bits[at] = Some(bit);
            } else {
                asked[at].push((key.clone(), bit));
            }
            known.insert(key, bit);
        }
        let others = bits.iter().filter(|bit| bit.is_none()).count();
        let width = (usize::BITS - others.leading_zeros()) as usize;
        let mut counted = None;
        if used + others <= BITS {
            bits.iter_mut().filter(|bit| bit.is_none()).zip(used..).for_each(|(none, bit)| *none = Some(bit));
        } else if !self.reader.setting.filters || used + width > BITS || keys.atoms(f).iter().any(is_count) {
            return None;
        } else {
            counted = Some((ParamRef::new(used as BitIdx, BITS as BitIdx), others));
            (self.filtered, self.untold) = (true, true);
        }
        let end = lasting.iter().fold(ParamCond::True, |all, part| and(holds(keys, *part, &known), all));
        Some(AnyOrder { plan, bits, required: required.len(), counted, asked, end, states: States::new() })
    }

    /// Whether keys that have been there cannot be missed: where they are counted, nothing else may depend on them.
    fn allows_any_order(&self, f: F) -> bool {
        let keys = &self.reader.sets.keys;
        let atoms = keys.atoms(f);
        let is_counted = atoms.iter().any(is_count);
        let is_plain = keys.conjuncts(f).iter().all(|part| matches!(keys.node(*part), Node::Atom(_)));
        (is_plain || !is_counted) && !atoms.iter().any(|key| matches!(key, Key::Some(..)))
    }

    /// The rule for the keys that follow.
    fn unordered_state(&mut self, object: &mut AnyOrder<'_>, f: F, comma: bool) -> Result<Rule> {
        if let Some(known) = object.states.get(&(f, comma)) {
            return Ok(*known);
        }
        let rule = self.rule();
        object.states.insert((f, comma), rule);
        self.reader.arena.budget.spend(1)?;
        // Beyond the limit the object is given up: its rules need no lines.
        if object.states.len() <= MAX_STATES {
            self.out.rules[rule] = self.unordered_lines(object, f, comma)?;
        }
        Ok(rule)
    }

    fn unordered_lines(&mut self, object: &mut AnyOrder<'_>, f: F, comma: bool) -> Result<Vec<Line>> {
        // Room is kept for the keys that are required.
        let others = List::Keys(object.plan.others);
        let ((_, most), _) = self.bounds(others, f);
        let short = most.map_or(0, |most| (object.required as u32 + 1).saturating_sub(most));
        let room = object.required((short as usize).min(object.required));
        let mut lines = Vec::new();
        if self.may_stop(others, f) {
            let end = and(object.end.clone(), object.required(object.required));
            lines.push((end, self.brace("}")));
        }
        for at in 0..object.plan.keys.len() {
            let may_come = match object.bits[at].filter(|_| object.plan.keys[at].required) {
                // Bits of required keys are their places: as many have been there as come before.
                Some(bit) if self.reader.config.key_order == KeyOrder::Required => object.required(bit),
                Some(_) => ParamCond::True,
                None => room.clone(),
            };
            let may_come = and(object.is_left(at), may_come);
            for (value, rest, bits) in self.noted(object, at, f)? {
                let next = self.unordered_state(object, rest, true)?;
                let mut pair = self.known_pair(&object.plan.keys[at], value)?;
                pair.push(self.past(object, at, next, bits));
                lines.push((may_come.clone(), self.behind(comma, pair)?));
            }
        }
        let loops = self.rule();
        for (pair, rest) in self.next(others, f)? {
            let mut pair = behind(comma, pair);
            if comma && rest == f {
                self.out.rules[loops].push(pair);
            } else {
                let next = self.unordered_state(object, rest, true)?;
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
        Ok(lines.into_iter().map(line).collect())
    }

    /// The values of a known key, what is left of the formula then, and the bits to set for what conditions ask of them.
    fn noted(&mut self, object: &AnyOrder<'_>, at: usize, f: F) -> Result<Vec<(Term, F, u64)>> {
        let steps = self.steps(&object.plan.keys[at], f)?;
        let mut found: Vec<(Term, F, u64)> =
            steps.into_iter().filter_map(|(value, rest)| Some((value?, rest, 0))).collect();
        for (key, bit) in &object.asked[at] {
            // The atom is left where the bit is set.
            let own = self.reader.sets.keys.atom(key.clone());
            let open = match key {
                Key::If(_, term) => (key.clone(), *term, TRUE, own),
                Key::Has(_, term) => (key.clone(), *term, own, TRUE),
                _ => continue,
            };
            let mut parts = Vec::new();
            for (value, rest, bits) in found {
                let told = self.decide(value, vec![open.clone()], own)?;
                let of_bits = |left: F| bits | (u64::from(left == own) << bit);
                parts.extend(told.into_iter().map(|(value, left)| (value, rest, of_bits(left))));
            }
            found = parts;
        }
        Ok(found)
    }

    /// What follows a key: the rule `next`, with the key and these bits noted in its parameter.
    fn past(&mut self, object: &AnyOrder<'_>, at: usize, next: Rule, bits: u64) -> Symbol {
        match (object.bits[at], object.counted) {
            (None, Some((part, _))) => {
                // One step counts, another one sets bits.
                let next = if bits == 0 { next } else { self.out.rule(vec![vec![Symbol::past(next, bits)]]) };
                Symbol::With(next, ParamExpr::Incr(part))
            }
            (bit, _) => Symbol::past(next, bits | bit.map_or(0, |bit| 1 << bit)),
        }
    }
}

/// Whether a condition holds, by the bits of its atoms.
fn holds(keys: &Logic<Key>, f: F, bits: &AHashMap<Key, usize>) -> ParamCond {
    match keys.node(f) {
        Node::Atom(key) => {
            let is_clear = is_clear(bits[key] as BitIdx);
            if matches!(key, Key::If(..)) { is_clear } else { ParamCond::Not(Box::new(is_clear)) }
        }
        Node::All(parts) => {
            parts.iter().fold(ParamCond::True, |all, part| and(holds(keys, *part, bits), all))
        }
        Node::Any(parts) => {
            let parts = parts.iter().map(|part| holds(keys, *part, bits));
            let either = |a, b| ParamCond::Or(Box::new(a), Box::new(b));
            parts.reduce(either).unwrap_or(ParamCond::Not(Box::new(ParamCond::True)))
        }
    }
}

/// That a key is absent or has a value, as one atom in place of two.
fn either_way(keys: &mut Logic<Key>, f: F) -> F {
    let Node::Any(parts) = keys.node(f).clone() else { return f };
    let may_be_absent = |keys: &mut Logic<Key>, part: F| match keys.node(part).clone() {
        Node::Atom(Key::Has(name, term)) => {
            let absent = keys.atom(Key::If(Rc::clone(&name), FALSE));
            if parts.contains(&absent) { keys.atom(Key::If(name, term)) } else { part }
        }
        Node::Atom(Key::If(name, FALSE)) => {
            let is_had = parts
                .iter()
                .any(|part| matches!(keys.node(*part), Node::Atom(Key::Has(own, _)) if *own == name));
            if is_had { FALSE } else { part }
        }
        _ => part,
    };
    let parts: Vec<F> = parts.iter().map(|part| may_be_absent(keys, *part)).collect();
    keys.any(parts)
}

/// The key that an atom asks for, with any value.
fn following(key: &Key) -> Option<&str> {
    key.name().filter(|_| matches!(key, Key::Has(_, TRUE)))
}

fn is_count(key: &Key) -> bool {
    matches!(key, Key::Least(..) | Key::Most(_))
}
