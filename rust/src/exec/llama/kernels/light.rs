//! Nodes without products: norms, rotations, sums and their like. Of a few tokens, one thread computes them in less time than
//! handing them out takes; of prompts, the team shares their rows, which ggml's functions split as for threads of its own.

use super::ffi::Params;
use super::team::{self, Piece};
use llama_cpp_sys_2 as sys;
use std::cell::RefCell;
use std::ffi::c_int;

/// Numbers that a thread computes in less time than handing them out takes.
const FEW: i64 = 1 << 15;
/// Floats between the workspaces of two threads (`CACHE_LINE_SIZE_F32` of ggml, or more).
const APART: usize = 64;

thread_local! {
    static WORKSPACE: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Calls ggml's function for each part of a node, or once for all of it.
///
/// # Safety
/// As for ggml's function, which waits for no other thread in it.
unsafe fn share(params: *const Params, node: *mut sys::ggml_tensor, compute: impl Fn(*const Params) + Sync) {
    // SAFETY: the caller's promise.
    let (own, numbers, row) = unsafe {
        let count = |tensor: &sys::ggml_tensor| tensor.ne.iter().product::<i64>();
        let (node, source) = (&*node, (*node).src[0].as_ref());
        // Of those that put rows into a large tensor, or take some out of one, only these count.
        let numbers = source.map_or(i64::MAX, count).min(count(node));
        (&*params, numbers, node.ne[0].max(source.map_or(0, |source| source.ne[0])))
    };
    if own.nth != 1 || numbers < FEW {
        return compute(params);
    }
    let shared = team::current(|team| {
        let parts = team.size();
        WORKSPACE.with_borrow_mut(|workspace| {
            workspace.resize(parts * (usize::try_from(row).unwrap_or(0) + APART), 0.0);
            let (wdata, wsize) = (workspace.as_mut_ptr().cast(), size_of_val(&workspace[..]));
            let part = Part(Params { nth: parts as c_int, wdata, wsize, ..*own });
            team.run(parts, &|piece: Piece| compute(&part.of(piece)));
        });
    });
    if shared.is_none() {
        compute(params);
    }
}

/// What all parts of a node have in common.
struct Part(Params);

// SAFETY: ggml's functions are made for threads, each of which has its own piece of the workspace.
unsafe impl Sync for Part {}

impl Part {
    fn of(&self, piece: Piece) -> Params {
        Params { ith: piece.index as c_int, ..self.0 }
    }
}

/// Takes the places of functions of ggml that compute a node, or two in one, from ggml's own by their other names.
macro_rules! shared {
    ($($name:ident: $stock:ident($node:ident $(, $other:ident)?)),* $(,)?) => {
        unsafe extern "C" {
            $(fn $stock(params: *const Params, $node: *mut sys::ggml_tensor $(, $other: *mut sys::ggml_tensor)?);)*
        }
        $(
            /// # Safety
            /// Called by ggml alone, with nodes of a graph.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                params: *const Params,
                $node: *mut sys::ggml_tensor
                $(, $other: *mut sys::ggml_tensor)?
            ) {
                let $node = Node($node);
                $(let $other = Node($other);)?
                // SAFETY: the caller's promise.
                unsafe { share(params, $node.get(), |params| $stock(params, $node.get() $(, $other.get())?)) }
            }
        )*
    };
}

shared! {
    ggml_compute_forward_add: ggml_compute_forward_add_stock(node),
    ggml_compute_forward_cpy: ggml_compute_forward_cpy_stock(node),
    ggml_compute_forward_cont: ggml_compute_forward_cont_stock(node),
    ggml_compute_forward_get_rows: ggml_compute_forward_get_rows_stock(node),
    ggml_compute_forward_glu: ggml_compute_forward_glu_stock(node),
    ggml_compute_forward_mul: ggml_compute_forward_mul_stock(node),
    ggml_compute_forward_norm: ggml_compute_forward_norm_stock(node),
    ggml_compute_forward_rms_norm: ggml_compute_forward_rms_norm_stock(node),
    ggml_compute_forward_rms_norm_mul_fused: ggml_compute_forward_rms_norm_mul_fused_stock(norm, product),
    ggml_compute_forward_rope: ggml_compute_forward_rope_stock(node),
    ggml_compute_forward_scale: ggml_compute_forward_scale_stock(node),
    ggml_compute_forward_set_rows: ggml_compute_forward_set_rows_stock(node),
    ggml_compute_forward_soft_max: ggml_compute_forward_soft_max_stock(node),
    ggml_compute_forward_unary: ggml_compute_forward_unary_stock(node),
}

/// A node that several threads compute parts of.
#[derive(Clone, Copy)]
struct Node(*mut sys::ggml_tensor);

// SAFETY: ggml's functions are made for it.
unsafe impl Sync for Node {}

impl Node {
    fn get(&self) -> *mut sys::ggml_tensor {
        self.0
    }
}
