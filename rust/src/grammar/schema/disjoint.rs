//! Proves that the branches of a `oneOf` exclude each other, so that it says the same as `anyOf`.
//!
//! llguidance proves it for branches written in place, but never through `$ref`, which is how pydantic writes
//! discriminated unions.

use super::arena::{Arena, Id, Target};
use super::keywords::Types;
use crate::error::Result;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// References followed before giving up.
const MAX_STEPS: usize = 8;
/// More are not compared: every pair is looked at.
const MAX_BRANCHES: usize = 200;

/// A schema as far as it matters here: what must hold of every value that it accepts.
#[derive(Debug, Clone)]
struct Facts<'a> {
    types: Types,
    /// The only values there are, if that is known.
    values: Option<Vec<&'a Value>>,
    /// All properties that some part of the schema restricts, with the restricting schema.
    properties: BTreeSet<(&'a str, Id)>,
    required: BTreeSet<&'a str>,
}

/// Facts of a schema, with so many references followed at most; None where nothing is known.
type Known<'a> = HashMap<(Id, usize), Option<Rc<Facts<'a>>>>;

/// What was found out about one document, for all of its `oneOf`s: parts that share parts are looked at once.
#[derive(Debug)]
pub(super) struct Proof<'a> {
    arena: &'a Arena<'a>,
    known: RefCell<Known<'a>>,
}

impl<'a> Proof<'a> {
    pub(super) fn new(arena: &'a Arena<'a>) -> Self {
        Proof { arena, known: RefCell::default() }
    }

    /// Whether all branches of this schema's `oneOf` exclude each other.
    ///
    /// # Errors
    /// Where the budget is spent.
    pub(super) fn branches(&self, id: Id) -> Result<bool> {
        let branches = self.arena.inside(id, "oneOf");
        if branches.len() > MAX_BRANCHES {
            return Ok(false);
        }
        let mut before: Vec<Rc<Facts<'a>>> = Vec::new();
        for (_, branch) in branches {
            let Some(facts) = self.facts(*branch, MAX_STEPS)? else { return Ok(false) };
            for other in &before {
                if !self.exclude(&facts, other, MAX_STEPS)? {
                    return Ok(false);
                }
            }
            before.push(facts);
        }
        Ok(true)
    }

    fn exclude(&self, a: &Facts<'a>, b: &Facts<'a>, steps: usize) -> Result<bool> {
        self.arena.budget.spend(1)?;
        let shared = a.types.and(b.types);
        if shared == Types::NONE {
            return Ok(true);
        }
        if let (Some(x), Some(y)) = (&a.values, &b.values) {
            self.arena.budget.spend(x.len() * y.len())?;
            return Ok(!x.iter().any(|v| y.iter().any(|w| equal(v, w))));
        }
        if shared != Types::OBJECT || steps == 0 {
            return Ok(false);
        }
        // A property that one of them requires, and that both restrict to values which exclude each other.
        for name in a.required.union(&b.required) {
            let (left, right) = (self.named(a, name, steps)?, self.named(b, name, steps)?);
            for (l, r) in left.iter().flat_map(|l| right.iter().map(move |r| (l, r))) {
                if self.exclude(l, r, steps - 1)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// What is known of the property of that name.
    fn named(&self, facts: &Facts<'a>, name: &str, steps: usize) -> Result<Vec<Rc<Facts<'a>>>> {
        self.arena.budget.spend(facts.properties.len())?;
        let named = facts.properties.iter().filter(|(n, _)| *n == name);
        let named = named.map(|(_, id)| self.facts(*id, steps - 1)).collect::<Result<Vec<_>>>()?;
        Ok(named.into_iter().flatten().collect())
    }

    fn facts(&self, id: Id, steps: usize) -> Result<Option<Rc<Facts<'a>>>> {
        if let Some(known) = self.known.borrow().get(&(id, steps)) {
            return Ok(known.clone());
        }
        let found = self.look(id, steps)?.map(Rc::new);
        self.known.borrow_mut().insert((id, steps), found.clone());
        Ok(found)
    }

    fn look(&self, id: Id, steps: usize) -> Result<Option<Facts<'a>>> {
        self.arena.budget.spend(1)?;
        let Some(map) = self.arena[id].map() else { return Ok(None) };
        let Some(mut facts) = Facts::own(map, self.arena.inside(id, "properties")) else { return Ok(None) };
        let mut parts = Vec::new();
        match self.arena[id].reference {
            Some(Target::Here(target)) => parts.push(target),
            Some(_) => return Ok(None),
            None => {}
        }
        parts.extend(self.arena.inside(id, "allOf").iter().map(|(_, part)| *part));
        for part in parts.iter().filter(|_| steps > 0) {
            if let Some(more) = self.facts(*part, steps - 1)? {
                self.arena.budget.spend(more.properties.len() + more.required.len())?;
                facts.and(&more);
            }
        }
        Ok(Some(facts))
    }
}

impl<'a> Facts<'a> {
    /// What the schema says itself; None where its `type` is not one.
    fn own(map: &'a Map<String, Value>, properties: &[(&'a str, Id)]) -> Option<Self> {
        let (properties, required) = (properties.iter().copied().collect(), BTreeSet::new());
        let mut facts = Facts { types: Types::of(map)?, values: None, properties, required };
        if let Some(value) = map.get("const") {
            facts.only(vec![value]);
        }
        if let Some(list) = map.get("enum").and_then(Value::as_array) {
            facts.only(list.iter().collect());
        }
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        facts.required.extend(required.filter_map(Value::as_str));
        Some(facts)
    }

    fn only(&mut self, values: Vec<&'a Value>) {
        let types = values.iter().fold(Types::NONE, |t, v| Types(t.0 | Types::of_value(v).0));
        self.types = self.types.and(types);
        self.values = Some(values);
    }

    fn and(&mut self, more: &Facts<'a>) {
        self.types = self.types.and(more.types);
        self.values = self.values.take().or_else(|| more.values.clone());
        self.properties.extend(&more.properties);
        self.required.extend(&more.required);
    }
}

/// Equal as JSON Schema sees it: 1 and 1.0 are the same number.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, v)| y.get(k).is_some_and(|w| equal(v, w)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::budget::Budget;
    use serde_json::json;

    fn proved(doc: &Value) -> bool {
        let budget = Budget::of_a_test();
        Proof::new(&Arena::new(doc, &budget).unwrap()).branches(super::super::arena::ROOT).unwrap()
    }

    #[test]
    fn pydantic_unions_are_proved() {
        let cat = json!({"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]});
        let dog = json!({"type": "object", "properties": {"kind": {"enum": ["dog", "wolf"]}}});
        let refs = json!([{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]);
        let doc = json!({"oneOf": refs, "$defs": {"Cat": cat, "Dog": dog}});
        assert!(proved(&doc));
        // Without a required key, `{}` satisfies both.
        let mut open = doc.clone();
        open["$defs"]["Cat"]["required"] = json!([]);
        assert!(!proved(&open));
        let mut same = doc;
        same["$defs"]["Dog"]["properties"]["kind"] = json!({"enum": ["dog", "cat"]});
        assert!(!proved(&same));
    }

    #[test]
    fn types_and_values_exclude_each_other() {
        assert!(proved(
            &json!({"oneOf": [{"type": "string"}, {"type": ["null", "integer"]}, {"const": 1.5}]})
        ));
        assert!(!proved(&json!({"oneOf": [{"type": "number"}, {"type": "integer"}]})));
        assert!(!proved(&json!({"oneOf": [{"const": 1}, {"enum": [1.0]}]})));
        assert!(!proved(&json!({"oneOf": [{"$ref": "#"}, {"$ref": "#"}]})));
    }
}
