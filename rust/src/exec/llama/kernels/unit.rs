//! What attention is computed of, in which pieces, and in which memory.

/// Where a tensor lies: its first value, and bytes from one to the next token or cell, head, stream.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) data: *mut u8,
    pub(super) strides: [usize; 3],
}

impl Place {
    /// # Safety
    /// The tensor has that token or cell, head and stream.
    #[inline(always)]
    pub(super) unsafe fn at<T>(&self, of: [usize; 3]) -> *mut T {
        let [a, b, c] = self.strides;
        // SAFETY: the caller's promise.
        unsafe { self.data.add(of[0] * a + of[1] * b + of[2] * c).cast() }
    }
}

/// What is computed.
#[derive(Clone, Copy)]
pub(super) struct Attention {
    /// f32 queries.
    pub(super) queries: Place,
    pub(super) keys: Place,
    pub(super) values: Place,
    /// f16, added to scores: −∞ hides a cell. Its head is 0.
    pub(super) mask: Place,
    /// f32 outputs.
    pub(super) outputs: Place,
    /// A score of each head that competes with cells, or null.
    pub(super) sinks: *const f32,
    /// Dimensions of keys and of values.
    pub(super) dims: [usize; 2],
    /// Cells, a multiple of [`BLOCK`].
    pub(super) cells: usize,
    /// Query heads of each KV head.
    pub(super) group: usize,
    /// What products are multiplied with.
    pub(super) scale: f32,
    /// Scores are cap · tanh(score / cap), where it is not 0.
    pub(super) cap: f32,
}

/// Cells that all instruction sets take as a whole number of blocks.
pub(super) const BLOCK: usize = 32;
/// Cells that have sums of their own. Tests have few cells.
pub(super) const RANGE: usize = if cfg!(test) { 64 } else { 1024 };

impl Attention {
    /// Ranges of cells.
    pub(super) fn ranges(&self) -> usize {
        self.cells.div_ceil(RANGE)
    }

    /// A range's cells.
    pub(super) fn range(&self, number: usize) -> std::ops::Range<usize> {
        number * RANGE..self.cells.min((number + 1) * RANGE)
    }
}

/// Rows of a KV head: token · group + head in the group, for all tokens of a stream.
pub(super) struct Unit {
    pub(super) rows: std::ops::Range<usize>,
    pub(super) head: usize,
    pub(super) stream: usize,
    pub(super) part: Part,
}

impl Unit {
    /// Token, query head and stream of a row.
    #[inline(always)]
    pub(super) fn place(&self, a: &Attention, row: usize) -> [usize; 3] {
        let row = self.rows.start + row;
        [row / a.group, self.head * a.group + row % a.group, self.stream]
    }
}

/// What is computed of a unit.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// The outputs.
    Whole,
    /// The sums of a range, which are written there.
    Range(usize, *mut f32),
    /// The outputs, from the sums of all ranges. These lie there, so many floats apart, and are overwritten.
    Merged(*mut f32, usize),
}

/// What attention has added up for each row: the largest score, the sum of the weights, and the sum of the weighted values.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) most: *mut f32,
    pub(super) weights: *mut f32,
    pub(super) values: *mut f32,
}

impl Sums {
    /// Floats that the sums of so many rows take.
    pub(super) fn floats(a: &Attention, rows: usize) -> usize {
        2 * padded(rows) + padded(rows * a.dims[1])
    }

    /// Those of so many rows, which begin at a multiple of 64 bytes.
    pub(super) fn at(first: *mut f32, rows: usize) -> Self {
        let weights = first.wrapping_add(padded(rows));
        Self { most: first, weights, values: weights.wrapping_add(padded(rows)) }
    }
}

/// Floats of whole cache lines: vectors that lie in two lines take twice as long.
fn padded(floats: usize) -> usize {
    floats.next_multiple_of(16)
}

/// Makes room for so many floats in `memory`. They begin at a multiple of 64 bytes.
pub(super) fn aligned(memory: &mut Vec<f32>, floats: usize) -> *mut f32 {
    if memory.len() < floats + 16 {
        memory.resize(floats + 16, 0.0);
    }
    let first = memory.as_mut_ptr();
    first.wrapping_add(first.align_offset(64))
}

/// A thread's memory.
#[derive(Default)]
pub(super) struct Scratch {
    floats: Vec<f32>,
    /// Whether a token sees something of a block of the range, [token][block].
    pub(super) seen: Vec<bool>,
}

/// Parts of a scratch. A block of keys [dimension][cell] and one of values [cell][dimension] share `block`.
pub(super) struct Room {
    pub(super) queries: *mut f32,
    pub(super) block: *mut f32,
    /// Scores of a range, then weights, [row][cell].
    pub(super) weights: *mut f32,
    /// The sums of one range, and of all ranges so far.
    pub(super) sums: Sums,
    pub(super) total: Sums,
}

impl Scratch {
    /// Room for some rows.
    pub(super) fn room(&mut self, a: &Attention, rows: usize) -> Room {
        let [keys, values] = a.dims;
        let sums = Sums::floats(a, rows);
        let sizes =
            [rows * keys, BLOCK * keys.max(values), rows * a.cells.min(RANGE), sums, sums].map(padded);
        let mut next = aligned(&mut self.floats, sizes.iter().sum());
        let [queries, block, weights, sums, total] = sizes.map(|n| {
            let part = next;
            next = next.wrapping_add(n);
            part
        });
        Room { queries, block, weights, sums: Sums::at(sums, rows), total: Sums::at(total, rows) }
    }
}
