//! The texts of a set of strings, where they are few.

use llguidance::derivre::ExprRef;
use llguidance::derivre::raw::{DerivCache, ExprSet, RelevanceCache};

/// Bytes of the longest text that is listed.
const LONGEST: usize = 128;
/// Steps to find out whether any text goes on in a way.
const FUEL: u64 = 100_000;

/// All texts of a set in order, where there are no more than `most`; None where there are, or too many steps would tell.
pub(super) fn texts(
    (exprs, relevance, derivatives): (&mut ExprSet, &mut RelevanceCache, &mut DerivCache),
    set: ExprRef,
    most: usize,
) -> Option<Vec<String>> {
    let (mut beginnings, mut found) = (vec![(set, Vec::new())], Vec::new());
    for _ in 0..=LONGEST {
        let mut longer = Vec::new();
        for (set, text) in beginnings {
            for byte in 0..=u8::MAX {
                let next = derivatives.derivative(exprs, set, byte);
                let goes_on = next != ExprRef::NO_MATCH;
                if goes_on && relevance.is_non_empty_limited(exprs, next, FUEL).ok()? {
                    longer.push((next, [&text[..], &[byte]].concat()));
                }
            }
            if exprs.is_nullable(set) {
                found.push(String::from_utf8(text).ok()?);
            }
            // Each beginning leads to another text.
            if found.len() + longer.len() > most {
                return None;
            }
        }
        if longer.is_empty() {
            found.sort_unstable();
            return Some(found);
        }
        beginnings = longer;
    }
    None
}
