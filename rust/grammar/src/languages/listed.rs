//! An automaton of lexemes whose texts are listed: keys, constants, enumerations. All texts of a state have the same first bytes. The
//! texts of a lexeme are sorted, so those with the same first bytes stand together.

use super::{Automaton, States};
use llguidance::derivre::{NextByte, StateID};
use llguidance::earley::lexerspec::LexemeIdx;
use std::ops::Range;

pub(crate) struct Listed {
    /// By lexeme, and sorted.
    texts: Vec<(LexemeIdx, Box<[u8]>)>,
    /// The bytes that are in them.
    used: [bool; 256],
    /// Every text that begins with a quote is a JSON string.
    has_whole_strings: bool,
    states: States<Begun>,
    /// Bytes of the texts, and of what is behind the states' pointers.
    bytes: usize,
}

/// How many first bytes there are, and the texts that have them: places, for each lexeme.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Begun {
    depth: usize,
    texts: Box<[Range<usize>]>,
}

impl Listed {
    pub(crate) fn new(mut texts: Vec<(LexemeIdx, Box<[u8]>)>) -> Self {
        texts.sort_unstable_by(|a, b| (a.0.as_usize(), &a.1).cmp(&(b.0.as_usize(), &b.1)));
        texts.dedup();
        let (mut used, mut bytes) = ([false; 256], size_of_val(&*texts));
        for (_, text) in &texts {
            text.iter().for_each(|byte| used[usize::from(*byte)] = true);
            bytes += text.len();
        }
        let is_whole = |text: &[u8]| text.ends_with(b"\"") && serde_json::from_slice::<String>(text).is_ok();
        let has_whole_strings = texts.iter().all(|(_, text)| !text.starts_with(b"\"") || is_whole(text));
        let states = States::new(Begun { depth: 0, texts: Box::new([]) });
        Listed { texts, used, has_whole_strings, states, bytes }
    }

    fn state(&mut self, depth: usize, texts: Vec<Range<usize>>) -> StateID {
        if texts.is_empty() {
            return StateID::DEAD;
        }
        let begun = Begun { depth, texts: texts.into() };
        if let Some(known) = self.states.number(&begun) {
            return known;
        }
        let is_last = begun.texts.iter().all(|texts| texts.len() == 1 && self.ends(texts, depth));
        self.bytes += 2 * size_of_val(&*begun.texts);
        self.states.add(begun, is_last)
    }

    fn begun(&self, state: StateID) -> &Begun {
        self.states.at(state)
    }

    /// Whether one of these texts has no more bytes. It is the first then.
    fn ends(&self, texts: &Range<usize>, depth: usize) -> bool {
        self.texts[texts.start].1.len() == depth
    }

    /// Whether a text begins with what is left of a text in this state.
    pub(super) fn begins(&self, state: StateID, text: &[u8]) -> bool {
        let Begun { depth, texts } = self.begun(state);
        texts.iter().any(|texts| {
            let (mut texts, mut bytes) = (texts.clone(), text.iter());
            for depth in *depth.. {
                if self.ends(&texts, depth) {
                    return true;
                }
                texts = bytes.next().map_or(0..0, |byte| self.with_byte(&texts, depth, *byte));
                if texts.is_empty() {
                    break;
                }
            }
            false
        })
    }

    /// Those of the texts that have this byte at `depth`. All have the same bytes before it.
    fn with_byte(&self, texts: &Range<usize>, depth: usize, byte: u8) -> Range<usize> {
        let less = |text: &(_, Box<[u8]>)| text.1.get(depth) < Some(&byte);
        part(&self.texts, texts.clone(), (less, |text: &(_, Box<[u8]>)| text.1.get(depth) <= Some(&byte)))
    }

    fn lexeme(&self, texts: &Range<usize>) -> LexemeIdx {
        self.texts[texts.start].0
    }
}

/// The places, among these, of those that are not less and not more than something.
fn part<T>(
    texts: &[T],
    places: Range<usize>,
    (is_less, is_no_more): (impl Fn(&T) -> bool, impl Fn(&T) -> bool),
) -> Range<usize> {
    let found = &texts[places.clone()];
    places.start + found.partition_point(is_less)..places.start + found.partition_point(is_no_more)
}

impl Automaton for Listed {
    fn bytes(&self) -> usize {
        self.bytes + self.states.bytes()
    }

    fn class(&self, byte: u8) -> usize {
        if self.used[usize::from(byte)] { usize::from(byte) + 1 } else { 0 }
    }

    fn initial(&mut self, lexemes: &[LexemeIdx]) -> StateID {
        let mut numbers: Vec<usize> = lexemes.iter().map(|lexeme| lexeme.as_usize()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let all = 0..self.texts.len();
        let of = |lexeme: usize| {
            let less = |text: &(LexemeIdx, _)| text.0.as_usize() < lexeme;
            part(&self.texts, all.clone(), (less, |text: &(LexemeIdx, _)| text.0.as_usize() <= lexeme))
        };
        let texts = numbers.into_iter().map(of).filter(|texts| !texts.is_empty()).collect();
        self.state(0, texts)
    }

    fn behind(&mut self, state: StateID, byte: u8) -> StateID {
        let Begun { depth, texts } = self.begun(state);
        let (depth, with_byte) = (*depth, |texts| self.with_byte(texts, *depth, byte));
        let texts = texts.iter().map(with_byte).filter(|texts| !texts.is_empty()).collect();
        self.state(depth + 1, texts)
    }

    fn ended(&self, state: StateID, _: bool) -> (Vec<LexemeIdx>, bool) {
        let Begun { depth, texts } = self.begun(state);
        let ended = texts.iter().filter(|texts| self.ends(texts, *depth));
        (ended.map(|texts| self.lexeme(texts)).collect(), false)
    }

    fn next_byte(&mut self, state: StateID) -> NextByte {
        let Begun { depth, texts } = self.begun(state);
        let next = |place: usize| match self.texts[place].1.get(*depth) {
            Some(byte) => NextByte::ForcedByte(*byte),
            None => NextByte::ForcedEOI,
        };
        // The texts are sorted: if the first and the last have the same next byte, all have it.
        let hints = texts.iter().map(|texts| next(texts.start) | next(texts.end - 1));
        hints.fold(NextByte::Dead, |all, hint| all | hint)
    }

    fn next_bytes(&self, state: StateID) -> Option<Vec<u8>> {
        let Begun { depth, texts } = self.begun(state);
        let mut bytes = Vec::new();
        for Range { mut start, end } in texts.iter().cloned() {
            while start < end {
                let byte = self.texts[start].1.get(*depth);
                bytes.extend(byte);
                start += self.texts[start..end].partition_point(|text| text.1.get(*depth) <= byte);
            }
        }
        Some(bytes)
    }

    fn is_possible(&self, state: StateID, lexeme: LexemeIdx) -> bool {
        self.begun(state).texts.iter().any(|texts| self.lexeme(texts) == lexeme)
    }

    fn alone(&mut self, state: StateID, lexeme: LexemeIdx) -> StateID {
        let Begun { depth, texts } = self.begun(state);
        let (depth, texts) = (*depth, texts.iter().filter(|texts| self.lexeme(texts) == lexeme));
        let only = texts.cloned().collect();
        self.state(depth, only)
    }

    fn listed(&self, state: StateID) -> Option<Box<dyn Iterator<Item = &[u8]> + '_>> {
        let Begun { depth, texts } = self.begun(state);
        let all = texts.iter().flat_map(|texts| &self.texts[texts.clone()]);
        Some(Box::new(all.map(|(_, text)| &text[*depth..])))
    }

    fn has_whole_strings(&self) -> bool {
        self.has_whole_strings
    }

    fn holds(&mut self, _: StateID, _: (LexemeIdx, u32)) -> Option<u32> {
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_texts_that_begin_so() {
        let [key, list] = [3, 5].map(LexemeIdx::new);
        let all: [(LexemeIdx, &[u8]); 5] =
            [(list, b"no"), (key, b"name"), (list, b"name"), (list, b"nam"), (list, b"no")];
        let mut listed = Listed::new(all.iter().map(|(lexeme, text)| (*lexeme, (*text).into())).collect());
        assert_eq!(listed.texts.len(), 4);
        assert!(listed.initial(&[LexemeIdx::new(4)]).is_dead());
        let start = listed.initial(&[list, key, list]);
        assert!(listed.next_byte(start) == NextByte::ForcedByte(b'n'));
        let n = listed.behind(start, b'n');
        assert!(listed.next_byte(n).is_some_bytes() && listed.behind(n, b'x').is_dead());
        assert_eq!(listed.listed(n).unwrap().collect::<Vec<_>>(), [&b"ame"[..], b"am", b"ame", b"o"]);
        let nam = [b'a', b'm'].iter().fold(n, |state, byte| listed.behind(state, *byte));
        assert_eq!(listed.ended(nam, false), (vec![list], false));
        assert!(!nam.has_lowest_match() && listed.next_byte(nam).is_some_bytes());
        let name = listed.behind(nam, b'e');
        assert_eq!(listed.ended(name, true), (vec![key, list], false));
        assert!(name.has_lowest_match() && listed.next_byte(name) == NextByte::ForcedEOI);
        let only = listed.alone(nam, key);
        assert!(listed.is_possible(only, key) && !listed.is_possible(only, list));
        assert!(listed.next_byte(only) == NextByte::ForcedByte(b'e'));
        let no = listed.behind(n, b'o');
        assert!(no.has_lowest_match() && !listed.is_possible(no, key));
        assert!(listed.behind(no, b'o').is_dead());
    }
}
