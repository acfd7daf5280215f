//! Writes sets of values as a grammar in Lark.
//!
//! Each term that stands somewhere becomes a rule, once. Rules that derive no text are taken out at the end, so that from
//! every beginning of a text there is a way to its end.

use super::arena::{Id, ROOT};
use super::expr::{Expr, Terminal};
use super::logic::{F, FALSE, Node, TRUE};
use super::multiple;
use super::number::{self, Cell, Kind};
use super::numeral::{self, Style};
use super::read::Reader;
use super::refuse;
use super::rules::{self, Conditions, Line, Rule, Symbol};
use super::set::{Leaf, Set, SetId, Term};
use super::shape;
use super::spelling;
use super::strings::{Piece, length};
use super::written::Written;
use crate::error::Result;
use crate::grammar::unique::Shape;
use ahash::AHashMap;
use std::rc::Rc;

/// Divisibility by n is an automaton of n states: 9,973 take 60 ms, a hundred of about 9,000 take 6.7 s.
pub(super) const MAX_DIVISORS: f64 = 10_000.0;
/// Most decimals of a divisor, for the lexer's 32-bit remainders.
const MAX_SCALE: u32 = 8;

/// This text.
pub(super) fn literal(text: &str) -> Symbol {
    Symbol::Text(Rc::from(text))
}

/// A grammar that is being written.
#[derive(Debug)]
pub(super) struct Writer<'r, 'a> {
    pub(super) reader: &'r mut Reader<'a>,
    pub(super) rules: Vec<Vec<Line>>,
    /// Rules with a parameter, each with a condition for every alternative.
    pub(super) conditions: Conditions,
    terminals: Vec<Expr>,
    /// Terminals with conditions on what divides numbers, as rules of Lark where that can say them.
    multiples: AHashMap<Terminal, Option<String>>,
    numbers: AHashMap<Expr, Terminal>,
    texts: AHashMap<F, Terminal>,
    values: AHashMap<Term, Rule>,
    /// Terms differ that mean the same: references to one schema, for example.
    sets: AHashMap<SetId, Rule>,
    line: Vec<(Term, Rule, Id)>,
    /// The schema whose values are written.
    pub(super) at: Id,
    /// The sum of all divisors.
    pub(super) divisors: f64,
    /// Whether the filter has to tell items apart, or keys.
    pub(super) filtered: bool,
    pub(super) frees: bool,
}

impl<'r, 'a> Writer<'r, 'a> {
    pub(super) fn new(reader: &'r mut Reader<'a>) -> Self {
        Writer {
            reader,
            rules: Vec::new(),
            conditions: Conditions::new(),
            terminals: Vec::new(),
            multiples: AHashMap::new(),
            numbers: AHashMap::new(),
            texts: AHashMap::new(),
            values: AHashMap::new(),
            sets: AHashMap::new(),
            line: Vec::new(),
            at: ROOT,
            divisors: 0.0,
            filtered: false,
            frees: false,
        }
    }

    /// Writes the rule of the term, which is the first, and all that it needs.
    ///
    /// # Errors
    /// What cannot be written; where the budget is spent.
    pub(super) fn write(&mut self, term: Term) -> Result<()> {
        self.value(term);
        while let Some((term, rule, at)) = self.line.pop() {
            self.at = at;
            for leaf in self.reader.sets.terms.atoms(term) {
                if let Leaf::Schema(id, ..) = leaf {
                    self.at = id;
                    break;
                }
            }
            let set = self.reader.set_of(term)?;
            if let Some(same) = self.sets.get(&set) {
                self.rules[rule] = vec![vec![Symbol::Rule(*same)]];
                continue;
            }
            self.sets.insert(set, rule);
            let set = self.reader.sets.get(set);
            self.rules[rule] = self.alternatives(&set)?;
        }
        Ok(())
    }

    /// The rule for the values of a term.
    pub(super) fn value(&mut self, term: Term) -> Rule {
        if let Some(known) = self.values.get(&term) {
            return *known;
        }
        let rule = self.rule();
        self.values.insert(term, rule);
        if term != FALSE {
            self.line.push((term, rule, self.at));
        }
        rule
    }

    /// A new rule, which derives nothing yet.
    pub(super) fn rule(&mut self) -> Rule {
        self.rules.push(Vec::new());
        self.rules.len() - 1
    }

    pub(super) fn refuse<T>(&self, keyword: &str, why: impl Into<String>) -> Result<T> {
        Err(refuse(&self.reader.arena[self.at].pointer, keyword, why))
    }

    fn alternatives(&mut self, set: &Set) -> Result<Vec<Line>> {
        self.reader.arena.budget.spend(1)?;
        let mut texts: Vec<Expr> = Vec::new();
        let constants = [(set.null, "null"), (set.yes, "true"), (set.no, "false")];
        texts.extend(constants.iter().filter(|(is, _)| *is).map(|(_, text)| Expr::Text((*text).to_owned())));
        let mut lines = self.numbers(set, &mut texts)?;
        if !self.no_string(set.strings)? {
            texts.push(self.string_values(set.strings)?);
        }
        if !texts.is_empty() {
            lines.insert(0, vec![Symbol::Terminal(self.terminal(Expr::Any(texts)))]);
        }
        if set.arrays != FALSE {
            lines.extend(self.arrays(set.arrays)?);
        }
        if set.objects != FALSE {
            lines.extend(self.objects(set.objects)?);
        }
        Ok(lines)
    }

    pub(super) fn no_string(&mut self, strings: F) -> Result<bool> {
        self.reader.arena.budget.spend(20)?;
        match self.reader.sets.strings.is_empty(strings) {
            Ok(false) => Ok(false),
            Ok(true) => {
                let atoms = self.reader.sets.strings.logic.atoms(strings);
                if atoms.iter().any(|piece| matches!(piece, Piece::Part(_, _, false))) {
                    self.formats_left_out()?;
                }
                Ok(true)
            }
            Err(_) => self.refuse("pattern", "too complex to tell whether any text matches: make it simpler"),
        }
    }

    fn terminal(&mut self, expression: Expr) -> Terminal {
        if let Some(known) = self.numbers.get(&expression) {
            return *known;
        }
        self.terminals.push(expression.clone());
        self.numbers.insert(expression, self.terminals.len() - 1);
        self.terminals.len() - 1
    }

    /// Strings as values: those of any kind, or only bounded in length, in any spelling. Elsewhere one that is spelled otherwise
    /// would pass for one that is not in the set.
    fn string_values(&mut self, strings: F) -> Result<Expr> {
        let free = |text: String| Ok(Expr::Regex(llguidance::regex_to_lark(&text, "")));
        match self.reader.sets.strings.logic.node(strings).clone() {
            Node::All(parts) if parts.is_empty() => free(spelling::any()),
            Node::Atom(Piece::Length(intervals)) => {
                free(format!("\"{}\"", length(spelling::CHARACTER, &intervals)))
            }
            Node::Any(parts) => {
                let parts = parts.iter().map(|part| self.string_values(*part)).collect::<Result<_>>()?;
                Ok(Expr::Any(parts))
            }
            _ => Ok(Expr::Of(self.strings(strings)?)),
        }
    }

    /// The terminal for the JSON texts of strings, each in one spelling.
    pub(super) fn strings(&mut self, strings: F) -> Result<Terminal> {
        if let Some(known) = self.texts.get(&strings) {
            return Ok(*known);
        }
        let expression = self.string_expression(strings)?;
        let terminal = self.terminal(expression);
        self.texts.insert(strings, terminal);
        Ok(terminal)
    }

    fn string_expression(&mut self, strings: F) -> Result<Expr> {
        let regex = |text: String| Expr::Regex(llguidance::regex_to_lark(&text, ""));
        let any = Expr::Regex(spelling::plain());
        Ok(match self.reader.sets.strings.logic.node(strings).clone() {
            // What one must not be is a string all the same.
            Node::Any(parts) => {
                let part = |part: &F| Ok(Expr::Of(self.strings(*part)?));
                Expr::Any(parts.iter().map(part).collect::<Result<_>>()?)
            }
            Node::All(parts) if parts.is_empty() => any,
            Node::All(parts) => {
                let mut all = self.each(&parts)?;
                let is_not = |part: &Expr| matches!(part, Expr::Not(_));
                all.sort_by_key(is_not);
                if is_not(&all[0]) {
                    all.insert(0, Expr::Of(self.strings(TRUE)?));
                }
                Expr::All(all)
            }
            Node::Atom(Piece::Texts(list, true)) => {
                Expr::Any(list.iter().map(|text| Expr::Text(spelling::quoted(text))).collect())
            }
            Node::Atom(Piece::Regex(rx, true) | Piece::Part(rx, _, true)) => match spelling::quote(&rx) {
                Ok(quoted) => regex(quoted),
                Err(why) => return self.refuse("pattern", why),
            },
            Node::Atom(Piece::Length(intervals)) => {
                regex(format!("\"{}\"", length(spelling::PLAIN, &intervals)))
            }
            Node::Atom(Piece::Part(_, within, false)) => {
                self.formats_left_out()?;
                match within {
                    Some(rx) => {
                        let others = self.reader.sets.strings.regex(&rx, false);
                        Expr::Of(self.strings(others)?)
                    }
                    // No text: an empty terminal would be refused.
                    None => Expr::Regex("[^\\x00-\\u{10ffff}]".to_owned()),
                }
            }
            Node::Atom(_) => {
                let not = self.each(&[strings])?;
                Expr::All([vec![Expr::Of(self.strings(TRUE)?)], not].concat())
            }
        })
    }

    fn formats_left_out(&mut self) -> Result<()> {
        let pointer = self.reader.arena[self.at].pointer.clone();
        self.reader.narrow(&pointer, "format", "some of what is not of this format is left out")
    }

    /// The terminals of parts; what must not be is marked.
    fn each(&mut self, parts: &[F]) -> Result<Vec<Expr>> {
        let mut all = Vec::new();
        for part in parts {
            let node = self.reader.sets.strings.logic.node(*part);
            let not = matches!(node, Node::Atom(Piece::Texts(_, false) | Piece::Regex(_, false)));
            all.push(if not {
                let positive = self.reader.sets.strings.not(*part);
                Expr::Not(Box::new(Expr::Of(self.strings(positive)?)))
            } else {
                Expr::Of(self.strings(*part)?)
            });
        }
        Ok(all)
    }

    /// Terminals for numbers, and lines for those with conditions on what divides them.
    fn numbers(&mut self, set: &Set, texts: &mut Vec<Expr>) -> Result<Vec<Line>> {
        let (mut lines, mut covered) = (Vec::new(), Vec::new());
        for cell in &set.fraction {
            let same = number::tidy(vec![cell.clone()], Kind::Whole);
            let missing = number::and(&same, &number::not(&set.whole, Kind::Whole), Kind::Whole);
            let both = missing.is_empty() && cell.single().is_none();
            lines.extend(self.cell(cell, if both { Style::Any } else { Style::Fraction }, texts)?);
            if both {
                covered.extend(same);
            }
        }
        let covered = number::tidy(covered, Kind::Whole);
        for cell in number::and(&set.whole, &number::not(&covered, Kind::Whole), Kind::Whole) {
            match cell.single().filter(|n| self.reader.sets.with_point.contains(n)) {
                Some(n) => texts.extend([n.text(), n.text() + ".0"].map(Expr::Text)),
                None => lines.extend(self.cell(&cell, Style::Whole, texts)?),
            }
        }
        Ok(lines)
    }

    /// The numbers of a cell: a terminal, or a line.
    fn cell(&mut self, cell: &Cell, style: Style, texts: &mut Vec<Expr>) -> Result<Option<Line>> {
        if cell.by.is_empty() {
            texts.push(numeral::terminal(cell, style));
            return Ok(None);
        }
        if cell.by.iter().any(|(d, _)| d.digits > 1 && d.scale > MAX_SCALE) {
            return self.refuse("multipleOf", format!("has more than {MAX_SCALE} decimals: round it"));
        }
        self.divisors += cell.states() as f64;
        if self.divisors > MAX_DIVISORS {
            let why = format!("the digits of all divisors sum up to more than {MAX_DIVISORS}");
            return self.refuse("multipleOf", why);
        }
        let within = Box::new(numeral::terminal(cell, style));
        let terminal = self.terminal(Expr::Multiples(within, cell.by.clone()));
        let lark = match style {
            Style::Whole => multiple::in_lark(cell, "integer"),
            Style::Any => multiple::in_lark(cell, "number"),
            Style::Fraction => None,
        };
        self.multiples.insert(terminal, lark);
        Ok(Some(vec![Symbol::Multiples(terminal)]))
    }

    /// The whole grammar.
    ///
    /// # Errors
    /// Where nothing satisfies it.
    pub(super) fn finish(mut self, root: Term) -> Result<Written> {
        let shape = match (self.filtered, self.frees) {
            (false, false) => None,
            // Of keys alone, nothing has to be known.
            (false, true) => Some(Shape::of(Vec::new())),
            (true, _) => Some(shape::of(self.reader, root)?),
        };
        rules::prune(&mut self.rules, &mut self.conditions);
        if self.rules[0].is_empty() {
            return self.refuse("schema", "nothing satisfies it");
        }
        let space = self.reader.setting.space.map(str::to_owned);
        let Writer { rules, conditions, terminals, multiples, divisors, .. } = self;
        Ok(Written { rules, conditions, terminals, multiples, divisors, space, shape, is_alone: true })
    }

    /// Whether the first rule derives a text.
    pub(super) fn is_satisfiable(&self) -> bool {
        rules::productive(&self.rules).first() == Some(&true)
    }
}
