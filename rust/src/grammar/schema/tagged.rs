//! Keys whose values are compared with listed texts only: tags, by which `if` and the branches of unions say which of them holds.

use super::logic::{F, FALSE, Node, TRUE};
use super::set::{Key, Set, Sets, Term};
use super::strings::Piece;
use super::write::Writer;
use crate::error::Result;
use ahash::AHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// These texts alone, or (false) every value but these.
type Listed = (Rc<BTreeSet<String>>, bool);

impl Sets {
    /// The texts of a set, where it is of listed texts alone, or (false) of all values but these.
    pub(super) fn listed(&self, set: &Set) -> Option<Listed> {
        let node = self.strings.logic.node(set.strings.exact()?);
        let Node::Atom(Piece::Texts(list, yes)) = node else { return None };
        let others = if *yes { Set::none() } else { Set::all() };
        (*set == Set { strings: set.strings, ..others }).then(|| (Rc::clone(list), *yes))
    }
}

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
        let mut groups = BTreeMap::<F, Vec<String>>::new();
        for text in &texts {
            groups.entry(left(self, Some(text))?).or_default().push(text.clone());
        }
        let mut choices = Vec::with_capacity(groups.len() + 1);
        for (rest, texts) in groups {
            let strings = self.reader.sets.strings.texts(texts).into();
            choices.push((Set { strings, ..Set::none() }, rest));
        }
        let rest = left(self, None)?;
        let texts = self.reader.sets.strings.texts(texts);
        let strings = self.reader.sets.strings.not(texts).into();
        choices.push((Set { strings, ..Set::all() }, rest));
        let mut found = Vec::new();
        for (set, rest) in choices {
            let set = self.reader.sets.add(set);
            let set = self.reader.sets.term(set);
            let value = self.reader.sets.terms.all([own, set]);
            if rest != FALSE && !self.is_nothing(value)? {
                found.push((value, rest));
            }
        }
        Ok(Some(found))
    }

    fn list_of(&mut self, term: Term) -> Result<Option<Listed>> {
        if [TRUE, FALSE].contains(&term) {
            return Ok(Some((Rc::default(), term == FALSE)));
        }
        let set = self.reader.set_of(term)?;
        Ok(self.reader.sets.listed(&self.reader.sets.get(set)))
    }
}
