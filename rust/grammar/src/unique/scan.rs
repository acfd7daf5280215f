//! Reads a text byte by byte, as far as items and keys have to differ. That JSON in it is valid is the matcher's affair.

use super::compared::{compared, number};
use super::open::Open;
use super::{At, Place, Scarce, Shape};
use serde_json::Value;
use std::sync::Arc;

/// What came of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// They complete an item or a key that has been there.
    Again,
    /// They go on with one as one that has been there goes on.
    Hot,
    /// Neither.
    Cold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Before a value, or a bracket that closes.
    Before,
    /// In a string. `escaped`: the last character was a backslash; `key`: the string is the name of a key.
    Text { escaped: bool, key: bool },
    /// In a number or a word.
    Plain,
    /// Behind a value, or a key.
    Behind,
}

/// A text so far.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    shape: Arc<Shape>,
    at: At,
    /// For so many bytes, a value may begin behind a text that the shape names; and what was read, as far as it may end that text.
    seeks: usize,
    tail: Vec<u8>,
    mode: Mode,
    open: Vec<Open>,
    /// The text of the key that is being read, or of an item where items must differ.
    text: Vec<u8>,
    /// Whether the next string of an object is a key.
    key: bool,
}

impl Scan {
    pub(super) fn new(shape: Arc<Shape>) -> Self {
        let (at, seeks) = (shape.begin, if shape.begin == At::Outside { usize::MAX } else { shape.first });
        let (tail, open, text) = (Vec::new(), Vec::new(), Vec::new());
        Scan { shape, at, seeks, tail, mode: Mode::Before, open, text, key: false }
    }

    /// Whether anything has been there that must not come again.
    pub(super) fn remembers(&self) -> bool {
        self.open.iter().any(|open| !open.seen.is_empty())
    }

    /// Whether items are among that.
    pub(super) fn remembers_items(&self) -> bool {
        self.open.iter().any(|open| open.is_array && !open.seen.is_empty())
    }

    /// The text of the key that is being read, or of the item.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn in_string(&self) -> bool {
        matches!(self.mode, Mode::Text { .. })
    }

    pub(super) fn in_key(&self) -> bool {
        matches!(self.mode, Mode::Text { key: true, .. })
    }

    /// Whether the names of the innermost object's keys may run out.
    pub(super) fn names(&self) -> Scarce {
        let open = self.open.last().filter(|open| !open.is_array && !open.seen.is_empty());
        open.and_then(|open| open.place).map_or(Scarce::No, |place| self.shape.places[place].names)
    }

    /// Whether there may be no other way on than to what has been there: for the innermost items that must differ, or for keys.
    pub(super) fn is_scarce(&self) -> bool {
        let items = self.open.iter().rev().find(|open| open.is_array && !open.seen.is_empty());
        let items = items.and_then(|open| open.place).and_then(|place| self.shape.places[place].unique);
        let keys = self.names();
        items == Some(Scarce::Perhaps) || keys == Scarce::Few || keys == Scarce::Perhaps && self.in_key()
    }

    /// Whether something that has been there begins as what is being read, or is as much, if that is a number.
    pub(super) fn is_hot(&self) -> bool {
        self.alike().next().is_some() || self.is_same_number()
    }

    /// Whether the item that is being read is so far a number that has been there, written otherwise: it may have no room for
    /// digits that change it.
    fn is_same_number(&self) -> bool {
        let last = self.open.last().filter(|open| self.mode == Mode::Plain && !open.seen.is_empty());
        let Some(open) = last.filter(|open| open.is_array) else { return false };
        let written = open.begin.and_then(|begin| self.text.get(begin..)).unwrap_or_default();
        let written = std::str::from_utf8(written).unwrap_or_default().trim_end_matches(['+', '-']);
        let Ok(n) = written.trim_end_matches(['e', 'E', '.']).parse() else { return false };
        let n = number(n);
        open.seen.iter().any(|(_, seen)| *seen == n)
    }

    /// What has been there and begins as what is being read: what is left of that.
    pub(super) fn alike(&self) -> impl Iterator<Item = &[u8]> {
        let last = self.open.len().wrapping_sub(1);
        let differs = move |(i, open): &(usize, &Open)| open.is_array || *i == last && self.key;
        self.open.iter().enumerate().filter(differs).flat_map(|(_, open)| open.alike(&self.text))
    }

    /// Whether a key that the innermost object has begins as these bytes end: with a quotation mark that none follows.
    pub(super) fn has_begun(&self, bytes: &[u8]) -> bool {
        let at = bytes.iter().rposition(|byte| *byte == b'"');
        let open = self.open.last().filter(|open| !open.is_array);
        at.zip(open).is_some_and(|(at, open)| open.has_begun(&bytes[at..]))
    }

    /// The bytes that would complete the key that is being read to each key that the object has, sorted. None outside of keys, and inside an
    /// array whose items must differ.
    pub(super) fn rests_of_keys(&self) -> Option<Vec<&[u8]>> {
        let open = self.open.last().filter(|_| self.key && !self.remembers_items())?;
        Some(open.alike(&self.text).collect())
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) -> Taken {
        for byte in bytes {
            if !self.byte(*byte) {
                return Taken::Again;
            }
        }
        if self.is_hot() { Taken::Hot } else { Taken::Cold }
    }

    /// False where an item or a key is complete that has been there.
    fn byte(&mut self, byte: u8) -> bool {
        let is_new = self.at == At::Outside || self.in_value(byte);
        if self.seeks > 0 {
            self.seek(byte);
        }
        is_new
    }

    /// Looks whether a value begins behind this byte.
    fn seek(&mut self, byte: u8) {
        let Scan { shape, tail, .. } = self;
        self.seeks -= 1;
        tail.push(byte);
        tail.drain(..tail.len().saturating_sub(shape.longest));
        // Of names that end alike, the longest is meant.
        let found = shape.behind.iter().filter(|(text, _)| text.ends(tail));
        let Some((_, place)) = found.max_by_key(|(text, _)| text.certain()) else { return };
        (self.at, self.seeks) = (At::Json(*place), 0);
        (self.mode, self.key) = (Mode::Before, false);
        self.open.clear();
        self.text.clear();
        self.tail.clear();
    }

    fn in_value(&mut self, byte: u8) -> bool {
        if self.mode == Mode::Plain && b",]} \n\r\t".contains(&byte) {
            self.mode = Mode::Behind;
            if !self.complete() {
                return false;
            }
        }
        // White space between values does not count: items that differ in nothing else are equal.
        let is_blank = b" \n\r\t".contains(&byte) && !self.in_string();
        if !is_blank && (self.key || self.open.iter().any(|open| self.is_unique(open))) {
            self.text.push(byte);
        }
        let is_new = match self.mode {
            Mode::Text { escaped: true, key } => {
                self.mode = Mode::Text { escaped: false, key };
                true
            }
            Mode::Text { escaped: false, key } => self.in_text(byte, key),
            Mode::Plain => true,
            Mode::Before | Mode::Behind => self.between(byte),
        };
        let is_over = self.open.is_empty() && self.mode == Mode::Behind;
        if is_over && !self.shape.behind.is_empty() {
            (self.at, self.seeks) = (At::Outside, usize::MAX);
        }
        is_new
    }

    /// In a string; false where it is an item or a key that has been there.
    fn in_text(&mut self, byte: u8, key: bool) -> bool {
        match byte {
            b'\\' => self.mode = Mode::Text { escaped: true, key },
            b'"' => {
                self.mode = Mode::Behind;
                return if key { self.named() } else { self.complete() };
            }
            _ => {}
        }
        true
    }

    /// Between values; false where a bracket ends an item that has been there.
    fn between(&mut self, byte: u8) -> bool {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b'"' => self.mode = Mode::Text { escaped: false, key: self.key },
            b'[' | b'{' => self.enter(byte == b'['),
            b']' | b'}' => {
                self.open.pop();
                (self.mode, self.key) = (Mode::Behind, false);
                return self.complete();
            }
            b',' => self.next(),
            b':' => {
                (self.mode, self.key) = (Mode::Before, false);
                self.begin();
            }
            _ => self.mode = Mode::Plain,
        }
        true
    }

    /// A value begins here.
    fn begin(&mut self) {
        // What comes before is compared only as a part of an item that is still open further out.
        if !self.open.iter().rev().skip(1).any(|open| self.is_unique(open)) {
            self.text.clear();
        }
        let here = self.text.len();
        if let Some(open) = self.open.last_mut() {
            open.begin = Some(here);
        }
    }

    fn is_unique(&self, open: &Open) -> bool {
        open.is_array && open.place.is_some_and(|place| self.shape.places[place].unique.is_some())
    }

    /// The place of the value that begins here.
    fn inner(&self) -> Option<Place> {
        match (self.open.last(), self.at) {
            (Some(open), _) => open.inner,
            (None, At::Json(place)) => place,
            (None, At::Outside) => None,
        }
    }

    fn enter(&mut self, is_array: bool) {
        let place = self.inner();
        let begin = Some(self.text.len());
        let mut open = Open { place, is_array, count: 0, begin, inner: None, seen: Arc::default() };
        open.inner = if is_array { self.item(&open) } else { None };
        self.open.push(open);
        self.mode = Mode::Before;
        self.key = !is_array;
    }

    fn item(&self, open: &Open) -> Option<Place> {
        let inside = &self.shape.places[open.place?];
        inside.items.get(open.count).copied().unwrap_or(inside.rest)
    }

    /// Behind a comma.
    fn next(&mut self) {
        if let Some(mut open) = self.open.pop() {
            open.count += 1;
            open.inner = if open.is_array { self.item(&open) } else { None };
            self.key = !open.is_array;
            self.open.push(open);
        }
        self.mode = Mode::Before;
        self.begin();
    }

    /// A key is complete; false where it has been there.
    fn named(&mut self) -> bool {
        let Scan { open, text, shape, .. } = self;
        let Some(open) = open.last_mut() else { return true };
        let written = open.begin.take().and_then(|begin| text.get(begin..)).unwrap_or_default();
        let Ok(name) = serde_json::from_slice::<String>(written) else { return true };
        let inside = open.place.map(|place| &shape.places[place]);
        open.inner = inside.and_then(|inside| inside.keys.get(&name).copied().unwrap_or(inside.others));
        open.remember(written.to_vec(), name)
    }

    /// A value is complete; false where it is an item that has been there.
    fn complete(&mut self) -> bool {
        let is_unique = self.open.last().is_some_and(|open| self.is_unique(open));
        let Scan { open, text, .. } = self;
        let Some(open) = open.last_mut() else { return true };
        let Some(begin) = open.begin.take().filter(|_| is_unique) else { return true };
        let written = &text[begin..];
        let Ok(value) = serde_json::from_slice::<Value>(written) else { return true };
        let mut text = String::new();
        compared(&value, &mut text);
        open.remember(written.to_vec(), text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Inside;
    use super::*;

    fn array() -> Arc<Shape> {
        Arc::new(Shape::of(vec![Inside { unique: Some(Scarce::No), ..Inside::default() }]))
    }

    fn is_again(text: &str, at_once: usize) -> bool {
        let mut scan = Scan::new(array());
        text.as_bytes().chunks(at_once).any(|bytes| scan.feed(bytes) == Taken::Again)
    }

    #[test]
    fn equal_items_are_found_however_they_are_written() {
        let groups: [&[&str]; 9] = [
            &["1", "1.0", "1e0", "10e-1"],
            &["10"],
            &["0", "-0", "0.0"],
            &[r#""a""#, r#""\u0061""#],
            &[r#""a]""#],
            &["[1]", "[1.0 ]", "[ 1]"],
            &[r#"{"a":1,"b":[2]}"#, r#"{"b": [2], "a":1.0}"#],
            &["true"],
            &["null"],
        ];
        let all: Vec<(usize, &str)> =
            groups.iter().enumerate().flat_map(|(i, list)| list.iter().map(move |text| (i, *text))).collect();
        for (one, a) in &all {
            for (other, b) in &all {
                for between in ["7", r#""x""#] {
                    for text in [format!("[{a},{between}, {b} ]"), format!(" [\n{a} ,\n{b}]")] {
                        for at_once in [1, 2, 5, 100] {
                            assert_eq!(is_again(&text, at_once), one == other, "{text}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn items_of_other_arrays_may_be_equal() {
        for text in ["[[1,1],[2,2]]", r#"[{"a":[1,1]},[1,1]]"#, "[1,[1]]", r#"["1",1]"#] {
            assert!(!is_again(text, 1), "{text}");
        }
        assert!(is_again("[[1,1],[1,1]]", 1));
        let keys = [("x".to_owned(), Some(1))].into_iter().collect();
        let list = Inside { unique: Some(Scarce::No), ..Inside::default() };
        let shape = Arc::new(Shape::of(vec![Inside { keys, ..Inside::default() }, list]));
        let again = |text: &str| Scan::new(Arc::clone(&shape)).feed(text.as_bytes()) == Taken::Again;
        assert!(again(r#"{"y":[1,1],"x":[2,2]"#) && again(r#"{"\u0078":[2,2]"#));
        assert!(!again(r#"{"y":[1,1],"x":[2,3],"z":"[2,2]"}"#));
    }
}
