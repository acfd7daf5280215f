//! Token to UTF-8 text; stop-string holdback.

use crate::grammar::GrammarSpec;
use crate::request::RequestSpec;
use crate::types::Token;
use crate::vocab::Vocab;
use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::Arc;

/// What one token added.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Text that is certain now; may be empty while a character or a stop string is undecided.
    pub text: String,
    /// A stop string is complete: it and all that follows is cut.
    pub stopped: bool,
}

/// The text of one choice, token by token. Cheap to clone.
///
/// The deltas together are `String::from_utf8_lossy` of all the tokens' bytes (special tokens add none), cut before
/// the stop string that is complete first; of stop strings that end at the same place, the longest is cut.
#[derive(Debug, Clone)]
pub struct TextOut {
    vocab: Arc<Vocab>,
    stops: Option<Arc<Stops>>,
    /// Special tokens are written.
    special: bool,
    /// Special tokens that are written all the same: they mark parts of the output.
    markers: Arc<[Token]>,
    /// The beginning of a character whose end is not there yet; at most 3 bytes.
    tail: Vec<u8>,
    /// Text that may be the beginning of a stop string.
    held: String,
    stopped: bool,
}

#[derive(Debug)]
struct Stops {
    /// Finds the match that ends first.
    finder: AhoCorasick,
    strings: Vec<String>,
    longest: usize,
    /// The one that ended the text is part of it.
    shown: bool,
}

impl TextOut {
    /// Empty text, of a choice of this request. Empty stop strings are left out.
    pub fn new(vocab: Arc<Vocab>, spec: &RequestSpec) -> Self {
        let strings: Vec<String> = spec.stop.iter().filter(|s| !s.is_empty()).cloned().collect();
        let longest = strings.iter().map(String::len).max();
        let stops = longest.map(|longest| {
            let finder = AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .build(&strings)
                .expect("A few short strings make an automaton. This is a bug.");
            Arc::new(Stops { finder, strings, longest, shown: spec.include_stop_str_in_output })
        });
        let special = !spec.skip_special_tokens;
        let markers = markers(&vocab, spec);
        TextOut { vocab, stops, special, markers, tail: Vec::new(), held: String::new(), stopped: false }
    }

    /// Appends a token. After a stop nothing is added any more. `may_stop`: whether the output may end before so many of its
    /// last bytes; a stop string before which it may not is text like any other.
    pub fn push(&mut self, token: Token, may_stop: &dyn Fn(usize) -> bool) -> Pushed {
        let shown = self.special || !self.vocab.is_special(token) || self.markers.contains(&token);
        if !self.stopped && shown {
            self.tail.extend_from_slice(self.vocab.bytes(token));
            self.decode();
        }
        self.release(may_stop)
    }

    /// The rest, after the last token: what was held back, and U+FFFD for a character that never became whole.
    pub fn finish(&mut self) -> String {
        if !self.stopped && !self.tail.is_empty() {
            self.held.push(char::REPLACEMENT_CHARACTER);
            self.tail.clear();
        }
        let mut text = self.release(&|_| true).text;
        text.push_str(&std::mem::take(&mut self.held));
        text
    }

    /// Moves whole characters from `tail` to `held`; invalid bytes as the standard's lossy conversion has them.
    fn decode(&mut self) {
        let mut rest = &self.tail[..];
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.held.push_str(text);
                    rest = &[];
                    break;
                }
                Err(e) => {
                    let (text, bad) = rest.split_at(e.valid_up_to());
                    self.held.push_str(std::str::from_utf8(text).expect("Just found valid. This is a bug."));
                    rest = bad;
                    let Some(n) = e.error_len() else { break };
                    self.held.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[n..];
                }
            }
        }
        let done = self.tail.len() - rest.len();
        self.tail.drain(..done);
    }

    fn release(&mut self, may_stop: &dyn Fn(usize) -> bool) -> Pushed {
        let Some(stops) = &self.stops else {
            return Pushed { text: std::mem::take(&mut self.held), stopped: false };
        };
        let mut passed = String::new();
        while let Some(m) = stops.finder.find(&self.held) {
            if !may_stop(self.held.len() - m.start() + self.tail.len()) {
                let rest = self.held.split_off(m.end());
                passed.push_str(&std::mem::replace(&mut self.held, rest));
                continue;
            }
            self.stopped = true;
            let mut text = std::mem::take(&mut self.held);
            text.truncate(if stops.shown { m.end() } else { m.start() });
            self.tail.clear();
            return Pushed { text: passed + &text, stopped: true };
        }
        let keep = self.held.split_off(stops.undecided(&self.held));
        Pushed { text: passed + &std::mem::replace(&mut self.held, keep), stopped: self.stopped }
    }
}

/// The special tokens that the grammar's markers are written with.
fn markers(vocab: &Vocab, spec: &RequestSpec) -> Arc<[Token]> {
    let texts = spec.grammar.as_ref().map_or_else(Vec::new, GrammarSpec::markers);
    // What cannot be encoded has no special tokens.
    let tokens = texts.into_iter().flat_map(|text| vocab.encode(&[(text, true)]).unwrap_or_default());
    let mut tokens: Vec<Token> = tokens.filter(|token| vocab.is_special(*token)).collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens.into()
}

impl Stops {
    /// Where the longest end of `text` begins that is a beginning of a stop string.
    fn undecided(&self, text: &str) -> usize {
        let first = text.len().saturating_sub(self.longest - 1);
        (first..text.len())
            .find(|&i| {
                text.is_char_boundary(i)
                    && self.strings.iter().any(|s| s.as_bytes().starts_with(&text.as_bytes()[i..]))
            })
            .unwrap_or(text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn of(spec: serde_json::Value) -> TextOut {
        TextOut::new(Vocab::toy().unwrap(), &serde_json::from_value(spec).unwrap())
    }

    fn out<S: AsRef<str>>(stop: &[S]) -> TextOut {
        let stop: Vec<_> = stop.iter().map(AsRef::as_ref).collect();
        of(json!({"prompt": [1], "stop": stop}))
    }

    #[test]
    fn what_stopped_is_shown_where_it_is_asked_for() {
        let mut text = of(json!({"prompt": [1], "stop": ["cd"], "include_stop_str_in_output": true}));
        assert_eq!(deltas(&mut text, b"abcde").concat() + &text.finish(), "abcd");
    }

    #[test]
    fn special_tokens_are_written_where_it_is_asked_for() {
        let vocab = Vocab::toy().unwrap();
        let special = (0..vocab.len() as Token).find(|t| vocab.is_special(*t)).unwrap();
        for (skip, wanted) in
            [(true, String::new()), (false, String::from_utf8_lossy(vocab.bytes(special)).into())]
        {
            let mut text = of(json!({"prompt": [1], "skip_special_tokens": skip}));
            assert_eq!(text.push(special, &|_| true).text + &text.finish(), wanted);
        }
    }

    #[test]
    fn special_tokens_that_mark_parts_are_written() {
        let vocab = Vocab::toy().unwrap();
        let trigger = json!({"text": "<|im_start|>", "next": 0});
        let grammar = json!({"sections": [{"free": {"triggers": [trigger]}}]});
        let mut text = of(json!({"prompt": [1], "grammar": grammar}));
        let token = |form: &[u8]| (0..vocab.len() as Token).find(|t| vocab.bytes(*t) == form).unwrap();
        assert_eq!(text.push(token(b"<|im_start|>"), &|_| true).text, "<|im_start|>");
        assert_eq!(text.push(token(b"<|endoftext|>"), &|_| true).text, "");
    }

    /// The toy vocabulary's byte tokens are their own ids.
    fn deltas(out: &mut TextOut, bytes: &[u8]) -> Vec<String> {
        bytes.iter().map(|b| out.push(u32::from(*b), &|_| true).text).collect()
    }

    /// Every prefix, shortest first: the stop string that is complete first, the longest of those.
    fn naive(text: &str, stops: &[String]) -> Option<usize> {
        let mut ends = (0..=text.len()).filter(|&e| text.is_char_boundary(e));
        ends.find_map(|e| stops.iter().filter(|s| text[..e].ends_with(*s)).map(|s| e - s.len()).min())
    }

    #[test]
    fn a_character_comes_when_it_is_whole() {
        assert_eq!(deltas(&mut out::<&str>(&[]), "aß語".as_bytes()), ["a", "", "ß", "", "", "語"]);
    }

    #[test]
    fn invalid_bytes_become_replacement_characters() {
        let mut text = out::<&str>(&[]);
        assert_eq!(deltas(&mut text, b"\xe8\xaaA\xff\xf0\x9f"), ["", "", "\u{fffd}A", "\u{fffd}", "", ""]);
        assert_eq!(text.finish(), "\u{fffd}");
        assert_eq!(text.finish(), "");
    }

    #[test]
    fn special_tokens_add_no_text() {
        let mut text = out::<&str>(&[]);
        let eog = Vocab::toy().unwrap().eog()[0];
        assert_eq!(text.push(eog, &|_| true), Pushed::default());
        assert_eq!(
            text.push(0xe8, &|_| true).text
                + &text.push(eog, &|_| true).text
                + &text.push(0xaa, &|_| true).text,
            ""
        );
        assert_eq!(text.push(0x9e, &|_| true).text, "語");
    }

    #[test]
    fn the_stop_string_and_the_rest_are_cut() {
        let mut text = out(&["END", "ND!"]);
        assert_eq!(deltas(&mut text, b"aEN"), ["a", "", ""]);
        assert_eq!(text.push(u32::from(b'D'), &|_| true), Pushed { text: String::new(), stopped: true });
        assert_eq!(text.push(u32::from(b'x'), &|_| true), Pushed { text: String::new(), stopped: true });
        assert_eq!(text.finish(), "");
    }

    #[test]
    fn held_text_comes_out_when_it_is_no_stop() {
        let mut text = out(&["abac", "bad"]);
        assert_eq!(deltas(&mut text, b"ababx"), ["", "", "", "ab", "abx"]);
        assert_eq!(deltas(&mut text, b"ab"), ["", ""]);
        assert_eq!(text.finish(), "ab");
    }

    #[test]
    fn the_longest_of_those_that_end_together_is_cut() {
        let mut text = out(&["b", "ab"]);
        assert_eq!(deltas(&mut text, b"xab"), ["x", "", ""]);
    }

    #[test]
    fn a_stop_string_may_be_a_replacement_character() {
        let mut text = out(&["\u{fffd}"]);
        assert_eq!(deltas(&mut text, b"a\xf0\x9f"), ["a", "", ""]);
        assert_eq!(text.finish(), "");
    }

    proptest! {
        #[test]
        fn deltas_are_the_lossy_text(bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), Just(0xe2), Just(0x9c), Just(0x85), Just(0xf0), Just(0x9f), Just(b'a')], 0..40)) {
            let mut text = out::<&str>(&[]);
            let got = deltas(&mut text, &bytes).concat() + &text.finish();
            prop_assert_eq!(got, String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn stops_are_the_naive_search(
            stops in prop::collection::vec("[abß]{1,4}", 0..4), tokens in prop::collection::vec("[abß]{1,5}", 0..12)) {
            let mut text = out(&stops);
            let whole = tokens.concat();
            let (mut got, mut stopped) = (String::new(), false);
            for token in &tokens {
                // Stands for a token of several characters: the toy has only single bytes.
                text.tail.extend_from_slice(token.as_bytes());
                if !text.stopped {
                    text.decode();
                }
                let pushed = text.release(&|_| true);
                got += &pushed.text;
                stopped = pushed.stopped;
                if stopped {
                    break;
                }
            }
            got += &text.finish();
            let cut = naive(&whole, &stops);
            prop_assert_eq!(stopped, cut.is_some());
            prop_assert_eq!(&got, &whole[..cut.unwrap_or(whole.len())]);
        }

        #[test]
        fn no_text_is_held_without_need(stops in prop::collection::vec("[ab]{1,4}", 1..4), bytes in "[ab]{0,12}") {
            let mut text = out(&stops);
            for (i, b) in bytes.bytes().enumerate() {
                let pushed = text.push(u32::from(b), &|_| true);
                if pushed.stopped {
                    break;
                }
                let seen = &bytes[..=i];
                prop_assert!(text.held.is_empty() || (seen.ends_with(&text.held)
                    && stops.iter().any(|s| s.starts_with(&text.held))));
            }
        }
    }
}
