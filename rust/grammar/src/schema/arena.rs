//! The schemas of a document, each with a number, and what their references mean: by pointer, `$id` and anchor. All of it
//! is looked up once, and everything that goes over a document goes over these numbers.

use super::Library;
use super::keywords::{Draft, Inside, inside, step};
use super::refuse;
use crate::budget::Budget;
use crate::error::Result;
use ahash::AHashMap;
use referencing::{Iri, IriRef};
use serde_json::Value;
use std::collections::BTreeMap;

/// Schemas in the document.
const MAX_SCHEMAS: usize = 50_000;

/// The base of a document without `$id`; the same as llguidance's.
const NO_ID: &str = "json-schema:///";

/// The number of a schema.
pub(super) type Id = usize;

/// The whole document.
pub(super) const ROOT: Id = 0;

/// Another document, which nobody has.
const ELSEWHERE: &str = "leads out of the document: put the schema that it means under $defs, or have the server know it \
                         (grammar.documents)";

/// The schema that a reference means, or why there is none.
type Target = std::result::Result<Id, String>;

/// What stands where a schema should.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// JSON pointer, in another document behind its URI and `#`.
    pub(super) pointer: String,
    pub(super) value: &'a Value,
    /// By keyword, in the order of the text: what is directly inside, used or not, with its name where it has one. Then what its
    /// references mean, the dynamic ones where nothing around says otherwise.
    inner: Vec<(&'a str, Vec<(&'a str, Id)>)>,
    /// Why its reference means nothing, if that is so.
    pub(super) broken: Option<String>,
    pub(super) draft: Draft,
    /// The schema that it has its base URI from: the innermost one around it with an `$id`, or the whole document.
    pub(super) resource: Id,
}

impl<'a> Node<'a> {
    /// The text of a keyword that has one.
    pub(super) fn text(&self, keyword: &str) -> Option<&'a str> {
        self.value.get(keyword)?.as_str()
    }
}

impl<'a> std::ops::Index<Id> for Arena<'a> {
    type Output = Node<'a>;

    fn index(&self, id: Id) -> &Node<'a> {
        &self.nodes[id]
    }
}

/// By name, the schemas that a dynamic reference may mean. `$recursiveAnchor` has no name.
pub(super) type Dynamic<'a> = BTreeMap<&'a str, Id>;

/// A document.
#[derive(Debug)]
pub(super) struct Arena<'a> {
    /// What everything that goes over the document may take together.
    pub(super) budget: &'a Budget,
    library: &'a Library,
    nodes: Vec<Node<'a>>,
    ids: AHashMap<String, Id>,
    /// Base URIs of resources.
    bases: AHashMap<Id, String>,
    /// Resources by their URIs and those under which they are referred to, and anchors by `uri#name`.
    names: AHashMap<String, Id>,
    dynamic: AHashMap<Id, Dynamic<'a>>,
    /// Whether a reference depends on the way that led to it.
    pub(super) is_dynamic: bool,
}

impl<'a> Arena<'a> {
    /// Numbers the schemas, and what references lead to besides.
    ///
    /// # Errors
    /// Where there are too many, or the budget is spent.
    pub(super) fn new(root: &'a Value, (budget, library): (&'a Budget, &'a Library)) -> Result<Self> {
        let mut arena = Arena {
            budget,
            library,
            nodes: Vec::new(),
            ids: AHashMap::new(),
            bases: AHashMap::from([(ROOT, NO_ID.to_owned())]),
            names: AHashMap::new(),
            dynamic: AHashMap::new(),
            is_dynamic: false,
        };
        arena.add(String::new(), root, (ROOT, Draft::D2020), true)?;
        let mut id = ROOT;
        while id < arena.nodes.len() {
            for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
                let Some(text) = arena[id].text(keyword) else { continue };
                match arena.resolve(id, text)? {
                    Ok(target) => arena.nodes[id].inner.push((keyword, vec![("", target)])),
                    Err(why) => {
                        arena.nodes[id].broken.get_or_insert(why);
                    }
                }
            }
            id += 1;
        }
        Ok(arena)
    }

    /// What is directly inside under a keyword, in the order of the text.
    pub(super) fn inside(&self, id: Id, keyword: &str) -> &[(&'a str, Id)] {
        let found = self[id].inner.iter().find(|(k, _)| *k == keyword);
        found.map_or(&[], |(_, inside)| inside.as_slice())
    }

    /// The schema under a keyword that has one, or that a reference means.
    pub(super) fn one(&self, id: Id, keyword: &str) -> Option<Id> {
        self.inside(id, keyword).first().map(|(_, id)| *id)
    }

    /// What dynamic references mean in the resource.
    pub(super) fn dynamic(&self, resource: Id) -> Option<&Dynamic<'a>> {
        self.dynamic.get(&resource)
    }

    /// Adds what stands at a pointer and all inside it, given the resource and the draft around it. What only a reference makes a
    /// schema (`is_schema` is false) names neither itself nor what is in it.
    fn add(
        &mut self,
        pointer: String,
        value: &'a Value,
        (mut resource, mut draft): (Id, Draft),
        is_schema: bool,
    ) -> Result<Id> {
        if let Some(id) = self.ids.get(&pointer) {
            return Ok(*id);
        }
        self.budget.spend(1)?;
        if self.nodes.len() >= MAX_SCHEMAS {
            return Err(refuse("", "schema", format!("more than {MAX_SCHEMAS} schemas")));
        }
        let id = self.nodes.len();
        if is_schema {
            if let Some(why) = Draft::too_old(value) {
                return Err(refuse(&pointer, "$schema", why));
            }
            draft = Draft::of(value, draft);
            resource = self.identify(id, value, (resource, draft));
        }
        self.ids.insert(pointer.clone(), id);
        self.nodes.push(Node { pointer, value, inner: Vec::new(), broken: None, draft, resource });
        let Some(map) = value.as_object() else { return Ok(id) };
        self.is_dynamic |= map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef");
        let mut inner = Vec::new();
        for (keyword, value) in map {
            let here = step(&self[id].pointer, keyword);
            let parts: Vec<(&'a str, String, &'a Value)> = match (inside(keyword), value) {
                (Inside::List | Inside::Items, Value::Array(list)) => {
                    list.iter().enumerate().map(|(i, v)| ("", format!("{here}/{i}"), v)).collect()
                }
                (Inside::Named, Value::Object(map)) => {
                    map.iter().map(|(name, v)| (name.as_str(), step(&here, name), v)).collect()
                }
                (Inside::One | Inside::Items, one) => vec![("", here, one)],
                _ => continue,
            };
            let around = (resource, draft);
            let mut add = |(name, pointer, part)| Ok((name, self.add(pointer, part, around, is_schema)?));
            inner.push((keyword.as_str(), parts.into_iter().map(&mut add).collect::<Result<_>>()?));
        }
        self.nodes[id].inner = inner;
        Ok(id)
    }

    /// Notes under which names the schema is known, and returns the resource that it is of.
    fn identify(&mut self, id: Id, schema: &'a Value, (around, draft): (Id, Draft)) -> Id {
        let mut resource = around;
        let text = |key: &str| -> Option<&'a str> { schema.get(key)?.as_str() };
        let name = text(if draft == Draft::D4 { "id" } else { "$id" });
        // Beside `$ref`, the old drafts ignore it.
        let name = name.filter(|_| draft >= Draft::D2019 || schema.get("$ref").is_none());
        if let Some((uri, fragment)) = name.map(|name| name.split_once('#').unwrap_or((name, ""))) {
            if !uri.is_empty() {
                let uri = join(&self.bases[&around], uri);
                resource = id;
                self.names.entry(uri.clone()).or_insert(id);
                self.bases.insert(id, uri);
            }
            if !fragment.is_empty() && draft <= Draft::D7 {
                self.anchor(resource, fragment, id);
            }
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = text(key).filter(|_| draft >= Draft::D2019) {
                self.anchor(resource, name, id);
                if key == "$dynamicAnchor" {
                    self.dynamic.entry(resource).or_default().insert(name, id);
                }
            }
        }
        if schema.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            self.dynamic.entry(resource).or_default().insert("", id);
        }
        resource
    }

    fn anchor(&mut self, resource: Id, name: &str, id: Id) {
        self.names.insert(format!("{}#{name}", self.bases[&resource]), id);
    }

    /// What the reference of this schema means; what it leads to has a number then.
    fn resolve(&mut self, from: Id, reference: &str) -> Result<Target> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = self[from].resource;
        let resource =
            if uri.is_empty() { Some(base) } else { self.find(from, join(&self.bases[&base], uri))? };
        let Some(resource) = resource else { return Ok(Err(ELSEWHERE.to_owned())) };
        let nowhere = Err(format!("{reference} leads nowhere"));
        let Some(fragment) = percent_decode(fragment) else { return Ok(nowhere) };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            let anchor = self.names.get(&format!("{}#{fragment}", self.bases[&resource]));
            return Ok(anchor.copied().map_or(nowhere, Ok));
        }
        let pointer = format!("{}{fragment}", self[resource].pointer);
        let (outer, inside) = self.around(&pointer);
        let Some(value) = self[outer].value.pointer(inside) else { return Ok(nowhere) };
        let around = (self[outer].resource, self[outer].draft);
        self.add(pointer, value, around, false).map(Ok)
    }

    /// The resource of an absolute URI; another document is added where the library has it.
    fn find(&mut self, from: Id, uri: String) -> Result<Option<Id>> {
        if let Some(resource) = self.names.get(&uri) {
            return Ok(Some(*resource));
        }
        let Some(value) = self.library.get(&uri) else { return Ok(None) };
        let (id, draft) = (self.nodes.len(), self[from].draft);
        self.bases.insert(id, uri.clone());
        self.names.insert(uri.clone(), id);
        self.add(format!("{uri}#"), value, (id, draft), true).map(Some)
    }

    /// The innermost schema around a place that has a number, and the pointer from there to the place.
    fn around<'p>(&self, pointer: &'p str) -> (Id, &'p str) {
        let mut end = pointer.len();
        loop {
            match self.ids.get(&pointer[..end]) {
                Some(id) => return (*id, &pointer[end..]),
                None => end = pointer[..end].rfind('/').unwrap_or(0),
            }
        }
    }
}

/// The absolute form of a URI without fragment; where one of the two is no URI, what is given.
fn join(base: &str, uri: &str) -> String {
    let joined = || IriRef::parse(uri).ok()?.resolve_against(&Iri::parse(base).ok()?).ok();
    joined().map_or_else(|| uri.to_owned(), |joined| joined.to_string())
}

/// The text with `%` and two digits in place of a byte read; None where it is no such text.
fn percent_decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (byte, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(byte, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_by_pointer_id_and_anchor() {
        let doc = json!({
            "$id": "http://example.com/a/root.json",
            "$defs": {
                "a b": {"$anchor": "here"},
                "sub": {"$id": "sub.json", "$defs": {"x": {}}, "items": {"$ref": "#/$defs/x"}},
            },
            "prefixItems": [
                {"$ref": "#/$defs/a%20b"},
                {"$ref": "#here"},
                {"$ref": "sub.json#/$defs/x"},
                {"$ref": "root.json"},
                {"$ref": "#/$defs/c"},
                {"$ref": "http://example.com/b.json"},
                {"$ref": "http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger"},
                {"$ref": "#/notes/0"},
            ],
            "notes": [{"$ref": "#/$defs"}],
        });
        let (budget, library) = (Budget::of_a_test(), Library::default());
        let arena = Arena::new(&doc, (&budget, &library)).unwrap();
        let leads = |id: Id| match arena.one(id, "$ref") {
            Some(target) => arena[target].pointer.clone(),
            None => arena[id].broken.clone().unwrap_or_default(),
        };
        let found: Vec<_> = arena.inside(ROOT, "prefixItems").iter().map(|(_, id)| leads(*id)).collect();
        let x = "/$defs/sub/$defs/x";
        assert_eq!(found[..4], ["/$defs/a b", "/$defs/a b", x, ""]);
        let meta = "http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger";
        assert_eq!(found[4..], ["#/$defs/c leads nowhere", ELSEWHERE, meta, "/notes/0"]);
        assert_eq!(leads(arena.ids["/notes/0"]), "/$defs");
        assert_eq!(leads(arena.ids["/$defs/sub/items"]), x);
    }

    #[test]
    fn uris_are_joined() {
        assert_eq!(join("http://h/a/b", "c"), "http://h/a/c");
        assert_eq!(join("http://h", "c"), "http://h/c");
        assert_eq!(join("http://h/a/b", "/c"), "http://h/c");
        assert_eq!(join("http://h/a/b/c", "../d/./e"), "http://h/a/d/e");
        assert_eq!(join("urn:x:y", "urn:z"), "urn:z");
        assert_eq!(join("json-schema:///", "c"), "json-schema:///c");
    }
}
