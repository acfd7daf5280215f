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

/// Rows of a KV head: token · group + head in the group, for all tokens of a stream.
pub(super) struct Unit {
    pub(super) rows: std::ops::Range<usize>,
    pub(super) head: usize,
    pub(super) stream: usize,
}

/// A thread's memory.
#[derive(Default)]
pub(super) struct Scratch {
    floats: Vec<f32>,
    /// Whether a token sees something of a block, [token][block].
    pub(super) seen: Vec<bool>,
}

/// Parts of a scratch. A block of keys [dimension][cell] and one of values [cell][dimension] share `block`.
pub(super) struct Room {
    pub(super) queries: *mut f32,
    pub(super) block: *mut f32,
    /// Scores, then weights, [row][cell].
    pub(super) weights: *mut f32,
    pub(super) sums: *mut f32,
    pub(super) outputs: *mut f32,
}

impl Scratch {
    /// Room for some rows.
    pub(super) fn room(&mut self, a: &Attention, rows: usize) -> Room {
        let [keys, values] = a.dims;
        let sizes = [rows * keys, BLOCK * keys.max(values), rows * a.cells, rows, rows * values];
        let padded = sizes.map(|n| n.next_multiple_of(16));
        let total = padded.iter().sum::<usize>() + 16;
        if self.floats.len() < total {
            self.floats.resize(total, 0.0);
        }
        let base = self.floats.as_mut_ptr();
        // Vectors that lie in two lines take twice as long.
        let mut next = base.wrapping_add(base.align_offset(64));
        let [queries, block, weights, sums, outputs] = padded.map(|n| {
            let part = next;
            next = next.wrapping_add(n);
            part
        });
        Room { queries, block, weights, sums, outputs }
    }
}
