//! Reads single keywords as sets of values.

use super::arena::Id;
use super::decimal::{self, Decimal};
use super::formats::{self, Format};
use super::keywords::Draft;
use super::logic::{F, FALSE, TRUE};
use super::number::{self, Cell, Kind};
use super::read::{Keywords, Reader};
use super::refuse;
use super::set::{Item, Key, Scope, Set, SetId};
use crate::config::{Formats, UndeclaredKeys, UnknownFormat};
use crate::error::Result;
use crate::types::Narrowed;
use serde_json::Value;
use std::rc::Rc;

type At = (Id, Scope);

/// The most that is written in digits: 10^36.
const BIG: Decimal = Decimal { digits: 10i128.pow(36), scale: 0 };

impl Reader<'_> {
    fn wrong<T>(&self, id: Id, keyword: &str, why: impl Into<String>) -> Result<T> {
        Err(refuse(&self.arena[id].pointer, keyword, why))
    }

    /// Values of other types, and strings in the set.
    fn only_strings(&mut self, strings: F) -> SetId {
        self.sets.add(Set { strings, ..Set::all() })
    }

    pub(super) fn numeric(&mut self, id: Id, keyword: &str, value: &Value) -> Result<SetId> {
        let map = self.arena[id].map();
        let flag = |key: &str| map.and_then(|map| map.get(key)) == Some(&Value::Bool(true));
        // In draft 4 an exclusive bound is a flag of the other one.
        let Value::Number(n) = value else { return Ok(super::set::ALL) };
        let huge = n.as_f64().is_some_and(|f| f.abs() > 1e36);
        let exact = match Decimal::parse(n) {
            Some(exact) => exact,
            // No number beyond that is written without an exponent, and with one only where no bound is.
            None if huge && keyword.to_lowercase().ends_with("maximum") && n.as_f64() > Some(0.0) => BIG,
            None if huge && keyword.to_lowercase().ends_with("minimum") && n.as_f64() < Some(0.0) => {
                Decimal { digits: -BIG.digits, scale: 0 }
            }
            None => return self.wrong(id, keyword, decimal::TOO_LONG),
        };
        let own = |flagged: &str| keyword.starts_with(['m']) && !flag(flagged);
        let cell = match keyword {
            "minimum" | "exclusiveMinimum" => {
                Cell { low: Some((exact, own("exclusiveMinimum"))), ..Cell::default() }
            }
            "maximum" | "exclusiveMaximum" => {
                Cell { high: Some((exact, own("exclusiveMaximum"))), ..Cell::default() }
            }
            _ if exact.digits <= 0 => return self.wrong(id, keyword, "must be more than 0"),
            _ => Cell { by: vec![(exact, true)], ..Cell::default() },
        };
        let whole = number::tidy(vec![cell.clone()], Kind::Whole);
        let fraction = number::tidy(vec![cell], Kind::Fraction);
        Ok(self.sets.add(Set { whole, fraction, ..Set::all() }))
    }

    pub(super) fn textual(&mut self, id: Id, keyword: &str, value: &Value) -> Result<SetId> {
        let strings = match (keyword, value) {
            ("minLength", _) => {
                let least = count(value);
                self.sets.strings.length(least, None)
            }
            ("maxLength", _) => {
                let most = count(value);
                self.sets.strings.length(0, Some(most))
            }
            ("pattern", Value::String(text)) => self.pattern(id, keyword, text)?,
            ("format", Value::String(name)) => self.format(id, name)?,
            _ => return self.wrong(id, keyword, "is not a text"),
        };
        Ok(self.only_strings(strings))
    }

    fn pattern(&mut self, id: Id, keyword: &str, text: &str) -> Result<F> {
        match self.sets.strings.pattern(text) {
            Ok(strings) => Ok(strings),
            Err(why) => self.wrong(id, keyword, format!("{text:?}: {why}")),
        }
    }

    fn format(&mut self, id: Id, name: &str) -> Result<F> {
        match formats::of(name) {
            Format::Regex(_) | Format::Part(..) if self.config.formats == Formats::Annotate => Ok(TRUE),
            Format::Regex(rx) => Ok(self.sets.strings.regex(&rx, true)),
            Format::Part(rx, within) => Ok(self.sets.strings.part(&rx, within.as_deref())),
            Format::Free => Ok(TRUE),
            Format::Unknown if self.config.unknown_format == UnknownFormat::Ignore => Ok(TRUE),
            Format::Unknown => {
                let why =
                    "no specification has this name: say it as a pattern, or set grammar.unknown_format";
                self.wrong(id, "format", format!("{name:?}: {why}"))
            }
        }
    }

    pub(super) fn of_arrays(&mut self, at: At, keyword: &str, map: &Keywords) -> Result<SetId> {
        let value = &map[keyword];
        let tuple = map.get("items").is_some_and(Value::is_array);
        let arrays = match keyword {
            "minItems" => {
                let least = count(value);
                if least == 0 { TRUE } else { self.sets.items.atom(Item::Longer(least)) }
            }
            "maxItems" => {
                let most = count(value);
                self.sets.items.atom(Item::Shorter(most))
            }
            "uniqueItems" if *value == Value::Bool(true) => self.sets.items.atom(Item::Unique),
            "contains" => self.contains(at, map)?,
            "prefixItems" => self.tuple(at, keyword),
            "items" if tuple => self.tuple(at, keyword),
            "items" | "additionalItems" if (keyword == "additionalItems") == tuple => {
                let before = if tuple { "items" } else { "prefixItems" };
                let from = self.arena.inside(at.0, before).len();
                let from = if tuple || self.arena[at.0].draft.knows(before) { from } else { 0 };
                self.from(at, keyword, from as u32)
            }
            _ => TRUE,
        };
        Ok(self.sets.add(Set { arrays, ..Set::all() }))
    }

    fn tuple(&mut self, (id, scope): At, keyword: &str) -> F {
        let mut parts = Vec::new();
        for (place, (_, item)) in self.arena.inside(id, keyword).iter().enumerate() {
            let term = self.schema(*item, scope);
            parts.push(self.sets.items.atom(Item::If(place as u32, term)));
        }
        self.sets.items.all(parts)
    }

    fn from(&mut self, (id, scope): At, keyword: &str, from: u32) -> F {
        let Some(item) = self.arena.one(id, keyword) else { return TRUE };
        let term = self.schema(item, scope);
        if term == TRUE { TRUE } else { self.sets.items.atom(Item::From(from, term)) }
    }

    fn contains(&mut self, (id, scope): At, map: &Keywords) -> Result<F> {
        let Some(item) = self.arena.one(id, "contains") else { return Ok(TRUE) };
        let term = self.schema(item, scope);
        let counted = self.arena[id].draft >= Draft::D2019;
        let count = |key: &str| map.get(key).filter(|_| counted).map(count);
        let (least, most) = (count("minContains").unwrap_or(1), count("maxContains"));
        let least = (least > 0).then(|| self.sets.items.atom(Item::Least(least, 0, term)));
        let most = most.map(|most| self.sets.items.atom(Item::Most(most, 0, term)));
        Ok(self.sets.items.all(least.into_iter().chain(most)))
    }

    pub(super) fn of_objects(&mut self, at: At, keyword: &str, map: &Keywords) -> Result<SetId> {
        let value = &map[keyword];
        let objects = match keyword {
            "required" => self.required(at.0, keyword, value)?,
            "minProperties" => {
                let least = count(value);
                if least == 0 { TRUE } else { self.sets.keys.atom(Key::Least(least)) }
            }
            "maxProperties" => {
                let most = count(value);
                self.sets.keys.atom(Key::Most(most))
            }
            "properties" => {
                let list = self.arena.inside(at.0, keyword).iter();
                let mut parts: Vec<F> = list
                    .map(|(name, part)| {
                        let term = self.schema(*part, at.1);
                        self.sets.keys.atom(Key::If(Rc::from(*name), term))
                    })
                    .collect();
                if self.closes() {
                    parts.push(self.sets.keys.atom(Key::Declared));
                }
                self.sets.keys.all(parts)
            }
            "patternProperties" => self.patterns(at)?,
            "additionalProperties" => self.additional(at, keyword)?,
            "propertyNames" => self.names(at)?,
            _ => self.dependent(at, keyword, value)?,
        };
        Ok(self.sets.add(Set { objects, ..Set::all() }))
    }

    fn required(&mut self, id: Id, keyword: &str, value: &Value) -> Result<F> {
        let Some(list) = value.as_array() else { return self.wrong(id, keyword, "is not a list of names") };
        self.arena.budget.spend(list.len())?;
        let mut parts = Vec::new();
        for name in list {
            let Some(name) = name.as_str() else { return self.wrong(id, keyword, "is not a list of names") };
            parts.push(self.sets.keys.atom(Key::Has(Rc::from(name), TRUE)));
        }
        Ok(self.sets.keys.all(parts))
    }

    fn patterns(&mut self, (id, scope): At) -> Result<F> {
        let keyword = "patternProperties";
        let list = self.arena.inside(id, keyword);
        if list.len() > MAX_PATTERNS {
            return self.wrong(id, keyword, format!("more than {MAX_PATTERNS} entries"));
        }
        let mut parts = Vec::new();
        for (text, part) in list {
            let (names, term) = (self.pattern(id, keyword, text)?, self.schema(*part, scope));
            parts.push(self.sets.keys.atom(Key::Every(names, term)));
        }
        Ok(self.sets.keys.all(parts))
    }

    /// The names that `properties` and `patternProperties` of the schema speak of.
    pub(super) fn described(&mut self, id: Id) -> Result<F> {
        let names = self.arena.inside(id, "properties").iter().map(|(name, _)| (*name).to_owned());
        let mut all = self.sets.strings.texts(names.collect::<Vec<_>>());
        for (text, _) in self.arena.inside(id, "patternProperties") {
            let names = self.pattern(id, "patternProperties", text)?;
            all = self.sets.strings.or(all, names);
        }
        Ok(all)
    }

    fn additional(&mut self, (id, scope): At, keyword: &str) -> Result<F> {
        let Some(part) = self.arena.one(id, keyword) else { return Ok(TRUE) };
        let term = self.schema(part, scope);
        if term == TRUE {
            return Ok(if self.closes() { self.sets.keys.atom(Key::Open) } else { TRUE });
        }
        let described = self.described(id)?;
        let names = self.sets.strings.not(described);
        Ok(self.sets.keys.atom(Key::Every(names, term)))
    }

    /// Notes that less is allowed than the schema does.
    ///
    /// # Errors
    /// Where the configuration forbids it.
    pub(super) fn narrow(&mut self, pointer: &str, keyword: &str, why: &str) -> Result<()> {
        if !self.config.narrow {
            let why = format!("{why}; grammar.narrow = true would allow less than the schema does");
            return Err(refuse(pointer, keyword, why));
        }
        self.arena.budget.note(Narrowed {
            pointer: pointer.into(),
            keyword: keyword.into(),
            reason: why.into(),
        });
        Ok(())
    }

    /// Whether objects with `properties` have no other keys, as far as the schema says nothing of those.
    pub(super) fn closes(&self) -> bool {
        self.config.undeclared_keys == UndeclaredKeys::Never && self.config.narrow
    }

    fn names(&mut self, (id, scope): At) -> Result<F> {
        let Some(part) = self.arena.one(id, "propertyNames") else { return Ok(TRUE) };
        let term = self.schema(part, scope);
        let set = self.set_of(term)?;
        let strings = self.sets.get(set).strings;
        // What is a name for certain: all others are left out.
        let names = self.sets.strings.surely(strings);
        let others = self.sets.strings.not(names);
        Ok(if others == FALSE { TRUE } else { self.sets.keys.atom(Key::Every(others, FALSE)) })
    }

    /// What some keys ask of the object.
    fn dependent(&mut self, (id, scope): At, keyword: &str, value: &Value) -> Result<F> {
        let schemas: Vec<(&str, Id)> = self.arena.inside(id, keyword).to_vec();
        let mut parts = Vec::new();
        for (name, value) in value.as_object().into_iter().flatten() {
            let then = match value {
                Value::Array(_) => self.required(id, keyword, value)?,
                // Draft 3 has a single name.
                Value::String(_) => self.required(id, keyword, &Value::Array(vec![value.clone()]))?,
                _ => {
                    let Some((_, part)) = schemas.iter().find(|(n, _)| n == name) else {
                        return self.wrong(id, keyword, "is neither a list of names nor a schema");
                    };
                    let set = self.read(*part, scope)?;
                    self.sets.get(set).objects
                }
            };
            let absent = self.sets.keys.atom(Key::If(Rc::from(name.as_str()), FALSE));
            parts.push(self.sets.keys.any([absent, then]));
        }
        Ok(self.sets.keys.all(parts))
    }
}

/// A count, which was seen to be a whole number that is not negative.
fn count(value: &Value) -> u32 {
    value.as_f64().map_or(0, |n| n.min(f64::from(u32::MAX)) as u32)
}

/// They are compared with each other: 300 take seconds.
const MAX_PATTERNS: usize = 50;
