//! A drafter that knows the answers.

use llgtrt::exec::{Ask, Drafter};
use llgtrt::request::RequestSpec;
use llgtrt::types::{Event, Token};
use std::sync::Arc;

/// Proposes what an engine without speculation said, each token replaced by a wrong one now and then.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Each with the percent of its tokens that are said as they are.
    texts: Arc<Vec<(Vec<Token>, u64)>>,
    /// A token that it says at this place of each text, prompt included, whatever the answer is.
    pub spoilt: Option<(usize, Token)>,
    state: u64,
}

impl Oracle {
    /// Knows these requests' choices; `right` percent of what it says is the answer's.
    pub fn new<'a>(answers: impl Iterator<Item = (&'a RequestSpec, &'a Event)>, right: u64) -> Self {
        Oracle::unlike(answers.map(|(spec, event)| (spec, event, right)))
    }

    /// The same, with a percentage for each choice.
    pub fn unlike<'a>(answers: impl Iterator<Item = (&'a RequestSpec, &'a Event, u64)>) -> Self {
        let text = |spec: &RequestSpec, event: &Event| [&spec.prompt[..], &event.tokens].concat();
        let texts = answers.map(|(spec, event, right)| (text(spec, event), right)).collect();
        Oracle { texts: Arc::new(texts), spoilt: None, state: 1 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % n
    }

    fn say(&mut self, token: Token, right: u64) -> Token {
        // Another letter: what it is does not matter, but that the target would hardly draw it.
        if self.below(100) < right { token } else { 97 + (token + 1 + self.below(20) as Token) % 26 }
    }
}

impl Drafter for Oracle {
    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        let texts = Arc::clone(&self.texts);
        for ask in asks {
            let known = [ask.known, &ask.draft.tokens].concat();
            let knows = |(text, _): &&(Vec<Token>, u64)| text.starts_with(&known) && text.len() > known.len();
            let Some((text, right)) = texts.iter().find(knows) else { continue };
            let rest = text[known.len()..].iter().take(ask.want as usize);
            let mut tokens: Vec<Token> = rest.map(|t| self.say(*t, *right)).collect();
            if let Some((place, token)) = self.spoilt
                && let Some(said) = place.checked_sub(known.len()).and_then(|i| tokens.get_mut(i))
            {
                *said = token;
            }
            ask.draft.tokens.extend(tokens);
        }
    }
}
