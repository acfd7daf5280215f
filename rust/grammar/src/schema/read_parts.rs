//! Reads single keywords as sets of values.

use super::arena::Id;
use super::formats::{self, Format};
use super::keywords::Draft;
use super::read::{At, Reader};
use super::refuse;
use super::set::{Item, Key, Set, Term};
use crate::config::{Formats, UndeclaredKeys, UnknownFormat};
use crate::error::Result;
use crate::sets::logic::{F, FALSE, TRUE};
use crate::sets::number::{self, Cell, Kind};
use crate::sets::strings::{Between, Over, Under};
use crate::types::Narrowed;
use crate::written::decimal::{self, Decimal};
use serde_json::Value;
use std::rc::Rc;

/// The most that is written in digits: 10^36.
const BIG: Decimal = Decimal { digits: 10i128.pow(36), scale: 0 };

impl Reader<'_> {
    pub(super) fn wrong<T>(&self, id: Id, keyword: &str, why: impl Into<String>) -> Result<T> {
        Err(refuse(&self.arena[id].pointer, keyword, why))
    }

    pub(super) fn numeric(&mut self, id: Id, keyword: &str, value: &Value) -> Result<Set> {
        let Value::Number(n) = value else { return Ok(Set::all()) };
        let (is_low, is_high) =
            (keyword.to_lowercase().ends_with("minimum"), keyword.to_lowercase().ends_with("maximum"));
        let exact = match (Decimal::parse(n), n.as_f64()) {
            (Some(exact), _) => exact,
            // No number beyond that is written without an exponent, and with one only where no bound is.
            (None, Some(huge)) if is_high && huge > 1e36 => BIG,
            (None, Some(huge)) if is_low && huge < -1e36 => Decimal { digits: -BIG.digits, scale: 0 },
            _ => return self.wrong(id, keyword, decimal::TOO_LONG),
        };
        // In draft 4, exclusiveMinimum and exclusiveMaximum are booleans: they make minimum and maximum exclusive.
        let flag = |key: &str| self.arena[id].value.get(key) == Some(&Value::Bool(true));
        let end = |flagged: &str| Some((exact, keyword.starts_with('m') && !flag(flagged)));
        let cell = match keyword {
            _ if is_low => Cell { low: end("exclusiveMinimum"), ..Cell::default() },
            _ if is_high => Cell { high: end("exclusiveMaximum"), ..Cell::default() },
            _ if exact.digits <= 0 => return self.wrong(id, keyword, "must be more than 0"),
            _ => Cell { by: vec![(exact, true)], ..Cell::default() },
        };
        let whole = number::tidy(vec![cell.clone()], Kind::Whole);
        let fraction = number::tidy(vec![cell], Kind::Fraction);
        Ok(Set { whole, fraction, ..Set::all() })
    }

    pub(super) fn textual(&mut self, id: Id, keyword: &str, value: &Value) -> Result<Between> {
        match (keyword, value) {
            ("minLength", _) => Ok(self.sets.strings.length(count(value), None).into()),
            ("maxLength", _) => Ok(self.sets.strings.length(0, Some(count(value))).into()),
            ("pattern", Value::String(text)) => Ok(self.pattern(id, keyword, text)?.into()),
            ("format", Value::String(name)) => self.format(id, name),
            _ => self.wrong(id, keyword, "is not a text"),
        }
    }

    fn pattern(&mut self, id: Id, keyword: &str, text: &str) -> Result<F> {
        let found = self.sets.strings.pattern(text);
        found.or_else(|why| self.wrong(id, keyword, format!("{text:?}: {why}")))
    }

    fn format(&mut self, id: Id, name: &str) -> Result<Between> {
        match formats::of(name) {
            Some(_) if self.config.formats == Formats::Annotate => Ok(TRUE.into()),
            Some(Format { under, over, left_out }) => {
                if !left_out.is_empty() {
                    let why = format!("only a part of this format can be said, without {left_out}");
                    self.narrow(&self.arena[id].pointer, "format", &why)?;
                }
                let under = self.pattern(id, "format", &under)?;
                let over = over.map_or(Ok(under), |over| self.pattern(id, "format", &over))?;
                Ok(Between { under: Under(under), over: Over(over) })
            }
            None if self.config.unknown_format == UnknownFormat::Ignore => Ok(TRUE.into()),
            None => {
                let why =
                    "no specification has this name: say it as a pattern, or set grammar.unknown_format";
                self.wrong(id, "format", format!("{name:?}: {why}"))
            }
        }
    }

    pub(super) fn of_arrays(&mut self, at: At, keyword: &str, value: &Value) -> Result<F> {
        let tuple = self.arena[at.0].value.get("items").is_some_and(Value::is_array);
        Ok(match keyword {
            "minItems" if count(value) == 0 => TRUE,
            "minItems" => self.sets.items.atom(Item::Longer(count(value))),
            "maxItems" => self.sets.items.atom(Item::Shorter(count(value))),
            "uniqueItems" if *value == Value::Bool(true) => self.sets.items.atom(Item::Unique),
            "contains" => self.contains(at),
            "prefixItems" => self.tuple(at, keyword),
            "items" if tuple => self.tuple(at, keyword),
            "items" | "additionalItems" if (keyword == "additionalItems") == tuple => {
                let before = if tuple { "items" } else { "prefixItems" };
                let from = self.arena.inside(at.0, before).len();
                let from = if tuple || self.arena[at.0].draft.knows(before) { from } else { 0 };
                let term = self.arena.one(at.0, keyword).map_or(TRUE, |item| self.schema(item, at.1));
                self.items_from(from as u32, term)
            }
            _ => TRUE,
        })
    }

    fn tuple(&mut self, (id, scope): At, keyword: &str) -> F {
        let mut parts = Vec::new();
        for (place, (_, item)) in self.arena.inside(id, keyword).iter().enumerate() {
            let term = self.schema(*item, scope);
            parts.push(self.sets.items.atom(Item::If(place as u32, term)));
        }
        self.sets.items.all(parts)
    }

    /// Items from this place on have values of the term.
    pub(super) fn items_from(&mut self, place: u32, term: Term) -> F {
        if term == TRUE { TRUE } else { self.sets.items.atom(Item::From(place, term)) }
    }

    fn contains(&mut self, (id, scope): At) -> F {
        let Some(item) = self.arena.one(id, "contains") else { return TRUE };
        let term = self.schema(item, scope);
        let node = &self.arena[id];
        let count = |key: &str| node.value.get(key).filter(|_| node.draft >= Draft::D2019).map(count);
        let (least, most) = (count("minContains").unwrap_or(1), count("maxContains"));
        let least = (least > 0).then(|| self.sets.items.atom(Item::Least(least, 0, term)));
        let most = most.map(|most| self.sets.not_item(&Item::Least(most.saturating_add(1), 0, term)));
        self.sets.items.all(least.into_iter().chain(most))
    }

    pub(super) fn of_objects(&mut self, at: At, keyword: &str, value: &Value) -> Result<F> {
        match keyword {
            "required" => self.required(at.0, keyword, value),
            "minProperties" if count(value) == 0 => Ok(TRUE),
            "minProperties" => Ok(self.sets.keys.atom(Key::Least(count(value)))),
            "maxProperties" => Ok(self.sets.keys.atom(Key::Most(count(value)))),
            "properties" => Ok(self.properties(at)),
            "patternProperties" => self.patterns(at),
            "additionalProperties" => self.additional(at, keyword),
            "propertyNames" => self.names(at),
            _ => self.dependent(at, keyword, value),
        }
    }

    fn properties(&mut self, (id, scope): At) -> F {
        let mut parts = Vec::new();
        for (name, part) in self.arena.inside(id, "properties") {
            let term = self.schema(*part, scope);
            parts.push(self.sets.keys.atom(Key::If(Rc::from(*name), term)));
        }
        if self.closes() {
            parts.push(self.sets.keys.atom(Key::Declared));
        }
        self.sets.keys.all(parts)
    }

    /// A list of names, or (in draft 3) a single one.
    fn required(&mut self, id: Id, keyword: &str, value: &Value) -> Result<F> {
        let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
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
        let mut parts = Vec::new();
        for (text, part) in list {
            let (names, term) = (self.pattern(id, keyword, text)?, self.schema(*part, scope));
            parts.push(self.sets.keys.atom(Key::Every(names.into(), term)));
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
        Ok(self.sets.keys.atom(Key::Every(names.into(), term)))
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
        let names = self.sets.get(set).strings;
        let others = self.sets.strings.complement(names);
        Ok(if others == FALSE.into() { TRUE } else { self.sets.keys.atom(Key::Every(others, FALSE)) })
    }

    /// What some keys ask of the object.
    fn dependent(&mut self, (id, scope): At, keyword: &str, value: &Value) -> Result<F> {
        let schemas = self.arena.inside(id, keyword);
        let mut parts = Vec::new();
        for (name, value) in value.as_object().into_iter().flatten() {
            let then = match value {
                Value::Array(_) | Value::String(_) => self.required(id, keyword, value)?,
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
