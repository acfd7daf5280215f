//! Prompt lookup in earlier outputs: whose they are, how many there are, and that they change nothing.

use super::spec;
use super::world::{Live, World, essence};
use llgtrt::config::DraftSource;
use llgtrt::request::RequestSpec;

fn request(client: u32, salt: u32, more: &str) -> RequestSpec {
    spec(&format!(
        r#"{{"prompt":[97,98,99],"max_tokens":60,"ignore_eos":true,"logprobs":1,"client":{client},"cache_salt":{salt},
            "sampling":{{"seed":7}}{more}}}"#
    ))
}

/// An engine with prompt lookup as its only source of drafts, and the number of draft tokens it has accepted.
struct LooksUp(Live, u64);

impl LooksUp {
    fn new(history: u32) -> Self {
        let mut world = World::default();
        world.config.speculative.sources = Some(vec![DraftSource::PromptLookup]);
        world.config.speculative.adaptive = false;
        world.config.speculative.prompt_lookup.history_tokens = history;
        LooksUp(world.start(), 0)
    }

    /// Accepted tokens of a request, whose answer is as without drafts.
    fn accepted(&mut self, request: &RequestSpec) -> u64 {
        let answers = self.0.run(std::slice::from_ref(request), &[0], 0);
        let plain = World::default().alone(request);
        assert_eq!(essence(&answers.choices[&(0, 0)]), essence(&plain[&0]));
        let all = answers.snapshot.totals.accepted_tokens;
        all - std::mem::replace(&mut self.1, all)
    }
}

#[test]
fn the_same_client_drafts_from_its_earlier_outputs_under_the_same_constraint() {
    let mut live = LooksUp::new(1000);
    for more in ["", r#","grammar":{"regex":"[a-z ]{60}"}"#] {
        let first = live.accepted(&request(1, 0, more));
        // Others begin as it did.
        assert_eq!(live.accepted(&request(2, 0, more)), first);
        assert_eq!(live.accepted(&request(1, 5, more)), first);
        let again = live.accepted(&request(1, 0, more));
        assert!(first < 20 && again > 40, "{more}: {first}, {again}");
    }
    let other = request(1, 0, r#","grammar":{"regex":"[a-z ]{60}|!"}"#);
    assert_eq!(live.accepted(&other), LooksUp::new(1000).accepted(&other));
}

#[test]
fn outputs_are_forgotten_when_there_is_no_room() {
    let mut none = LooksUp::new(0);
    let first = none.accepted(&request(1, 0, ""));
    assert_eq!(none.accepted(&request(1, 0, "")), first);
    // Room for one output: another client's takes it.
    let mut one = LooksUp::new(80);
    one.accepted(&request(1, 0, ""));
    assert!(one.accepted(&request(1, 0, "")) > 40);
    one.accepted(&request(2, 0, ""));
    assert_eq!(one.accepted(&request(1, 0, "")), first);
}
