//! Small graphs of ggml: for the check at start, and for tests.

use crate::exec::llama::devices::ffi::DeviceRef;
use llama_cpp_sys_2 as sys;
use std::ffi::c_int;
use std::ptr::NonNull;

/// A matrix of weights, or several.
pub(super) struct Operand<'a> {
    pub(super) ty: sys::ggml_type,
    /// Weights of a row, rows, matrices.
    pub(super) shape: [usize; 3],
    pub(super) bytes: &'a [u8],
}

/// A graph with one result.
pub(super) struct Graph {
    context: NonNull<sys::ggml_context>,
    result: *mut sys::ggml_tensor,
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `ggml_init`, used nowhere any more.
        unsafe { sys::ggml_free(self.context.as_ptr()) }
    }
}

impl Graph {
    /// Room for tensors and workspace of some MiB; or for descriptions alone, of tensors on a device.
    fn new(no_alloc: bool) -> Option<Self> {
        let parameters =
            sys::ggml_init_params { mem_size: 64 << 20, mem_buffer: std::ptr::null_mut(), no_alloc };
        // SAFETY: plain parameters.
        let context = NonNull::new(unsafe { sys::ggml_init(parameters) })?;
        Some(Self { context, result: std::ptr::null_mut() })
    }

    /// A tensor, with a copy of what is given if it has room.
    fn tensor<T: Copy>(&self, ty: sys::ggml_type, shape: [usize; 4], data: &[T]) -> *mut sys::ggml_tensor {
        let [a, b, c, d] = shape.map(|n| n.cast_signed() as i64);
        // SAFETY: the context is alive; the sizes are compared before the copy.
        unsafe {
            let tensor = sys::ggml_new_tensor_4d(self.context.as_ptr(), ty, a, b, c, d);
            assert_eq!(sys::ggml_nbytes(tensor), size_of_val(data));
            let to: *mut u8 = (*tensor).data.cast();
            if !to.is_null() {
                data.as_ptr().cast::<u8>().copy_to_nonoverlapping(to, size_of_val(data));
            }
            tensor
        }
    }

    /// The product of weights with the activations of tokens.
    pub(super) fn product(weights: &Operand<'_>, values: &[f32]) -> Option<Self> {
        let mut graph = Self::new(false)?;
        graph.multiply(weights, values);
        Some(graph)
    }

    fn multiply(&mut self, weights: &Operand<'_>, values: &[f32]) {
        let [row, rows, _] = weights.shape;
        let weights = self.tensor(weights.ty, [row, rows, 1, 1], weights.bytes);
        let values = self.tensor(sys::GGML_TYPE_F32, [row, values.len() / row, 1, 1], values);
        // SAFETY: tensors of this context with rows of the same length.
        self.result = unsafe { sys::ggml_mul_mat(self.context.as_ptr(), weights, values) };
    }

    /// The product of weights with the activations of tokens, [token][row], as a device computes it; None where it fails.
    pub(super) fn product_on(device: DeviceRef, weights: &Operand<'_>, values: &[f32]) -> Option<Vec<f32>> {
        let mut graph = Self::new(true)?;
        graph.multiply(weights, values);
        let context = graph.context.as_ptr();
        // SAFETY: the device lives as long as the process, the tensors as long as the context. Each gets as many bytes as
        // it has, after it has got a place. The backend and its buffer are freed after their last use.
        unsafe {
            let [a, b, ..] = (*graph.result).src;
            let steps = sys::ggml_new_graph(context);
            sys::ggml_build_forward_expand(steps, graph.result);
            let backend =
                NonNull::new(sys::ggml_backend_dev_init(device.as_ptr(), std::ptr::null()))?.as_ptr();
            let buffer = sys::ggml_backend_alloc_ctx_tensors(context, backend);
            let mut result = None;
            if !buffer.is_null() {
                sys::ggml_backend_tensor_set(a, weights.bytes.as_ptr().cast(), 0, weights.bytes.len());
                sys::ggml_backend_tensor_set(b, values.as_ptr().cast(), 0, size_of_val(values));
                if sys::ggml_backend_graph_compute(backend, steps) == sys::GGML_STATUS_SUCCESS {
                    let mut got = vec![0f32; sys::ggml_nelements(graph.result).unsigned_abs() as usize];
                    let bytes = size_of_val(&got[..]);
                    sys::ggml_backend_tensor_get(graph.result, got.as_mut_ptr().cast(), 0, bytes);
                    result = Some(got);
                }
                sys::ggml_backend_buffer_free(buffer);
            }
            sys::ggml_backend_free(backend);
            result
        }
    }

    /// Attention over f16 keys, values and a mask: dimensions, tokens, cells, heads of queries and of KV.
    pub(super) fn known_attention(
        [dims, tokens, cells, heads, kv_heads]: [usize; 5],
        queries: &[f32],
        [keys, values, mask]: &[Vec<u16>; 3],
    ) -> Option<Self> {
        let mut graph = Self::new(false)?;
        let queries = graph.tensor(sys::GGML_TYPE_F32, [dims, tokens, heads, 1], queries);
        let [keys, values] =
            [keys, values].map(|x| graph.tensor(sys::GGML_TYPE_F16, [dims, cells, kv_heads, 1], x));
        let mask = graph.tensor(sys::GGML_TYPE_F16, [cells, tokens, 1, 1], mask);
        graph.attend([queries, keys, values, mask], 1.0, 0.0);
        Some(graph)
    }

    /// The result is attention of these queries over keys, values and a mask.
    fn attend(&mut self, [q, k, v, mask]: [*mut sys::ggml_tensor; 4], scale: f32, cap: f32) {
        // SAFETY: tensors of this context whose sizes fit.
        self.result =
            unsafe { sys::ggml_flash_attn_ext(self.context.as_ptr(), q, k, v, mask, scale, 0.0, cap) };
    }

    /// The result, [row][column], computed by some threads.
    pub(super) fn compute(&self, threads: c_int) -> Vec<f32> {
        // SAFETY: the result is an f32 tensor of this context.
        unsafe {
            let graph = sys::ggml_new_graph(self.context.as_ptr());
            sys::ggml_build_forward_expand(graph, self.result);
            sys::ggml_graph_compute_with_ctx(self.context.as_ptr(), graph, threads);
            let n = sys::ggml_nelements(self.result).unsigned_abs() as usize;
            std::slice::from_raw_parts((*self.result).data.cast::<f32>(), n).to_vec()
        }
    }
}

#[cfg(test)]
impl Graph {
    /// Products with the matrices of experts: `values` are [token][slot], `ids` [token][slot of `used`].
    pub(super) fn experts(
        weights: &Operand<'_>,
        (values, slots): (&[f32], usize),
        (ids, used): (&[i32], usize),
    ) -> Self {
        let mut graph = Self::new(false).unwrap();
        let [row, rows, experts] = weights.shape;
        let weights = graph.tensor(weights.ty, [row, rows, experts, 1], weights.bytes);
        let values = graph.tensor(sys::GGML_TYPE_F32, [row, slots, values.len() / row / slots, 1], values);
        let ids = graph.tensor(sys::GGML_TYPE_I32, [used, ids.len() / used, 1, 1], ids);
        // SAFETY: as above; each token has its ids.
        graph.result = unsafe { sys::ggml_mul_mat_id(graph.context.as_ptr(), weights, values, ids) };
        graph
    }

    /// What models compute beside products, one after the other, of 64 values for each of 8 heads and 100 tokens.
    pub(super) fn light(random: &mut dyn FnMut() -> f32) -> Self {
        let mut graph = Self::new(false).unwrap();
        let shape = [64, 8, 100, 1];
        let (x, y) = (
            graph.random(sys::GGML_TYPE_F32, shape, random),
            graph.random(sys::GGML_TYPE_F32, shape, random),
        );
        let weights = graph.random(sys::GGML_TYPE_F32, [64, 1, 1, 1], random);
        let positions = graph.tensor(sys::GGML_TYPE_I32, [100, 1, 1, 1], &Vec::from_iter(0..100i32));
        let picked = graph.tensor(
            sys::GGML_TYPE_I32,
            [900, 1, 1, 1],
            &Vec::from_iter((0..900i32).map(|i| i * 7 % 800)),
        );
        let context = graph.context.as_ptr();
        // SAFETY: tensors of this context, of shapes that suit each other.
        graph.result = unsafe {
            let rotated = sys::ggml_rope(context, x, positions, 64, 0);
            let normed = sys::ggml_mul(context, sys::ggml_rms_norm(context, rotated, 1e-5), weights);
            let normed = sys::ggml_norm(context, normed, 1e-5);
            let gated = sys::ggml_swiglu_split(context, normed, y);
            let scaled = sys::ggml_silu(context, sys::ggml_scale(context, gated, 0.5));
            let likely = sys::ggml_soft_max(context, sys::ggml_add(context, scaled, x));
            let turned = sys::ggml_cont(context, sys::ggml_permute(context, likely, 0, 2, 1, 3));
            let half =
                sys::ggml_cast(context, sys::ggml_reshape_2d(context, turned, 64, 800), sys::GGML_TYPE_F16);
            sys::ggml_get_rows(context, half, picked)
        };
        graph
    }

    /// Attention of random queries over random keys and values.
    pub(super) fn attention(shape: &Heads, random: &mut dyn FnMut() -> f32) -> Self {
        let mut graph = Self::new(false).unwrap();
        let Heads { ty, dims, tokens, cells, heads: [heads, kv_heads], streams, .. } = *shape;
        let q = graph.random(sys::GGML_TYPE_F32, [dims, tokens, heads, streams], random);
        let k = graph.random(ty, [dims, cells, kv_heads, streams], random);
        let v = graph.random(ty, [dims, cells, kv_heads, streams], random);
        let mask = graph.tensor(sys::GGML_TYPE_F16, [cells, tokens, 1, streams], &shape.mask);
        graph.attend([q, k, v, mask], 1.0 / (dims as f32).sqrt(), shape.cap);
        if shape.sinks {
            let sinks = graph.random(sys::GGML_TYPE_F32, [heads, 1, 1, 1], random);
            // SAFETY: of this context, a number for each head.
            unsafe { sys::ggml_flash_attn_ext_add_sinks(graph.result, sinks) };
        }
        graph
    }

    fn random(
        &self,
        ty: sys::ggml_type,
        shape: [usize; 4],
        random: &mut dyn FnMut() -> f32,
    ) -> *mut sys::ggml_tensor {
        let n = shape.iter().product::<usize>();
        let floats: Vec<f32> = (0..n).map(|_| random()).collect();
        if ty == sys::GGML_TYPE_F32 {
            return self.tensor(ty, shape, &floats);
        }
        let (row, rows) = (shape[0].cast_signed() as i64, (n / shape[0]).cast_signed() as i64);
        // SAFETY: room for all rows.
        let mut bytes = vec![0u8; unsafe { sys::ggml_row_size(ty, row) } * rows as usize];
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { sys::ggml_quantize_chunk(ty, floats.as_ptr(), to, 0, rows, row, std::ptr::null()) };
        self.tensor(ty, shape, &bytes)
    }

    /// The result's node.
    pub(super) fn node(&self) -> &sys::ggml_tensor {
        // SAFETY: alive as long as the context.
        unsafe { &*self.result }
    }

    /// The values of an operand of the result.
    pub(super) fn operand(&mut self, i: usize) -> &mut [u8] {
        // SAFETY: as above.
        unsafe {
            let source = self.node().src[i];
            std::slice::from_raw_parts_mut((*source).data.cast(), sys::ggml_nbytes(source))
        }
    }

    /// An operand of the result as floats.
    pub(super) fn floats(&mut self, i: usize) -> Vec<f32> {
        // SAFETY: as above.
        let (ty, n) = unsafe {
            let source = self.node().src[i];
            ((*source).type_, sys::ggml_nelements(source))
        };
        if ty == sys::GGML_TYPE_F32 {
            let bytes = self.operand(i).chunks_exact(4);
            return bytes.map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
        }
        let mut floats = vec![0f32; n as usize];
        // SAFETY: as many values as the tensor has.
        unsafe {
            let decode = (*sys::ggml_get_type_traits(ty)).to_float.unwrap();
            decode(self.operand(i).as_ptr().cast(), floats.as_mut_ptr(), n);
        }
        floats
    }
}

/// What an attention is made of.
#[cfg(test)]
#[derive(Debug, Clone)]
pub(super) struct Heads {
    pub(super) ty: sys::ggml_type,
    pub(super) dims: usize,
    pub(super) tokens: usize,
    pub(super) cells: usize,
    /// Of queries, of KV.
    pub(super) heads: [usize; 2],
    pub(super) streams: usize,
    pub(super) cap: f32,
    pub(super) sinks: bool,
    /// f16, [stream][token][cell].
    pub(super) mask: Vec<u16>,
}
