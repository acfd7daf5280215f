//! What a choice's sampling asks of an engine that samples by itself: masks that hold more than the grammar.

use super::{Params, not_finite};
use crate::error::{Error, Result};
use crate::grammar::{Mask, Next};
use crate::types::Token;
use std::sync::Arc;

/// The parameters of one choice. Cheap to copy; holds nothing that changes from token to token.
#[derive(Clone)]
pub struct Rules(Arc<Params>);

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rules")
    }
}

impl Rules {
    pub(super) fn new(params: Arc<Params>) -> Self {
        Rules(params)
    }

    /// Whether anything but a grammar takes tokens away at generated token `position` or after it.
    pub fn restricts(&self, position: u32) -> bool {
        let spec = self.0.spec();
        self.0.only.is_some() || spec.ignore_eos || position < spec.min_tokens
    }

    /// The tokens that may be drawn at generated token `position`, of those that may come `next` by the grammar: a mask of
    /// `width` tokens. Where nothing but the end may, the end is.
    ///
    /// # Errors
    /// Where no token is left.
    pub fn mask(&self, next: Option<Next>, position: u32, width: usize) -> Result<Mask> {
        let n = self.0.vocab.len().min(width);
        let goes_on = next.as_ref().is_some_and(Next::goes_on);
        let mut left = match next {
            Some(Next::Only(mask)) => mask,
            Some(Next::Any { .. }) | None => Mask::from_words(&vec![u32::MAX; n.div_ceil(32)], n),
        };
        let eog = self.0.vocab.eog();
        let only = |mask: &Mask, tokens: &[Token]| {
            mask.count() == tokens.iter().filter(|token| mask.allows(**token)).count()
        };
        if !only(&left, eog) {
            let spec = self.0.spec();
            let without = match position < spec.min_tokens {
                true if !only(&left, &self.0.ends) => &self.0.ends[..],
                false if spec.ignore_eos || goes_on => eog,
                _ => &[],
            };
            without.iter().for_each(|token| left.set(*token, false));
            if let Some(may) = &self.0.only {
                let forbidden: Vec<Token> = left.iter().filter(|token| !may[*token as usize]).collect();
                forbidden.into_iter().for_each(|token| left.set(token, false));
            }
        }
        if left.words().iter().all(|word| *word == 0) {
            return Err(self.nothing());
        }
        Ok(left.widened(width))
    }

    /// The model's end token, the first where it has several.
    pub fn end(&self) -> Option<Token> {
        self.0.vocab.eog().first().copied()
    }

    /// Whether nothing but the end of the text may come.
    pub fn is_end(&self, next: &Next) -> bool {
        let eog = self.0.vocab.eog();
        let end = |mask: &Mask| mask.count() == eog.iter().filter(|token| mask.allows(**token)).count();
        next.mask().is_some_and(end)
    }

    fn nothing(&self) -> Error {
        if self.0.only.is_none() {
            return not_finite();
        }
        Error::invalid(
            "allowed_token_ids",
            "has no token that may follow here; name more, or leave out what else constrains the output",
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::grammar::{Mask, Next};
    use crate::request::{Limits, Request, RequestSpec};
    use crate::sampler::{Drawn, Sampler, Scratch};
    use crate::vocab::Vocab;
    use std::sync::Arc;

    fn sampler(more: &str, vocab: &Arc<Vocab>) -> Sampler {
        let limits = Limits::small(vocab.len());
        let json = format!(r#"{{"prompt":[1],"sampling":{{"temperature":0,"seed":5}}{more}}}"#);
        let spec: RequestSpec = serde_json::from_str(&json).unwrap();
        Sampler::new(Arc::new(Request::new(spec, &limits).unwrap()), 0, 0, vocab.clone())
    }

    #[test]
    fn masks_leave_what_the_sampler_would_draw() {
        let vocab = Vocab::toy().unwrap();
        let width = vocab.len();
        let [end, other] = [vocab.eog()[0], vocab.eog()[1]];
        let mut scratch = Scratch::default();
        let with = |tokens: &[u32]| {
            let mut mask = Mask::none(width);
            tokens.iter().for_each(|token| mask.set(*token, true));
            mask
        };
        let some = |tokens: &[u32]| Some(Next::Only(with(tokens)));
        let masks = [
            None,
            Some(Next::Any { end: true }),
            Some(Next::Any { end: false }),
            some(&[65, 66]),
            some(&[66, end]),
            some(&[end, other]),
        ];
        let asked = ["", r#","ignore_eos":true"#, r#","min_tokens":3"#, r#","allowed_token_ids":[66,67]"#];
        let mut compared = 0;
        for more in asked {
            let sampler = sampler(more, &vocab);
            for next in &masks {
                for best in [65, 66, 67, end] {
                    let mut row = vec![0.0; width];
                    row[best as usize] = 5.0;
                    let drawn = sampler.draw(&row, next.as_ref(), &[], &mut scratch);
                    let rules = sampler.rules().mask(next.clone(), 0, width).unwrap();
                    let end = sampler.rules().is_end(&Next::Only(rules.clone()));
                    match drawn.unwrap() {
                        Drawn::End => assert!(end),
                        Drawn::Token(token, _) => {
                            assert!(!end);
                            assert!(rules.allows(token), "{more} {next:?}");
                            assert_eq!(rules.allows(best), token == best, "{more} {next:?} {best}");
                        }
                    }
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, 96);
    }
}
