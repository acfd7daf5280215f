//! llama.cpp's own tokenizer: loads a GGUF's vocabulary without weights.

use llama_cpp_sys_2 as sys;
use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::ptr::{self, NonNull};

pub(super) struct Reference {
    model: NonNull<sys::llama_model>,
}

unsafe extern "C" fn quiet(_: sys::ggml_log_level, _: *const c_char, _: *mut c_void) {}

impl Reference {
    pub(super) fn open(path: &Path) -> Option<Self> {
        let path = CString::new(path.to_str()?).ok()?;
        // SAFETY: the callback does nothing; the path ends with NUL and outlives the call.
        let model = unsafe {
            sys::llama_log_set(Some(quiet), ptr::null_mut());
            let mut params = sys::llama_model_default_params();
            params.vocab_only = true;
            sys::llama_model_load_from_file(path.as_ptr(), params)
        };
        NonNull::new(model).map(|model| Reference { model })
    }

    fn vocab(&self) -> *const sys::llama_vocab {
        // SAFETY: the model is loaded; its vocabulary lives as long.
        unsafe { sys::llama_model_get_vocab(self.model.as_ptr()) }
    }

    pub(super) fn len(&self) -> u32 {
        // SAFETY: the vocabulary is loaded.
        unsafe { sys::llama_vocab_n_tokens(self.vocab()) }.unsigned_abs()
    }

    pub(super) fn encode(&self, text: &str, special: bool) -> Vec<u32> {
        let len = i32::try_from(text.len()).unwrap();
        let mut tokens = vec![0i32; text.len() + 8];
        let room = i32::try_from(tokens.len()).unwrap();
        // SAFETY: the text has `len` bytes of UTF-8, the buffer room for `room` tokens.
        let n = unsafe {
            sys::llama_tokenize(
                self.vocab(),
                text.as_ptr().cast(),
                len,
                tokens.as_mut_ptr(),
                room,
                false,
                special,
            )
        };
        tokens.truncate(usize::try_from(n).expect("No text has more tokens than bytes and a prefix."));
        tokens.into_iter().map(i32::unsigned_abs).collect()
    }

    /// The written form, of special tokens too.
    pub(super) fn bytes(&self, token: u32) -> Vec<u8> {
        assert!(token < self.len());
        let mut bytes = vec![0u8; 2048];
        // SAFETY: the token exists, the buffer has the given length.
        let n = unsafe {
            sys::llama_token_to_piece(
                self.vocab(),
                token.cast_signed(),
                bytes.as_mut_ptr().cast(),
                2048,
                0,
                true,
            )
        };
        bytes.truncate(usize::try_from(n).expect("No token is longer."));
        bytes
    }

    /// Control or unknown: adds nothing to the text.
    pub(super) fn is_special(&self, token: u32) -> bool {
        assert!(token < self.len());
        // SAFETY: the token exists.
        let attributes = unsafe { sys::llama_vocab_get_attr(self.vocab(), token.cast_signed()) };
        attributes & (sys::LLAMA_TOKEN_ATTR_CONTROL | sys::LLAMA_TOKEN_ATTR_UNKNOWN) != 0
    }

    /// The end-of-generation ids, ascending.
    pub(super) fn ends(&self) -> Vec<u32> {
        // SAFETY: every token exists.
        (0..self.len())
            .filter(|t| unsafe { sys::llama_vocab_is_eog(self.vocab(), t.cast_signed()) })
            .collect()
    }

    /// The begin-of-sequence token, and whether it goes before a prompt.
    pub(super) fn bos(&self) -> (Option<u32>, bool) {
        // SAFETY: the vocabulary is loaded.
        let (bos, add) =
            unsafe { (sys::llama_vocab_bos(self.vocab()), sys::llama_vocab_get_add_bos(self.vocab())) };
        (u32::try_from(bos).ok(), add)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: the model is loaded and nobody else has it.
        unsafe { sys::llama_model_free(self.model.as_ptr()) }
    }
}
