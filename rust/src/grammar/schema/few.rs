//! The texts of a set of strings, where they are few.

use super::strings::{FUEL, Space};
use llguidance::derivre::ExprRef;
use llguidance::derivre::raw::DerivCache;

/// Bytes of the longest text that is listed.
const LONGEST_NAME: usize = 128;

/// All texts of a set where there are no more than `most`; None where there are, or too many steps would tell.
pub(super) fn texts(space: &mut Space, set: ExprRef, most: usize) -> Option<Vec<String>> {
    let (path, text, found) = (Vec::new(), Vec::new(), Vec::new());
    let mut walk = Few { space, derivatives: DerivCache::new(), path, text, found };
    walk.walk(set, most)?;
    walk.found.into_iter().map(|text| String::from_utf8(text).ok()).collect()
}

/// A walk over all texts of a set, byte by byte.
struct Few<'a> {
    space: &'a mut Space,
    derivatives: DerivCache,
    /// The expressions on the way to this one, and the text.
    path: Vec<ExprRef>,
    text: Vec<u8>,
    found: Vec<Vec<u8>>,
}

impl Few<'_> {
    /// None where more than `most` texts are found, or there is no end of them.
    fn walk(&mut self, set: ExprRef, most: usize) -> Option<()> {
        // What comes again on a way goes on without end.
        if self.path.contains(&set) || self.path.len() > LONGEST_NAME {
            return None;
        }
        if self.space.exprs.is_nullable(set) {
            self.found.push(self.text.clone());
        }
        if self.found.len() > most {
            return None;
        }
        self.path.push(set);
        for byte in 0..=u8::MAX {
            let Space { exprs, relevance, .. } = &mut *self.space;
            let next = self.derivatives.derivative(exprs, set, byte);
            if next != ExprRef::NO_MATCH && relevance.is_non_empty_limited(exprs, next, FUEL).ok()? {
                self.text.push(byte);
                self.walk(next, most)?;
                self.text.pop();
            }
        }
        self.path.pop();
        Some(())
    }
}
