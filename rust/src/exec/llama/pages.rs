//! KV in virtual memory: every sequence has room for the model's whole context, and memory is what is used.
//!
//! The library takes KV as one buffer and clears it. In place of its buffers in host memory stand mappings of which the
//! system hands out a page when something is written to it; what clears them gives all pages back. Cells of a sequence are
//! consecutive rows of its part of each tensor, so that a sequence that ends, or is cut, returns its pages, and a copy moves
//! as many bytes as it has tokens. The idea is vAttention's (Prabhu et al. 2024, arXiv 2405.04437), for host memory.
//!
//! A page is never shared by two sequences: what begins alike is copied, at some gigabytes a second. Shared mappings with
//! copy-on-write would need a file behind KV, up to two mappings for each tensor and sequence (Linux allows a process
//! 65,530), and a count of who reads which page before a sequence may write to it.

pub(super) mod ffi;

use std::ops::Range;

/// Where the rows of one tensor lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rows {
    /// Address of the first row of the first sequence.
    pub(super) base: usize,
    /// Bytes of a row.
    pub(super) row: usize,
    /// Rows of a sequence.
    pub(super) rows: u32,
    /// Sequences.
    pub(super) sequences: usize,
    /// Tokens that its layer's attention sees; 0 = all.
    pub(super) window: u32,
}

impl Rows {
    /// Addresses of a sequence's rows; None where it has no such rows.
    pub(super) fn of(&self, sequence: u32, rows: Range<u32>) -> Option<Range<usize>> {
        let sequence = sequence as usize;
        let there = sequence < self.sequences && rows.start <= rows.end && rows.end <= self.rows;
        let start = |row: u32| self.base + (sequence * self.rows as usize + row as usize) * self.row;
        there.then(|| start(rows.start)..start(rows.end))
    }

    /// Addresses of the pages that hold nothing but these rows of a sequence.
    pub(super) fn pages(&self, sequence: u32, rows: Range<u32>, page: usize) -> Option<Range<usize>> {
        let bytes = self.of(sequence, rows)?;
        let pages = bytes.start.next_multiple_of(page)..bytes.end / page * page;
        (!pages.is_empty()).then_some(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: Rows = Rows { base: 8192, row: 96, rows: 256, sequences: 3, window: 64 };

    #[test]
    fn rows_lie_within_their_sequence() {
        let rows = ROWS;
        assert_eq!(rows.of(0, 0..256), Some(8192..8192 + 24_576));
        assert_eq!(rows.of(2, 1..3), Some(8192 + 2 * 24_576 + 96..8192 + 2 * 24_576 + 288));
        assert_eq!((rows.of(3, 0..1), rows.of(0, 0..257)), (None, None));
    }

    #[test]
    fn pages_of_the_first_rows_hold_no_others() {
        assert_eq!(ROWS.pages(0, 0..100, 4096), Some(8192..16_384));
        assert_eq!(ROWS.pages(1, 0..128, 4096), Some(32_768..40_960 + 4096));
        assert_eq!((ROWS.pages(0, 0..42, 4096), ROWS.pages(3, 0..256, 4096)), (None, None));
    }

    #[test]
    fn only_pages_that_nobody_else_uses_go() {
        // A sequence takes 2.5 pages.
        let rows = Rows { base: 4096, row: 40, rows: 256, sequences: 2, window: 0 };
        assert_eq!(rows.pages(0, 0..256, 4096), Some(4096..12_288), "the third page is the next one's, too");
        assert_eq!(rows.pages(1, 0..256, 4096), Some(16_384..24_576), "the first page is the one's before");
        assert_eq!(rows.pages(0, 1..256, 4096), Some(8192..12_288));
        assert_eq!(rows.pages(0, 0..1, 4096), None, "the rows behind it are on its page, too");
        assert_eq!(rows.pages(0, 103..110, 4096), None);
    }
}
