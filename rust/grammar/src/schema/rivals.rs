//! Finds the branches of a union that may have values in common, so that only these are compared.

use super::read::Reader;
use super::set::{Key, Set, SetId};
use crate::error::Result;
use ahash::AHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Keys of an object, or none for the value itself, with the texts that they may have.
type Labels = AHashMap<Option<Rc<str>>, Rc<BTreeSet<String>>>;

impl Reader<'_> {
    /// For each set, the numbers of the others that it may have something in common with. Two sets without a common label have
    /// nothing in common. In most unions one key has a constant that names the branch.
    pub(super) fn rivals(&mut self, sets: &[SetId], others: &[SetId]) -> Result<Vec<Vec<usize>>> {
        let own = sets.iter().map(|set| self.labels(*set)).collect::<Result<Vec<_>>>()?;
        let theirs = others.iter().map(|set| self.labels(*set)).collect::<Result<Vec<_>>>()?;
        let mut counts: AHashMap<&Option<Rc<str>>, usize> = AHashMap::new();
        own.iter().flat_map(|labels| labels.keys()).for_each(|key| *counts.entry(key).or_default() += 1);
        let key = counts.into_iter().max_by_key(|(key, count)| (*count, Reverse(*key)));
        let of = |labels: &'_ Labels| key.and_then(|(key, _)| labels.get(key)).map(Rc::clone);
        let (mut by_label, mut open) = (AHashMap::<String, Vec<usize>>::new(), Vec::new());
        for (j, labels) in theirs.iter().enumerate() {
            let Some(list) = of(labels) else {
                open.push(j);
                continue;
            };
            list.iter().for_each(|label| by_label.entry(label.clone()).or_default().push(j));
        }
        let rivals = own.iter().map(|labels| {
            let Some(list) = of(labels) else { return (0..others.len()).collect() };
            let same = list.iter().filter_map(|label| by_label.get(label)).flatten();
            same.chain(&open).copied().collect::<BTreeSet<usize>>().into_iter().collect()
        });
        Ok(rivals.collect())
    }

    /// The texts that a value must be one of, or one of its keys, if there are any such.
    fn labels(&mut self, set: SetId) -> Result<Labels> {
        let set = self.sets.get(set);
        if let Some(list) = self.sets.listed(&set) {
            return Ok(Labels::from([(None, list)]));
        }
        let mut labels = Labels::new();
        if *set != (Set { objects: set.objects, ..Set::none() }) {
            return Ok(labels);
        }
        let keys = self.sets.keys.certain(set.objects);
        for key in &keys {
            let (Key::Has(name, term) | Key::If(name, term)) = key else { continue };
            let is_there = |key: &Key| matches!(key, Key::Has(own, _) if own == name);
            if labels.contains_key(&Some(Rc::clone(name))) || !keys.iter().any(is_there) {
                continue;
            }
            let value = self.probe(|own| own.set_of(*term))?.map(|value| self.sets.get(value));
            if let Some(list) = value.and_then(|value| self.sets.listed(&value)) {
                labels.insert(Some(Rc::clone(name)), list);
            }
        }
        Ok(labels)
    }
}
