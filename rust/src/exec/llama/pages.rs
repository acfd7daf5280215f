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
    /// Bytes of a row, and of all rows of a sequence.
    pub(super) row: usize,
    pub(super) sequence: usize,
    /// Sequences.
    pub(super) sequences: usize,
    /// Of layers whose attention has a window.
    pub(super) windowed: bool,
}

impl Rows {
    /// Addresses of a sequence's rows; None where it has no such rows.
    pub(super) fn of(&self, sequence: u32, rows: Range<u32>) -> Option<Range<usize>> {
        let (sequence, first, end) = (sequence as usize, rows.start as usize, rows.end as usize);
        let there = sequence < self.sequences && first <= end && end * self.row <= self.sequence;
        let base = self.base + sequence * self.sequence;
        there.then(|| base + first * self.row..base + end * self.row)
    }

    /// Addresses of the pages that hold nothing but these rows of a sequence and what lies behind them, which is unused.
    pub(super) fn pages(&self, sequence: u32, rows: Range<u32>, page: usize) -> Option<Range<usize>> {
        let bytes = self.of(sequence, rows)?;
        let last = (self.base + (sequence as usize + 1) * self.sequence) / page * page;
        let pages = bytes.start.next_multiple_of(page)..bytes.end.next_multiple_of(page).min(last);
        (!pages.is_empty()).then_some(pages)
    }

    /// Addresses of the pages that hold nothing but a sequence's first rows, so many.
    pub(super) fn first_pages(&self, sequence: u32, rows: u32, page: usize) -> Option<Range<usize>> {
        let bytes = self.of(sequence, 0..rows)?;
        let pages = bytes.start.next_multiple_of(page)..bytes.end / page * page;
        (!pages.is_empty()).then_some(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: Rows = Rows { base: 8192, row: 96, sequence: 256 * 96, sequences: 3, windowed: true };

    #[test]
    fn rows_lie_within_their_sequence() {
        let rows = ROWS;
        assert_eq!(rows.of(0, 0..256), Some(8192..8192 + 24_576));
        assert_eq!(rows.of(2, 1..3), Some(8192 + 2 * 24_576 + 96..8192 + 2 * 24_576 + 288));
        assert_eq!((rows.of(3, 0..1), rows.of(0, 0..257)), (None, None));
    }

    #[test]
    fn pages_of_the_first_rows_hold_no_others() {
        assert_eq!(ROWS.first_pages(0, 100, 4096), Some(8192..16_384));
        assert_eq!(ROWS.first_pages(1, 128, 4096), Some(32_768..40_960 + 4096));
        assert_eq!((ROWS.first_pages(0, 42, 4096), ROWS.first_pages(3, 256, 4096)), (None, None));
    }

    #[test]
    fn only_pages_that_nobody_else_uses_go() {
        // A sequence takes 2.5 pages.
        let rows = Rows { base: 4096, row: 40, sequence: 10_240, sequences: 2, windowed: false };
        assert_eq!(rows.pages(0, 0..256, 4096), Some(4096..12_288), "the third page is the next one's, too");
        assert_eq!(rows.pages(1, 0..256, 4096), Some(16_384..24_576), "the first page is the one's before");
        assert_eq!(rows.pages(0, 1..256, 4096), Some(8192..12_288));
        assert_eq!(rows.pages(0, 0..1, 4096), Some(4096..8192), "behind the last row nothing is used");
        assert_eq!(rows.pages(0, 103..110, 4096), None);
    }
}
