//! What a context has to do with heads: it reads hidden states for one, or is one's own.

mod ffi;

/// The states of a context.
#[derive(Default)]
pub(super) struct States {
    /// Of a head: numbers of the state that goes with each token of a batch. 0: it is none.
    width: usize,
    /// Of a head: numbers that its encoder makes a state of. 0: it has none.
    features: usize,
    /// Of a head: the states of the batch.
    batch: Vec<f32>,
    /// Of a target: the layers whose input a head reads. The one behind the last layer stands for the last's output.
    taps: Vec<u32>,
}

impl States {
    /// Empties the batch.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
    }

    /// The batch has one more token, whose state is zeros until it is given.
    pub(super) fn push(&mut self) {
        self.batch.resize(self.batch.len() + self.width, 0.0);
    }

    /// The states as a batch has them: null where there are none.
    pub(super) fn of_batch(&mut self) -> *mut f32 {
        if self.width == 0 { std::ptr::null_mut() } else { self.batch.as_mut_ptr() }
    }
}
