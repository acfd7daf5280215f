//! llguidance as it comes, to compare with.

use llgtrt::vocab::Vocab;
use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use serde_json::Value;
use std::sync::Arc;

pub struct Plain {
    vocab: Arc<Vocab>,
    factory: ParserFactory,
}

/// How it does on one schema.
pub enum Verdict {
    Refuses,
    Compiles { rejects_valid: usize, accepts_invalid: usize },
}

impl Plain {
    pub fn new() -> Self {
        let vocab = Vocab::toy().unwrap();
        let mut factory = ParserFactory::new_simple(vocab.tok_env()).unwrap();
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Plain { vocab, factory }
    }

    pub fn judge(&self, schema: &Value, tests: &[(Value, bool)]) -> Verdict {
        let parser = self.factory.create_parser(TopLevelGrammar::from_json_schema(schema.clone()));
        let Ok(parser) = parser else { return Verdict::Refuses };
        let pristine = Matcher::new(Ok(parser));
        // As we do: what admits nothing at all does not count as compiled.
        if pristine.deep_clone().compute_mask().is_err() {
            return Verdict::Refuses;
        }
        let (mut rejects_valid, mut accepts_invalid) = (0, 0);
        for (instance, valid) in tests {
            let accepted = self.accepts(pristine.deep_clone(), &instance.to_string());
            rejects_valid += usize::from(*valid && !accepted);
            accepts_invalid += usize::from(!*valid && accepted);
        }
        Verdict::Compiles { rejects_valid, accepts_invalid }
    }

    fn accepts(&self, mut matcher: Matcher, text: &str) -> bool {
        let tokens = self.vocab.encode(&[(text, false)]).unwrap();
        let taken = matcher.try_consume_tokens(&tokens).unwrap_or(0);
        taken == tokens.len() && (matcher.is_stopped() || matcher.is_accepting().unwrap_or(false))
    }
}
