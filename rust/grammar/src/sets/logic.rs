//! Formulas of and, or over atoms. Each has a number; equal ones have the same. Negation is a matter of the atoms: its
//! users exchange and with or, and each atom with its opposite.

use ahash::{AHashMap, AHashSet};
use std::hash::Hash;
use std::rc::Rc;

/// The number of a formula.
pub(crate) type F = u32;

/// What always holds.
pub(crate) const TRUE: F = 0;
/// What never holds.
pub(crate) const FALSE: F = 1;

/// A formula.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Node<A> {
    /// All of these hold, in the order in which they were said.
    All(Rc<[F]>),
    /// At least one of these holds.
    Any(Rc<[F]>),
    Atom(A),
}

/// Formulas over atoms of one kind.
#[derive(Debug)]
pub(crate) struct Logic<A> {
    nodes: Vec<Node<A>>,
    numbers: AHashMap<Node<A>, F>,
    /// What holds where the atom does not, if that is an atom that is worth looking for.
    opposite: fn(&A) -> Option<A>,
}

impl<A: Clone + Eq + Hash> Logic<A> {
    pub(crate) fn new(opposite: fn(&A) -> Option<A>) -> Self {
        let mut logic = Logic { nodes: Vec::new(), numbers: AHashMap::new(), opposite };
        logic.number(Node::All(Rc::from([])));
        logic.number(Node::Any(Rc::from([])));
        logic
    }

    fn number(&mut self, node: Node<A>) -> F {
        if let Some(known) = self.numbers.get(&node) {
            return *known;
        }
        let number = self.nodes.len() as F;
        self.nodes.push(node.clone());
        self.numbers.insert(node, number);
        number
    }

    pub(crate) fn node(&self, f: F) -> &Node<A> {
        &self.nodes[f as usize]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What must all hold: the parts of a conjunction, else the formula itself.
    pub(crate) fn conjuncts(&self, f: F) -> Vec<F> {
        match self.node(f) {
            Node::All(parts) => parts.to_vec(),
            _ => vec![f],
        }
    }

    /// The atoms among what must all hold.
    pub(crate) fn certain(&self, f: F) -> Vec<A> {
        let atom = |f: &F| match self.node(*f) {
            Node::Atom(atom) => Some(atom.clone()),
            _ => None,
        };
        self.conjuncts(f).iter().filter_map(atom).collect()
    }

    pub(crate) fn atom(&mut self, atom: A) -> F {
        self.number(Node::Atom(atom))
    }

    pub(crate) fn all(&mut self, parts: impl IntoIterator<Item = F>) -> F {
        self.join(parts, true)
    }

    pub(crate) fn any(&mut self, parts: impl IntoIterator<Item = F>) -> F {
        self.join(parts, false)
    }

    /// What [`Logic::all`] or (false) [`Logic::any`] make of the parts.
    pub(crate) fn join(&mut self, parts: impl IntoIterator<Item = F>, all: bool) -> F {
        let (nothing, end) = if all { (TRUE, FALSE) } else { (FALSE, TRUE) };
        let (mut list, mut seen) = (Vec::new(), AHashSet::new());
        for part in parts {
            let inner = match (self.node(part), all) {
                (Node::All(inner), true) | (Node::Any(inner), false) => Rc::clone(inner),
                _ => Rc::from([part]),
            };
            list.extend(inner.iter().filter(|f| **f != nothing && seen.insert(**f)));
        }
        let clash = |f: &F| match self.node(*f) {
            Node::Atom(a) => (self.opposite)(a)
                .and_then(|a| self.numbers.get(&Node::Atom(a)))
                .is_some_and(|not| seen.contains(not)),
            _ => *f == end,
        };
        if list.iter().any(clash) {
            return end;
        }
        // `a and (a or b)` says `a`.
        list.retain(|f| match (self.node(*f), all) {
            (Node::Any(inner), true) | (Node::All(inner), false) => !inner.iter().any(|i| seen.contains(i)),
            _ => true,
        });
        match list.as_slice() {
            [one] => *one,
            _ if all => self.number(Node::All(list.into())),
            _ => self.number(Node::Any(list.into())),
        }
    }

    /// The atoms, each once, in the order in which they were said.
    pub(crate) fn atoms(&self, f: F) -> Vec<A> {
        let (mut list, mut seen, mut line) = (Vec::new(), AHashSet::new(), vec![f]);
        while let Some(f) = line.pop() {
            if !seen.insert(f) {
                continue;
            }
            match self.node(f) {
                Node::Atom(a) => list.push(a.clone()),
                Node::All(inner) | Node::Any(inner) => line.extend(inner.iter().rev()),
            }
        }
        list
    }

    /// The formula with some atoms decided or replaced.
    pub(crate) fn replace(&mut self, f: F, by: &AHashMap<A, F>) -> F {
        self.rebuild(f, false, &mut |logic, a| by.get(a).copied().unwrap_or_else(|| logic.atom(a.clone())))
    }

    /// The formula with each atom replaced; `dual`: and with or exchanged.
    pub(crate) fn rebuild(&mut self, f: F, dual: bool, atom: &mut dyn FnMut(&mut Self, &A) -> F) -> F {
        self.rebuilt(f, dual, atom, &mut AHashMap::new())
    }

    fn rebuilt(
        &mut self,
        f: F,
        dual: bool,
        atom: &mut dyn FnMut(&mut Self, &A) -> F,
        known: &mut AHashMap<F, F>,
    ) -> F {
        if let Some(known) = known.get(&f) {
            return *known;
        }
        let (inner, all) = match self.node(f).clone() {
            Node::Atom(a) => return atom(self, &a),
            Node::All(inner) => (inner, true),
            Node::Any(inner) => (inner, false),
        };
        let inner: Vec<F> = inner.iter().map(|f| self.rebuilt(*f, dual, atom, known)).collect();
        let rebuilt = self.join(inner, all != dual);
        known.insert(f, rebuilt);
        rebuilt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_simplified_and_shared() {
        let mut logic = Logic::<i32>::new(|a| Some(-a));
        let (a, b) = (logic.atom(1), logic.atom(2));
        let not_a = logic.atom(-1);
        let both = logic.all([a, TRUE, b, a]);
        assert_eq!(logic.all([b, FALSE]), FALSE);
        assert_eq!(logic.all([a, not_a]), FALSE);
        assert_eq!(logic.any([b, a, not_a]), TRUE);
        assert_eq!(logic.any([a, both]), a);
        assert_eq!(logic.replace(both, &AHashMap::from([(1, TRUE)])), b);
        let neither = logic.rebuild(both, true, &mut |logic, a| logic.atom(-a));
        assert_eq!(logic.atoms(neither), [-1, -2]);
        assert_eq!(logic.all([both, neither]), logic.all([a, b, neither]));
    }
}
