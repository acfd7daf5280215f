//! What rules consist of.

use regex_syntax::hir::ClassUnicode;

/// A part of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// One character of a class.
    Class(ClassUnicode),
    /// A token of the vocabulary, in Lark's notation.
    Token(String),
    /// A rule by its number, and at which character it is named.
    Rule(usize, usize),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    /// So many times, once at the most or more.
    Repeat(Box<Part>, u32, Option<u32>),
}

impl Part {
    /// The empty text.
    pub(super) fn nothing() -> Part {
        Part::Sequence(Vec::new())
    }

    pub(super) fn sequence(parts: Vec<Part>) -> Part {
        one(parts).unwrap_or_else(Part::Sequence)
    }

    pub(super) fn choice(choices: Vec<Part>) -> Part {
        one(choices).unwrap_or_else(Part::Choice)
    }

    pub(super) fn inner(&self) -> &[Part] {
        match self {
            Part::Class(_) | Part::Token(_) | Part::Rule(..) => &[],
            Part::Sequence(parts) | Part::Choice(parts) => parts,
            Part::Repeat(part, ..) => std::slice::from_ref(part),
        }
    }

    /// The first rule in it that `wanted` wants, by number and place.
    pub(super) fn find(&self, wanted: &mut dyn FnMut(usize, usize) -> bool) -> Option<(usize, usize)> {
        match self {
            Part::Rule(rule, at) => wanted(*rule, *at).then_some((*rule, *at)),
            _ => self.inner().iter().find_map(|part| part.find(wanted)),
        }
    }

    /// Whether some way through it has only rules of which `known` holds, and no character or token unless `characters`.
    pub(super) fn some_way(&self, known: &[bool], characters: bool) -> bool {
        match self {
            Part::Class(_) | Part::Token(_) => characters,
            Part::Rule(rule, _) => known[*rule],
            Part::Sequence(parts) => parts.iter().all(|part| part.some_way(known, characters)),
            Part::Choice(choices) => choices.iter().any(|choice| choice.some_way(known, characters)),
            Part::Repeat(part, least, _) => *least == 0 || part.some_way(known, characters),
        }
    }

    /// Whether `known` holds of all rules in it, and it names no token.
    pub(super) fn all_ways(&self, known: &[bool]) -> bool {
        self.find(&mut |rule, _| !known[rule]).is_none() && !self.names_token()
    }

    fn names_token(&self) -> bool {
        matches!(self, Part::Token(_)) || self.inner().iter().any(Part::names_token)
    }

    /// The part without choices that can never end; None: it cannot itself.
    pub(super) fn pruned(&self, can_end: &[bool]) -> Option<Part> {
        Some(match self {
            Part::Class(_) | Part::Token(_) => self.clone(),
            Part::Rule(rule, _) => can_end[*rule].then(|| self.clone())?,
            Part::Sequence(parts) => {
                Part::Sequence(parts.iter().map(|part| part.pruned(can_end)).collect::<Option<_>>()?)
            }
            Part::Choice(choices) => {
                let left: Vec<_> = choices.iter().filter_map(|choice| choice.pruned(can_end)).collect();
                (!left.is_empty()).then(|| Part::choice(left))?
            }
            Part::Repeat(part, least, most) => match part.pruned(can_end) {
                Some(part) => Part::Repeat(Box::new(part), *least, *most),
                None => (*least == 0).then(Part::nothing)?,
            },
        })
    }
}

/// The only one, or all.
fn one(mut parts: Vec<Part>) -> Result<Part, Vec<Part>> {
    if parts.len() == 1 { Ok(parts.remove(0)) } else { Err(parts) }
}
