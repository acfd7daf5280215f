//! What no grammar can say: that no two items of an array are equal, and that no object has a key twice.
//!
//! A [`Shape`] says where in a text JSON stands, and where in JSON items must differ; keys differ everywhere. A [`Filter`] reads
//! the text beside the matcher and remembers the keys of each object that is open, and the items of arrays. It removes the tokens from
//! a mask that would complete one of them again. Where the grammar
//! leaves few items or keys to choose from, it also looks ahead: it removes a token after which only repeated ones can follow.

mod compared;
mod open;
mod scan;

use super::around::Around;
use super::ending::State;
use super::mask::Mask;
use crate::types::Token;
use crate::vocab::Vocab;
use scan::{Scan, Taken};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The number of a place in a shape.
pub(super) type Place = usize;

/// Where items and keys must differ.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    pub(super) places: Vec<Inside>,
    /// What a text begins with.
    pub(super) begin: At,
    /// Texts behind which JSON values begin, and the places of these. They stand in no such value.
    pub(super) behind: Vec<(Around, Option<Place>)>,
    /// Bytes of the longest of them.
    pub(super) longest: usize,
    /// Where a text may begin with a value and with one of these: that one ends within so many bytes.
    pub(super) first: usize,
}

/// Where in a text something stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum At {
    /// In a JSON value of this place.
    Json(Option<Place>),
    #[default]
    Outside,
}

impl Shape {
    /// Of a JSON value.
    pub(super) fn of(places: Vec<Inside>) -> Self {
        let begin = At::Json((!places.is_empty()).then_some(0));
        Shape { places, begin, ..Shape::default() }
    }

    /// Whether texts may break the constraint without the filter: items must differ, or keys are counted. Else a key could come
    /// twice, of which readers take the last.
    pub(super) fn is_needed(&self) -> bool {
        self.places.iter().any(|inside| inside.unique.is_some() || inside.counts)
    }

    /// Adds the values of another shape, which begin behind this text.
    pub(super) fn add(&mut self, behind: &str, shape: Shape) {
        let (first, behind) = (self.places.len(), Around::new(behind));
        self.longest = self.longest.max(behind.longest());
        self.behind.push((behind, (!shape.places.is_empty()).then_some(first)));
        let moved = |place: &mut Option<Place>| *place = place.map(|place| place + first);
        for mut inside in shape.places {
            inside.items.iter_mut().chain(inside.keys.values_mut()).for_each(moved);
            [&mut inside.rest, &mut inside.others].into_iter().for_each(moved);
            self.places.push(inside);
        }
    }
}

/// What is inside the values of a place. None: nothing but keys has to differ there.
#[derive(Debug, Clone, Default)]
pub(super) struct Inside {
    /// The items of an array must differ; and whether there may be too few values for that.
    pub(super) unique: Option<Scarce>,
    /// The first items of an array, and those behind them.
    pub(super) items: Vec<Option<Place>>,
    pub(super) rest: Option<Place>,
    /// The values of keys by their names, and of other keys.
    pub(super) keys: HashMap<String, Option<Place>>,
    pub(super) others: Option<Place>,
    /// Whether there may be too few names for keys; and whether an object must have so many keys, or an array so many different items.
    pub(super) names: Scarce,
    pub(super) counts: bool,
}

/// Whether the values of items, or the names of keys, may run out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scarce {
    #[default]
    No,
    /// Some beginning may leave only one that has been there. For items, there may also be too few of them.
    Perhaps,
    /// There are so few that a text may use them up.
    Few,
}

/// Tokens of a vocabulary with quotation marks. In a string, no other completes an item or a key.
pub(super) struct Quotes {
    vocab: Arc<Vocab>,
    /// With one at least.
    one: Vec<Token>,
    /// Those that may hold the beginning of a key behind the end of a string, and those that may hold a whole one.
    two: Vec<Token>,
    three: Vec<Token>,
    /// Those that may hold a whole key elsewhere.
    keys: Vec<Token>,
    /// All tokens that may end an item and begin the next: outside strings, and in one.
    joins: [Vec<Token>; 2],
    /// All tokens, sorted by their bytes.
    sorted: Vec<Token>,
}

impl Quotes {
    pub(super) fn new(vocab: &Arc<Vocab>) -> Arc<Self> {
        let has_quote = |token: &Token| vocab.bytes(*token).contains(&b'"');
        let one: Vec<Token> = (0..vocab.len() as Token).filter(has_quote).collect();
        // A key may begin behind the end of a string, and may be whole.
        let holds_key = |token: &Token, behind: bool, is_whole: bool| {
            let bytes = vocab.bytes(*token);
            let mut begins = (0..bytes.len()).filter(|at| begins_key(bytes, *at));
            begins.any(|at| {
                (!behind || bytes[..at].contains(&b'"')) && (!is_whole || bytes[at + 1..].contains(&b'"'))
            })
        };
        let of = |behind, is_whole| {
            one.iter().copied().filter(|token| holds_key(token, behind, is_whole)).collect()
        };
        let (two, three, keys) = (of(true, false), of(true, true), of(false, true));
        let joins = |token: &Token| begins_next(vocab.bytes(*token));
        let joins =
            [(0..vocab.len() as Token).filter(joins).collect(), one.iter().copied().filter(joins).collect()];
        let mut sorted: Vec<Token> = (0..vocab.len() as Token).collect();
        sorted.sort_by(|a, b| vocab.bytes(*a).cmp(vocab.bytes(*b)));
        Arc::new(Quotes { vocab: Arc::clone(vocab), one, two, three, keys, joins, sorted })
    }

    /// Adds the tokens that begin with this text; and, with `shorter`, those that it begins with.
    fn along(&self, text: &[u8], shorter: bool, list: &mut Vec<Token>) {
        let mut found = &self.sorted[..];
        for (at, byte) in text.iter().enumerate() {
            let next = |token: &Token| self.vocab.bytes(*token).get(at);
            let ended = found.partition_point(|token| next(token).is_none());
            list.extend(found[..ended].iter().filter(|_| shorter && at > 0));
            let first = found.partition_point(|token| next(token) < Some(byte));
            found = &found[first..found.partition_point(|token| next(token) <= Some(byte))];
        }
        list.extend(found);
    }
}

/// Whether a quotation mark stands here, and a key may begin with it: first, or behind a brace or comma, but for white space.
fn begins_key(bytes: &[u8], at: usize) -> bool {
    let before = bytes[..at].iter().rev().find(|byte| !byte.is_ascii_whitespace());
    bytes[at] == b'"' && before.is_none_or(|byte| b"{,".contains(byte))
}

/// Whether something stands behind a comma.
fn begins_next(bytes: &[u8]) -> bool {
    let comma = bytes.iter().position(|byte| *byte == b',');
    comma.is_some_and(|at| !bytes[at + 1..].trim_ascii().is_empty())
}

/// What all texts of a constraint have in common.
pub(super) struct Rules {
    shape: Arc<Shape>,
    /// In some array whose items must differ, their values may run out.
    has_scarce_items: bool,
    /// Some object must have so many keys, or some array so many different items.
    counts: bool,
    quotes: Arc<Quotes>,
}

impl Rules {
    pub(super) fn new(shape: Shape, quotes: &Arc<Quotes>) -> Self {
        let counts = shape.places.iter().any(|inside| inside.counts);
        let is_scarce = |inside: &Inside| inside.unique == Some(Scarce::Perhaps);
        let has_scarce_items = shape.places.iter().any(is_scarce);
        Rules { shape: Arc::new(shape), has_scarce_items, counts, quotes: Arc::clone(quotes) }
    }
}

/// A matcher that walks ahead, as far as the filter needs one.
pub(super) trait Ahead {
    /// The grammar's state.
    fn state(&self) -> State;
    /// What may come next; None where that cannot be told.
    fn mask(&mut self) -> Option<Mask>;
    /// Whether the lexeme that the text is in can go on as a listed text with other bytes than `seen`, which is sorted. None where it
    /// cannot, but may be something that is not listed.
    fn has_listed(&self, seen: &[&[u8]]) -> Option<bool>;
    /// Walks over a token; false where it is refused.
    fn push(&mut self, token: Token) -> bool;
    /// Takes the last token back.
    fn pop(&mut self);
}

/// The text so far.
#[derive(Clone)]
pub(super) struct Filter {
    rules: Arc<Rules>,
    scan: Scan,
}

impl Filter {
    pub(super) fn new(rules: &Arc<Rules>) -> Self {
        Filter { rules: Arc::clone(rules), scan: Scan::new(Arc::clone(&rules.shape)) }
    }

    /// Whether the shortest way from behind this token to the end, as the grammar knows it, may need an item or key that has been there.
    pub(super) fn is_in_the_way(&self, token: Token) -> bool {
        if self.rules.counts {
            return true;
        }
        let mut next = self.scan.clone();
        next.feed(self.bytes(token)) != Taken::Cold || next.remembers_items()
    }

    /// Whether this token makes the item or key equal to an earlier one, or to the beginning of one.
    pub(super) fn begins_again(&self, token: Token) -> bool {
        self.scan.clone().feed(self.bytes(token)) != Taken::Cold
    }

    /// The text with this token; None where that completes an item or a key that has been there.
    pub(super) fn after(&self, token: Token) -> Option<Filter> {
        let mut next = self.clone();
        (next.scan.feed(self.bytes(token)) != Taken::Again).then_some(next)
    }

    /// Takes out of the mask of this place what would complete an item or a key again, or could only lead to that.
    /// Without `ahead`, only what completes one at once.
    pub(super) fn apply(&self, mask: &mut Mask, mut ahead: Option<&mut dyn Ahead>) {
        for token in self.suspects(mask) {
            let allows = match &mut ahead {
                Some(ahead) => self.allows(token, *ahead),
                None => self.after(token).is_some(),
            };
            mask.set(token, allows);
        }
    }

    /// The tokens of a mask that may complete what has been there, or lead to that.
    fn suspects(&self, mask: &Mask) -> Vec<Token> {
        let (scan, quotes) = (&self.scan, &self.rules.quotes);
        let (names, items) = (scan.names(), scan.remembers_items());
        let mut list = Vec::new();
        if self.rules.has_scarce_items && !items {
            // A token may complete the first item and begin a second that can only become the same.
            let joins = &quotes.joins[usize::from(scan.in_string())];
            list.extend(joins.iter().copied().filter(|token| mask.allows(*token)));
        }
        if !scan.remembers() {
            return list;
        }
        if !scan.in_string() && (items || names == Scarce::Few) {
            // A number may end before any token, and no key may be left behind a comma.
            return mask.iter().collect();
        }
        let may_end = match names {
            _ if items => &quotes.one,
            Scarce::No if !scan.in_string() => &quotes.keys,
            Scarce::No => &quotes.three,
            // A token may begin a key that can only become one that has been there.
            Scarce::Perhaps if scan.in_string() => &quotes.two,
            Scarce::Perhaps => {
                let begins = |token: &&Token| mask.allows(**token) && scan.has_begun(self.bytes(**token));
                list.extend(quotes.one.iter().filter(begins));
                list.extend(&quotes.two);
                &quotes.keys
            }
            Scarce::Few => &quotes.one,
        };
        list.extend(may_end);
        if scan.in_string() {
            let goes_on = items || names != Scarce::No;
            scan.alike().for_each(|rest| quotes.along(rest, goes_on, &mut list));
        }
        list.sort_unstable();
        list.dedup();
        list.retain(|token| mask.allows(*token));
        list
    }

    fn bytes(&self, token: Token) -> &[u8] {
        self.rules.quotes.vocab.bytes(token)
    }

    /// Whether a token of the matcher's mask may come.
    pub(super) fn allows(&self, token: Token, ahead: &mut dyn Ahead) -> bool {
        let mut next = self.scan.clone();
        match next.feed(self.bytes(token)) {
            Taken::Again => false,
            Taken::Hot if next.is_scarce() => self.leads_out(&next, token, (ahead, &mut HashSet::new())),
            Taken::Hot | Taken::Cold => true,
        }
    }

    /// Whether behind this token the item or key can still become one that has not been there. `tried`: states that were looked at, each
    /// with the text of the item or key.
    fn leads_out(
        &self,
        scan: &Scan,
        token: Token,
        (ahead, tried): (&mut dyn Ahead, &mut HashSet<(State, Vec<u8>)>),
    ) -> bool {
        if !ahead.push(token) {
            return true;
        }
        let found = scan.rests_of_keys().and_then(|seen| ahead.has_listed(&seen)).unwrap_or_else(|| {
            let is_new = tried.insert((ahead.state().behind_any(), scan.text().to_vec()));
            is_new && self.has_way(scan, (&mut *ahead, tried))
        });
        ahead.pop();
        found
    }

    fn has_way(&self, scan: &Scan, (ahead, tried): (&mut dyn Ahead, &mut HashSet<(State, Vec<u8>)>)) -> bool {
        let Some(mask) = ahead.mask() else { return true };
        let mut hot = Vec::new();
        for token in mask.iter() {
            // White space is optional: a text that can be completed with it can be completed without it.
            if !scan.in_string() && self.rules.quotes.vocab.is_blank(token) {
                continue;
            }
            let mut next = scan.clone();
            match next.feed(self.bytes(token)) {
                Taken::Again => {}
                Taken::Cold => return true,
                Taken::Hot => hot.push((token, next)),
            }
        }
        hot.into_iter().any(|(token, next)| self.leads_out(&next, token, (&mut *ahead, &mut *tried)))
    }
}
