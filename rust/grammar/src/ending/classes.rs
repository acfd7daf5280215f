//! Classes of bytes that no automaton of a lexer tells apart.

use ahash::AHashMap;

pub(super) struct Classes {
    pub(super) of: [u8; 256],
    pub(super) count: usize,
}

impl Classes {
    pub(super) fn new() -> Self {
        Classes { of: [0; 256], count: 1 }
    }

    /// Splits classes whose bytes have different numbers.
    pub(super) fn split(&mut self, number: impl Fn(u8) -> usize) {
        let mut found = AHashMap::new();
        for byte in 0..=u8::MAX {
            let class = &mut self.of[usize::from(byte)];
            let next = found.len();
            *class = *found.entry((*class, number(byte))).or_insert(next as u8);
        }
        self.count = found.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_split_until_all_bytes_are_apart() {
        let mut classes = Classes::new();
        classes.split(|byte| usize::from(byte < b'0'));
        classes.split(|byte| usize::from(byte < b'a'));
        assert_eq!(classes.count, 3);
        assert_eq!(classes.of[usize::from(b'0')], classes.of[usize::from(b'A')]);
        assert_ne!(classes.of[usize::from(b'0')], classes.of[usize::from(b' ')]);
        classes.split(usize::from);
        assert_eq!(classes.count, 256);
    }
}
