use super::fixture::{fallback_file, file, from_file, gguf, options, token};
use super::*;
use proptest::prelude::*;
use serde_json::json;

/// Text of what breaks tokenizers: special and added tokens, merges, white space, several scripts.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<|im_end|>".to_owned()),
        Just("<think>".to_owned()),
        "[ ]{1,13}",
        "hello| world|\n\n|\r|\0|123|e\u{301}|語|👩\u{200d}👩|ألف",
        "\\PC{0,3}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn the_toy_knows_its_specials() {
    let toy = Vocab::toy().unwrap();
    let tokens = toy.encode(&[("<|im_start|>x<|im_end|>", true)]).unwrap();
    assert_eq!(tokens, [265, u32::from(b'x'), 266]);
    assert_eq!((toy.eog(), toy.is_eog(266), toy.is_eog(265)), (&[266, 267][..], true, false));
    assert_eq!((toy.len(), toy.bos(), toy.eos_text()), (268, None, "<|im_end|>".to_owned()));
    assert_eq!(toy.encode(&[("{\"a<|im_end|>", false)]).unwrap().len(), 12);
}

#[test]
fn ids_are_the_model_s() {
    let vocab = from_file(&file());
    let ids = |text: &str| vocab.encode(&[(text, false)]).unwrap();
    assert_eq!(ids("hello world"), [259, 264]);
    assert_eq!(ids("hellohe"), [259, 256]);
    assert!(ids("").is_empty());
    assert_eq!(ids("\0\r"), [0, 13]);
    assert_eq!(ids("a<think>b"), [97, 272, 98]);
}

#[test]
fn special_text_is_special_in_templates_only() {
    let vocab = from_file(&file());
    let parts = [("<|im_start|>", true), ("<|im_start|>", false), ("<|im_", true), ("end|>", true)];
    let tokens = vocab.encode(&parts).unwrap();
    assert_eq!((tokens[0], tokens[tokens.len() - 1]), (270, 271));
    assert_eq!(tokens.iter().filter(|t| **t >= 270).count(), 2);
    assert_eq!(vocab.decode(&tokens), b"<|im_start|>");
    let across = vocab.encode(&[("<|im_", true), ("end|>", false)]).unwrap();
    assert!(across.iter().all(|t| !vocab.is_special(*t)));
}

#[test]
fn text_goes_on_across_parts() {
    let vocab = from_file(&file());
    let parts = [("<|im_start|>he", true), ("llo wor", false), ("ld<|im_end|>", true)];
    assert_eq!(vocab.encode(&parts).unwrap(), [270, 259, 264, 271]);
    assert_eq!(vocab.encode(&[("<thi", true), ("nk>", false)]).unwrap(), [272]);
}

#[test]
fn stripping_tokens_swallow_white_space() {
    let mut file = file();
    file["added_tokens"][0]["rstrip"] = json!(true);
    file["added_tokens"][1]["lstrip"] = json!(true);
    let vocab = from_file(&file);
    assert_eq!(
        vocab.encode(&[("<|im_start|> \n", true), (" a ", false), ("<|im_end|> ", true)]).unwrap(),
        [270, 97, 271, 32]
    );
}

#[test]
fn a_model_s_own_special_entries_stay_out_of_text() {
    let mut file = file();
    // A whole word that the model's table has, and that is special.
    file["added_tokens"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": 274, "content": "secret", "special": true}));
    file["model"]["vocab"]["secret"] = json!(274);
    file["model"]["ignore_merges"] = json!(true);
    let vocab = from_file(&file);
    assert_eq!(vocab.decode(&vocab.encode(&[("secret", false)]).unwrap()), b"secret");
    assert_eq!(vocab.encode(&[("secret", true)]).unwrap(), [274]);
}

#[test]
fn composed_and_decomposed_text_differ() {
    let vocab = from_file(&file());
    for text in ["e\u{301}", "\u{e9}", "\u{212b}"] {
        assert_eq!(vocab.decode(&vocab.encode(&[(text, false)]).unwrap()), text.as_bytes());
    }
}

#[test]
fn unused_ids_fill_the_logits() {
    let options = VocabOptions { n_vocab: Some(300), ..options(&[271, 270, 271]) };
    let vocab = Vocab::from_tokenizer_json(file().to_string().as_bytes(), &options).unwrap();
    assert_eq!((vocab.len(), vocab.bytes(299), vocab.is_special(299)), (300, &b""[..], true));
    assert_eq!((vocab.eog(), vocab.eos_text()), (&[270, 271][..], "<|im_end|>".to_owned()));
    assert_eq!(vocab.tok_env().tok_trie().vocab_size(), 300);
    assert_eq!(vocab.tok_env().tok_trie().eos_tokens(), [270, 271]);
    assert_eq!((vocab.bytes(u32::MAX), vocab.is_special(u32::MAX)), (&b""[..], true));
}

#[test]
fn bos_is_given_only_where_wanted() {
    let with = |add_bos| VocabOptions { bos: Some(270), add_bos, ..options(&[271]) };
    let bos = |add_bos| {
        let vocab = Vocab::from_tokenizer_json(file().to_string().as_bytes(), &with(add_bos)).unwrap();
        (vocab.bos(), vocab.bos_text())
    };
    assert_eq!(bos(Some(true)), (Some(270), "<|im_start|>".to_owned()));
    assert_eq!(bos(None), (None, "<|im_start|>".to_owned()));
}

#[test]
fn unsuitable_vocabularies_are_refused() {
    let refused = |file: &serde_json::Value, options: &VocabOptions| {
        Vocab::from_tokenizer_json(file.to_string().as_bytes(), options).unwrap_err().to_string()
    };
    let narrow = VocabOptions { n_vocab: Some(100), ..options(&[271]) };
    assert!(refused(&file(), &narrow).contains("274 token ids, but the model has logits for 100"));
    assert!(refused(&file(), &options(&[])).contains("eos_token_id"));
    assert!(refused(&file(), &options(&[274])).contains("274 is not below 274"));
}

#[test]
fn a_byte_without_a_token_is_left_out() {
    let mut file = file();
    file["model"]["vocab"].as_object_mut().unwrap().remove("x");
    let vocab = from_file(&file);
    assert_eq!(vocab.decode(&vocab.encode(&[("a x, b", false)]).unwrap()), b"a , b");
    assert_eq!(vocab.tok_env().tokenize_bytes(b"axb").len(), 2);
}

#[test]
fn the_first_id_that_differs_is_named() {
    let vocab = from_file(&file());
    let mut other = gguf();
    vocab.check_same_bytes(&other).unwrap();
    other.tokens.push(token("[PAD274]", GgufKind::Unused));
    vocab.check_same_bytes(&other).unwrap();
    other.tokens.swap(259, 264);
    let error = vocab.check_same_bytes(&other).unwrap_err().to_string();
    assert!(error.contains("token 259 is \"hello\" here but \" world\" in model.gguf"), "{error}");
    other.tokens.truncate(272);
    other.tokens.swap(259, 264);
    let error = vocab.check_same_bytes(&other).unwrap_err().to_string();
    assert!(error.contains("token 272 is \"<think>\" here but unused"), "{error}");
}

#[test]
fn grammars_get_text_without_specials() {
    let vocab = from_file(&file());
    let env = vocab.tok_env();
    assert_eq!(env.tokenize("hello world"), [259, 264]);
    assert!(env.tokenize("<|im_end|><think>").iter().all(|t| *t < 270));
    assert_eq!(env.tokenize_bytes(b"hello\xffhello"), [259, 255, 259]);
    assert_eq!(env.tok_trie().get_special_token("<|im_end|>"), Some(271));
    assert_eq!(env.tok_trie().get_special_token("<think>"), Some(272));
    assert_eq!(env.tokenize("      "), [273]);
}

#[test]
fn prefix_spaces_stay_out_of_grammars() {
    let vocab = Vocab::from_tokenizer_json(fallback_file().to_string().as_bytes(), &options(&[2])).unwrap();
    assert_eq!(vocab.encode(&[("hi hi", false)]).unwrap(), [263, 263]);
    assert_eq!(vocab.encode(&[("</s>", true), ("hi\n", false)]).unwrap(), [2, 263, 3 + 10]);
    let env = vocab.tok_env();
    assert_eq!(env.tokenize("hi hi"), [262, 263]);
    assert_eq!(env.tokenize(" hi"), [263]);
    assert_eq!(env.tok_trie().decode_str(&env.tokenize("</s>")), "</s>");
}

proptest! {
    #[test]
    fn text_survives(text in text()) {
        let vocab = from_file(&file());
        let tokens = vocab.encode(&[(&text, false)]).unwrap();
        prop_assert_eq!(vocab.decode(&tokens), text.as_bytes());
        prop_assert!(tokens.iter().all(|t| !vocab.is_special(*t)));
        let forced = vocab.tok_env().tokenize(&text);
        prop_assert_eq!(vocab.tok_env().tok_trie().decode_raw(&forced), text.as_bytes());
    }

    #[test]
    fn parts_do_not_matter_to_text(pieces in prop::collection::vec(text(), 0..4)) {
        let vocab = from_file(&file());
        let parts: Vec<(&str, bool)> = pieces.iter().map(|p| (p.as_str(), false)).collect();
        prop_assert_eq!(vocab.encode(&parts).unwrap(), vocab.encode(&[(&pieces.concat(), false)]).unwrap());
    }

    #[test]
    fn gguf_and_file_agree(text in text(), template in any::<bool>()) {
        let from_gguf = Vocab::from_gguf(gguf(), &VocabOptions::default()).unwrap();
        let parts = [(text.as_str(), template)];
        prop_assert_eq!(from_gguf.encode(&parts).unwrap(), from_file(&file()).encode(&parts).unwrap());
    }

    #[test]
    fn any_bytes_can_be_forced(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let vocab = from_file(&file());
        let tokens = vocab.tok_env().tokenize_bytes(&bytes);
        prop_assert_eq!(tokens.iter().flat_map(|t| vocab.bytes(*t)).copied().collect::<Vec<u8>>(), bytes);
    }
}

#[test]
fn a_draft_model_has_the_same_vocabulary() {
    let build =
        |gguf, n_vocab| Vocab::from_gguf(gguf, &VocabOptions { n_vocab, ..VocabOptions::default() }).unwrap();
    let target = build(gguf(), None);
    target.check_draft(&target).unwrap();
    // Unused ids more or less are no difference.
    target.check_draft(&build(gguf(), Some(300))).unwrap();
    build(gguf(), Some(300)).check_draft(&target).unwrap();
    let refused = |change: &dyn Fn(&mut Vec<GgufToken>)| {
        let mut gguf = gguf();
        change(&mut gguf.tokens);
        match target.check_draft(&build(gguf, None)) {
            Err(Error::Invalid { what, why, .. }) => {
                assert_eq!(what, "draft");
                why
            }
            other => panic!("{other:?}"),
        }
    };
    let why = refused(&|tokens| tokens[273] = token("       ", GgufKind::UserDefined));
    assert!(why.starts_with("token 273 is text \"       \" in the draft model but text \"      \""), "{why}");
    let why = refused(&|tokens| tokens[270].kind = GgufKind::UserDefined);
    assert!(why.starts_with("token 270 is marked text"), "{why}");
    let why = refused(&|tokens| tokens.truncate(273));
    assert!(why.starts_with("token 273 is unused"), "{why}");
}
