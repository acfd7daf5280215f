//! Keys whose values are compared with listed texts only: tags, by which `if` and the branches of unions say which of them holds.

use super::logic::{F, FALSE, Node, TRUE};
use super::set::{Key, Set, Term};
use super::strings::Piece;
use super::write::Writer;
use crate::error::Result;
use ahash::AHashMap;
use std::collections::BTreeSet;
use std::rc::Rc;

/// These texts alone, or (false) every value but these.
type Listed = (Rc<BTreeSet<String>>, bool);

impl Writer<'_, '_> {
    /// What may be chosen at a key, and what is left of the formula then; None where other sets than lists of texts matter. In place
    /// of deciding one atom after the other, all are decided for each text: for n conditions on a tag that is n steps, not n^2.
    /// `open`: (atom, values, the atom then, the atom otherwise).
    pub(super) fn tagged(
        &mut self,
        open: &[(Key, Term, F, F)],
        own: Term,
        f: F,
    ) -> Result<Option<Vec<(Term, F)>>> {
        let mut lists = Vec::with_capacity(open.len());
        for (_, term, ..) in open {
            let Some(list) = self.list_of(*term)? else { return Ok(None) };
            lists.push(list);
        }
        let texts: BTreeSet<String> = lists.iter().flat_map(|(list, _)| list.iter().cloned()).collect();
        if texts.is_empty() {
            return Ok(None);
        }
        let left = |writer: &mut Self, text: Option<&String>| {
            writer.reader.arena.budget.spend(open.len())?;
            let by = open.iter().zip(&lists).map(|((atom, _, within, without), (list, yes))| {
                let is_within = text.is_some_and(|text| list.contains(text)) == *yes;
                (atom.clone(), if is_within { *within } else { *without })
            });
            let by: AHashMap<Key, F> = by.collect();
            Ok::<_, crate::error::Error>(writer.reader.sets.keys.replace(f, &by))
        };
        let (mut groups, mut places) = (Vec::<(F, Vec<String>)>::new(), AHashMap::new());
        for text in &texts {
            let rest = left(self, Some(text))?;
            let place = *places.entry(rest).or_insert(groups.len());
            if place == groups.len() {
                groups.push((rest, Vec::new()));
            }
            groups[place].1.push(text.clone());
        }
        let mut found = Vec::new();
        for (rest, texts) in groups {
            let strings = self.reader.sets.strings.texts(texts);
            self.choice(Set { strings, ..Set::none() }, own, rest, &mut found)?;
        }
        let rest = left(self, None)?;
        let texts = self.reader.sets.strings.texts(texts);
        let strings = self.reader.sets.strings.not(texts);
        self.choice(Set { strings, ..Set::all() }, own, rest, &mut found)?;
        Ok(Some(found))
    }

    /// Adds a choice where there is one.
    fn choice(&mut self, set: Set, own: Term, rest: F, found: &mut Vec<(Term, F)>) -> Result<()> {
        let set = self.reader.sets.add(set);
        let set = self.reader.sets.term(set);
        let value = self.reader.sets.terms.all([own, set]);
        if rest != FALSE && !self.is_nothing(value)? {
            found.push((value, rest));
        }
        Ok(())
    }

    fn list_of(&mut self, term: Term) -> Result<Option<Listed>> {
        if [TRUE, FALSE].contains(&term) {
            return Ok(Some((Rc::default(), term == FALSE)));
        }
        let set = self.reader.set_of(term)?;
        let set = self.reader.sets.get(set);
        let Node::Atom(Piece::Texts(list, yes)) = self.reader.sets.strings.logic.node(set.strings) else {
            return Ok(None);
        };
        let others = if *yes { Set::none() } else { Set::all() };
        let is_listed = *set == Set { strings: set.strings, ..others };
        Ok(is_listed.then(|| (Rc::clone(list), *yes)))
    }
}
