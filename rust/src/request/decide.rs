//! Decisions: requests for the probabilities of texts. They generate nothing.

use super::{Limits, MAX_CHOICES, RequestSpec, at_most, check_ids, within};
use crate::error::{Error, Result};
use crate::types::Token;
use serde::{Deserialize, Serialize};

/// Most options of one decision.
pub(super) const MAX_OPTIONS: usize = 1024;
/// A path may ask for the next token at this many places, and one more.
pub(super) const MAX_WANTED: usize = 32;

/// Asks for the probabilities of texts, the options. No token is drawn. Choice `i` of the request computes `paths[i]` after the
/// prompt, and its events have one [`Successors`](crate::types::Successors) for each place of the path from `from` on.
///
/// A token's probability is its share among the tokens that the constraint allows. A path's probability is the product of its
/// tokens' probabilities. Add up the paths that spell an option: that is how likely an output at temperature 1 is this option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The texts. They differ, and none is empty.
    pub options: Vec<String>,
    /// The first `base` tokens of each path come before the options.
    #[serde(default)]
    pub base: u32,
    /// One path for each choice.
    pub paths: Vec<Path>,
    /// The options are JSON values, and the output has more text after them. So a token may contain the end of an option and the
    /// beginning of that text.
    #[serde(default)]
    pub inside: bool,
}

/// Tokens after the prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The tokens.
    #[serde(default)]
    pub tokens: Vec<Token>,
    /// The next token is asked for after the first `from` tokens, and after each further one.
    #[serde(default)]
    pub from: u32,
}

impl Decide {
    /// The options that a text can still become if it starts with `begun` and `token`. `None` is the end of the text.
    pub fn left<'a>(&'a self, begun: &'a [u8], token: Option<&'a [u8]>) -> impl Iterator<Item = usize> + 'a {
        let fits = move |option: &[u8]| {
            let Some(rest) = option.strip_prefix(begun) else { return false };
            let Some(token) = token else { return rest.is_empty() };
            let behind = token.strip_prefix(rest).and_then(<[u8]>::first);
            rest.starts_with(token) || (self.inside && behind.is_some_and(|byte| ends_value(*byte)))
        };
        let texts = self.options.iter().enumerate();
        texts.filter(move |(_, text)| fits(text.as_bytes())).map(|(index, _)| index)
    }
}

/// Whether a JSON value ends before this byte.
fn ends_value(byte: u8) -> bool {
    matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t')
}

/// Returns the length of the longest path.
///
/// # Errors
/// `Invalid` where the request asks for a decision that cannot be made.
pub(super) fn check(spec: &RequestSpec, decide: &Decide, limits: &Limits) -> Result<u32> {
    let refuse = |why: &str| Err(Error::invalid("decide", why));
    if spec.grammar.is_none() {
        return refuse("needs a constraint that allows the options");
    }
    if spec.logprobs.is_some() || spec.prompt_logprobs.is_some() || spec.max_tokens.is_some() {
        return refuse("generates nothing: leave out max_tokens and log-probabilities");
    }
    within("options", decide.options.len() as f64, 1.0, MAX_OPTIONS as f64)?;
    let mut sorted: Vec<&str> = decide.options.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    if sorted[0].is_empty() || sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::invalid("options", "must differ, and none may be empty"));
    }
    within("paths", decide.paths.len() as f64, 1.0, f64::from(MAX_CHOICES))?;
    if decide.paths.len() != spec.n as usize {
        return refuse("needs one path for each of the n choices");
    }
    for Path { tokens, from } in &decide.paths {
        check_ids("paths", tokens, limits)?;
        let wanted = tokens.len().checked_sub(*from as usize);
        let Some(wanted) = wanted.filter(|_| decide.base <= *from) else {
            return refuse("each path must have `from` tokens, and `from` must not be below `base`");
        };
        at_most("paths", wanted, MAX_WANTED)?;
    }
    let lengths = decide.paths.iter().map(|path| path.tokens.len());
    Ok(u32::try_from(lengths.max().unwrap_or(0)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(decide: &Decide, begun: &str, token: Option<&str>) -> Vec<usize> {
        decide.left(begun.as_bytes(), token.map(str::as_bytes)).collect()
    }

    fn among(options: &[&str], inside: bool) -> Decide {
        let options = options.iter().map(|text| (*text).to_owned()).collect();
        Decide { options, base: 0, paths: Vec::new(), inside }
    }

    #[test]
    fn tokens_leave_the_options_that_they_begin() {
        let decide = among(&["no", "not", "yes"], false);
        assert_eq!(left(&decide, "", Some("n")), [0, 1]);
        assert_eq!(left(&decide, "", Some("not")), [1]);
        assert_eq!(left(&decide, "n", Some("o")), [0, 1]);
        assert_eq!(left(&decide, "no", None), [0]);
        assert_eq!(left(&decide, "no", Some("t")), [1]);
        assert!(left(&decide, "no", Some(" ")).is_empty());
        assert!(left(&decide, "", Some("no,")).is_empty());
    }

    #[test]
    fn a_token_may_reach_past_a_value_inside_of_a_text() {
        let decide = among(&["1", "12", "1.5"], true);
        assert_eq!(left(&decide, "", Some("1")), [0, 1, 2]);
        assert_eq!(left(&decide, "", Some("1,")), [0]);
        assert_eq!(left(&decide, "1", Some("2}")), [1]);
        assert_eq!(left(&decide, "1", Some("]")), [0]);
        assert!(left(&decide, "", Some("13")).is_empty());
        let strings = among(&["\"a\"", "\"ab\""], true);
        assert_eq!(left(&strings, "\"", Some("a\",")), [0]);
        assert_eq!(left(&strings, "\"", Some("a")), [0, 1]);
    }
}
