use super::super::fixture::{gguf, options, token};
use super::super::{Vocab, VocabOptions};
use super::*;

/// A SentencePiece vocabulary: 3 controls, 256 bytes, then text.
fn sentence_piece(add_space_prefix: bool) -> GgufVocab {
    let specials = ["<unk>", "<s>", "</s>"].map(|text| token(text, GgufKind::Special));
    let byte = |b: u8| GgufToken { bytes: vec![b], ..token(&format!("<0x{b:02X}>"), GgufKind::Byte) };
    let texts = ["▁", "h", "i", "hi", "▁hi", "▁▁"].into_iter().enumerate().map(|(i, text)| GgufToken {
        bytes: text.replace('▁', " ").into_bytes(),
        score: -(i as f32),
        ..token(text, GgufKind::Normal)
    });
    let tokens = specials.into_iter().chain((0..=255).map(byte)).chain(texts).collect();
    let encoder = GgufEncoder::SentencePiece { add_space_prefix };
    GgufVocab { tokens, eog: vec![2], bos: Some(1), add_bos: true, encoder }
}

fn vocab(gguf: GgufVocab) -> std::sync::Arc<Vocab> {
    Vocab::from_gguf(gguf, &VocabOptions::default()).unwrap()
}

fn with_merges(change: impl FnOnce(&mut String, &mut Vec<String>)) -> GgufVocab {
    let mut gguf = gguf();
    let GgufEncoder::BytePairs { pre, merges } = &mut gguf.encoder else { panic!("byte pairs") };
    change(pre, merges);
    gguf
}

#[test]
fn options_add_to_the_file() {
    let vocab = Vocab::from_gguf(gguf(), &VocabOptions { n_vocab: Some(280), ..options(&[270]) }).unwrap();
    assert_eq!((vocab.len(), vocab.eog(), vocab.bos()), (280, &[270, 271][..], None));
    assert_eq!(vocab.eos_text(), "<|im_end|>");
}

#[test]
fn an_unknown_pre_tokenizer_is_refused() {
    let gguf = with_merges(|pre, _| *pre = "nonsense".to_owned());
    let error = Vocab::from_gguf(gguf, &VocabOptions::default()).unwrap_err().to_string();
    assert!(error.contains("unknown pre-tokenizer \"nonsense\""), "{error}");
    assert!(cuts_text("gpt-2") && !cuts_text("nonsense"));
}

#[test]
fn merges_of_unknown_tokens_are_left_out() {
    let more = ["h ello", "hell", "", "h", "ß ß", "h e"].map(str::to_owned);
    let vocab = vocab(with_merges(|_, merges| drop(merges.splice(0..0, more))));
    assert_eq!(vocab.encode(&[("hello", false)]).unwrap(), [259]);
}

#[test]
fn sentence_piece_begins_with_a_space() {
    let bare = vocab(sentence_piece(false));
    let vocab = vocab(sentence_piece(true));
    assert_eq!(vocab.encode(&[("hi", false)]).unwrap(), [263]);
    assert_eq!(vocab.encode(&[("<s>", true), ("hi", false)]).unwrap(), [1, 263]);
    assert_eq!(vocab.tok_env().tokenize("hi"), [262]);
    assert_eq!(vocab.decode(&vocab.encode(&[("<s>é", false)]).unwrap()), " <s>é".as_bytes());
    assert_eq!((vocab.bos(), vocab.eog()), (Some(1), &[2][..]));
    assert_eq!(bare.encode(&[("hi", false)]).unwrap(), [262]);
}

#[test]
fn a_token_may_swallow_white_space() {
    let ids = |strips_right| {
        let mut gguf = gguf();
        gguf.tokens.push(GgufToken { strips_right, ..token("<|user|>", GgufKind::Special) });
        vocab(gguf).encode(&[("<|user|>\n a", true)]).unwrap()
    };
    assert_eq!((ids(false), ids(true)), (vec![274, 10, 32, 97], vec![274, 97]));
}

/// Gives the ids of the bytes, and a special one for "!".
fn bytes(text: &str) -> Result<Vec<Token>, String> {
    if text.contains('?') {
        return Err("has a question".into());
    }
    Ok(text.bytes().map(|b| if b == b'!' { 271 } else { Token::from(b) }).collect())
}

#[test]
fn a_library_encodes_what_is_between_tokens() {
    let vocab = vocab(GgufVocab { encoder: GgufEncoder::Library(Box::new(bytes)), ..gguf() });
    assert_eq!(
        vocab.encode(&[("a<|im_start|>", true), ("b<think>c", false)]).unwrap(),
        [97, 270, 98, 272, 99]
    );
    let spelled = vocab.encode(&[("a!", false)]).unwrap();
    assert_eq!(vocab.decode(&spelled), b"a<|im_end|>", "no special token comes from text");
    let error = vocab.encode(&[("?", false)]).unwrap_err().to_string();
    assert_eq!(error, "prompt: has a question");
}
