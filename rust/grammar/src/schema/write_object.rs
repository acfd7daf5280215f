//! Writes sets of objects: a walk over the known keys in their order, then over the others.
//!
//! A state is what is left of the formula. At each key it is gone through what may be chosen: the key is absent, or its
//! value is in some of the sets that the formula speaks of, which decides parts of it.

use super::set::{Key, Term};
use super::write::{Writer, literal};
use super::write_choice::Open;
use super::write_list::{List, States};
use crate::config::KeyOrder;
use crate::error::Result;
use crate::sets::bits::has;
use crate::sets::logic::{F, FALSE, Node, TRUE};
use crate::written::expr::quoted;
use crate::written::rules::{BITS, Line, Rule, Symbol};
use ahash::{AHashMap, AHashSet};
use std::rc::Rc;

/// Each optional key takes four items of a parser row, which holds 20,000: with more, generation dies at the first key.
const MAX_OPTIONAL: usize = 4_500;
/// Most copies of an object for alternatives that restrict several keys: beyond, they share one walk.
const MAX_COPIES: usize = 20;

/// Why objects have no keys that their schema does not name.
const UNDECLARED: &str =
    "keys that are not declared are left out: say additionalProperties, or set grammar.undeclared_keys";

/// A key that is known by its name, and what holds of it alone.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: Rc<str>,
    pub(super) required: bool,
    pub(super) value: Term,
}

/// One object.
pub(super) struct Plan {
    pub(super) keys: Vec<Known>,
    /// The names of other keys; FALSE where there are none.
    pub(super) others: F,
    pub(super) places: AHashMap<Rc<str>, usize>,
    states: AHashMap<(usize, F, bool), Rule>,
    /// The rule for a run of keys, by the place of its first key, the place behind its last one, and whether a key stands before it.
    pub(super) runs: AHashMap<(usize, usize, bool), Rule>,
    free: States,
    optional: AHashSet<usize>,
}

/// The values of a key, or none where it is absent, and what is left then.
type Step = (Option<Term>, F);
/// Names of keys, their values, and what is left then.
type Free = (F, Term, F);

impl Writer<'_, '_> {
    /// The lines of the objects that satisfy the formula.
    pub(super) fn objects(&mut self, f: F) -> Result<Vec<Line>> {
        if self.reader.config.key_order != KeyOrder::Schema
            && let Some(lines) = self.in_any_order(f)?
        {
            return Ok(lines);
        }
        let mut lines = Vec::new();
        for f in self.copies(f, MAX_COPIES, true)? {
            let (mut plan, rest) = self.plan(f)?;
            lines.push(self.in_order(&mut plan, rest)?);
        }
        Ok(lines)
    }

    /// An object whose keys come in the order of the schema.
    fn in_order(&mut self, plan: &mut Plan, f: F) -> Result<Line> {
        let keys = Symbol::Rule(self.state(plan, 0, f, false)?);
        Ok([self.brace("{"), vec![keys], self.brace("}")].concat())
    }

    /// Objects whose keys, or only those that are optional, may stand anywhere; None where all have to come in the order of the schema.
    fn in_any_order(&mut self, f: F) -> Result<Option<Vec<Line>>> {
        let is_any = self.reader.config.key_order == KeyOrder::Any;
        let mut lines = Vec::new();
        for f in self.copies(f, MAX_COPIES, false)? {
            let (mut plan, rest) = self.plan(f)?;
            let is_free = is_any || plan.others != FALSE || plan.keys.iter().any(|key| !key.required);
            if !is_free || plan.keys.is_empty() {
                lines.push(self.in_order(&mut plan, rest)?);
                continue;
            }
            match self.any_order(&mut plan, rest)? {
                Ok(line) => lines.push(line),
                Err(why) => {
                    self.narrow("properties", why)?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(lines))
    }

    /// Alternatives that are better written one by one; `most`: so many for those that share other parts; `ordered`: their keys come in
    /// the order of the schema.
    fn copies(&mut self, f: F, most: usize, ordered: bool) -> Result<Vec<F>> {
        self.reader.arena.budget.spend(1)?;
        let parts = match self.reader.sets.keys.node(f).clone() {
            Node::Any(parts) => {
                let copies =
                    parts.iter().map(|f| self.copies(*f, most, ordered)).collect::<Result<Vec<_>>>()?;
                return Ok(copies.into_iter().flatten().collect());
            }
            Node::All(parts) => parts,
            Node::Atom(_) => return Ok(vec![f]),
        };
        let broad = |f: &F| match self.reader.sets.keys.node(*f) {
            Node::Any(inner) if inner.len() <= most && self.is_broad(inner, ordered) => {
                Some(Rc::clone(inner))
            }
            _ => None,
        };
        let mut all = parts.iter().enumerate().filter_map(|(i, f)| Some((i, broad(f)?)));
        // Where there are more, copies for a few of them say little, and each is as large as the whole.
        let Some((at, alternatives)) = all.next().filter(|_| all.count() < MAX_COPIES) else {
            return Ok(vec![f]);
        };
        let mut all = Vec::new();
        for alternative in alternatives.iter() {
            let copy = parts[..at].iter().chain([alternative]).chain(&parts[at + 1..]);
            let f = self.reader.sets.keys.all(copy.copied().collect::<Vec<_>>());
            if f != FALSE {
                all.extend(self.copies(f, most / alternatives.len(), ordered)?);
            }
        }
        Ok(all)
    }

    /// Whether an alternative describes more than one key. Where one is of a single key, as where the condition of `if` is not met,
    /// a copy for it is for the order of keys only.
    fn is_broad(&self, alternatives: &[F], ordered: bool) -> bool {
        let keys = &self.reader.sets.keys;
        let is_single = |f: &F| matches!(keys.node(*f), Node::Atom(Key::If(..) | Key::Has(..)));
        if !ordered && alternatives.iter().any(is_single) {
            return false;
        }
        alternatives.iter().any(|f| {
            let mut names = AHashSet::new();
            keys.atoms(*f).iter().any(|key| match key {
                Key::If(name, t) | Key::Has(name, t) if *t != TRUE && *t != FALSE => {
                    names.insert(Rc::clone(name));
                    names.len() > 1
                }
                Key::Every(..) => true,
                _ => false,
            })
        })
    }

    /// The keys in the order in which the formula names them, and the formula without what holds of one key alone.
    fn plan(&mut self, f: F) -> Result<(Plan, F)> {
        let mut keys: Vec<Known> = Vec::new();
        let mut places: AHashMap<Rc<str>, usize> = AHashMap::new();
        let atoms = self.reader.sets.keys.atoms(f);
        // What is only required or absent comes after what is described.
        let described = |key: &&Key| match key {
            Key::If(_, t) => *t != FALSE,
            Key::Has(_, t) => *t != TRUE,
            _ => false,
        };
        for key in atoms.iter().filter(described).chain(atoms.iter().filter(|key| !described(key))) {
            if let Key::If(name, _) | Key::Has(name, _) = key {
                places.entry(Rc::clone(name)).or_insert_with(|| {
                    keys.push(Known { name: Rc::clone(name), required: false, value: TRUE });
                    keys.len() - 1
                });
            }
        }
        for key in &self.reader.sets.keys.certain(f) {
            let (Key::If(name, t) | Key::Has(name, t)) = key else { continue };
            let known = &mut keys[places[name]];
            known.required |= matches!(key, Key::Has(..));
            known.value = self.reader.sets.terms.all([known.value, *t]);
        }
        self.reader.arena.budget.spend(keys.len())?;
        let others = if self.is_closed(&atoms, keys.len())? { FALSE } else { self.others(f, &mut keys)? };
        let others = self.unnamed(others)?;
        let (states, runs) = (AHashMap::new(), AHashMap::new());
        let (free, optional) = (States::new(), AHashSet::new());
        let rest = self.left_over(f);
        Ok((Plan { keys, others, places, states, runs, free, optional }, rest))
    }

    /// The names of other keys than those that are known. Where they are few and keys are counted, they are known, too: a filter tells
    /// keys apart, and does not know how many are left.
    fn others(&mut self, f: F, keys: &mut Vec<Known>) -> Result<F> {
        let certain = self.reader.sets.keys.certain(f);
        let known = keys.iter().map(|key| key.name.to_string());
        let (others, allowed) = self.reader.sets.other_names(known, &certain);
        let is_counted = self.reader.sets.keys.atoms(f).iter().any(Key::counts);
        if !is_counted || allowed == others || keys.len() >= BITS || self.no_string(allowed)? {
            return Ok(others);
        }
        let Some(few) = self.reader.sets.strings.few(allowed, BITS - keys.len()) else { return Ok(others) };
        keys.extend(few.into_iter().map(|name| Known { name: name.into(), required: false, value: TRUE }));
        Ok(FALSE)
    }

    /// Whether there are no keys but so many known ones, which is noted.
    fn is_closed(&mut self, atoms: &[Key], known: usize) -> Result<bool> {
        let is_closed = Key::declare_all(atoms, known);
        if is_closed {
            self.narrow("additionalProperties", UNDECLARED)?;
        }
        Ok(is_closed)
    }

    /// The formula without what holds of one key alone.
    fn left_over(&mut self, f: F) -> F {
        let keys = &mut self.reader.sets.keys;
        let mut rest = keys.conjuncts(f);
        rest.retain(|f| !matches!(keys.node(*f), Node::Atom(Key::If(..) | Key::Has(..))));
        keys.all(rest)
    }

    /// The rule for what follows before the key of that place; `comma`: something stands before it.
    pub(super) fn state(&mut self, plan: &mut Plan, at: usize, f: F, comma: bool) -> Result<Rule> {
        if let Some(known) = plan.states.get(&(at, f, comma)) {
            return Ok(*known);
        }
        self.reader.arena.budget.spend(1)?;
        if at == plan.keys.len() {
            return self.list(List::Keys(plan.others), &mut plan.free, f, comma);
        }
        let rule = self.rule();
        plan.states.insert((at, f, comma), rule);
        if let Some(next) = self.spoken_of(plan, at, f).filter(|next| *next > at) {
            self.out.rules[rule] = self.past_others(plan, (at, next), f, comma)?;
            return Ok(rule);
        }
        let steps = self.steps(&plan.keys[at], f)?;
        if steps.len() > 1 && steps[0].0.is_none() {
            self.optional(plan, at)?;
        }
        let mut lines = Vec::new();
        for (value, rest) in steps {
            let mut line = match value {
                Some(value) => {
                    let pair = self.known_pair(&plan.keys[at], value)?;
                    self.behind(comma, pair)?
                }
                None => Vec::new(),
            };
            line.push(Symbol::Rule(self.state(plan, at + 1, rest, comma || value.is_some())?));
            lines.push(line);
        }
        self.out.rules[rule] = lines;
        Ok(rule)
    }

    pub(super) fn optional(&mut self, plan: &mut Plan, at: usize) -> Result<()> {
        if plan.optional.insert(at) && plan.optional.len() > MAX_OPTIONAL {
            let why = format!("more than {MAX_OPTIONAL} optional properties, all parts together");
            return self.refuse("properties", why);
        }
        Ok(())
    }

    pub(super) fn known_pair(&mut self, key: &Known, value: Term) -> Result<Line> {
        if self.is_call {
            return self.argument(&key.name, value);
        }
        let name = if self.is_nested() { key.name.to_string() } else { quoted(&key.name) };
        Ok(vec![literal(&name), literal(":"), Symbol::Rule(self.value(value))])
    }

    /// What may be chosen at a known key.
    pub(super) fn steps(&mut self, key: &Known, f: F) -> Result<Vec<Step>> {
        let atoms = self.reader.sets.keys.atoms(f);
        self.reader.arena.budget.spend(1 + atoms.len())?;
        let mut steps = Vec::new();
        let (mut absent, mut here, mut there) = (AHashMap::new(), Vec::new(), AHashMap::new());
        for atom in atoms {
            let own = self.reader.sets.keys.atom(atom.clone());
            let (value, within, without) = match &atom {
                Key::If(name, t) | Key::Has(name, t) if *name == key.name => {
                    absent.insert(atom.clone(), if matches!(atom, Key::If(..)) { TRUE } else { FALSE });
                    (*t, TRUE, FALSE)
                }
                Key::Every(names, t) if self.reader.sets.strings.has(names.over.0, &key.name) => {
                    (*t, own, FALSE)
                }
                Key::Some(names, t) if self.reader.sets.strings.has(names.under.0, &key.name) => {
                    (*t, TRUE, own)
                }
                _ => {
                    there.extend(self.behind_a_key(&atom).map(|left| (atom, left)));
                    continue;
                }
            };
            here.push((atom, value, within, without));
        }
        if !key.required {
            let rest = self.reader.sets.keys.replace(f, &absent);
            if rest != FALSE {
                steps.push((None, rest));
            }
        }
        let f = self.reader.sets.keys.replace(f, &there);
        steps.extend(self.decide(key.value, here, f)?.into_iter().map(|(value, rest)| (Some(value), rest)));
        Ok(steps)
    }

    /// What may be chosen for a key that is not known.
    pub(super) fn free_steps(&mut self, others: F, f: F) -> Result<Vec<Free>> {
        if others == FALSE {
            return Ok(Vec::new());
        }
        let atoms = self.reader.sets.keys.atoms(f);
        self.reader.arena.budget.spend(1 + atoms.len())?;
        let (mut sets, mut open, mut counts) = (vec![others], Vec::new(), Vec::new());
        for atom in atoms {
            let Some((names, choice)) = self.by_name(&atom) else {
                counts.push(atom);
                continue;
            };
            // A class is not in what is the opposite, so that no name is in two.
            sets.extend([names, self.reader.sets.strings.not(names)]);
            open.push(choice);
        }
        let Some(classes) = self.reader.sets.strings.split(&sets) else {
            return self.refuse("patternProperties", "too many patterns that are found in the same names");
        };
        let f = if classes.is_empty() { f } else { self.behind_counts(f, counts)? };
        let (mut steps, mut places) = (Vec::<Free>::new(), AHashMap::new());
        for (names, row) in classes {
            let here = open.iter().enumerate().filter(|(i, _)| has(&row, 2 * i + 1));
            let here = here.map(|(_, choice)| choice.clone()).collect();
            for (value, rest) in self.decide(TRUE, here, f)? {
                let place = *places.entry((value, rest)).or_insert(steps.len());
                match steps.get_mut(place) {
                    Some((all, ..)) => *all = self.reader.sets.strings.or(*all, names),
                    None => steps.push((names, value, rest)),
                }
            }
        }
        let may_run_out = open.iter().any(|(_, term, ..)| *term == FALSE);
        if !steps.is_empty() && self.reader.setting.filters {
            self.frees = true;
            self.filtered |= may_run_out;
        }
        Ok(steps)
    }

    /// The names that an atom speaks of, and what becomes of it with one of them; None of other atoms.
    fn by_name(&mut self, atom: &Key) -> Option<(F, Open)> {
        let own = self.reader.sets.keys.atom(atom.clone());
        Some(match atom {
            Key::Every(names, t) => (names.over.0, (atom.clone(), *t, own, FALSE)),
            // Without a filter, a later key of the same name would undo it.
            Key::Some(names, t) => {
                let every = self.reader.sets.keys.atom(Key::Every(*names, *t));
                let kept = if self.reader.setting.filters { TRUE } else { every };
                (names.under.0, (atom.clone(), *t, kept, own))
            }
            _ => return None,
        })
    }

    /// The formula behind one more key.
    fn behind_counts(&mut self, f: F, counts: Vec<Key>) -> Result<F> {
        if counts.iter().any(Key::counts) {
            if !self.reader.setting.filters {
                let why = "keys that properties does not name cannot be counted in a schema that is part of another grammar: name them";
                return self.refuse("minProperties", why);
            }
            self.filtered = true;
        }
        let left = |key: Key| self.behind_a_key(&key).map(|left| (key, left));
        let left = counts.into_iter().filter_map(left).collect();
        Ok(self.reader.sets.keys.replace(f, &left))
    }

    /// What a count of keys is behind one more; None of other atoms.
    pub(super) fn behind_a_key(&mut self, key: &Key) -> Option<F> {
        let left = match key {
            Key::Least(..=1) => return Some(TRUE),
            Key::Least(n) => Key::Least(n - 1),
            Key::Most(0) => return Some(FALSE),
            Key::Most(n) => Key::Most(n - 1),
            _ => return None,
        };
        Some(self.reader.sets.keys.atom(left))
    }
}
