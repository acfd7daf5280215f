//! Attention of some query rows over the cells of one KV head.
//!
//! A row's result is made from its query and the cells that it sees, in their order, alone: a score is the sum over the
//! dimensions in order; weights are exp(score − the largest), 0 where that is below e^−80; weights are added in 16 sums, of which
//! each has every 16th cell, and these sums in order; weighted values are added cell by cell.
//!
//! Each range of [`RANGE`](super::unit::RANGE) cells is computed on its own. The results of ranges are then added in order, scaled to
//! the largest score so far (Dao et al. 2022). A range begins at a multiple of its length, and what is not seen adds nothing. So other
//! cells, rows that share blocks, threads and instruction set change no bit.

use super::cells::Cells;
use super::functions::{all_finite, capped, exp};
use super::lanes::Lanes;
use super::merge::{merge, store};
use super::unit::{Attention, Part, Room, Scratch, Sums, Unit};
use std::array::from_fn;
use std::ops::Range;

/// Computes a unit.
///
/// # Safety
/// As [`Attention`] and [`Lanes`] say.
#[inline(always)]
pub(super) unsafe fn attend<L: Lanes, C: Cells>(a: &Attention, unit: &Unit, scratch: &mut Scratch) {
    unsafe {
        let rows = unit.rows.len();
        let room = scratch.room(a, rows);
        let seen = &mut scratch.seen;
        match unit.part {
            Part::Whole => {
                load_queries::<L>(a, unit, &room);
                sum::<L, C>(a, unit, (0, room.total), (&room, seen));
                for range in 1..a.ranges() {
                    sum::<L, C>(a, unit, (range, room.sums), (&room, seen));
                    merge::<L>(a, rows, room.sums, room.total);
                }
                store::<L>(a, unit, room.total);
            }
            Part::Range(range, sums) => {
                load_queries::<L>(a, unit, &room);
                sum::<L, C>(a, unit, (range, Sums::at(sums, rows)), (&room, seen));
            }
            Part::Merged(sums, each) => {
                let total = Sums::at(sums, rows);
                for range in 1..a.ranges() {
                    merge::<L>(a, rows, Sums::at(sums.add(range * each), rows), total);
                }
                store::<L>(a, unit, total);
            }
        }
    }
}

/// Queries, scaled.
#[inline(always)]
unsafe fn load_queries<L: Lanes>(a: &Attention, unit: &Unit, room: &Room) {
    unsafe {
        let dims = a.dims[0];
        let scale = if a.cap == 0.0 { a.scale } else { a.scale / a.cap };
        let scale = L::splat_float(scale);
        for row in 0..unit.rows.len() {
            let from: *const f32 = a.queries.at(unit.place(a, row));
            for d in (0..dims).step_by(L::ROWS) {
                let query = L::mul(scale, L::load_floats(from.add(d)));
                L::store_floats(room.queries.add(row * dims + d), query);
            }
        }
    }
}

/// Computes the sums of a range.
#[inline(always)]
unsafe fn sum<L: Lanes, C: Cells>(
    a: &Attention,
    unit: &Unit,
    (range, sums): (usize, Sums),
    (room, seen): (&Room, &mut Vec<bool>),
) {
    unsafe {
        let first = unit.rows.start / a.group;
        let cells = a.range(range);
        see::<L>(a, (first..(unit.rows.end - 1) / a.group + 1, &cells), unit.stream, seen);
        if range > 0 && !seen.contains(&true) {
            // What `merge` takes for nothing.
            sums.weights.write_bytes(0, unit.rows.len());
            return;
        }
        let work = Work { a, unit, first, cells, seen, room, sums };
        work.scores::<L, C>();
        for row in 0..unit.rows.len() {
            work.weigh::<L>(row);
        }
        work.values::<L, C>();
    }
}

/// Fills in what some tokens see of some cells.
#[inline(always)]
unsafe fn see<L: Lanes>(
    a: &Attention,
    (tokens, cells): (Range<usize>, &Range<usize>),
    stream: usize,
    seen: &mut Vec<bool>,
) {
    const HIDDEN: u16 = 0xfc00;
    let block = 2 * L::ROWS;
    seen.clear();
    for token in tokens {
        let mask: *const u16 = unsafe { a.mask.at([token, 0, stream]) };
        for first in cells.clone().step_by(block) {
            let mut any = 0;
            for cell in first..first + block {
                any |= unsafe { *mask.add(cell) } ^ HIDDEN;
            }
            seen.push(any != 0);
        }
    }
}

/// A range of a unit.
struct Work<'a> {
    a: &'a Attention,
    unit: &'a Unit,
    /// The first row's token.
    first: usize,
    cells: Range<usize>,
    seen: &'a [bool],
    room: &'a Room,
    sums: Sums,
}

impl Work<'_> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.unit.rows.len()
    }

    /// A row's scores, then weights.
    #[inline(always)]
    fn weights(&self, row: usize) -> *mut f32 {
        self.room.weights.wrapping_add(row * self.cells.len())
    }

    #[inline(always)]
    fn blocks<L: Lanes>(&self) -> usize {
        self.cells.len() / (2 * L::ROWS)
    }

    /// Whether one of some rows sees something of a block.
    #[inline(always)]
    fn sees<L: Lanes>(&self, rows: Range<usize>, block: usize) -> bool {
        let token = |row: usize| self.unit.place(self.a, row)[0] - self.first;
        (token(rows.start)..=token(rows.end - 1)).any(|t| self.seen[t * self.blocks::<L>() + block])
    }

    /// Scores of the blocks that rows see.
    #[inline(always)]
    unsafe fn scores<L: Lanes, C: Cells>(&self) {
        unsafe {
            let Attention { keys, dims: [dims, _], .. } = *self.a;
            for block in (0..self.blocks::<L>()).filter(|block| self.sees::<L>(0..self.rows(), *block)) {
                let cell = self.cells.start + block * 2 * L::ROWS;
                for half in 0..2 {
                    let from = keys.at([cell + half * L::ROWS, self.unit.head, self.unit.stream]);
                    C::keys::<L>(from, keys.strides[0], dims, self.room.block.add(half * L::ROWS));
                }
                let mut row = 0;
                while row < self.rows() {
                    // With 16 registers, 6 rows have 12 sums. The 8 of 4 rows are too few to hide how long an addition takes.
                    row += match self.rows() - row {
                        8.. if L::ROWS == 16 => self.score::<L, 8>(row, block),
                        6.. if L::ROWS == 8 => self.score::<L, 6>(row, block),
                        4.. => self.score::<L, 4>(row, block),
                        2.. => self.score::<L, 2>(row, block),
                        _ => self.score::<L, 1>(row, block),
                    };
                }
            }
        }
    }

    /// Scores of `R` rows in a block whose keys are there; gives back `R`.
    #[inline(always)]
    unsafe fn score<L: Lanes, const R: usize>(&self, row: usize, block: usize) -> usize {
        unsafe {
            if !self.sees::<L>(row..row + R, block) {
                return R;
            }
            let dims = self.a.dims[0];
            let queries: [_; R] = from_fn(|r| self.room.queries.add((row + r) * dims).cast_const());
            let keys = (self.room.block.cast_const(), 2 * L::ROWS);
            let sums = add_products::<L, R, 2>([[L::splat_float(0.0); 2]; R], queries, keys, 0..dims);
            for (r, sums) in sums.into_iter().enumerate() {
                let to = self.weights(row + r).add(block * 2 * L::ROWS);
                L::store_floats(to, sums[0]);
                L::store_floats(to.add(L::ROWS), sums[1]);
            }
            R
        }
    }

    /// Turns a row's scores into weights, and adds them up.
    #[inline(always)]
    unsafe fn weigh<L: Lanes>(&self, row: usize) {
        unsafe {
            let [token, head, stream] = self.unit.place(self.a, row);
            let weights = self.weights(row);
            let mask = self.a.mask.at::<u16>([token, 0, stream]).add(self.cells.start);
            let seen = &self.seen[(token - self.first) * self.blocks::<L>()..][..self.blocks::<L>()];
            let (hidden, cap) = (f32::NEG_INFINITY, self.a.cap);
            let mut most = L::splat_float(hidden);
            let cells = |block: usize| (2 * block * L::ROWS..2 * (block + 1) * L::ROWS).step_by(L::ROWS);
            for (block, _) in seen.iter().enumerate().filter(|(_, seen)| **seen) {
                for cell in cells(block) {
                    let score = L::load_floats(weights.add(cell));
                    let score = if cap == 0.0 { score } else { capped::<L>(score, cap) };
                    let mask = L::load_halves(mask.add(cell));
                    // Selected, not added: hidden keys may be anything.
                    let score = L::where_above(mask, hidden, L::add(score, mask), L::splat_float(hidden));
                    L::store_floats(weights.add(cell), score);
                    most = L::max(most, score);
                }
            }
            let has_sink = !self.a.sinks.is_null() && self.cells.start == 0;
            let sink = if has_sink { *self.a.sinks.add(head) } else { hidden };
            let most = L::lanes(most)[..L::ROWS].iter().fold(sink, |most, x| most.max(*x));
            *self.sums.most.add(row) = most;
            // A row that sees nothing has weights of 0.
            let most = if most == hidden { 0.0 } else { most };
            let largest = L::splat_float(most);
            // Lane `i % 16` adds the weights of cells `i`.
            let mut sums = [L::splat_float(0.0); 16];
            for (block, seen) in seen.iter().enumerate() {
                for cell in cells(block) {
                    let weight = match *seen {
                        true => exp::<L>(L::sub(L::load_floats(weights.add(cell)), largest)),
                        false => L::splat_float(0.0),
                    };
                    L::store_floats(weights.add(cell), weight);
                    let sum = &mut sums[cell % 16 / L::ROWS];
                    *sum = L::add(*sum, weight);
                }
            }
            let mut lanes = [0f32; 16];
            for (i, sum) in sums.into_iter().enumerate().take(16 / L::ROWS) {
                L::store_floats(lanes.as_mut_ptr().add(i * L::ROWS), sum);
            }
            let [sink, ..] = L::lanes(exp::<L>(L::splat_float(sink - most)));
            *self.sums.weights.add(row) = lanes.iter().fold(sink, |sum, x| sum + x);
        }
    }

    /// Adds the weighted values of all blocks.
    #[inline(always)]
    unsafe fn values<L: Lanes, C: Cells>(&self) {
        unsafe {
            let Attention { values, dims: [_, dims], .. } = *self.a;
            self.sums.values.write_bytes(0, self.rows() * dims);
            for block in (0..self.blocks::<L>()).filter(|block| self.sees::<L>(0..self.rows(), *block)) {
                let first = block * 2 * L::ROWS;
                let mut finite = true;
                for cell in 0..2 * L::ROWS {
                    let to = self.room.block.add(cell * dims);
                    C::values::<L>(
                        values.at([self.cells.start + first + cell, self.unit.head, self.unit.stream]),
                        dims,
                        to,
                    );
                    finite &= all_finite(std::slice::from_raw_parts(to, dims));
                }
                let mut row = 0;
                while row < self.rows() {
                    let rows = match self.rows() - row {
                        6.. if L::ROWS == 8 => 6,
                        4.. => 4,
                        _ => 1,
                    };
                    if self.sees::<L>(row..row + rows, block) {
                        match (finite, rows) {
                            (true, 6) => self.add::<L, 6>(row, (first, 0..2 * L::ROWS)),
                            (true, 4) => self.add::<L, 4>(row, (first, 0..2 * L::ROWS)),
                            (true, _) => self.add::<L, 1>(row, (first, 0..2 * L::ROWS)),
                            (false, _) => self.add_seen::<L>(row..row + rows, first),
                        }
                    }
                    row += rows;
                }
            }
        }
    }

    /// Adds the values of a block, some of which are no numbers, to rows that give them a weight.
    #[inline(always)]
    unsafe fn add_seen<L: Lanes>(&self, rows: Range<usize>, first: usize) {
        unsafe {
            for row in rows {
                for cell in 0..2 * L::ROWS {
                    if *self.weights(row).add(first + cell) != 0.0 {
                        self.add::<L, 1>(row, (first, cell..cell + 1));
                    }
                }
            }
        }
    }

    /// Adds the values of some cells of the block that begins at `first` to `R` rows.
    #[inline(always)]
    unsafe fn add<L: Lanes, const R: usize>(&self, row: usize, (first, cells): (usize, Range<usize>)) {
        unsafe {
            let dims = self.a.dims[1];
            let weights: [_; R] = from_fn(|r| self.weights(row + r).add(first));
            let mut d = 0;
            while d + 4 * L::ROWS <= dims && L::ROWS == 16 {
                self.add_columns::<L, R, 4>((row, d), weights, &cells);
                d += 4 * L::ROWS;
            }
            while d + 2 * L::ROWS <= dims {
                self.add_columns::<L, R, 2>((row, d), weights, &cells);
                d += 2 * L::ROWS;
            }
            while d < dims {
                self.add_columns::<L, R, 1>((row, d), weights, &cells);
                d += L::ROWS;
            }
        }
    }

    /// Adds `J` vectors of their values, from dimension `d` on. `weights`: each row's, of the block.
    #[inline(always)]
    unsafe fn add_columns<L: Lanes, const R: usize, const J: usize>(
        &self,
        (row, d): (usize, usize),
        weights: [*mut f32; R],
        cells: &Range<usize>,
    ) {
        unsafe {
            let dims = self.a.dims[1];
            let outputs: [_; R] = from_fn(|r| self.sums.values.add((row + r) * dims + d));
            let mut totals = [[L::splat_float(0.0); J]; R];
            for (output, totals) in outputs.iter().zip(&mut totals) {
                for (j, total) in totals.iter_mut().enumerate() {
                    *total = L::load_floats(output.add(j * L::ROWS));
                }
            }
            let values = (self.room.block.add(cells.start * dims + d).cast_const(), dims);
            let totals =
                add_products::<L, R, J>(totals, weights.map(<*mut f32>::cast_const), values, cells.clone());
            for (output, totals) in outputs.into_iter().zip(totals) {
                for (j, total) in totals.into_iter().enumerate() {
                    L::store_floats(output.add(j * L::ROWS), total);
                }
            }
        }
    }
}

/// Adds to the sums of `R` rows, `J` vectors each: for each step in order, the row's factor times the step's vectors. `vectors`: those
/// of the first step, and floats from one step's to the next's.
#[inline(always)]
unsafe fn add_products<L: Lanes, const R: usize, const J: usize>(
    mut sums: [[L::Floats; J]; R],
    factors: [*const f32; R],
    (mut vectors, stride): (*const f32, usize),
    steps: Range<usize>,
) -> [[L::Floats; J]; R] {
    unsafe {
        for step in steps {
            let mut own = [L::splat_float(0.0); J];
            for (j, vector) in own.iter_mut().enumerate() {
                *vector = L::load_floats(vectors.add(j * L::ROWS));
            }
            for (factors, sums) in factors.iter().zip(&mut sums) {
                let factor = L::splat_float(*factors.add(step));
                for (vector, sum) in own.iter().zip(sums) {
                    *sum = L::fma(factor, *vector, *sum);
                }
            }
            vectors = vectors.add(stride);
        }
        sums
    }
}
