//! The arithmetic beside NumPy's, and folders that are none. The cases are made by `tests/core/speculator/reference.py`.

use super::Model;
use ndarray::Array2;
use std::path::{Path, PathBuf};

const CASES: [&str; 4] = ["tied-scaled", "tied-plain", "untied-scaled", "untied-plain"];

#[derive(serde::Deserialize)]
struct Expected {
    states: Vec<Vec<f32>>,
    tokens: Vec<Vec<u32>>,
    logits: Vec<Vec<Vec<f32>>>,
}

fn folder(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/core/speculator").join(case)
}

#[test]
fn it_computes_what_numpy_does() {
    for case in CASES {
        let model = Model::open(&folder(case)).unwrap();
        let expected: Expected =
            serde_json::from_slice(&std::fs::read(folder(case).join("expected.json")).unwrap()).unwrap();
        let shape = (expected.states.len(), model.emb_dim());
        let mut states = model.input(Array2::from_shape_vec(shape, expected.states.concat()).unwrap());
        assert_eq!(model.stages, expected.tokens.len());
        for (stage, tokens) in expected.tokens.iter().enumerate() {
            states = model.step(stage, &states, tokens);
            let rows = model.rows(stage, &states);
            for (row, wanted) in rows.rows().into_iter().zip(&expected.logits[stage]) {
                let apart = row.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(apart < 1e-3, "{case}, stage {stage}: {apart}");
                assert_eq!(row.len(), wanted.len());
            }
        }
    }
}

/// A copy of a case in which `edit` has changed the description.
fn refusal(name: &str, edit: impl Fn(&mut serde_json::Value)) -> String {
    let copy = std::env::temp_dir().join(format!("llgtrt-speculator-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&copy).unwrap();
    let from = folder("untied-plain");
    let mut about: serde_json::Value =
        serde_json::from_slice(&std::fs::read(from.join("config.json")).unwrap()).unwrap();
    edit(&mut about);
    std::fs::write(copy.join("config.json"), about.to_string()).unwrap();
    std::fs::copy(from.join("model.safetensors"), copy.join("model.safetensors")).unwrap();
    let error = Model::open(&copy).unwrap_err().to_string();
    std::fs::remove_dir_all(&copy).unwrap();
    error
}

#[test]
fn a_folder_that_holds_something_else_is_refused_by_what_is_wrong() {
    let wide = refusal("wide", |about| about["inner_dim"] = 16.into());
    assert!(wide.contains("proj.0.weight with the shape [12, 8]"), "{wide}");
    assert!(wide.contains("speculative.mlp_speculator"), "{wide}");
    let long = refusal("long", |about| about["n_predict"] = 4.into());
    assert!(long.contains("lacks the weights proj.3.weight"), "{long}");
    let other = refusal("other", |about| about["architectures"] = serde_json::json!(["LlamaForCausalLM"]));
    assert!(other.contains("has not the architecture MLPSpeculatorPreTrainedModel"), "{other}");
    let none = Model::open(&folder("none")).unwrap_err().to_string();
    assert!(none.contains("cannot be read"), "{none}");
    let torn = refusal("torn", |about| about["n_predict"] = "three".into());
    assert!(torn.contains("does not describe an MLP speculator"), "{torn}");
}
