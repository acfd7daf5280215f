//! ggml's operation of attention as [`Unit`]s for the threads.

use super::cells::{Bytes, Cells};
use super::ffi::Params;
use super::floats::{Bf16, F16};
use super::isa::{self, Isa};
use super::matmul::size;
use super::unit::{Attention, BLOCK, Part, Place, Scratch, Sums, Unit, aligned};
use llama_cpp_sys_2 as sys;
use std::cell::RefCell;
use std::ptr;

/// Most rows of a unit: they share the conversion of cells to floats.
const ROWS: usize = 128;
/// Rows of a unit where threads would have none otherwise: one takes hardly less time than two.
const FEWEST_ROWS: usize = 2;
/// Parts for each thread that units are handed out in.
const PARTS: usize = 8;

/// See [`attend`](super::attend::attend).
pub(super) type Attend = unsafe fn(&Attention, &Unit, &mut Scratch);

/// An attention that there is a kernel for.
pub(super) struct Job {
    attention: Attention,
    attend: Attend,
    /// Rows of a KV head in a stream.
    rows: usize,
    kv_heads: usize,
    streams: usize,
}

/// Where a tensor's tokens (cells), heads and streams lie.
fn place(tensor: &sys::ggml_tensor) -> Place {
    let [_, token, head, stream] = tensor.nb;
    Place { data: tensor.data.cast(), strides: [token, head, stream] }
}

impl Job {
    /// The attention that a node asks for, if there is a kernel.
    ///
    /// # Safety
    /// A node of a graph.
    pub(super) unsafe fn of(node: *const sys::ggml_tensor) -> Option<Self> {
        // SAFETY: the caller's promise; the operation has three operands, and null for others that are missing.
        let (node, q, k, v, mask, sinks) = unsafe {
            let [q, k, v, mask, sinks, ..] = (*node).src;
            (&*node, &*q, &*k, &*v, mask.as_ref()?, sinks.as_ref())
        };
        let parameter = |i: usize| f32::from_bits(node.op_params[i].cast_unsigned());
        let [tokens, heads, streams] = [size(q.ne[1])?, size(q.ne[2])?, size(q.ne[3])?];
        let [cells, kv_heads] = [size(k.ne[1])?, size(k.ne[2])?];
        let dims = [size(k.ne[0])?, size(v.ne[0])?];
        let (attend, step, bytes) = of_type(k.type_, Isa::here()?)?;
        let floats = [q, node].iter().all(|x| x.type_ == sys::GGML_TYPE_F32 && x.nb[0] == size_of::<f32>());
        let kv = v.type_ == k.type_ && k.nb[0] == bytes && v.nb[0] == bytes && v.ne[1..] == k.ne[1..];
        let masked = mask.type_ == sys::GGML_TYPE_F16
            && mask.nb[0] == size_of::<u16>()
            && [mask.ne[0], mask.ne[2]] == [k.ne[1], 1]
            && mask.ne[1] >= q.ne[1]
            && (mask.ne[3] == q.ne[3] || mask.ne[3] == 1);
        let sizes = tokens * heads * streams * cells * kv_heads > 0
            && heads.is_multiple_of(kv_heads)
            && k.ne[3] == q.ne[3]
            && cells.is_multiple_of(BLOCK)
            && dims.iter().all(|d| *d > 0 && d.is_multiple_of(step));
        // Biases by distance are for whom ggml has its own.
        if !(floats && kv && masked && sizes && parameter(1) == 0.0) {
            return None;
        }
        let mut mask_place = place(mask);
        if mask.ne[3] == 1 {
            mask_place.strides[2] = 0;
        }
        let row = node.nb[1];
        let outputs = Place { data: node.data.cast(), strides: [heads * row, row, tokens * heads * row] };
        let attention = Attention {
            queries: place(q),
            keys: place(k),
            values: place(v),
            mask: mask_place,
            outputs,
            sinks: sinks.map_or(ptr::null(), |sinks| sinks.data.cast_const().cast()),
            dims,
            cells,
            group: heads / kv_heads,
            scale: parameter(0),
            cap: parameter(2),
        };
        Some(Self { attention, attend, rows: tokens * heads / kv_heads, kv_heads, streams })
    }

    /// Computes the attention together with the other threads.
    ///
    /// # Safety
    /// The node's operands are computed, and all threads of `params` call this.
    pub(super) unsafe fn compute(&self, params: &Params) {
        thread_local!(static SUMS: RefCell<Vec<f32>> = RefCell::default());
        let workers = params.workers();
        let each = self.unit_rows(workers);
        let (units, ranges) = (self.units(each), self.attention.ranges());
        // Threads of ggml's have no memory in common.
        if params.threads() > 1 || units >= workers || ranges == 1 {
            return self.share(params, units, |unit| self.unit(unit, each, Part::Whole));
        }
        SUMS.with_borrow_mut(|sums| {
            let floats = Sums::floats(&self.attention, each);
            let sums = Shared(aligned(sums, units * ranges * floats));
            self.share(params, units * ranges, |i| {
                self.unit(i / ranges, each, Part::Range(i % ranges, sums.at(i * floats)))
            });
            self.share(params, units, |i| {
                self.unit(i, each, Part::Merged(sums.at(i * ranges * floats), floats))
            });
        });
    }

    /// Computes so many units.
    fn share(&self, params: &Params, units: usize, unit: impl Fn(usize) -> Unit + Sync) {
        thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::default());
        params.share(units, units.div_ceil(params.workers() * PARTS), |range, _| {
            SCRATCH.with_borrow_mut(|scratch| {
                for i in range {
                    // SAFETY: `compute`'s caller promises it; units write different rows, or sums.
                    unsafe { (self.attend)(&self.attention, &unit(i), scratch) };
                }
            });
        });
    }

    /// How many units have so many rows each.
    fn units(&self, each: usize) -> usize {
        self.rows.div_ceil(each) * self.kv_heads * self.streams
    }

    fn unit(&self, number: usize, each: usize, part: Part) -> Unit {
        let tiles = self.rows.div_ceil(each);
        // The last tokens of a prompt see most, and are begun first.
        let tile = tiles - 1 - number % tiles;
        Unit {
            rows: tile * each..self.rows.min((tile + 1) * each),
            head: number / tiles % self.kv_heads,
            stream: number / tiles / self.kv_heads,
            part,
        }
    }

    /// Rows of a unit: as many as share well, but units for all threads. What a sequence decodes alone has few rows; its
    /// query heads are shared out where it has fewer KV heads than there are threads.
    pub(super) fn unit_rows(&self, threads: usize) -> usize {
        let mut rows = ROWS;
        while rows > FEWEST_ROWS && self.units(rows) < threads {
            rows /= 2;
        }
        rows
    }
}

/// The kernel for a type of KV, the values that begin together, and the bytes of a block.
fn of_type(ty: sys::ggml_type, isa: Isa) -> Option<(Attend, usize, usize)> {
    match ty {
        sys::GGML_TYPE_F16 => Some((isa::attention::<F16>(isa), F16::STEP, 2)),
        sys::GGML_TYPE_BF16 => Some((isa::attention::<Bf16>(isa), Bf16::STEP, 2)),
        sys::GGML_TYPE_Q8_0 => Some((isa::attention::<Bytes>(isa), Bytes::STEP, 34)),
        _ => None,
    }
}

/// Where the sums of ranges are.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

impl Shared {
    fn at(self, floats: usize) -> *mut f32 {
        self.0.wrapping_add(floats)
    }
}

// SAFETY: only a place. Each unit writes a part of it, which is read when all are written.
unsafe impl Sync for Shared {}

// SAFETY: nothing writes what a job reads while it is computed, and its units write different rows.
unsafe impl Sync for Job {}

#[cfg(test)]
impl Job {
    /// Computes everything in units of so many rows, by that kernel.
    ///
    /// # Safety
    /// The node's operands are computed; the processor has the kernel's instructions.
    pub(super) unsafe fn compute_by(&self, attend: Attend, each: usize) {
        let mut scratch = Scratch::default();
        for unit in 0..self.units(each) {
            unsafe { attend(&self.attention, &self.unit(unit, each, Part::Whole), &mut scratch) };
        }
    }

    /// The kernels of this processor for a type of KV.
    pub(super) fn kernels(ty: sys::ggml_type) -> Vec<Attend> {
        Isa::all_here().filter_map(|isa| Some(of_type(ty, isa)?.0)).collect()
    }
}
