//! Finds the branches of a union that may have values in common, so that only these are compared.

use super::logic::FALSE;
use super::read::Reader;
use super::set::{Key, Set, SetId};
use crate::error::Result;
use ahash::AHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Keys of an object, or none for the value itself, with the texts that they may have.
type Labels = Vec<(Option<Rc<str>>, Rc<BTreeSet<String>>)>;

impl Reader<'_> {
    /// For each set, the numbers of the others that it may have something in common with. Two sets without a common label have
    /// nothing in common. In most unions one key has a constant that names the branch.
    pub(super) fn rivals(&mut self, sets: &[SetId], others: &[SetId]) -> Result<Vec<Vec<usize>>> {
        let own = sets.iter().map(|set| self.labels(*set)).collect::<Result<Vec<_>>>()?;
        let theirs = others.iter().map(|set| self.labels(*set)).collect::<Result<Vec<_>>>()?;
        let mut counts: AHashMap<&Option<Rc<str>>, usize> = AHashMap::new();
        own.iter().flatten().for_each(|(key, _)| *counts.entry(key).or_default() += 1);
        let key = counts.into_iter().max_by_key(|(key, count)| (*count, Reverse(*key))).map(|(key, _)| key);
        let of =
            |labels: &'_ Labels| labels.iter().find(|(k, _)| Some(k) == key).map(|(_, list)| Rc::clone(list));
        let mut by_label: AHashMap<String, Vec<usize>> = AHashMap::new();
        let mut open = Vec::new();
        for (j, labels) in theirs.iter().enumerate() {
            match of(labels) {
                Some(list) => {
                    list.iter().for_each(|label| by_label.entry(label.clone()).or_default().push(j))
                }
                None => open.push(j),
            }
        }
        let rivals = own.iter().map(|labels| {
            let Some(list) = of(labels) else { return (0..others.len()).collect() };
            let same = list.iter().filter_map(|label| by_label.get(label)).flatten();
            let mut rivals: Vec<usize> = same.chain(&open).copied().collect();
            rivals.sort_unstable();
            rivals.dedup();
            rivals
        });
        Ok(rivals.collect())
    }

    /// The texts that a value must be one of, or one of its keys, if there are any such.
    fn labels(&mut self, set: SetId) -> Result<Labels> {
        let set = self.sets.get(set);
        if set.null
            || set.yes
            || set.no
            || !set.whole.is_empty()
            || !set.fraction.is_empty()
            || set.arrays != FALSE
        {
            return Ok(Vec::new());
        }
        if set.objects == FALSE {
            return Ok(self.sets.strings.listed(set.strings).map(|list| (None, list)).into_iter().collect());
        }
        if set.strings != FALSE {
            return Ok(Vec::new());
        }
        let keys = self.sets.keys.certain(set.objects);
        let is_there = |name: &str| keys.iter().any(|key| matches!(key, Key::Has(own, _) if **own == *name));
        let mut labels = Vec::new();
        for key in &keys {
            let (Key::Has(name, term) | Key::If(name, term)) = key else { continue };
            let (name, term) = (Rc::clone(name), *term);
            if !is_there(&name) {
                continue;
            }
            let Some(value) = self.probe(|own| own.set_of(term))? else { continue };
            let inner = self.sets.get(value);
            let strings = Set { strings: inner.strings, ..Set::none() };
            let list = self.sets.strings.listed(inner.strings).filter(|_| *inner == strings);
            labels.extend(list.map(|list| (Some(name), list)));
        }
        Ok(labels)
    }
}
