//! Masks against brute force: at every place of random walks, a token may come where the text with it begins one of the
//! language, and the text may end where it is one. What decides that shares no code with what makes masks, but for the
//! parser of regular expressions.

use super::common::{Bench, Dice, by_the_letter};
use super::languages::{Language, Row, rows};
use llgtrt::grammar::{Grammar, GrammarSpec, Mask};
use llgtrt::types::Token;
use llgtrt::vocab::{Vocab, VocabOptions};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const WALKS: usize = 100;
/// Most tokens of a walk.
const LENGTH: usize = 120;
/// Tokens besides the bytes: parts of JSON and of the texts that the languages have, across their seams, and halves of
/// characters.
const WORDS: &[&str] = &[
    "{\"", "\":", "\",", "\"}", "\": ", ", ", ",\"", "}}", "]}", "[[", "]]", "[]", "],[", "{}", "  ", "\n  ",
    "\n\n", " \n", "[1", "1,", "12", "10", "00", "-1", "0.", "1e", "255", "ab", "abc", "aa", "bb", "bcd",
    "\"a\"", "\"b", "b\"", "c\"", "a>", "<a", ">>", "tru", "true", "true}", "false", "null", "null]", "é",
    "éa", "\"é", "\\\"", "\\u", "\\u00", "\\n", "\\\\", "u0", "007f",
];

/// The character that a byte has in byte-level vocabularies.
fn letter(byte: u8) -> char {
    let plain = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let odd = (0..byte).filter(|b| !plain(*b)).count() as u32;
    if plain(byte) { char::from(byte) } else { char::from_u32(256 + odd).unwrap() }
}

/// The bytes, these words and their beginnings, and one end token. Text is encoded in words where they fit.
pub fn vocabulary() -> Arc<Vocab> {
    vocabulary_with(&[])
}

/// The same with more tokens, each of which may be one of the others and another letter.
pub fn vocabulary_with(more: &[&str]) -> Arc<Vocab> {
    let mut names: Vec<String> = (0..=u8::MAX).map(|b| letter(b).to_string()).collect();
    let mut merges = Vec::new();
    for word in WORDS.iter().chain(more) {
        let letters: Vec<String> = word.bytes().map(|b| letter(b).to_string()).collect();
        for end in 2..=letters.len() {
            let whole = letters[..end].concat();
            if !names.contains(&whole) {
                merges.push(format!("{} {}", letters[..end - 1].concat(), letters[end - 1]));
                names.push(whole);
            }
        }
    }
    let end = names.len();
    let vocab: Map<String, Value> =
        names.into_iter().enumerate().map(|(id, name)| (name, json!(id))).collect();
    let level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let file = json!({
        "version": "1.0",
        "added_tokens": [{"id": end, "content": "</s>", "special": true, "normalized": false}],
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocab, "merges": merges},
    });
    let options = VocabOptions { eog: vec![end as Token], ..VocabOptions::default() };
    Vocab::from_tokenizer_json(file.to_string().as_bytes(), &options).unwrap()
}

struct Comparison {
    bench: Bench,
    dice: Dice,
    /// Masks that were compared, and those of them where the language leaves no choice.
    masks: usize,
    forced: usize,
}

impl Comparison {
    fn new() -> Self {
        let config = by_the_letter();
        Comparison { bench: Bench::of(vocabulary(), &config, 1), dice: Dice(5), masks: 0, forced: 0 }
    }

    /// Where a mask is not what it should be. Where the language leaves no choice, it may be one token that says how the
    /// tokenizer writes what must come.
    fn difference(&self, mask: &Mask, language: &Language, text: &[u8]) -> Option<String> {
        let vocab = &self.bench.vocab;
        if mask.single().is_some_and(|token| language.forces(text, vocab.bytes(token))) {
            return None;
        }
        let differs = |token: Token| {
            let expected = if vocab.is_eog(token) {
                language.judge(text).1
            } else {
                language.judge(&[text, vocab.bytes(token)].concat()).0
            };
            mask.allows(token) != expected
        };
        let token = (0..vocab.len() as Token).find(|token| differs(*token))?;
        let (after, what) = (String::from_utf8_lossy(text), String::from_utf8_lossy(vocab.bytes(token)));
        let verb = if mask.allows(token) { "allows" } else { "forbids" };
        Some(format!("after {after:?} the mask {verb} {what:?}"))
    }

    /// One of the tokens that end nothing: often a long one, seldom white space, of which texts may have much.
    fn choose(&mut self, mask: &Mask) -> Option<Token> {
        let vocab = &self.bench.vocab;
        let all: Vec<Token> = mask.iter().filter(|t| !vocab.is_eog(*t)).collect();
        let solid = |t: &Token| !vocab.bytes(*t).iter().all(u8::is_ascii_whitespace);
        let solid: Vec<Token> = all.iter().copied().filter(solid).collect();
        let long: Vec<Token> = solid.iter().copied().filter(|t| vocab.bytes(*t).len() > 1).collect();
        let lists = [&all, &solid, &long, &long];
        let from =
            [lists[self.dice.roll(lists.len())], &solid, &all].into_iter().find(|list| !list.is_empty())?;
        Some(from[self.dice.roll(from.len())])
    }

    /// Walks a grammar at random, and says where it and the language part. `seen` looks at each mask and text.
    fn walk(
        &mut self,
        mut grammar: Grammar,
        language: &Language,
        seen: &mut dyn FnMut(&Self, Mask, &[u8]),
    ) -> Result<(), String> {
        let mut text = Vec::new();
        for _ in 0..LENGTH {
            let next =
                grammar.mask().map_err(|e| format!("{e} after {:?}", String::from_utf8_lossy(&text)))?;
            let mask = next.mask().expect("a mask where a grammar holds").clone();
            self.masks += 1;
            self.forced += usize::from(language.only(&text).is_some());
            if let Some(difference) = self.difference(&mask, language, &text) {
                return Err(difference);
            }
            seen(self, mask.clone(), &text);
            let Some(token) = self.choose(&mask) else { return Ok(()) };
            text.extend_from_slice(self.bench.vocab.bytes(token));
            grammar.commit(token).map_err(|e| e.to_string())?;
            if grammar.is_ended() && (language.next(&text).next().is_some() || !language.judge(&text).1) {
                return Err(format!("ended after {:?}", String::from_utf8_lossy(&text)));
            }
        }
        Ok(())
    }

    /// So many walks from the beginning.
    fn walks(&mut self, spec: &GrammarSpec, language: &Language) -> Result<(), String> {
        let pristine = self.bench.compile(spec).map_err(|e| e.to_string())?;
        (0..WALKS).try_for_each(|_| self.walk(pristine.restart(), language, &mut |_, _, _| {}))
    }
}

#[test]
fn masks_are_what_brute_force_finds() {
    let mut comparison = Comparison::new();
    let rows = rows();
    for Row { spec, language, .. } in &rows {
        if let Err(why) = comparison.walks(spec, language) {
            panic!("{spec:?}: {why}");
        }
    }
    let Comparison { bench, masks, forced, .. } = comparison;
    println!("{} languages, {masks} masks of {} tokens, {forced} forced", rows.len(), bench.vocab.len());
    assert!(masks > 1_000 * rows.len() && forced * 2 < masks);
}

#[test]
fn a_grammar_that_is_a_little_wrong_is_found_out() {
    let mut comparison = Comparison::new();
    for Row { spec, near, language } in rows() {
        let found = comparison.walks(&near, &language);
        assert!(found.is_err(), "{near:?} passes for {spec:?}");
    }
}

#[test]
fn a_mask_with_one_wrong_bit_is_found_out() {
    let mut comparison = Comparison::new();
    let mut flips = Dice(3);
    for Row { spec, language, .. } in rows() {
        let pristine = comparison.bench.compile(&spec).unwrap();
        let mut check = |own: &Comparison, mut mask: Mask, text: &[u8]| {
            if language.only(text).is_some() {
                return;
            }
            let token = flips.roll(own.bench.vocab.len()) as Token;
            mask.set(token, !mask.allows(token));
            assert!(own.difference(&mask, &language, text).is_some(), "token {token} after {text:?}");
        };
        for _ in 0..WALKS / 10 {
            comparison.walk(pristine.restart(), &language, &mut check).unwrap();
        }
    }
}
