//! Rules without what can never end, and without what is a repetition.

use super::parse::Source;
use super::part::Part;
use crate::budget::Budget;
use crate::error::Result;

/// The rules that `root` needs, under their numbers; the others are empty. What can never end is left out, and a rule that
/// refers to itself only at one end of its choices repeats what is beside that.
///
/// # Errors
/// `Error::Grammar` with line and column where a rule is missing, or `root` can never end.
pub(super) fn reduced(source: &Source, budget: &Budget) -> Result<Vec<Part>> {
    let parts = needed(source)?;
    let can_end = least(&parts, budget, |part, known| part.some_way(known, true))?;
    if !can_end[0] {
        return endless(source, &parts, &can_end);
    }
    let pruned = |part: &Part| part.pruned(&can_end).unwrap_or_else(Part::nothing);
    let parts: Vec<Part> = parts.iter().map(pruned).collect();
    (0..parts.len()).map(|rule| unrolled(rule, &parts, budget)).collect()
}

/// The rules that `root` needs; the others are empty.
fn needed(source: &Source) -> Result<Vec<Part>> {
    let mut parts: Vec<Option<Part>> = vec![None; source.parts.len()];
    let mut open = vec![(0, 0)];
    while let Some((rule, at)) = open.pop() {
        if parts[rule].is_some() {
            continue;
        }
        let Some(part) = &source.parts[rule] else {
            return source.refuse(at, format!("there is no rule {}", source.names[rule]));
        };
        part.find(&mut |rule, at| {
            open.push((rule, at));
            false
        });
        parts[rule] = Some(part.clone());
    }
    Ok(parts.into_iter().map(|part| part.unwrap_or_else(Part::nothing)).collect())
}

/// The rules of which something holds where it holds of no more than must be.
pub(super) fn least(
    parts: &[Part],
    budget: &Budget,
    holds: impl Fn(&Part, &[bool]) -> bool,
) -> Result<Vec<bool>> {
    let mut known = vec![false; parts.len()];
    // Rules name later ones, or all earlier ones: either way, few rounds are enough.
    for backward in [true, false].into_iter().cycle() {
        budget.spend(parts.len())?;
        let before = known.clone();
        let mut look = |rule: usize| known[rule] = known[rule] || holds(&parts[rule], &known);
        if backward {
            (0..parts.len()).rev().for_each(&mut look)
        } else {
            (0..parts.len()).for_each(&mut look)
        }
        if known == before {
            break;
        }
    }
    Ok(known)
}

/// Why `root` can never end: the first rule on the way that comes again.
fn endless<T>(source: &Source, parts: &[Part], can_end: &[bool]) -> Result<T> {
    let (mut seen, mut here) = (vec![false; parts.len()], (0, 0));
    while !seen[here.0] {
        seen[here.0] = true;
        // There is one, since characters end.
        here = parts[here.0].find(&mut |rule, _| !can_end[rule]).unwrap_or(here);
    }
    let name = &source.names[here.0];
    source
        .refuse(here.1, format!("the rule {name} can never end: it refers to itself in each of its choices"))
}

/// The rule without reference to itself at an end of its choices, nor by way of another rule: `a ::= x a | y` is `x* y`. Then
/// it may be regular, and where it is not, the parser need not remember each repetition.
fn unrolled(rule: usize, parts: &[Part], budget: &Budget) -> Result<Part> {
    for behind in [true, false] {
        let split = Split { rule, parts, behind, budget };
        let (mut beside, mut others) = (Vec::new(), Vec::new());
        split.part(&parts[rule], true, &mut beside, &mut others)?;
        if !beside.is_empty() {
            let repeated = Part::Repeat(Box::new(Part::choice(beside)), 0, None);
            let rest = Part::choice(others);
            return Ok(Part::Sequence(if behind { vec![repeated, rest] } else { vec![rest, repeated] }));
        }
    }
    Ok(parts[rule].clone())
}

/// Splits the choices of a rule into those with the rule at one end, and others.
struct Split<'a> {
    rule: usize,
    parts: &'a [Part],
    /// At which end.
    behind: bool,
    budget: &'a Budget,
}

impl Split<'_> {
    /// `beside` gets what is beside the rule. `further`: other rules are looked into.
    fn part(&self, part: &Part, further: bool, beside: &mut Vec<Part>, others: &mut Vec<Part>) -> Result<()> {
        self.budget.spend(1 + part.inner().len())?;
        let (mut inner, mut left) = (Vec::new(), Vec::new());
        match part {
            Part::Rule(named, _) if *named == self.rule => beside.push(Part::nothing()),
            Part::Rule(named, _) if further => {
                self.part(&self.parts[*named], false, &mut inner, &mut left)?;
                if inner.is_empty() {
                    left = vec![part.clone()];
                }
                beside.append(&mut inner);
                others.append(&mut left);
            }
            Part::Choice(choices) => {
                for choice in choices {
                    self.part(choice, further, beside, others)?;
                }
            }
            Part::Repeat(part, 0, Some(1)) => {
                self.part(part, further, beside, others)?;
                others.push(Part::nothing());
            }
            Part::Sequence(parts) if !parts.is_empty() => {
                let end = if self.behind { parts.len() - 1 } else { 0 };
                self.part(&parts[end], further, &mut inner, &mut left)?;
                for (choices, into) in [(inner, beside), (left, others)] {
                    if !choices.is_empty() {
                        let mut parts = parts.clone();
                        parts[end] = Part::choice(choices);
                        into.push(Part::Sequence(parts));
                    }
                }
            }
            _ => others.push(part.clone()),
        }
        Ok(())
    }
}
