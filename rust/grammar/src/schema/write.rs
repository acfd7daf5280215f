//! Writes sets of values as a grammar in Lark.
//!
//! Each term that stands somewhere becomes a rule, once. Rules that derive no text are taken out at the end, so that from
//! every beginning of a text there is a way to its end.

use super::arena::{Id, ROOT};
use super::keywords::Types;
use super::numeral::{self, Style};
use super::parameters::Parameters;
use super::read::Reader;
use super::refuse;
use super::set::{Leaf, Set, SetId, Term};
use super::shape;
use super::spelling;
use crate::error::Result;
use crate::sets::logic::{F, FALSE, Node};
use crate::sets::number::{self, Cell, Kind};
use crate::sets::strings::{Piece, Under, length};
use crate::unique::Shape;
use crate::written::Written;
use crate::written::expr::{Expr, Terminal};
use crate::written::multiple;
use crate::written::rules::{self, Line, Rule, Symbol};
use ahash::AHashMap;
use std::sync::Arc;

/// Divisibility by n is an automaton of n states: 9,973 take 60 ms, a hundred of about 9,000 take 6.7 s.
pub(super) const MAX_DIVISORS: f64 = 10_000.0;
/// Most whole numbers that are written one by one in place of such an automaton.
const MAX_LISTED: usize = 256;
/// Most decimals of a divisor, for the lexer's 32-bit remainders.
const MAX_SCALE: u32 = 8;

/// This text.
pub(super) fn literal(text: &str) -> Symbol {
    Symbol::Text(Arc::from(text))
}

/// What the values of a term stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Json,
    /// The arguments of a call.
    Call,
    /// An argument that is written with its name; its strings are told from values of these types.
    Argument(Types),
}

/// A grammar that is being written.
#[derive(Debug)]
pub(super) struct Writer<'r, 'a> {
    pub(super) reader: &'r mut Reader<'a>,
    pub(super) out: Written,
    numbers: AHashMap<Expr, Terminal>,
    texts: AHashMap<F, Terminal>,
    values: AHashMap<(Term, Form), Rule>,
    /// Terms differ that mean the same: references to one schema, for example.
    sets: AHashMap<(SetId, Form), Rule>,
    line: Vec<(Term, Form, Rule, Id)>,
    /// How arguments are written one by one, where the schema is a function's and that is its model's way.
    pub(super) parameters: Option<Parameters<'r>>,
    /// Whether what is being written are the arguments of a call.
    pub(super) is_call: bool,
    /// The schema whose values are written.
    pub(super) at: Id,
    /// Whether the filter has to tell items apart, or keys.
    pub(super) filtered: bool,
    pub(super) frees: bool,
    /// Whether there are keys of the schema that only the filter keeps from coming twice.
    pub(super) untold: bool,
    /// Whether parameters are used in place of states, and the rules that must derive texts then.
    pub(super) tallies: bool,
    pub(super) tallied: Vec<Rule>,
}

impl<'r, 'a> Writer<'r, 'a> {
    pub(super) fn new(reader: &'r mut Reader<'a>, parameters: Option<Parameters<'r>>) -> Self {
        Writer {
            reader,
            out: Written::default(),
            numbers: AHashMap::new(),
            texts: AHashMap::new(),
            values: AHashMap::new(),
            sets: AHashMap::new(),
            line: Vec::new(),
            parameters,
            is_call: false,
            at: ROOT,
            filtered: false,
            frees: false,
            untold: false,
            tallies: true,
            tallied: Vec::new(),
        }
    }

    /// Writes the rule of the term, which is the first, and all that it needs.
    ///
    /// # Errors
    /// What cannot be written; where the budget is spent.
    pub(super) fn write(&mut self, term: Term) -> Result<()> {
        self.value_as(term, if self.parameters.is_some() { Form::Call } else { Form::Json });
        while let Some((term, form, rule, at)) = self.line.pop() {
            let schema = |leaf: Leaf| match leaf {
                Leaf::Schema(id, ..) => Some(id),
                Leaf::Set(_) => None,
            };
            self.at = self.reader.sets.terms.atoms(term).into_iter().find_map(schema).unwrap_or(at);
            let set = self.reader.set_of(term)?;
            if let Some(same) = self.sets.get(&(set, form)) {
                self.out.rules[rule] = vec![vec![Symbol::Rule(*same)]];
                continue;
            }
            self.sets.insert((set, form), rule);
            let set = self.reader.sets.get(set);
            self.reader.arena.budget.spend(1)?;
            self.out.rules[rule] = match form {
                Form::Json => self.alternatives(&set)?,
                Form::Call => self.call(&set)?,
                Form::Argument(types) => self.argument_values(&set, types)?,
            };
        }
        Ok(())
    }

    /// The rule for the values of a term as JSON.
    pub(super) fn value(&mut self, term: Term) -> Rule {
        self.value_as(term, Form::Json)
    }

    /// The rule for the values of a term.
    pub(super) fn value_as(&mut self, term: Term, form: Form) -> Rule {
        if let Some(known) = self.values.get(&(term, form)) {
            return *known;
        }
        let rule = self.rule();
        self.values.insert((term, form), rule);
        if term != FALSE {
            self.line.push((term, form, rule, self.at));
        }
        rule
    }

    /// A new rule, which derives nothing yet.
    pub(super) fn rule(&mut self) -> Rule {
        self.out.rule(Vec::new())
    }

    pub(super) fn refuse<T>(&self, keyword: &str, why: impl Into<String>) -> Result<T> {
        Err(refuse(&self.reader.arena[self.at].pointer, keyword, why))
    }

    /// Notes that less is allowed than the schema does.
    pub(super) fn narrow(&mut self, keyword: &str, why: &str) -> Result<()> {
        let arena = self.reader.arena;
        self.reader.narrow(&arena[self.at].pointer, keyword, why)
    }

    fn alternatives(&mut self, set: &Set) -> Result<Vec<Line>> {
        let mut texts: Vec<Expr> = Vec::new();
        let constants = [(set.null, "null"), (set.yes, "true"), (set.no, "false")];
        texts.extend(constants.iter().filter(|(is, _)| *is).map(|(_, text)| Expr::Text((*text).to_owned())));
        let mut lines = self.numbers(set, &mut texts)?;
        let Under(strings) = set.strings.under;
        if self.is_nested() {
            lines.extend(self.quoted(strings, "")?);
        } else if !self.no_string(strings)? {
            texts.push(self.string_values(strings));
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
        let Some(is_empty) = self.reader.sets.strings.is_empty(strings) else {
            return self.refuse("pattern", "too complex to tell whether any text matches: make it simpler");
        };
        Ok(is_empty)
    }

    pub(super) fn terminal(&mut self, expression: Expr) -> Terminal {
        if let Some(known) = self.numbers.get(&expression) {
            return *known;
        }
        let terminal = self.out.terminals.len();
        self.out.terminals.push(expression.clone());
        self.numbers.insert(expression, terminal);
        terminal
    }

    /// The terminal for names of keys.
    pub(super) fn names(&mut self, names: F) -> Terminal {
        if let Some(known) = self.texts.get(&names) {
            return *known;
        }
        let expression = spelling::quote(&self.reader.sets.strings.expr(names));
        let terminal = self.terminal(expression);
        self.texts.insert(names, terminal);
        terminal
    }

    /// Strings as values: those of any kind, or only bounded in length, in any spelling. Elsewhere one that is spelled otherwise
    /// would pass for one that is not in the set.
    pub(super) fn string_values(&self, strings: F) -> Expr {
        match self.reader.sets.strings.logic.node(strings) {
            Node::All(parts) if parts.is_empty() => spelling::any(),
            Node::Atom(Piece::Length(lengths)) => {
                let characters = length(&Expr::Regex(spelling::CHARACTER.to_owned()), lengths);
                Expr::concat([Expr::text("\""), characters, Expr::text("\"")])
            }
            Node::Any(parts) => Expr::Any(parts.iter().map(|part| self.string_values(*part)).collect()),
            _ => spelling::quote(&self.reader.sets.strings.expr(strings)),
        }
    }

    /// Terminals for numbers, and lines for those with conditions on what divides them.
    pub(super) fn numbers(&mut self, set: &Set, texts: &mut Vec<Expr>) -> Result<Vec<Line>> {
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
        if style == Style::Whole
            && let Some(list) = number::listed(std::slice::from_ref(cell), Kind::Whole, MAX_LISTED)
        {
            self.reader.arena.budget.spend(list.len())?;
            texts.extend(list.into_iter().map(|n| Expr::Text(n.text())));
            return Ok(None);
        }
        if cell.by.iter().any(|(d, _)| d.digits > 1 && d.scale > MAX_SCALE) {
            return self.refuse("multipleOf", format!("has more than {MAX_SCALE} decimals: round it"));
        }
        self.out.divisors += cell.states() as f64;
        if self.out.divisors > MAX_DIVISORS {
            let why = format!("the digits of all divisors sum up to more than {MAX_DIVISORS}");
            return self.refuse("multipleOf", why);
        }
        let by = cell.by.iter().map(|(d, yes)| Expr::Multiples(*d, *yes));
        let terminal =
            self.terminal(Expr::All([numeral::terminal(cell, style)].into_iter().chain(by).collect()));
        let lark = match (cell.by.as_slice(), style) {
            (&[(by, true)], Style::Whole) => multiple::in_lark(by, (cell.low, cell.high), "integer"),
            (&[(by, true)], Style::Any) => multiple::in_lark(by, (cell.low, cell.high), "number"),
            _ => None,
        };
        self.out.multiples.insert(terminal, lark);
        Ok(Some(vec![Symbol::Terminal(terminal)]))
    }

    /// The whole grammar, where its first rule derives a text.
    ///
    /// # Errors
    /// Where the filter beside it would have too much to know, or the budget is spent.
    pub(super) fn finish(mut self, root: Term) -> Result<Written> {
        self.out.shape = match (self.filtered, self.frees) {
            (false, false) => None,
            // Of keys alone, nothing has to be known.
            (false, true) => Some(Shape::of(Vec::new())),
            (true, _) => Some(shape::of(self.reader, root, self.untold)?),
        };
        rules::prune(&mut self.out.rules);
        self.out.space = self.reader.setting.space.map(str::to_owned);
        self.out.is_alone = self.parameters.is_none();
        Ok(self.out)
    }

    /// Whether every rule that a parameter relies on derives a text. Where one does not, the grammar has to be written without such
    /// parameters.
    pub(super) fn tallies_hold(&self) -> bool {
        self.tallied.is_empty() || rules::are_whole(&self.out.rules, &self.tallied)
    }

    /// Whether the first rule derives a text.
    pub(super) fn is_satisfiable(&self) -> bool {
        rules::productive(&self.out.rules).first() == Some(&true)
    }
}
