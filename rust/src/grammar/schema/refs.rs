//! Where `$ref`s point: within the document, by pointer, `$id` and anchor.

use super::keywords::{Draft, inner};
use serde_json::Value;
use std::collections::HashMap;

/// The base of a document without `$id`; the same as llguidance's.
const NO_ID: &str = "json-schema:///";

/// What a reference means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The schema at this pointer.
    Here(String),
    /// A pointer into this document that leads nowhere.
    Missing,
    /// Perhaps another document: llguidance knows the metaschemas of the drafts, and nothing else.
    Elsewhere,
}

/// The identifiers and references of a document.
#[derive(Debug)]
pub(super) struct Refs<'a> {
    root: &'a Value,
    /// Pointer and URI of each schema with an `$id`; the root is first.
    resources: Vec<(String, String)>,
    /// `uri#name` to pointer.
    anchors: HashMap<String, String>,
    /// All references as written.
    texts: Vec<&'a str>,
    /// Whether the keyword `$dynamicRef` is used anywhere.
    pub(super) dynamic: bool,
}

impl<'a> Refs<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        let mut refs = Refs {
            root,
            resources: vec![(String::new(), NO_ID.to_owned())],
            anchors: HashMap::new(),
            texts: Vec::new(),
            dynamic: false,
        };
        refs.scan(String::new(), root, 0, Draft::D2020);
        refs
    }

    fn scan(&mut self, pointer: String, schema: &'a Value, resource: usize, around: Draft) {
        let Some(map) = schema.as_object() else { return };
        let draft = Draft::of(schema, around);
        let resource = self.identify(&pointer, schema, resource, draft);
        if let Some(text) = map.get("$ref").and_then(Value::as_str) {
            self.texts.push(text);
        }
        self.dynamic |= map.contains_key("$dynamicRef");
        for (p, v) in inner(&pointer, map) {
            self.scan(p, v, resource, draft);
        }
    }

    fn identify(&mut self, pointer: &str, schema: &Value, resource: usize, draft: Draft) -> usize {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let mut resource = resource;
        let id = text(if draft == Draft::D4 { "id" } else { "$id" });
        // Beside `$ref`, the old drafts ignore it.
        let id = id.filter(|_| draft >= Draft::D2019 || schema.get("$ref").is_none());
        if let Some((uri, fragment)) = id.map(|id| id.split_once('#').unwrap_or((id, ""))) {
            if !uri.is_empty() {
                let uri = join(&self.resources[resource].1, uri);
                if pointer.is_empty() {
                    self.resources[0].1 = uri;
                } else {
                    self.resources.push((pointer.to_owned(), uri));
                    resource = self.resources.len() - 1;
                }
            }
            if !fragment.is_empty() && draft <= Draft::D7 {
                self.anchor(resource, fragment, pointer);
            }
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = text(key).filter(|_| draft >= Draft::D2019) {
                self.anchor(resource, name, pointer);
            }
        }
        resource
    }

    fn anchor(&mut self, resource: usize, name: &str, pointer: &str) {
        self.anchors.insert(format!("{}#{name}", self.resources[resource].1), pointer.to_owned());
    }

    /// What the reference in the schema at `from` means.
    pub(super) fn resolve(&self, from: &str, reference: &str) -> Target {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = self.resources.iter().filter(|(p, _)| is_within(from, p)).max_by_key(|(p, _)| p.len());
        let Some((base_pointer, base_uri)) = base else { return Target::Elsewhere };
        let (pointer, uri) = if uri.is_empty() {
            (base_pointer, base_uri.clone())
        } else {
            let uri = join(base_uri, uri);
            match self.resources.iter().find(|(_, u)| *u == uri) {
                Some((p, _)) => (p, uri),
                None => return Target::Elsewhere,
            }
        };
        let Some(fragment) = percent_decode(fragment) else { return Target::Missing };
        if fragment.is_empty() {
            return Target::Here(pointer.clone());
        }
        if fragment.starts_with('/') {
            let target = format!("{pointer}{fragment}");
            return if self.root.pointer(&target).is_some() { Target::Here(target) } else { Target::Missing };
        }
        match self.anchors.get(&format!("{uri}#{fragment}")) {
            Some(p) => Target::Here(p.clone()),
            None => Target::Missing,
        }
    }

    /// Whether some reference leads into this keyword of the schema at `pointer`, so that it must stay as it is.
    pub(super) fn lead_into(&self, pointer: &str, keyword: &str) -> bool {
        let place = format!("{pointer}/{keyword}");
        self.texts.iter().any(|t| match t.strip_prefix('#') {
            Some(p) => percent_decode(p).is_none_or(|p| is_within(&p, &place)),
            None => t.contains(keyword),
        })
    }
}

/// Whether `pointer` is `place` or inside it.
fn is_within(pointer: &str, place: &str) -> bool {
    pointer.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The absolute form of a URI without fragment; dot segments are left alone (such a reference counts as elsewhere).
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
        return format!("{}{uri}", &base[..authority]);
    }
    let folder = base.rfind('/').filter(|i| *i >= authority).map_or(authority, |i| i + 1);
    let slash = if base.len() == authority && base[..authority].contains("//") { "/" } else { "" };
    format!("{}{slash}{uri}", &base[..folder])
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
        });
        let refs = Refs::new(&doc);
        let here = |p: &str| Target::Here(p.to_owned());
        assert_eq!(refs.resolve("", "#/$defs/a%20b"), here("/$defs/a b"));
        assert_eq!(refs.resolve("", "#here"), here("/$defs/a b"));
        assert_eq!(refs.resolve("", "sub.json#/$defs/x"), here("/$defs/sub/$defs/x"));
        assert_eq!(refs.resolve("/$defs/sub/items", "#/$defs/x"), here("/$defs/sub/$defs/x"));
        assert_eq!(refs.resolve("/$defs/sub", "root.json"), here(""));
        assert_eq!(refs.resolve("", "#/$defs/c"), Target::Missing);
        assert_eq!(refs.resolve("", "http://json-schema.org/draft-07/schema#"), Target::Elsewhere);
    }

    #[test]
    fn uris_are_joined() {
        assert_eq!(join("http://h/a/b", "c"), "http://h/a/c");
        assert_eq!(join("http://h", "c"), "http://h/c");
        assert_eq!(join("http://h/a/b", "/c"), "http://h/c");
        assert_eq!(join("urn:x:y", "urn:z"), "urn:z");
        assert_eq!(join("json-schema:///", "c"), "json-schema:///c");
    }
}
