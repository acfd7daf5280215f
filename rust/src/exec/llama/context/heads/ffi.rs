//! The calls of llama.cpp for heads (`llama-ext.h`, `common/speculative.cpp`). They have C++ linkage: these are the names that compilers on
//! Linux and macOS give them (Itanium C++ ABI) in the pinned version of the crate.

use super::super::ffi::row;
use super::super::{Context, DecodeError, Shape, Workers};
use crate::exec::llama::ffi::{Model, logged};
use llama_cpp_sys_2 as sys;
use std::ops::Range;
use std::sync::Arc;

unsafe extern "C" {
    #[link_name = "_Z26llama_set_embeddings_nextnP13llama_contextbb"]
    fn set_embeddings_nextn(context: *mut sys::llama_context, on: bool, masked: bool);
    #[link_name = "_Z26llama_get_embeddings_nextnP13llama_context"]
    fn get_embeddings_nextn(context: *mut sys::llama_context) -> *mut f32;
    #[link_name = "_Z30llama_get_embeddings_nextn_ithP13llama_contexti"]
    fn get_embeddings_nextn_ith(context: *mut sys::llama_context, index: i32) -> *mut f32;
    #[link_name = "_Z30llama_set_embeddings_layer_inpP13llama_contextjb"]
    fn set_embeddings_layer_inp(context: *mut sys::llama_context, layer: u32, on: bool);
    #[link_name = "_Z30llama_get_embeddings_layer_inpP13llama_contextj"]
    fn get_embeddings_layer_inp(context: *mut sys::llama_context, layer: u32) -> *mut f32;
    #[link_name = "_Z28llama_model_target_layer_idsPK11llama_model"]
    fn model_target_layer_ids(model: *const sys::llama_model) -> *const i32;
    #[link_name = "_Z30llama_model_target_layer_ids_nPK11llama_model"]
    fn model_target_layer_ids_n(model: *const sys::llama_model) -> u32;
}

impl Model {
    /// Layers, without those of its own head.
    pub fn n_layer(&self) -> u32 {
        // SAFETY: the model is alive, and the call only reads.
        unsafe { sys::llama_model_n_layer(self.0.as_ptr()).unsigned_abs() }
    }

    /// The type of a head's context: where the model has MTP layers, one that computes these alone.
    pub(in crate::exec::llama::context) fn head_type(&self) -> sys::llama_context_type {
        // SAFETY: as above.
        let layers = unsafe { sys::llama_model_n_layer_nextn(self.0.as_ptr()) };
        if layers > 0 { sys::LLAMA_CONTEXT_TYPE_MTP } else { sys::LLAMA_CONTEXT_TYPE_DEFAULT }
    }

    /// Numbers of what goes into a layer.
    pub fn layer_width(&self) -> usize {
        // SAFETY: as above.
        unsafe { sys::llama_model_n_embd(self.0.as_ptr()).unsigned_abs() as usize }
    }

    /// Of a head: the target's layers whose inputs it reads; empty where it is of another kind.
    pub fn read_layers(&self) -> Vec<u32> {
        // SAFETY: as above. There are so many ids, which live as long as the model.
        let ids = unsafe {
            let (ids, n) =
                (model_target_layer_ids(self.0.as_ptr()), model_target_layer_ids_n(self.0.as_ptr()));
            if ids.is_null() || n == 0 { &[] } else { std::slice::from_raw_parts(ids, n as usize) }
        };
        // A negative one is beyond all layers.
        ids.iter().map(|id| u32::try_from(*id).unwrap_or(u32::MAX)).collect()
    }
}

impl Context {
    /// Makes the context of a head, which computes with weights of its target's where it has none of its own. They must be used in
    /// turns. The head was made for a target with inputs of layers as wide as this one's.
    ///
    /// # Errors
    /// As [`Context::new`].
    pub fn of_head(
        model: &Arc<Model>,
        shape: &Shape<'_>,
        workers: &Arc<Workers>,
        target: &Context,
    ) -> Result<Self, String> {
        let mut head = Self::make(model, shape, workers, Some(target))?;
        head.states.width = model.n_embd();
        head.states.features = model.read_layers().len() * target.context.model.layer_width();
        // SAFETY: the context is alive.
        unsafe { set_embeddings_nextn(head.context.as_ptr(), true, true) };
        Ok(head)
    }

    /// Has the next decodes keep what goes into these layers, which must be the model's; the one behind its last layer stands for the
    /// last's output.
    pub fn tap(&mut self, layers: Vec<u32>) {
        let own = self.context.model.n_layer();
        for layer in &layers {
            assert!(*layer <= own, "layer {layer} of {own}");
            // SAFETY: the context is alive, and has the layer.
            unsafe {
                if *layer == own {
                    set_embeddings_nextn(self.context.as_ptr(), true, false);
                } else {
                    set_embeddings_layer_inp(self.context.as_ptr(), *layer, true);
                }
            }
        }
        self.states.taps = layers;
    }

    /// Whether hidden states are kept for a head.
    pub fn is_tapped(&self) -> bool {
        !self.states.taps.is_empty()
    }

    /// Appends what went into the tapped layers at these tokens of the batch, token by token.
    pub fn features(&self, tokens: Range<usize>, to: &mut Vec<f32>) {
        assert!(tokens.end <= self.pushed(), "tokens of the batch");
        let (own, width) = (self.context.model.n_layer(), self.context.model.layer_width());
        // SAFETY: each layer was tapped before the batch was computed, so there are rows for all of its tokens, which stay until the
        // next decode, which needs `&mut`.
        let read = |layer: &u32| unsafe {
            let context = self.context.as_ptr();
            let start = if *layer == own {
                get_embeddings_nextn(context)
            } else {
                get_embeddings_layer_inp(context, *layer)
            };
            row(start, tokens.end * width).expect("a tapped layer has rows. This is a bug.")
        };
        let layers: Vec<&[f32]> = self.states.taps.iter().map(read).collect();
        for token in tokens {
            layers.iter().for_each(|rows| to.extend_from_slice(&rows[token * width..][..width]));
        }
    }

    /// Gives the batch's token `index` its state, of as many numbers as a head's hidden state has.
    pub fn give(&mut self, index: usize, state: &[f32]) {
        let width = self.states.width;
        self.states.batch[index * width..][..width].copy_from_slice(state);
    }

    /// Wants logits of all tokens in the batch. llama.cpp reads a head's rows as if all or none were wanted.
    pub fn want_all(&mut self) {
        for index in 0..self.pushed() {
            // SAFETY: so many entries were written.
            unsafe { self.batch.logits.add(index).write(1) };
        }
    }

    /// The hidden state that a head hands on to its next token, of the batch's token `index`; None where it is no output.
    pub fn handed_on(&self, index: usize) -> Option<&[f32]> {
        let index = i32::try_from(index).ok()?;
        // SAFETY: null, where the index is none of the batch's outputs, is checked. The row stays until the next decode, which needs
        // `&mut`.
        unsafe { row(get_embeddings_nextn_ith(self.context.as_ptr(), index), self.states.width) }
    }

    /// Appends the states that a head makes of tokens' features, each of which are as many numbers as it reads of its target. They are
    /// the states where it has no encoder.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn encode(&mut self, features: &[f32], to: &mut Vec<f32>) -> Result<(), DecodeError> {
        let each = self.states.features;
        if each == 0 {
            to.extend_from_slice(features);
            return Ok(());
        }
        assert!(features.len().is_multiple_of(each), "whole rows");
        let most = self.pass() as usize;
        // The encoder looks at each token alone: they are no sequence's. The library wants positions that could follow.
        let first = self.held(0).end;
        for features in features.chunks(most * each) {
            let count = features.len() / each;
            self.clear();
            (first..).take(count).for_each(|position| self.push(0, position, 0, true));
            let (token, embd) = (std::ptr::null_mut(), features.as_ptr().cast_mut());
            let batch = sys::llama_batch { token, embd, ..self.batch };
            // SAFETY: `push` wrote so many entries of every list, and there are features for each. All is only read.
            self.computed(|| logged(|| unsafe { sys::llama_encode(self.context.as_ptr(), batch) }))?;
            // SAFETY: the encoder has written a state for each token.
            let states =
                unsafe { row(get_embeddings_nextn(self.context.as_ptr()), count * self.states.width) };
            to.extend_from_slice(states.ok_or_else(|| DecodeError::Refused("no states".into()))?);
        }
        Ok(())
    }
}
