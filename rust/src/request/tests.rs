use super::*;

fn spec(json: &str) -> RequestSpec {
    serde_json::from_str(json).unwrap()
}

fn limits() -> Limits {
    Limits { context: 16, max_prompt: 12, ..Limits::small(100) }
}

fn field(json: &str) -> (String, Option<String>) {
    let limits = limits();
    match Request::new(spec(json), &limits) {
        Err(Error::Invalid { what, code, .. }) => (what, code),
        other => panic!("{json} gave {other:?}"),
    }
}

#[test]
fn out_of_range_values_name_their_field() {
    for (json, what) in [
        (r#"{"prompt":[]}"#, "prompt"),
        (r#"{"prompt":[100]}"#, "prompt"),
        (r#"{"prompt":[1],"n":0}"#, "n"),
        (r#"{"prompt":[1],"n":129}"#, "n"),
        (r#"{"prompt":[1],"max_tokens":0}"#, "max_tokens"),
        (r#"{"prompt":[1],"max_tokens":3,"min_tokens":4}"#, "min_tokens"),
        (r#"{"prompt":[1],"stop":[""]}"#, "stop"),
        (r#"{"prompt":[1],"logprobs":21}"#, "top_logprobs"),
        (r#"{"prompt":[1],"logprobs_of":"allowed"}"#, "logprobs_of"),
        (r#"{"prompt":[1],"sampling":{"temperature":2.1}}"#, "temperature"),
        (r#"{"prompt":[1],"sampling":{"top_p":-0.1}}"#, "top_p"),
        (r#"{"prompt":[1],"stop_token_ids":[100]}"#, "stop_token_ids"),
        (r#"{"prompt":[1],"allowed_token_ids":[]}"#, "allowed_token_ids"),
        (r#"{"prompt":[1],"allowed_token_ids":[1,100]}"#, "allowed_token_ids"),
        (r#"{"prompt":[1],"prediction":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}"#, "prediction"),
        (r#"{"prompt":[1],"sampling":{"min_p":-0.1}}"#, "min_p"),
        (r#"{"prompt":[1],"sampling":{"presence_penalty":3}}"#, "presence_penalty"),
        (r#"{"prompt":[1],"sampling":{"frequency_penalty":-3}}"#, "frequency_penalty"),
        (r#"{"prompt":[1],"sampling":{"repetition_penalty":0}}"#, "repetition_penalty"),
        (r#"{"prompt":[1],"sampling":{"logit_bias":{"100":1}}}"#, "logit_bias"),
        (r#"{"prompt":[1],"sampling":{"logit_bias":{"1":101}}}"#, "logit_bias"),
        (r#"{"prompt":[1],"fault":{"sampler_panic":1}}"#, "fault"),
        (r#"{"prompt":[1],"prediction":[100]}"#, "prediction"),
    ] {
        assert_eq!(field(json), (what.to_owned(), None), "{json}");
    }
}

#[test]
fn the_context_bounds_prompt_and_output_together() {
    let exceeded = Some("context_length_exceeded".to_owned());
    assert_eq!(field(r#"{"prompt":[1,1,1,1,1,1,1,1,1,1,1,1,1]}"#), ("prompt".into(), exceeded.clone()));
    assert_eq!(field(r#"{"prompt":[1],"max_tokens":16}"#), ("max_tokens".into(), exceeded));
    let limits = limits();
    assert_eq!(Request::new(spec(r#"{"prompt":[1]}"#), &limits).unwrap().max_tokens(), 15);
    let limits = Limits { default_output: 4, ..limits };
    let most = |json| Request::new(spec(json), &limits).unwrap().max_tokens();
    assert_eq!(most(r#"{"prompt":[1]}"#), 4);
    assert_eq!(most(r#"{"prompt":[1],"min_tokens":6}"#), 6);
    assert_eq!(most(r#"{"prompt":[1],"max_tokens":15}"#), 15);
    assert_eq!(most(r#"{"prompt":[1,1,1,1,1,1,1,1,1,1,1,1]}"#), 4);
}

#[test]
fn too_many_of_anything_are_refused() {
    let many = format!(r#"{{"prompt":[1],"stop":[{}]}}"#, vec!["\"a\""; 17].join(","));
    assert_eq!(field(&many).0, "stop");
    let many = format!(r#"{{"prompt":[1],"stop_token_ids":[{}]}}"#, vec!["1"; 129].join(","));
    assert_eq!(field(&many).0, "stop_token_ids");
    let many = format!(r#"{{"prompt":[1],"allowed_token_ids":[{}]}}"#, vec!["1"; 101].join(","));
    assert_eq!(field(&many).0, "allowed_token_ids");
    let biases: Vec<_> = (0..1025).map(|token| format!(r#""{token}":1"#)).collect();
    let many = format!(r#"{{"prompt":[1],"sampling":{{"logit_bias":{{{}}}}}}}"#, biases.join(","));
    assert_eq!(field(&many).0, "logit_bias");
}

#[test]
fn temperatures_that_would_overflow_are_greedy() {
    let limits = limits();
    let temperature = |json| Request::new(spec(json), &limits).unwrap().spec().sampling.temperature;
    assert_eq!(temperature(r#"{"prompt":[1],"sampling":{"temperature":1e-7}}"#), 0.0);
    assert_eq!(temperature(r#"{"prompt":[1],"sampling":{"temperature":0.001}}"#), 0.001);
}

#[test]
fn what_the_engine_lacks_is_refused_by_its_field() {
    let all = [
        (Feature::LogitBias, r#""sampling":{"logit_bias":{"1":1}}"#, "logit_bias"),
        (Feature::PromptLogprobs, r#""prompt_logprobs":0"#, "prompt_logprobs"),
        (Feature::TopLogprobs, r#""logprobs":1"#, "top_logprobs"),
        (Feature::AllowedLogprobs, r#""logprobs":0,"logprobs_of":"allowed""#, "logprobs_of"),
        (Feature::MinP, r#""sampling":{"min_p":0.1}"#, "min_p"),
        (Feature::Grammar, r#""grammar":{"regex":"a"}"#, "response_format"),
        (Feature::AllowedTokens, r#""allowed_token_ids":[1]"#, "allowed_token_ids"),
        (Feature::IgnoreEos, r#""ignore_eos":true"#, "ignore_eos"),
        (Feature::MinTokens, r#""min_tokens":1"#, "min_tokens"),
        (Feature::Rejection, r#""speculative":{"acceptance":"rejection"}"#, "speculative.acceptance"),
        (Feature::CacheSalt, r#""cache_salt":7"#, "cache_salt"),
    ];
    let features: Vec<Feature> = all.iter().map(|(feature, _, _)| *feature).collect();
    let all = all.into_iter().chain([
        (Feature::Logprobs, r#""logprobs":0"#, "logprobs"),
        (Feature::Acceptance, r#""speculative":{"acceptance":"exact"}"#, "speculative.acceptance"),
    ]);
    for (feature, json, field) in all {
        let spec: RequestSpec = serde_json::from_str(&format!(r#"{{"prompt":[1],{json}}}"#)).unwrap();
        let limits =
            |features| Limits { lacks: Lacks { engine: "this engine".into(), features }, ..limits() };
        let others = features.iter().copied().filter(|other| *other != feature).collect();
        assert!(Request::new(spec.clone(), &limits(others)).is_ok(), "{field}");
        let refused = Request::new(spec, &limits(vec![feature])).unwrap_err().to_string();
        assert_eq!(refused, format!("{field}: is not possible on this engine; leave it out"));
    }
    // A log-probability of the drawn token alone is no list of others.
    let spec: RequestSpec = serde_json::from_str(r#"{"prompt":[1],"logprobs":0}"#).unwrap();
    let lacks = Lacks { engine: String::new(), features };
    let limits =
        Limits { n_vocab: 100, context: 16, max_prompt: 12, default_output: 9, faults: false, lacks };
    assert!(Request::new(spec, &limits).is_ok());
}
