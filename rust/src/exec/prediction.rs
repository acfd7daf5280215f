//! Drafts from what the client predicts (OpenAI's Predicted Outputs): the output is expected to be the same text with some
//! edits.
//!
//! The draft goes on behind the place in the prediction that the output has come to: where its last tokens stand. Of
//! several such places the one with the longest match is taken, then the nearest to where the output would be without
//! edits. So after an edit the draft begins again with the first few tokens that are as predicted.

use super::{Ask, Drafter};
use crate::types::{Slot, Token};
use std::collections::HashMap;

/// Tokens that must be as predicted before the draft goes on after an edit.
const LEAST_MATCH: usize = 2;
/// Tokens that are compared.
const MOST_MATCH: usize = 32;

/// Proposes what is predicted.
#[derive(Debug, Clone, Default)]
pub struct Prediction {
    /// Where each slot's output was in step: tokens of the output, and the place behind them in the prediction.
    places: HashMap<Slot, (usize, usize)>,
}

/// Tokens before `end` in the prediction that are those before the output's end.
fn matched(output: &[Token], prediction: &[Token], end: usize) -> usize {
    let backwards = prediction[..end].iter().rev().zip(output.iter().rev());
    backwards.take(MOST_MATCH).take_while(|(a, b)| a == b).count()
}

/// The place in `prediction` that an output of `length` tokens has come to, if it is in step with it; `output` are its last
/// [`MOST_MATCH`]. `before` is the place of the output's beginning; where all that is compared goes on from there, nothing
/// else is looked at.
fn place(
    (length, output): (usize, &[Token]),
    prediction: &[Token],
    before: Option<(usize, usize)>,
) -> Option<usize> {
    if length == 0 {
        return Some(0);
    }
    let most = output.len();
    // What another sequence left in the slot may be ahead of this one.
    let on = before.filter(|(then, _)| *then <= length).map(|(then, end)| end + length - then);
    if let Some(end) = on.filter(|end| *end <= prediction.len())
        && matched(output, prediction, end) == most
    {
        return Some(end);
    }
    let found = (1..=prediction.len()).map(|end| (matched(output, prediction, end), end));
    let best = found.max_by_key(|(same, end)| (*same, std::cmp::Reverse(end.abs_diff(length))));
    best.filter(|(same, _)| *same >= LEAST_MATCH.min(most)).map(|(_, end)| end)
}

impl Drafter for Prediction {
    fn keep(&mut self, slot: Slot, len: u32) {
        if len == 0 {
            self.places.remove(&slot);
        }
    }

    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        for ask in asks.iter_mut().filter(|ask| !ask.prediction.is_empty()) {
            let (known, drafted) = (&ask.known[ask.prompt as usize..], &ask.draft.tokens);
            let length = known.len() + drafted.len();
            let last = known.iter().chain(drafted).skip(length.saturating_sub(MOST_MATCH));
            let output: Vec<Token> = last.copied().collect();
            let before = self.places.get(&ask.slot).copied();
            let Some(place) = place((length, &output), ask.prediction, before) else { continue };
            self.places.insert(ask.slot, (length, place));
            ask.draft.tokens.extend(ask.prediction[place..].iter().take(ask.want as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::place as place_after;
    use crate::types::Token;

    fn place(output: &[Token], prediction: &[Token]) -> Option<usize> {
        place_after((output.len(), output), prediction, None)
    }

    #[test]
    fn an_edit_is_followed_by_a_new_start() {
        let prediction = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(place(&[], &prediction), Some(0));
        assert_eq!(place(&[1], &prediction), Some(1));
        assert_eq!(place(&[1, 2, 3], &prediction), Some(3));
        // An edit, and what follows it.
        assert_eq!(place(&[1, 2, 9], &prediction), None);
        assert_eq!(place(&[1, 2, 9, 4], &prediction), None);
        assert_eq!(place(&[1, 2, 9, 4, 5], &prediction), Some(5));
        // Left out, and put in.
        assert_eq!(place(&[1, 2, 6, 7], &prediction), Some(7));
        assert_eq!(place(&[1, 9, 9, 9, 2, 3], &prediction), Some(3));
    }

    #[test]
    fn of_like_places_the_nearest_is_taken() {
        let prediction = [1, 2, 3, 1, 2, 4, 1, 2, 5];
        assert_eq!(place(&[7, 7, 7, 1, 2], &prediction), Some(5));
        assert_eq!(place(&[1, 2], &prediction), Some(2));
        assert_eq!(place(&[1, 2, 3, 1, 2, 4, 1, 2], &prediction), Some(8));
    }

    #[test]
    fn in_step_the_place_is_kept() {
        let prediction = [1, 2, 3, 1, 2, 3, 1, 2, 3];
        // Nearer would be 6; the output is that from 3 on.
        assert_eq!(place_after((6, &[1, 2, 3, 1, 2, 3]), &prediction, Some((3, 6))), Some(9));
        assert_eq!(place(&[1, 2, 3, 1, 2, 3], &prediction), Some(6));
        // Another output in the slot, or one that went another way.
        for before in [(3, 8), (0, 9), (9, 1)] {
            assert_eq!(place_after((3, &[7, 1, 2]), &prediction, Some(before)), Some(2));
        }
    }
}
