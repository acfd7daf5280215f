//! Schemas of OpenAPI documents, and unions whose branches a discriminator tells apart.

use super::common::{Bench, data};
use serde_json::{Value, json};

const CAT: &str = r#"{"kind": "Cat", "name": "x"}"#;

/// Two schemas that overlap, but for the discriminator.
fn pets() -> Value {
    let pet = |other: Value| json!({"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}, "name": other}});
    json!({
        "Pet": {
            "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
            "discriminator": {"propertyName": "kind", "mapping": {"dog": "#/components/schemas/Dog", "hound": "Dog"}},
        },
        "Cat": pet(json!({"type": "string", "nullable": true})),
        "Dog": pet(json!({"type": "integer"})),
    })
}

fn check(bench: &Bench, schema: &Value, rows: &[(&str, bool)]) {
    for (text, expected) in rows {
        assert_eq!(bench.satisfies(schema, text), *expected, "{text} in {schema}");
    }
}

#[test]
fn a_discriminator_says_which_schema_of_an_openapi_document_is_meant() {
    let bench = Bench::new();
    let rows = [
        (CAT, true),
        (r#"{"kind": "Cat", "name": null}"#, true),
        (r#"{"kind": "Cat", "name": 1}"#, false),
        (r#"{"kind": "dog", "name": 1}"#, true),
        (r#"{"kind": "hound"}"#, true),
        (r#"{"kind": "Dog", "name": 1}"#, false),
        (r#"{"kind": "dog", "name": "x"}"#, false),
        (r#"{"name": 1}"#, false),
    ];
    let root = json!({"$ref": "#/components/schemas/Pet", "components": {"schemas": pets()}});
    check(&bench, &root, &rows);

    let file = std::env::temp_dir().join(format!("llgtrt-openapi-{}.json", std::process::id()));
    std::fs::write(&file, json!({"openapi": "3.0.3", "components": {"schemas": pets()}}).to_string())
        .unwrap();
    let uri = "https://example.com/pets.json";
    let bench = Bench::knowing(&[(uri.to_owned(), file.to_str().unwrap().to_owned())].into());
    check(&bench, &json!({"$ref": format!("{uri}#/components/schemas/Pet")}), &rows);
    std::fs::remove_file(file).unwrap();
}

#[test]
fn elsewhere_a_discriminator_undoes_nothing_that_one_of_says() {
    let text = pets().to_string().replace("#/components/schemas/", "#/$defs/");
    let root = json!({"$ref": "#/$defs/Pet", "$defs": serde_json::from_str::<Value>(&text).unwrap()});
    let bench = Bench::new();
    // Both branches take an object without a name; neither takes null as one.
    check(
        &bench,
        &root,
        &[(CAT, true), (r#"{"kind": "Cat"}"#, false), (r#"{"kind": "dog", "name": 1}"#, true)],
    );
    check(
        &bench,
        &root,
        &[(r#"{"kind": "dog", "name": "x"}"#, false), (r#"{"kind": "Cat", "name": null}"#, false)],
    );
}

#[test]
fn a_branch_that_says_what_it_is_for_needs_no_mapping() {
    let branch = |tag: &str| json!({"type": "object", "required": ["t"], "additionalProperties": false, "properties": {"t": {"const": tag}}});
    for keyword in ["oneOf", "anyOf"] {
        let root = json!({
            keyword: [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}, {"type": "null"}],
            "discriminator": {"propertyName": "t"},
            "$defs": {"A": branch("a"), "B": branch("b")},
        });
        let rows = [(r#"{"t":"a"}"#, true), (r#"{"t":"b"}"#, true), ("null", true), (r#"{"t":"A"}"#, false)];
        check(&Bench::new(), &root, &rows);
    }
}

#[test]
fn every_schema_of_published_documents_compiles() {
    let bench = Bench::new();
    for (file, count) in [("openai-chat-spec.json", 82), ("openai-responses-spec.json", 313)] {
        let Some(text) = data(file) else { return };
        let document: Value = serde_json::from_str(&text).unwrap();
        let names: Vec<&String> = document["components"]["schemas"].as_object().unwrap().keys().collect();
        assert_eq!(names.len(), count);
        for name in names {
            let root = json!({
                "$ref": format!("#/components/schemas/{name}"),
                "components": {"schemas": document["components"]["schemas"]},
            });
            bench.schema(&root).unwrap_or_else(|e| panic!("{file}, {name}: {e}"));
        }
    }
}
