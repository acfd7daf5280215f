//! The schemas of a document, each with a number, and what their references mean: by pointer, `$id` and anchor. All of it
//! is looked up once, and everything that goes over a document goes over these numbers.

use super::Library;
use super::keywords::{Draft, step};
use super::refuse;
use crate::error::Result;
use crate::grammar::budget::Budget;
use ahash::AHashMap;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Schemas in the document.
const MAX_SCHEMAS: usize = 50_000;

/// The base of a document without `$id`; the same as llguidance's.
const NO_ID: &str = "json-schema:///";

/// The number of a schema.
pub(super) type Id = usize;

/// The whole document.
pub(super) const ROOT: Id = 0;

/// What a reference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// This schema.
    Here(Id),
    /// A pointer into this document that leads nowhere.
    Missing,
    /// Another document, which nobody has.
    Elsewhere,
}

/// What stands where a schema should.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// JSON pointer, in another document behind its URI and `#`.
    pub(super) pointer: String,
    pub(super) value: &'a Value,
    /// By keyword, in the order of the text: what is directly inside, used or not, with its name where it has one.
    pub(super) inner: Vec<(&'a str, Vec<(&'a str, Id)>)>,
    /// What its `$ref` means, if it has one.
    pub(super) reference: Option<Target>,
    /// What its `$dynamicRef` or `$recursiveRef` means where nothing around says otherwise.
    pub(super) dynamic: Option<Target>,
    pub(super) draft: Draft,
    /// The `$id` that it stands under.
    pub(super) resource: usize,
}

impl<'a> Node<'a> {
    /// Its keywords, if it is an object.
    pub(super) fn map(&self) -> Option<&'a Map<String, Value>> {
        self.value.as_object()
    }

    fn text(&self, keyword: &str) -> Option<&'a str> {
        self.map()?.get(keyword)?.as_str()
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
    /// Pointer and URI of each schema with an `$id`; the root is first.
    resources: Vec<(String, String)>,
    /// Resources by their URIs, and other documents by those under which they are referred to.
    uris: AHashMap<String, usize>,
    /// By `uri#name`.
    anchors: AHashMap<String, Id>,
    dynamic: AHashMap<usize, Dynamic<'a>>,
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
            resources: vec![(String::new(), NO_ID.to_owned())],
            uris: AHashMap::new(),
            anchors: AHashMap::new(),
            dynamic: AHashMap::new(),
            is_dynamic: false,
        };
        arena.add(String::new(), root, 0, Some(Draft::D2020))?;
        let mut id = ROOT;
        while id < arena.nodes.len() {
            if let Some(text) = arena[id].text("$ref") {
                arena.nodes[id].reference = Some(arena.resolve(id, text)?);
            }
            let dynamic = arena[id].text("$dynamicRef").or_else(|| arena[id].text("$recursiveRef"));
            arena.nodes[id].dynamic = dynamic.map(|text| arena.resolve(id, text)).transpose()?;
            id += 1;
        }
        Ok(arena)
    }

    /// What is directly inside under a keyword, in the order of the text.
    pub(super) fn inside(&self, id: Id, keyword: &str) -> &[(&'a str, Id)] {
        let found = self[id].inner.iter().find(|(k, _)| *k == keyword);
        found.map_or(&[], |(_, inside)| inside.as_slice())
    }

    /// The schema directly inside under a keyword that has one.
    pub(super) fn one(&self, id: Id, keyword: &str) -> Option<Id> {
        self.inside(id, keyword).first().map(|(_, id)| *id)
    }

    /// What dynamic references mean in the resource.
    pub(super) fn dynamic(&self, resource: usize) -> Option<&Dynamic<'a>> {
        self.dynamic.get(&resource)
    }

    /// Adds what stands at a pointer and all inside it. `around`: the draft around it, where it may name itself.
    fn add(
        &mut self,
        pointer: String,
        value: &'a Value,
        resource: usize,
        around: Option<Draft>,
    ) -> Result<Id> {
        if let Some(id) = self.ids.get(&pointer) {
            return Ok(*id);
        }
        self.budget.spend(1)?;
        if self.nodes.len() >= MAX_SCHEMAS {
            return Err(refuse("", "schema", format!("more than {MAX_SCHEMAS} schemas")));
        }
        let id = self.nodes.len();
        if let Some(why) = around.and_then(|_| Draft::too_old(value)) {
            return Err(refuse(&pointer, "$schema", why));
        }
        let named = around.map(|around| Draft::of(value, around));
        let resource = named.map_or(resource, |draft| self.identify(id, &pointer, value, (resource, draft)));
        // What only a reference makes a schema has the draft of the document.
        let draft = named.unwrap_or_else(|| self[self.document(&pointer).0].draft);
        self.ids.insert(pointer.clone(), id);
        let (inner, reference, dynamic) = Default::default();
        self.nodes.push(Node { pointer, value, inner, reference, dynamic, draft, resource });
        let Some(map) = value.as_object() else { return Ok(id) };
        self.is_dynamic |= map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef");
        let mut inner = Vec::new();
        for (keyword, value) in map {
            let here = step(&self[id].pointer, keyword);
            let parts: Vec<(&'a str, String, &'a Value)> = match value {
                Value::Array(list) if is_list(keyword) => {
                    list.iter().enumerate().map(|(i, v)| ("", format!("{here}/{i}"), v)).collect()
                }
                Value::Object(map) if is_map(keyword) => {
                    map.iter().map(|(name, v)| (name.as_str(), step(&here, name), v)).collect()
                }
                one if is_one(keyword) => vec![("", here, one)],
                _ => continue,
            };
            let mut add = |(name, pointer, part)| Ok((name, self.add(pointer, part, resource, named)?));
            inner.push((keyword.as_str(), parts.into_iter().map(&mut add).collect::<Result<_>>()?));
        }
        self.nodes[id].inner = inner;
        Ok(id)
    }

    fn identify(&mut self, id: Id, pointer: &str, schema: &'a Value, within: (usize, Draft)) -> usize {
        let (mut resource, draft) = within;
        let text = |key: &str| -> Option<&'a str> { schema.get(key)?.as_str() };
        let name = text(if draft == Draft::D4 { "id" } else { "$id" });
        // Beside `$ref`, the old drafts ignore it.
        let name = name.filter(|_| draft >= Draft::D2019 || schema.get("$ref").is_none());
        if let Some((uri, fragment)) = name.map(|name| name.split_once('#').unwrap_or((name, ""))) {
            if !uri.is_empty() {
                let uri = join(&self.resources[resource].1, uri);
                if pointer.is_empty() {
                    self.resources[0].1.clone_from(&uri);
                } else {
                    self.resources.push((pointer.to_owned(), uri.clone()));
                    resource = self.resources.len() - 1;
                }
                self.uris.entry(uri).or_insert(resource);
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

    fn anchor(&mut self, resource: usize, name: &str, id: Id) {
        self.anchors.insert(format!("{}#{name}", self.resources[resource].1), id);
    }

    /// What the reference of this schema means; what it leads to has a number then.
    fn resolve(&mut self, from: Id, reference: &str) -> Result<Target> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = self.nodes[from].resource;
        let resource = if uri.is_empty() {
            base
        } else {
            match self.find(from, join(&self.resources[base].1, uri))? {
                Some(resource) => resource,
                None => return Ok(Target::Elsewhere),
            }
        };
        let (pointer, uri) = &self.resources[resource];
        let Some(fragment) = percent_decode(fragment) else { return Ok(Target::Missing) };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            let anchor = self.anchors.get(&format!("{uri}#{fragment}"));
            return Ok(anchor.map_or(Target::Missing, |id| Target::Here(*id)));
        }
        let pointer = format!("{pointer}{fragment}");
        let (document, inside) = self.document(&pointer);
        let Some(value) = self[document].value.pointer(inside) else { return Ok(Target::Missing) };
        // What is no schema by its place names nothing.
        let under = |(_, (place, _)): &(usize, &(String, String))| is_within(&pointer, place);
        let within = self.resources.iter().enumerate().filter(under).max_by_key(|(_, (p, _))| p.len());
        let resource = within.map_or(0, |(resource, _)| resource);
        Ok(Target::Here(self.add(pointer, value, resource, None)?))
    }

    /// The resource of an absolute URI; another document is added where the library has it.
    fn find(&mut self, from: Id, uri: String) -> Result<Option<usize>> {
        if let Some(resource) = self.uris.get(&uri) {
            return Ok(Some(*resource));
        }
        let Some(value) = self.library.get(&uri) else { return Ok(None) };
        let (place, around) = (format!("{uri}#"), self[from].draft);
        self.resources.push((place.clone(), uri.clone()));
        let root = self.add(place, value, self.resources.len() - 1, Some(around))?;
        let resource = self[root].resource;
        self.uris.insert(uri, resource);
        Ok(Some(resource))
    }

    /// The root of the document that a pointer is of, and the pointer inside.
    fn document<'p>(&self, pointer: &'p str) -> (Id, &'p str) {
        if pointer.is_empty() || pointer.starts_with('/') {
            return (ROOT, pointer);
        }
        let end = pointer.find('#').map_or(pointer.len(), |at| at + 1);
        (self.ids.get(&pointer[..end]).copied().unwrap_or(ROOT), &pointer[end..])
    }
}

/// Keywords with a list of schemas.
fn is_list(keyword: &str) -> bool {
    matches!(keyword, "allOf" | "anyOf" | "oneOf" | "prefixItems" | "items")
}

/// Keywords with schemas by name.
fn is_map(keyword: &str) -> bool {
    let definitions = matches!(keyword, "$defs" | "definitions" | "dependentSchemas" | "dependencies");
    definitions || matches!(keyword, "properties" | "patternProperties")
}

/// Keywords with one schema.
fn is_one(keyword: &str) -> bool {
    let unused = matches!(keyword, "not" | "if" | "then" | "else" | "contains" | "propertyNames");
    let rest = matches!(keyword, "unevaluatedItems" | "unevaluatedProperties" | "additionalItems");
    unused || rest || matches!(keyword, "items" | "additionalProperties")
}

/// Whether `pointer` is `place` or inside it.
fn is_within(pointer: &str, place: &str) -> bool {
    pointer.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The absolute form of a URI without fragment.
fn join(base: &str, uri: &str) -> String {
    let scheme_end = |s: &str| s.find(':').filter(|i| !s[..*i].contains(['/', '?', '#']));
    if scheme_end(uri).is_some() {
        return uri.to_owned();
    }
    let Some(colon) = scheme_end(base) else { return uri.to_owned() };
    let authority = match base[colon + 1..].strip_prefix("//") {
        Some(rest) => colon + 3 + rest.find('/').unwrap_or(rest.len()),
        None => colon + 1,
    };
    if uri.starts_with('/') {
        return format!("{}{}", &base[..authority], without_dots(uri));
    }
    let folder = base.rfind('/').filter(|i| *i >= authority).map_or(authority, |i| i + 1);
    let slash = if base.len() == authority && base[..authority].contains("//") { "/" } else { "" };
    format!("{}{}", &base[..authority], without_dots(&format!("{}{slash}{uri}", &base[authority..folder])))
}

/// The path without the segments `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    for (i, segment) in path.split('/').enumerate() {
        match segment {
            "." if i > 0 => {}
            ".." if out.len() > 1 => drop(out.pop()),
            _ => out.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        out.push("");
    }
    out.join("/")
}

fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let hex = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?);
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).ok()
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
        let leads = |id: Id| match arena[id].reference {
            Some(Target::Here(id)) => arena[id].pointer.clone(),
            other => format!("{other:?}"),
        };
        let found: Vec<_> = arena.inside(ROOT, "prefixItems").iter().map(|(_, id)| leads(*id)).collect();
        let x = "/$defs/sub/$defs/x";
        assert_eq!(found[..4], ["/$defs/a b", "/$defs/a b", x, ""]);
        let meta = "http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger";
        assert_eq!(found[4..], ["Some(Missing)", "Some(Elsewhere)", meta, "/notes/0"]);
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
