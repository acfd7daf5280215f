//! The texts of a set of strings, where they are few.

use llguidance::derivre::ExprRef;
use llguidance::derivre::raw::{DerivCache, ExprSet, RelevanceCache};

/// Bytes of the longest text that is listed.
const LONGEST: usize = 128;
/// Steps to find out whether any text goes on in a way.
const FUEL: u64 = 100_000;

/// All texts of a set where there are no more than `most`; None where there are, or too many steps would tell.
pub(super) fn texts(
    (exprs, relevance): (&mut ExprSet, &mut RelevanceCache),
    set: ExprRef,
    most: usize,
) -> Option<Vec<String>> {
    let (path, text, found) = (Vec::new(), Vec::new(), Vec::new());
    let mut walk = Few { exprs, relevance, derivatives: DerivCache::new(), path, text, found };
    walk.walk(set, most)?;
    walk.found.into_iter().map(|text| String::from_utf8(text).ok()).collect()
}

/// A walk over all texts of a set, byte by byte.
struct Few<'a> {
    exprs: &'a mut ExprSet,
    relevance: &'a mut RelevanceCache,
    derivatives: DerivCache,
    /// The expressions on the way to this one, and the text.
    path: Vec<ExprRef>,
    text: Vec<u8>,
    found: Vec<Vec<u8>>,
}

impl Few<'_> {
    /// None where more than `most` texts are found, or there is no end of them.
    fn walk(&mut self, set: ExprRef, most: usize) -> Option<()> {
        // An expression that comes again has texts of any length.
        if self.path.contains(&set) || self.path.len() > LONGEST {
            return None;
        }
        if self.exprs.is_nullable(set) {
            self.found.push(self.text.clone());
        }
        if self.found.len() > most {
            return None;
        }
        self.path.push(set);
        for byte in 0..=u8::MAX {
            let next = self.derivatives.derivative(self.exprs, set, byte);
            let goes_on = next != ExprRef::NO_MATCH;
            if goes_on && self.relevance.is_non_empty_limited(self.exprs, next, FUEL).ok()? {
                self.text.push(byte);
                self.walk(next, most)?;
                self.text.pop();
            }
        }
        self.path.pop();
        Some(())
    }
}
