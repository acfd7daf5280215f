//! Writes the arguments of a call one by one, each with its name: in tags (`<parameter=city>Bern</parameter>`) or as in Python
//! (`city="Bern"`).
//!
//! Only the outermost object is written in this way. Its keys follow the schema as in JSON; other texts replace the braces, colons
//! and commas ([`Parameters`]). Keys that the schema does not name are left out, because a filter cannot keep them apart. A raw
//! string ends at the text behind it, which it cannot contain. If the value may have another type, too, the string cannot look
//! like a value of that type. Gemma 4 also writes raw strings and bare keys inside of values (`nested`).

use super::keywords::Types;
use super::parameters::{Parameters, between};
use super::set::{Set, Term};
use super::write::{Form, Writer, literal};
use super::write_list::behind;
use crate::error::{Error, Result};
use crate::sets::logic::{F, FALSE};
use crate::spec::JsonType;
use crate::texts::around;
use crate::written::expr::Expr;
use crate::written::rules::{Line, Symbol};
use std::collections::BTreeMap;

/// JSON's numbers.
const NUMBER: &str = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$";
/// Why parameters that the schema does not name are left out.
const UNNAMED: &str = "parameters that the schema does not name are left out: name them in properties";

impl Writer<'_, '_> {
    /// The alternatives for the arguments of a call.
    pub(super) fn call(&mut self, set: &Set) -> Result<Vec<Line>> {
        self.is_call = true;
        let lines = if set.objects == FALSE { Ok(Vec::new()) } else { self.objects(set.objects) };
        self.is_call = false;
        lines
    }

    /// The filter for keys that the schema does not name. Calls have no such keys.
    pub(super) fn unnamed(&mut self, others: F) -> Result<F> {
        if others == FALSE || !self.is_call && !self.is_nested() {
            return Ok(others);
        }
        self.narrow("additionalProperties", UNNAMED)?;
        Ok(FALSE)
    }

    /// A brace of an object; calls may have none around the arguments.
    pub(super) fn brace(&self, brace: &str) -> Line {
        if self.is_call { Line::new() } else { vec![literal(brace)] }
    }

    /// Adds the separator before a key and its value, unless they are the first of their object.
    pub(super) fn behind(&mut self, comma: bool, pair: Line) -> Result<Line> {
        match self.parameters.filter(|_| self.is_call) {
            Some(parameters) if comma => Ok([self.around(&parameters.spec.separator)?, pair].concat()),
            Some(_) => Ok(pair),
            None => Ok(behind(comma, pair)),
        }
    }

    /// A parameter and its value.
    pub(super) fn argument(&mut self, name: &str, value: Term) -> Result<Line> {
        let parameters = self.parameters.expect("arguments are written of calls. This is a bug.");
        let mut line = self.around(&parameters.spec.before)?;
        line.push(self.out.one_of([name]));
        line.push(Symbol::Rule(self.value_as(value, Form::Argument(parameters.types_of(name)))));
        Ok(line)
    }

    /// The symbols of a text around arguments.
    pub(super) fn around(&mut self, text: &str) -> Result<Line> {
        let parameters = self.parameters.expect("texts stand around arguments of calls. This is a bug.");
        around(text, &mut self.out, parameters.vocab)
    }

    /// The alternatives for the values of a parameter, each with the text before and behind it. `types`: those that a string
    /// must not look like.
    pub(super) fn argument_values(&mut self, set: &Set, types: Types) -> Result<Vec<Line>> {
        let Parameters { spec, .. } =
            self.parameters.expect("arguments are written of calls. This is a bug.");
        let mut lines = self.scalars(set, types)?;
        if set.arrays != FALSE {
            let values = self.arrays(set.arrays)?;
            lines.extend(self.enclosed(JsonType::Array, values)?);
        }
        if set.objects != FALSE {
            let values = self.objects(set.objects)?;
            lines.extend(self.enclosed(JsonType::Object, values)?);
        }
        if spec.raw && !spec.quote.is_empty() {
            let before = self.between(JsonType::String)?;
            let strings = self.quoted(set.strings.under.0, &spec.after)?;
            lines.extend(strings.into_iter().map(|string| [before.clone(), string].concat()));
        }
        Ok(lines)
    }

    /// The alternatives for values that are neither arrays nor objects, nor strings in quotes. Those with the same text before them
    /// become one terminal, each with the text behind it. The lexer takes the longest lexeme, so it would cut separate terminals in
    /// the wrong place.
    fn scalars(&mut self, set: &Set, types: Types) -> Result<Vec<Line>> {
        let Parameters { spec, .. } =
            self.parameters.expect("arguments are written of calls. This is a bug.");
        let spelled = |is: bool, constant: &str, python: &str| {
            let texts = [Some(constant), spec.python.then_some(python)];
            texts.into_iter().flatten().filter(|_| is).map(Expr::text).collect::<Vec<_>>()
        };
        let nulls = spelled(set.null, "null", "None");
        let booleans = [spelled(set.yes, "true", "True"), spelled(set.no, "false", "False")].concat();
        let mut numbers = Vec::new();
        let divided = self.numbers(set, &mut numbers)?;
        let mut lines = self.enclosed(JsonType::Number, divided)?;
        let (end, rest) = self.ending(&spec.after)?;
        let mut strings = Vec::new();
        let all = set.strings.under.0;
        if !spec.raw && !self.no_string(all)? {
            strings.push(self.string_values(all));
        } else if spec.raw && spec.quote.is_empty() {
            let all = self.readable(all, types, &spec.after)?;
            if !self.no_string(all)? {
                strings.push(self.at_least_one(all, &end));
            }
            if end.is_empty() && self.reader.sets.strings.has(all, "") {
                lines.push([self.between(JsonType::String)?, rest.clone()].concat());
            }
        }
        let mut groups: BTreeMap<&str, Vec<Expr>> = BTreeMap::new();
        let of_types = [JsonType::Null, JsonType::Boolean, JsonType::Number, JsonType::String];
        for (of, texts) in of_types.into_iter().zip([nulls, booleans, numbers, strings]) {
            let texts = texts.into_iter().map(|text| Expr::concat([text, Expr::text(&end)]));
            groups.entry(between(spec, of)?).or_default().extend(texts);
        }
        for (before, texts) in groups.into_iter().filter(|(_, texts)| !texts.is_empty()) {
            let value = Symbol::Terminal(self.terminal(Expr::Any(texts)));
            lines.push([self.around(before)?, vec![value], rest.clone()].concat());
        }
        Ok(lines)
    }

    /// Splits the text after a value: its beginning, which becomes a part of the value's terminal, and the symbols of the rest.
    fn ending(&mut self, text: &str) -> Result<(String, Line)> {
        let mut rest = self.around(text)?;
        let Some(Symbol::Terminal(first)) = rest.first() else { return Ok((String::new(), rest)) };
        let Some(end) = self.out.terminals[*first].listed().map(|texts| texts.concat()) else {
            return Ok((String::new(), rest));
        };
        rest.remove(0);
        Ok((end, rest))
    }

    /// The strings; without the empty string if `end` is empty, since terminals may not be.
    fn at_least_one(&self, strings: F, end: &str) -> Expr {
        let texts = self.reader.sets.strings.expr(strings);
        if end.is_empty() { Expr::all([texts, Expr::character().times(1, None)]) } else { texts }
    }

    fn between(&mut self, of: JsonType) -> Result<Line> {
        let Parameters { spec, .. } =
            self.parameters.expect("arguments are written of calls. This is a bug.");
        self.around(between(spec, of)?)
    }

    /// Adds the texts before and after a value of this type.
    fn enclosed(&mut self, of: JsonType, values: Vec<Line>) -> Result<Vec<Line>> {
        let Parameters { spec, .. } =
            self.parameters.expect("arguments are written of calls. This is a bug.");
        if values.is_empty() {
            return Ok(values);
        }
        let (before, after) = (self.between(of)?, self.around(&spec.after)?);
        Ok(values.into_iter().map(|value| [before.clone(), value, after.clone()].concat()).collect())
    }

    /// Raw strings in quotes, with the text behind them.
    pub(super) fn quoted(&mut self, strings: F, after: &str) -> Result<Vec<Line>> {
        let Parameters { spec, .. } = self.parameters.expect("strings are raw in calls. This is a bug.");
        let behind = format!("{}{after}", spec.quote);
        let strings = self.readable(strings, Types::NONE, &behind)?;
        let (before, (end, rest)) = (self.around(&spec.quote)?, self.ending(&behind)?);
        let mut lines = Vec::new();
        if end.is_empty() && self.reader.sets.strings.has(strings, "") {
            lines.push([before.clone(), rest.clone()].concat());
        }
        if !self.no_string(strings)? {
            let texts = Expr::concat([self.at_least_one(strings, &end), Expr::Text(end)]);
            lines.push([before, vec![Symbol::Terminal(self.terminal(texts))], rest].concat());
        }
        Ok(lines)
    }

    /// Whether strings and keys within arrays and objects are written as in arguments, too.
    pub(super) fn is_nested(&self) -> bool {
        self.parameters.is_some_and(|parameters| parameters.spec.nested)
    }

    /// Removes strings that contain `end`, and strings that look like a value of one of these types.
    fn readable(&mut self, strings: F, types: Types, end: &str) -> Result<F> {
        let end = end.trim();
        if end.is_empty() {
            return Err(Error::invalid("calls.parameters.after", "has to say where a raw string ends"));
        }
        let sets = &mut self.reader.sets.strings;
        let mut others = vec![sets.with(end)];
        let constants =
            [(Types::NULL, &["null", "None"][..]), (Types::BOOLEAN, &["true", "false", "True", "False"])];
        for (_, texts) in constants.into_iter().filter(|(of, _)| types.meets(*of)) {
            others.push(sets.texts(texts.iter().map(|text| (*text).to_owned())));
        }
        let patterns = [(Types::NUMBER, NUMBER), (Types::ARRAY, r"^\["), (Types::OBJECT, r"^\{")];
        for (_, pattern) in patterns.into_iter().filter(|(of, _)| types.meets(*of)) {
            others.push(sets.pattern(pattern).expect("the pattern is one. This is a bug."));
        }
        Ok(others.into_iter().fold(strings, |left, other| {
            let allowed = sets.not(other);
            sets.and(left, allowed)
        }))
    }
}
