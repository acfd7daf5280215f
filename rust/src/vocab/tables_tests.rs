use super::super::fixture::{options, tables};
use super::super::{Vocab, VocabOptions};
use super::*;

fn with(texts: &[&str]) -> GgufTables {
    let mut tables = tables();
    for text in texts {
        tables.tokens.push((*text).to_owned());
        tables.types.push(kind::CONTROL);
    }
    tables
}

/// A SentencePiece vocabulary: 3 controls, 256 bytes, then text.
fn sentence_piece() -> GgufTables {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..=255).map(|b| format!("<0x{b:02X}>")));
    let mut types = vec![kind::UNKNOWN, kind::CONTROL, kind::CONTROL];
    types.extend([kind::BYTE; 256]);
    let mut scores = vec![0.0; tokens.len()];
    for (i, text) in ["▁", "h", "i", "hi", "▁hi", "▁▁"].into_iter().enumerate() {
        tokens.push(text.to_owned());
        types.push(kind::NORMAL);
        scores.push(-(i as f32));
    }
    GgufTables { model: "llama".to_owned(), tokens, types, scores, ..GgufTables::default() }
}

#[test]
fn ends_are_found_by_id_and_text() {
    assert_eq!(tables().eog(), [271]);
    let mut more = with(&["<|endoftext|>", "<|eot_id|>", "<|fim_pad|>", "<|file_sep|>", "</s>"]);
    assert_eq!(more.eog(), [271, 274, 275, 276, 277, 278]);
    more.ids.insert("eos".to_owned(), 278);
    more.ids.insert("fim_pad".to_owned(), 5);
    assert_eq!(more.eog(), [278, 5, 271, 274, 275, 277]);
    more.ids.insert("eos".to_owned(), 10_000);
    assert_eq!(more.eog()[0], 5);
}

#[test]
fn the_end_of_a_harmony_message_is_no_end() {
    assert_eq!(with(&["<|end|>"]).eog(), [271, 274]);
    assert_eq!(with(&["<|end|>", "<|return|>", "<|call|>"]).eog(), [271, 275, 276]);
    assert_eq!(with(&["<|end|>", "<|flush|>", "<|calls|>"]).eog(), [271, 275, 276]);
    assert_eq!(with(&["</s>", "<|tool_response>"]).eog(), [271, 275]);
}

#[test]
fn an_end_of_the_wrong_type_is_special() {
    let mut tables = with(&["</s>"]);
    tables.types[274] = kind::NORMAL;
    let vocab = Vocab::from_gguf_tables(&tables, &VocabOptions::default()).unwrap();
    assert!(vocab.is_special(274) && vocab.is_eog(274));
    assert!(vocab.encode(&[("</s>", false)]).unwrap().iter().all(|t| *t < 256));
}

#[test]
fn bos_depends_on_kind_and_file() {
    let mut tables = tables();
    assert_eq!((tables.bos(), tables.add_bos()), (Some(270), false));
    tables.pre = "llama-bpe".to_owned();
    assert!(tables.add_bos());
    tables.add_bos_token = Some(false);
    assert!(!tables.add_bos());
    assert_eq!(
        (sentence_piece().bos(), sentence_piece().add_bos(), sentence_piece().eog()),
        (Some(1), true, vec![2])
    );
}

#[test]
fn options_add_to_the_file() {
    let vocab =
        Vocab::from_gguf_tables(&tables(), &VocabOptions { n_vocab: Some(280), ..options(&[270]) }).unwrap();
    assert_eq!((vocab.len(), vocab.eog(), vocab.bos()), (280, &[270, 271][..], None));
    assert_eq!(vocab.eos_text(), "<|im_end|>");
}

#[test]
fn damaged_tables_are_refused() {
    let refused = |change: fn(&mut GgufTables)| {
        let mut tables = tables();
        change(&mut tables);
        Vocab::from_gguf_tables(&tables, &VocabOptions::default()).unwrap_err().to_string()
    };
    assert!(refused(|t| t.types.truncate(5)).contains("differ in length"));
    assert!(refused(|t| t.scores = vec![0.0]).contains("differ in length"));
    assert!(refused(|t| t.tokens.clear()).contains("differ in length"));
    assert!(refused(|t| t.tokens[5] = t.tokens[6].clone()).contains("same text"));
    assert!(refused(|t| t.pre = "nonsense".to_owned()).contains("put a tokenizer.json beside model.gguf"));
    assert!(refused(|t| t.model = "bert".to_owned()).contains("\"bert\""));
    assert!(refused(|t| t.types[65] = 5).contains("0x41"));
}

#[test]
fn merges_of_unknown_tokens_are_left_out() {
    let mut tables = tables();
    tables.merges.splice(0..0, ["h ello", "hell", "", "h", "ß ß", "h e"].map(str::to_owned));
    let vocab = Vocab::from_gguf_tables(&tables, &VocabOptions::default()).unwrap();
    assert_eq!(vocab.encode(&[("hello", false)]).unwrap(), [259]);
}

#[test]
fn sentence_piece_begins_with_a_space() {
    let vocab = Vocab::from_gguf_tables(&sentence_piece(), &VocabOptions::default()).unwrap();
    assert_eq!(vocab.encode(&[("hi", false)]).unwrap(), [263]);
    assert_eq!(vocab.encode(&[("<s>", true), ("hi", false)]).unwrap(), [1, 263]);
    assert_eq!(vocab.tok_env().tokenize("hi"), [262]);
    assert_eq!(vocab.decode(&vocab.encode(&[("<s>é", false)]).unwrap()), " <s>é".as_bytes());
    let mut bare = sentence_piece();
    bare.add_space_prefix = Some(false);
    let vocab = Vocab::from_gguf_tables(&bare, &VocabOptions::default()).unwrap();
    assert_eq!(vocab.encode(&[("hi", false)]).unwrap(), [262]);
}

#[test]
fn phi_3_swallows_white_space_after_specials() {
    let mut tables = with(&["<|user|>"]);
    let ids = |tables: &GgufTables| {
        Vocab::from_gguf_tables(tables, &VocabOptions::default())
            .unwrap()
            .encode(&[("<|user|>\n a", true)])
            .unwrap()
    };
    assert_eq!(ids(&tables), [274, 10, 32, 97]);
    tables.name = "Phi-3 mini".to_owned();
    assert_eq!(ids(&tables), [274, 97]);
}
