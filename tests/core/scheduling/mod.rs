//! Tests of the scheduler on the weightless engine: tokens do not depend on batch-mates, arrival order, chunking,
//! budgets, preemption, prefix reuse or drafts; one bad sequence harms one sequence; planted mistakes are noticed.

mod behind;
mod cancel;
mod complete;
mod decisions;
mod fair;
mod faults;
mod invariance;
mod leaks;
mod lengths;
mod lookup;
mod neighbours;
mod oracle;
mod prefixes;
mod scores;
mod sections;
mod speculation;
pub mod world;

use llgtrt::request::RequestSpec;
use proptest::prelude::*;

/// A request from JSON.
pub fn spec(json: &str) -> RequestSpec {
    serde_json::from_str(json).unwrap()
}

fn constraint() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just(""),
        1 => Just(r#","grammar":{"json_schema":"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},\"required\":[\"a\",\"b\"],\"additionalProperties\":false}"}"#),
        1 => Just(r#","grammar":{"regex":"[a-f]{3,40}"}"#),
        1 => Just(r#","grammar":{"choice":["red","green","blue and long enough to matter"]}"#),
        2 => Just(SECTIONS),
    ]
}

/// Reasoning of up to 9 tokens, then free text in which common letters begin something constrained, time after time.
const SECTIONS: &str = r#","grammar":{"sections":[
    {"free":{"triggers":[{"text":"s","next":1},{"text":" the","next":1}],"reasoning":true,"limit":{"tokens":9,"text":"..s"}}},
    {"free":{"triggers":[{"text":"e","next":2},{"text":"ing","next":3},{"text":"x","next":null}],"may_end":true}},
    {"bound":{"grammar":{"regex":"[0-9]{2,4}!"},"next":1}},
    {"bound":{"grammar":{"json_schema":"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"],\"additionalProperties\":false}"},"next":0}}
]}"#;

fn tokens() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just(""),
        1 => Just(r#","stop_token_ids":[101,32,34]"#),
        1 => Just(r#","allowed_token_ids":[97,98,99,100,101,102,103,104,105,34,58,123,125]"#),
        1 => Just(r#","stop_token_ids":[99],"include_stop_str_in_output":true,"skip_special_tokens":false"#),
    ]
}

fn sampling() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(r#""temperature":0"#),
        Just(r#""temperature":0.8,"top_p":0.8"#),
        Just(r#""temperature":1.0,"top_k":20,"min_p":0.02"#),
        Just(r#""temperature":1.4,"presence_penalty":0.5,"frequency_penalty":0.3,"repetition_penalty":1.2"#),
        Just(r#""temperature":1.0,"logit_bias":{"100":4.5,"40":-20}"#),
    ]
}

/// A request whose prompt often begins as another's does; now and then a decision.
pub fn request() -> impl Strategy<Value = RequestSpec> {
    prop_oneof![6 => output(), 1 => decision()]
}

/// Letters behind each other, as another request of the same family has them.
fn prompt(length: usize, family: u32) -> Vec<u32> {
    (0..length as u32).map(|i| 97 + (i * (family + 1)) % 26).collect()
}

fn decision() -> impl Strategy<Value = RequestSpec> {
    let path =
        (prop::sample::select(&["", "g", "gr", "gre", "gray or gree"][..]), any::<prop::sample::Index>());
    let paths = prop::collection::vec(path, 1..4);
    let parts = (1usize..60, 0u32..3, paths, (0u64..3, -1i64..2, 0u64..2));
    parts.prop_map(|(length, family, paths, (client, priority, salt))| {
        let options = r#"["gray or green","gray or greenish","green","red"]"#;
        let path = |(text, from): &(&str, prop::sample::Index)| {
            format!(r#"{{"tokens":{:?},"from":{}}}"#, text.as_bytes(), from.index(text.len() + 1))
        };
        spec(&format!(
            r#"{{"prompt":{:?},"n":{},"grammar":{{"choice":{options}}},"client":{client},"priority":{priority},
                "cache_salt":{salt},"decide":{{"options":{options},"paths":[{}]}}}}"#,
            prompt(length, family),
            paths.len(),
            paths.iter().map(path).collect::<Vec<_>>().join(",")
        ))
    })
}

fn output() -> impl Strategy<Value = RequestSpec> {
    let parts = (
        (1usize..60, 0u32..3, 1u32..40, 1u32..4),
        (constraint(), sampling(), any::<u32>()),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        (0u64..3, -1i64..2, 0u64..2, tokens()),
    );
    parts.prop_map(|((length, family, max_tokens, n), (constraint, sampling, seed), (stop, logprobs, min), who)| {
        let prompt = prompt(length, family);
        let stop = if stop { r#","stop":["ab","e"]"# } else { "" };
        let logprobs = match (logprobs, seed % 3) {
            (true, 0) => r#","logprobs":2,"prompt_logprobs":1"#,
            (true, _) => r#","logprobs":2"#,
            (false, _) => "",
        };
        let min = if min { 1 } else { 0 };
        let (client, priority, salt, tokens) = who;
        spec(&format!(
            r#"{{"prompt":{prompt:?},"n":{n},"max_tokens":{max_tokens},"min_tokens":{min}{stop}{logprobs}{constraint},
                "client":{client},"priority":{priority},"cache_salt":{salt}{tokens},
                "sampling":{{"seed":{seed},{sampling}}}}}"#
        ))
    })
}
