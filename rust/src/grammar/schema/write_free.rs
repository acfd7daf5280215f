//! Writes the keys of objects that are not known by name.

use super::logic::{F, FALSE, Node, TRUE};
use super::rules::{Line, Rule, Symbol, counted};
use super::set::{Key, Term};
use super::write::{Writer, literal};
use crate::error::Result;
use ahash::AHashMap;

/// Names of keys, their values, and what is left then.
type Free = (F, Term, F);

impl Writer<'_, '_> {
    /// The rule for keys of these names; `comma`: something stands before them.
    pub(super) fn free(
        &mut self,
        states: &mut AHashMap<(F, bool), Rule>,
        names: F,
        f: F,
        comma: bool,
    ) -> Result<Rule> {
        if let Some(known) = states.get(&(f, comma)) {
            return Ok(*known);
        }
        self.reader.arena.budget.spend(1)?;
        let rule = self.rule();
        states.insert((f, comma), rule);
        if let Some(lines) = self.counted_keys(names, f, comma)? {
            self.rules[rule] = lines;
            return Ok(rule);
        }
        let mut lines = Vec::new();
        if self.may_end(f) {
            lines.push(Vec::new());
        }
        let loops = self.rule();
        for (class, value, rest) in self.free_steps(names, f)? {
            let pair = self.pair(class, value, comma)?;
            if comma && rest == f {
                self.rules[loops].push(pair);
            } else {
                let next = self.free(states, names, rest, true)?;
                lines.push(pair.into_iter().chain([Symbol::Rule(next)]).collect());
            }
        }
        if !self.rules[loops].is_empty() {
            lines.iter_mut().for_each(|line| line.insert(0, Symbol::Star(loops)));
        }
        self.rules[rule] = lines;
        Ok(rule)
    }

    pub(super) fn pair(&mut self, names: F, value: Term, comma: bool) -> Result<Line> {
        let name = Symbol::Terminal(self.strings(names)?);
        let value = Symbol::Rule(self.value(value));
        let comma = comma.then(|| literal(","));
        Ok(comma.into_iter().chain([name, literal(":"), value]).collect())
    }

    /// Keys of which only the number is bounded.
    fn counted_keys(&mut self, names: F, f: F, comma: bool) -> Result<Option<Vec<Line>>> {
        let mut rest = Vec::new();
        let (mut least, mut most) = (0, None::<u32>);
        for part in self.parts(f).iter() {
            match self.reader.sets.keys.node(*part) {
                Node::Atom(Key::Least(n)) => least = least.max(*n),
                Node::Atom(Key::Most(n)) => most = Some(most.map_or(*n, |most| most.min(*n))),
                _ => rest.push(*part),
            }
        }
        let is_filtered = self.reader.setting.filters || least < 2;
        if (least == 0 && most.is_none()) || most.is_some_and(|most| most < least) || !is_filtered {
            return Ok(None);
        }
        let rest = self.reader.sets.keys.all(rest);
        let steps = self.free_steps(names, rest)?;
        if !self.may_end(rest) || steps.iter().any(|(.., next)| *next != rest) {
            return Ok(None);
        }
        self.filtered |= least > 1;
        let (first, more) = (self.rule(), self.rule());
        for (names, value, _) in steps {
            let pair = self.pair(names, value, false)?;
            self.rules[first].push(pair);
            let pair = self.pair(names, value, true)?;
            self.rules[more].push(pair);
        }
        Ok(Some(counted((first, more), least, most, comma)))
    }

    /// Whether the formula holds where no more keys come.
    pub(super) fn may_end(&mut self, f: F) -> bool {
        let end = |key: &Key| {
            if matches!(key, Key::Some(..) | Key::Least(..) | Key::Has(..)) { FALSE } else { TRUE }
        };
        self.reader.sets.keys.rebuild(f, false, &mut |_, key| end(key)) == TRUE
    }

    /// What may be chosen for a key that is not known.
    pub(super) fn free_steps(&mut self, others: F, f: F) -> Result<Vec<Free>> {
        let mut atoms = self.reader.sets.keys.atoms(f);
        // What names may come is found first: where there are none, they need not be counted.
        atoms.sort_by_key(|atom| !matches!(atom, Key::Every(..)));
        let may_run_out = atoms.iter().any(|atom| matches!(atom, Key::Every(_, FALSE)));
        self.reader.arena.budget.spend(1 + atoms.len())?;
        let mut steps = if others == FALSE { Vec::new() } else { vec![(others, TRUE, f)] };
        for atom in atoms {
            let mut next = Vec::new();
            for (names, value, f) in steps {
                for (class, term, then) in self.free_choices(&atom)? {
                    let (names, value) = (
                        self.reader.sets.strings.and(names, class),
                        self.reader.sets.terms.all([value, term]),
                    );
                    let f = self.reader.sets.keys.replace(f, &AHashMap::from([(atom.clone(), then)]));
                    if f != FALSE && value != FALSE && !self.no_string(names)? && !self.is_nothing(value)? {
                        next.push((names, value, f));
                    }
                }
            }
            next.dedup();
            self.reader.arena.budget.spend(next.len())?;
            steps = next;
        }
        if !steps.is_empty() && self.reader.setting.filters {
            self.frees = true;
            self.filtered |= may_run_out;
        }
        Ok(steps)
    }

    /// For one atom: names, values, and the atom then.
    fn free_choices(&mut self, atom: &Key) -> Result<Vec<Free>> {
        let own = self.reader.sets.keys.atom(atom.clone());
        Ok(match atom {
            Key::Every(names, t) => {
                let outside = self.reader.sets.strings.not(*names);
                vec![(*names, *t, own), (outside, TRUE, own), (*names, TRUE, FALSE)]
            }
            // Without a filter, a later key of the same name would undo it.
            Key::Some(names, t) => {
                let every = self.reader.sets.keys.atom(Key::Every(*names, *t));
                let kept = if self.reader.setting.filters { TRUE } else { every };
                vec![(*names, *t, kept), (TRUE, TRUE, own)]
            }
            Key::Most(n) => {
                let left = n.checked_sub(1).map(|n| self.reader.sets.keys.atom(Key::Most(n)));
                vec![(TRUE, TRUE, left.unwrap_or(FALSE))]
            }
            Key::Least(n) if *n > 1 && !self.reader.setting.filters => {
                let why = "keys that properties does not name cannot be counted in a schema that is part of another grammar: name them";
                return self.refuse("minProperties", why);
            }
            Key::Least(n) => {
                self.filtered |= *n > 1;
                let left = (*n > 1).then(|| self.reader.sets.keys.atom(Key::Least(n - 1)));
                vec![(TRUE, TRUE, left.unwrap_or(TRUE))]
            }
            _ => vec![(TRUE, TRUE, own)],
        })
    }
}
