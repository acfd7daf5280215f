//! Writes sets of arrays: a walk over the items, whose state is what is left of the formula.

use super::logic::{F, FALSE, Node, TRUE};
use super::number::{self, Cell, Decimal, Kind};
use super::pattern;
use super::rules::{Line, Rule, Symbol, counted, is_clear};
use super::set::{Item, Set, Term};
use super::strings;
use super::write::{Writer, literal};
use crate::error::Result;
use llguidance::earley::{BitIdx, ParamCond, ParamRef};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Most values of which it is remembered in the states which have been there; more are remembered by a parameter.
const MAX_VALUES: usize = 6;
/// Most values that a parameter remembers: it has so many bits.
const MAX_BITS: usize = 64;

type States = HashMap<(F, bool), Rule>;
/// The values of an item, and what is left after it.
type Step = (Term, F);
/// Values, and what becomes of a part of the formula.
type Choice = (Term, F);

impl Writer<'_, '_> {
    /// The lines of the arrays that satisfy the formula.
    pub(super) fn arrays(&mut self, f: F) -> Result<Vec<Line>> {
        let alternatives = match self.reader.sets.items.node(f) {
            Node::Any(parts) => Rc::clone(parts),
            _ => Rc::from([f]),
        };
        let mut lines = Vec::new();
        for f in alternatives.iter() {
            let inner = self.items(&mut States::new(), *f, false)?;
            lines.push(vec![literal("["), Symbol::Rule(inner), literal("]")]);
        }
        Ok(lines)
    }

    /// The rule for the items that follow.
    fn items(&mut self, states: &mut States, f: F, comma: bool) -> Result<Rule> {
        if let Some(known) = states.get(&(f, comma)) {
            return Ok(*known);
        }
        self.reader.arena.budget.spend(1)?;
        let rule = self.rule();
        states.insert((f, comma), rule);
        let special = match self.counted_items(f, comma)? {
            None => self.unique_items(f, comma)?,
            counted => counted,
        };
        self.rules[rule] = match special {
            Some(lines) => lines,
            None => self.item_lines(states, f, comma)?,
        };
        Ok(rule)
    }

    fn item_lines(&mut self, states: &mut States, f: F, comma: bool) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        if self.may_stop(f) {
            lines.push(Vec::new());
        }
        let loops = self.rule();
        for (value, rest) in self.item_steps(f)? {
            let item = Symbol::Rule(self.value(value));
            let item: Line = comma.then(|| literal(",")).into_iter().chain([item]).collect();
            if comma && rest == f {
                self.rules[loops].push(item);
            } else {
                let next = self.items(states, rest, true)?;
                lines.push(item.into_iter().chain([Symbol::Rule(next)]).collect());
            }
        }
        if !self.rules[loops].is_empty() {
            lines.iter_mut().for_each(|line| line.insert(0, Symbol::Star(loops)));
        }
        Ok(lines)
    }

    fn item_parts(&self, f: F) -> Rc<[F]> {
        match self.reader.sets.items.node(f) {
            Node::All(parts) => Rc::clone(parts),
            _ => Rc::from([f]),
        }
    }

    /// The bounds on the number of items, and the rest of the formula.
    fn bounds(&mut self, f: F) -> (u32, Option<u32>, F) {
        let (mut least, mut most, mut rest) = (0, None::<u32>, Vec::new());
        for part in self.item_parts(f).iter() {
            match self.reader.sets.items.node(*part) {
                Node::Atom(Item::Longer(n)) => least = least.max(*n),
                Node::Atom(Item::Shorter(n)) => most = Some(most.map_or(*n, |most| most.min(*n))),
                _ => rest.push(*part),
            }
        }
        (least, most, self.reader.sets.items.all(rest))
    }

    /// Items that are all alike, in a number that is bounded.
    fn counted_items(&mut self, f: F, comma: bool) -> Result<Option<Vec<Line>>> {
        let (least, most, rest) = self.bounds(f);
        if (least == 0 && most.is_none()) || most.is_some_and(|most| most < least) {
            return Ok(None);
        }
        let mut values = Vec::new();
        for part in self.item_parts(rest).iter() {
            match self.reader.sets.items.node(*part) {
                Node::Atom(Item::From(0, t)) => values.push(*t),
                _ if rest == TRUE => {}
                _ => return Ok(None),
            }
        }
        let value = self.reader.sets.terms.all(values);
        let (first, more) = (self.value(value), self.rule());
        self.rules[more] = vec![vec![literal(","), Symbol::Rule(first)]];
        Ok(Some(counted((first, more), least, most, comma)))
    }

    /// Whether the formula holds where no more items come.
    fn may_stop(&mut self, f: F) -> bool {
        let end = |item: &Item| match item {
            Item::Has(..) | Item::Least(..) | Item::Longer(_) | Item::Repeated => FALSE,
            _ => TRUE,
        };
        self.reader.sets.items.rebuild(f, false, &mut |_, item| end(item)) == TRUE
    }

    /// What may be chosen for the next item.
    fn item_steps(&mut self, f: F) -> Result<Vec<Step>> {
        let atoms = self.reader.sets.items.atoms(f);
        // A part that only moves on costs less than one that is decided.
        self.reader.arena.budget.spend(1 + atoms.len() / 4)?;
        let (mut by, mut open) = (HashMap::new(), Vec::new());
        for atom in &atoms {
            match self.choices(atom)?.as_slice() {
                [(TRUE, then)] => drop(by.insert(atom.clone(), *then)),
                choices => open.push((atom.clone(), choices.to_vec())),
            }
        }
        // What no choice can save is not gone through.
        let (lost, mut found) = (by.iter().filter(|(_, f)| **f == FALSE), Vec::new());
        let lost = lost.map(|(a, f)| (a.clone(), *f)).collect();
        if self.reader.sets.items.replace(f, &lost) != FALSE {
            self.choose_item(&open, (TRUE, &by, lost), f, &mut found)?;
        }
        if atoms.iter().any(|atom| matches!(atom, Item::Unique(_))) {
            return self.each_value(found);
        }
        Ok(found)
    }

    /// What the next item makes of an atom.
    fn choices(&mut self, atom: &Item) -> Result<Vec<Choice>> {
        let own = self.reader.sets.items.atom(atom.clone());
        let mut then = |item: Item| self.reader.sets.items.atom(item);
        Ok(match atom {
            Item::If(0, t) | Item::Has(0, t) => vec![(*t, TRUE), (TRUE, FALSE)],
            Item::If(at, t) => vec![(TRUE, then(Item::If(at - 1, *t)))],
            Item::Has(at, t) => vec![(TRUE, then(Item::Has(at - 1, *t)))],
            Item::From(0, t) => vec![(*t, own), (TRUE, FALSE)],
            Item::From(at, t) => vec![(TRUE, then(Item::From(at - 1, *t)))],
            Item::Least(n, 0, t) => {
                let left = if *n > 1 { then(Item::Least(n - 1, 0, *t)) } else { TRUE };
                vec![(*t, left), (TRUE, own)]
            }
            Item::Least(n, at, t) => vec![(TRUE, then(Item::Least(*n, at - 1, *t)))],
            Item::Most(n, 0, t) => {
                let left = n.checked_sub(1).map(|n| then(Item::Most(n, 0, *t)));
                vec![(self.reader.sets.not_term(*t), own), (*t, left.unwrap_or(FALSE)), (TRUE, FALSE)]
            }
            Item::Most(n, at, t) => vec![(TRUE, then(Item::Most(*n, at - 1, *t)))],
            Item::Longer(n) => vec![(TRUE, if *n > 1 { then(Item::Longer(n - 1)) } else { TRUE })],
            Item::Shorter(n) => vec![(TRUE, n.checked_sub(1).map_or(FALSE, |n| then(Item::Shorter(n))))],
            Item::Unique(_) => vec![(TRUE, own)],
            Item::Repeated => {
                let pointer = self.reader.arena[self.at].pointer.clone();
                let why = "arrays in which items are equal are left out where the opposite of uniqueItems is asked for";
                self.reader.narrow(&pointer, "uniqueItems", why)?;
                vec![(TRUE, FALSE)]
            }
        })
    }

    /// Goes through the choices that are open; `fixed` and `made`: what becomes of atoms that leave none, and of others.
    fn choose_item(
        &mut self,
        open: &[(Item, Vec<Choice>)],
        (value, fixed, made): (Term, &HashMap<Item, F>, HashMap<Item, F>),
        f: F,
        found: &mut Vec<Step>,
    ) -> Result<()> {
        self.reader.arena.budget.spend(1 + made.len())?;
        let Some(((atom, choices), open)) = open.split_first() else {
            let by = fixed.iter().chain(&made).map(|(a, f)| (a.clone(), *f)).collect();
            let rest = self.reader.sets.items.replace(f, &by);
            if rest != FALSE && !found.contains(&(value, rest)) {
                found.push((value, rest));
            }
            return Ok(());
        };
        for (i, (term, then)) in choices.iter().enumerate() {
            let both = self.reader.sets.terms.all([value, *term]);
            let mut made = made.clone();
            made.insert(atom.clone(), *then);
            let lost = made.iter().filter(|(_, f)| **f == FALSE).map(|(a, f)| (a.clone(), *f)).collect();
            let is_lost = *then == FALSE && self.reader.sets.items.replace(f, &lost) == FALSE;
            if both == FALSE || is_lost || self.is_nothing(both)? {
                continue;
            }
            self.choose_item(open, (both, fixed, made), f, found)?;
            // The first choice was no choice.
            if i == 0 && both == value {
                break;
            }
        }
        Ok(())
    }

    /// Items of which no two may be equal, value by value.
    fn each_value(&mut self, steps: Vec<Step>) -> Result<Vec<Step>> {
        let mut all = Vec::new();
        for (value, rest) in steps {
            let Some(values) = self.listed(value)?.filter(|list| list.len() <= MAX_VALUES) else {
                return self.refuse(
                    "uniqueItems",
                    "cannot be enforced beside these keywords: list the values in enum",
                );
            };
            let atoms = self.reader.sets.items.atoms(rest);
            for (text, term) in values {
                let mut by = HashMap::new();
                for atom in &atoms {
                    if let Item::Unique(used) = atom {
                        let mut next = BTreeSet::clone(used);
                        let again = !next.insert(text.clone());
                        let then = self.reader.sets.items.atom(Item::Unique(Rc::new(next)));
                        by.insert(atom.clone(), if again { FALSE } else { then });
                    }
                }
                let rest = self.reader.sets.items.replace(rest, &by);
                if rest != FALSE {
                    all.push((term, rest));
                }
            }
        }
        Ok(all)
    }

    /// The values of a term with their JSON texts, where they can be listed.
    fn listed(&mut self, term: Term) -> Result<Option<Vec<(String, Term)>>> {
        let set = self.reader.set_of(term)?;
        let set = self.reader.sets.get(set);
        let texts = match set.strings {
            FALSE => Some(Rc::default()),
            strings => self.reader.sets.strings.listed(strings),
        };
        let numbers = number::listed(&set.whole, Kind::Whole, MAX_BITS).zip(number::listed(
            &set.fraction,
            Kind::Fraction,
            MAX_BITS,
        ));
        let (Some(texts), Some((whole, fraction))) = (texts, numbers) else { return Ok(None) };
        if set.arrays != FALSE || set.objects != FALSE || texts.len() > MAX_BITS {
            return Ok(None);
        }
        let mut list = Vec::new();
        let mut add = |writer: &mut Self, text: String, set: Set| {
            let set = writer.reader.sets.add(set);
            list.push((text, writer.reader.sets.term(set)));
        };
        for (is, text) in [(set.null, "null"), (set.yes, "true"), (set.no, "false")] {
            if is {
                let (null, yes, no) = (text == "null", text == "true", text == "false");
                add(self, text.to_owned(), Set { null, yes, no, ..Set::none() });
            }
        }
        for n in whole {
            add(self, n.text(), Set { whole: vec![Cell::point(n)], ..Set::none() });
        }
        for n in fraction {
            add(self, n.text(), Set { fraction: vec![Cell::point(n)], ..Set::none() });
        }
        for text in texts.iter() {
            let strings = self.reader.sets.strings.texts([text.clone()]);
            add(self, pattern::quoted(text), Set { strings, ..Set::none() });
        }
        Ok(Some(list).filter(|list| list.len() <= MAX_BITS))
    }

    /// Items that are all alike but for being different: a parameter remembers which have been there.
    fn unique_items(&mut self, f: F, comma: bool) -> Result<Option<Vec<Line>>> {
        let (least, most, rest) = self.bounds(f);
        let (mut values, mut unique) = (Vec::new(), false);
        for part in self.item_parts(rest).iter() {
            match self.reader.sets.items.node(*part) {
                Node::Atom(Item::From(0, t)) => values.push(*t),
                Node::Atom(Item::Unique(used)) if used.is_empty() => unique = true,
                _ => return Ok(None),
            }
        }
        if !unique || comma {
            return Ok(None);
        }
        let value = self.reader.sets.terms.all(values);
        let values: Vec<Term> = match self.listed(value)? {
            Some(list) => list.into_iter().map(|(_, term)| term).collect(),
            None => self.classes(value, least)?,
        };
        let most = most.unwrap_or(u32::MAX).min(values.len() as u32);
        if least > most {
            return Ok(Some(Vec::new()));
        }
        Ok(Some(self.remembered(&values, least, most)))
    }

    /// So many of these at least and at most, each once.
    fn remembered(&mut self, values: &[Term], least: u32, most: u32) -> Vec<Line> {
        let (first, more) = (self.rule(), self.rule());
        for (rule, comma) in [(first, false), (more, true)] {
            let mut conditions = Vec::new();
            if comma || least == 0 {
                self.rules[rule].push(Vec::new());
                conditions.push(if comma && least > 1 {
                    ParamCond::BitCountGE(ParamRef::full(), least as BitIdx)
                } else {
                    ParamCond::True
                });
            }
            for (bit, value) in (0..).zip(values).filter(|_| most > 0) {
                let item = Symbol::Rule(self.value(*value));
                let next = Symbol::Past(more, bit);
                let line = comma.then(|| literal(",")).into_iter().chain([item, next]);
                self.rules[rule].push(line.collect());
                conditions.push(if comma {
                    let more = ParamCond::BitCountLT(ParamRef::full(), most as BitIdx);
                    ParamCond::And(Box::new(is_clear(bit)), Box::new(more))
                } else {
                    ParamCond::True
                });
            }
            self.conditions.insert(rule, conditions);
        }
        vec![vec![Symbol::Fresh(first)]]
    }

    /// Parts of the values so that two from different parts differ, where there are too many to list.
    fn classes(&mut self, value: Term, least: u32) -> Result<Vec<Term>> {
        let pointer = self.reader.arena[self.at].pointer.clone();
        let why = "items count as different only if they are of different kinds: list the values in enum";
        self.reader.narrow(&pointer, "uniqueItems", why)?;
        let set = self.reader.set_of(value)?;
        let set = self.reader.sets.get(set);
        let none = Set::none();
        let mut parts = vec![
            Set { null: set.null, ..none.clone() },
            Set { yes: set.yes, ..none.clone() },
            Set { no: set.no, ..none.clone() },
            Set { fraction: set.fraction.clone(), ..none.clone() },
            Set { arrays: set.arrays, ..none.clone() },
            Set { objects: set.objects, ..none.clone() },
        ];
        // Small numbers one by one, then by their size.
        let bounds: Vec<i128> = (0..=10).chain([100, 1_000]).collect();
        let ends = bounds.windows(2).map(|w| (Some(w[0]), Some(w[1])));
        for (low, high) in ends.chain([(None, Some(0)), (Some(1_000), None)]) {
            let end = |n: Option<i128>, own| n.map(|n| (Decimal::new(n, 0), own));
            let cell = Cell { low: end(low, true), high: end(high, false), by: Vec::new() };
            parts.push(Set { whole: number::and(&set.whole, &vec![cell], Kind::Whole), ..none.clone() });
        }
        for (first, last) in (0..8u8).flat_map(|first| (0..5u8).map(move |last| (first, last))) {
            let part = self.reader.sets.strings.regex(&strings::ends_in(first, last), true);
            let strings = self.reader.sets.strings.and(set.strings, part);
            if !self.no_string(strings)? {
                parts.push(Set { strings, ..none.clone() });
            }
        }
        let mut classes = Vec::new();
        for part in parts {
            let part = self.reader.sets.add(part);
            if part != super::set::NONE {
                classes.push(self.reader.sets.term(part));
            }
        }
        if least > 1 && least as usize > classes.len() {
            return self.refuse("uniqueItems", "too few values are known to differ: list them in enum");
        }
        Ok(classes)
    }
}
