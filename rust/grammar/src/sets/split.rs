//! Splits strings by sets. One automaton tells which regular expressions a text matches, for all texts at once, where pairs of sets
//! would be compared one by one.

use super::automaton::{Automaton, MOST_BYTES, Matched};
use super::bits::{Bits, bits, has, is_within};
use super::logic::{F, Node};
use super::strings::{Piece, Strings, length};
use crate::written::expr::Expr;
use ahash::{AHashMap, AHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Bytes of an automaton that one step of the budget pays for.
const BYTES_PER_STEP: usize = 16;

/// Classes that are told apart set by set, each of which takes a search for a text that is in it.
const MOST_CLASSES: usize = 256;

/// Listed texts one by one, then (None) all others by what they match.
type Kind = (Matched, Option<String>);
/// The regular expressions of pieces, and whether it is what matches that is in the piece, or what does not.
type Places = AHashMap<Piece, (usize, bool)>;

impl Strings {
    /// The texts of the first set by the sets that they are in. Each class is in the sets of its bits; its texts that are in more
    /// sets are in another class, too. None where there is too much to tell apart.
    pub(crate) fn split(&mut self, sets: &[F]) -> Option<Vec<(F, Bits)>> {
        let Some((kinds, places)) = self.kinds(sets) else { return self.refined(sets) };
        self.work += sets.len() * kinds.len();
        let of_text = |kind: &&Kind| kind.1.is_some();
        let listed: AHashSet<&Matched> = kinds.iter().filter(of_text).map(|(matched, _)| matched).collect();
        let columns: Vec<Vec<bool>> = sets.iter().map(|set| self.column(*set, &kinds, &places)).collect();
        let mut rows = BTreeMap::<Bits, (Vec<String>, Vec<&Matched>)>::new();
        for (i, (matched, text)) in kinds.iter().enumerate() {
            let row = rows.entry(bits(columns.iter().map(|column| column[i]))).or_default();
            match text {
                Some(text) => row.0.push(text.clone()),
                None => row.1.push(matched),
            }
        }
        let mut order: Vec<usize> = (0..sets.len()).collect();
        order.sort_by_key(|set| rows.keys().filter(|row| has(row, *set)).count());
        let mut classes = Vec::new();
        for (row, (texts, others)) in rows.iter().filter(|(row, _)| has(row, 0)) {
            if !texts.is_empty() {
                classes.push((self.texts(texts.iter().cloned()), row.clone()));
            }
            if others.is_empty() {
                continue;
            }
            let parts = telling(row, rows.keys(), &order).into_iter().map(|set| sets[set]);
            let all = self.logic.all(parts);
            let class = self.merged(all, true);
            // There may be listed texts only that match the same.
            if !others.iter().all(|matched| listed.contains(matched)) || !self.is_empty(class)? {
                classes.push((class, row.clone()));
            }
        }
        Some(classes)
    }

    /// The same set by set, where an expression is not regular as it stands, or the automaton would be too large.
    fn refined(&mut self, sets: &[F]) -> Option<Vec<(F, Bits)>> {
        let mut classes: Vec<(F, Vec<bool>)> = vec![(sets[0], vec![true])];
        for (at, set) in sets.iter().enumerate().skip(1) {
            let opposite = self.not(*set);
            if let Some(before) = (1..at).find(|before| sets[*before] == opposite) {
                classes.iter_mut().for_each(|(_, row)| row.push(!row[before]));
                continue;
            }
            let sides = [(*set, true), (opposite, false)];
            let mut parts = Vec::new();
            for ((class, row), (side, is_in)) in
                classes.iter().flat_map(|class| sides.map(|side| (class, side)))
            {
                let part = self.and(*class, side);
                self.work += 1;
                if !self.is_empty(part)? {
                    parts.push((part, row.iter().copied().chain([is_in]).collect()));
                }
            }
            classes = parts;
            if classes.len() > MOST_CLASSES {
                return None;
            }
        }
        Some(classes.into_iter().map(|(class, row)| (class, bits(row))).collect())
    }

    /// The kinds of texts that the pieces of the sets tell apart.
    fn kinds(&mut self, sets: &[F]) -> Option<(Vec<Kind>, Places)> {
        let (mut texts, mut places) = (BTreeSet::new(), Places::new());
        let (mut numbers, mut regexes) = (AHashMap::new(), Vec::new());
        for piece in sets.iter().flat_map(|set| self.logic.atoms(*set)) {
            if let Piece::Texts(list, _) = &piece {
                texts.extend(list.iter().cloned());
                continue;
            }
            let (rx, yes) = expression(&piece)?;
            let number = *numbers.entry(Rc::clone(&rx)).or_insert_with(|| {
                regexes.push(rx);
                regexes.len() - 1
            });
            places.insert(piece, (number, yes));
        }
        let automaton = if regexes.is_empty() { None } else { Some(self.automaton(regexes)?) };
        let of = |text: String| (automaton.as_ref().map_or_else(Matched::new, |a| a.of(&text)), Some(text));
        let mut kinds: Vec<Kind> = texts.into_iter().map(of).collect();
        let others =
            automaton.as_ref().map_or_else(|| BTreeSet::from([Matched::new()]), |a| a.combinations());
        kinds.extend(others.into_iter().map(|matched| (matched, None)));
        Some((kinds, places))
    }

    /// Which kinds of texts are in a set.
    fn column(&self, f: F, kinds: &[Kind], places: &Places) -> Vec<bool> {
        let (parts, all) = match self.logic.node(f) {
            Node::Atom(Piece::Texts(list, yes)) => {
                let is_in = |text: &Option<String>| text.as_ref().is_some_and(|text| list.contains(text));
                return kinds.iter().map(|(_, text)| is_in(text) == *yes).collect();
            }
            Node::Atom(piece) => {
                let place = places.get(piece);
                let is_in = |matched: &Matched| place.is_some_and(|(rx, yes)| matched.contains(rx) == *yes);
                return kinds.iter().map(|(matched, _)| is_in(matched)).collect();
            }
            Node::All(parts) => (parts, true),
            Node::Any(parts) => (parts, false),
        };
        let mut column = vec![all; kinds.len()];
        for part in parts.iter().map(|part| self.column(*part, kinds, places)) {
            column.iter_mut().zip(part).for_each(|(a, b)| *a = if all { *a && b } else { *a || b });
        }
        column
    }

    fn automaton(&mut self, regexes: Vec<Rc<str>>) -> Option<Rc<Automaton>> {
        if let Some(known) = self.automata.get(&regexes) {
            return known.clone();
        }
        let built = Automaton::new(&regexes).map(Rc::new);
        self.work += built.as_ref().map_or(MOST_BYTES, |built| built.bytes()) / BYTES_PER_STEP;
        self.automata.insert(regexes, built.clone());
        built
    }
}

/// Sets of a row that tell it from all rows that are not in all of its sets: those that have the fewest rows first.
fn telling<'r>(row: &Bits, rows: impl Iterator<Item = &'r Bits>, order: &[usize]) -> Vec<usize> {
    let mut others: Vec<&Bits> = rows.filter(|other| !is_within(row, other)).collect();
    let tells = |set: &usize| {
        let before = others.len();
        others.retain(|other| has(other, *set));
        others.len() < before
    };
    order.iter().copied().filter(|set| has(row, *set)).filter(tells).collect()
}

/// The regular expression of a piece, and whether it is what matches that is in the piece, or what does not. None where it cannot
/// be told by automata.
fn expression(piece: &Piece) -> Option<(Rc<str>, bool)> {
    let regular = |expr: &Expr| {
        let is_regular = !expr.has(&|part| matches!(part, Expr::All(_) | Expr::Not(_)));
        is_regular.then(|| expr.regex().into())
    };
    match piece {
        Piece::Texts(..) => None,
        Piece::Regex(rx, yes) => Some((regular(rx)?, *yes)),
        Piece::Length(cells) => Some((regular(&length(&Expr::character(), cells))?, true)),
    }
}
