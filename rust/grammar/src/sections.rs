//! Sections of an output, one after another: free text, in which the grammar lies dormant, and constrained parts.
//!
//! A token may complete a trigger and go on behind it. The bytes behind it belong to the next section; where that is
//! constrained and does not take them, the token is refused. Those tokens are few, and known for each state of the
//! search at compile time: only in such a state there is a mask in free text.

use super::habits::Habits;
use super::mask::{Mask, Next};
use super::matching::{Ends, broken};
use super::part::{Part, Pristine};
use super::spec::{Section, Trigger};
use super::triggers::{State, Triggers};
use crate::error::{Error, Result};
use crate::types::{Narrowed, Token};
use crate::vocab::Vocab;
use aho_corasick::automaton::StateID;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

const MOST_SECTIONS: usize = 32;
const MOST_TRIGGERS: usize = 144;
const LONGEST_TRIGGER: usize = 256;
/// Bytes of all triggers of a section: each is a state, for which all tokens are looked at.
const MOST_BYTES: usize = 4096;

/// A compiled constraint. Plain ones are one section.
pub(super) struct Plan {
    pub(super) stages: Vec<Stage>,
    pub(super) ends: Arc<Ends>,
    pub(super) vocab: Arc<Vocab>,
    pub(super) habits: Arc<Habits>,
    /// Whether outputs are completed within what they may take.
    pub(super) complete: bool,
    /// See [`Plan::priced`].
    pub(super) least: Vec<usize>,
    /// Where less is allowed than its schemas do.
    pub(super) narrowed: Vec<Narrowed>,
}

/// A compiled section.
#[expect(clippy::large_enum_variant, reason = "a plan has few, and they stay where they are")]
pub(super) enum Stage {
    Free(FreeStage),
    Bound { pristine: Arc<Pristine>, next: Option<usize> },
}

pub(super) struct FreeStage {
    pub(super) triggers: Triggers,
    pub(super) may_end: bool,
    reasoning: bool,
    /// Tokens of the model's own, and those that are written then.
    pub(super) limit: Option<(u32, Vec<Token>)>,
    /// The tokens in which a trigger may end.
    pub(super) crossing: Vec<Token>,
    /// Tokens that must not come, for the states of each finder.
    refused: HashMap<(usize, StateID), Vec<Token>>,
}

/// Where a text has come to.
pub(super) struct At {
    pub(super) section: usize,
    pub(super) place: Place,
}

pub(super) enum Place {
    Free(Free),
    Bound(Box<Part>),
}

/// Where free text has come to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Free {
    pub(super) state: State,
    /// Tokens of the section so far.
    pub(super) tokens: u32,
}

impl Plan {
    /// A constraint of the whole output.
    pub(super) fn plain(pristine: Pristine, (vocab, habits): (&Arc<Vocab>, &Arc<Habits>)) -> Self {
        let ends = Arc::clone(&pristine.ends);
        let stages = vec![Stage::Bound { pristine: Arc::new(pristine), next: None }];
        let (vocab, habits, complete) = (Arc::clone(vocab), Arc::clone(habits), true);
        Plan { stages, ends, vocab, habits, complete, least: vec![0], narrowed: Vec::new() }
    }

    /// Memory of the states of its texts, about.
    pub(super) fn bytes(&self) -> usize {
        let of = |stage: &Stage| match stage {
            Stage::Bound { pristine, .. } => pristine.endings.as_ref().map_or(0, |endings| endings.bytes()),
            Stage::Free(_) => 0,
        };
        self.stages.iter().map(of).sum()
    }

    /// The grammar of a constraint of the whole output.
    pub(super) fn whole(&self) -> Option<&Pristine> {
        match self.stages.as_slice() {
            [Stage::Bound { pristine, .. }] => Some(pristine),
            _ => None,
        }
    }

    /// One of sections; `compiled` are the grammars of the bound ones, in their order.
    ///
    /// # Errors
    /// `Error::Grammar` of a section that is not right.
    pub(super) fn new(
        sections: &[Section],
        compiled: Vec<Pristine>,
        (vocab, ends, habits): (&Arc<Vocab>, &Arc<Ends>, &Arc<Habits>),
    ) -> Result<Self> {
        let mut compiled = compiled.into_iter();
        let mut stages = Vec::with_capacity(sections.len());
        for section in sections {
            stages.push(match section {
                Section::Bound { next, .. } => {
                    let pristine = compiled.next().expect("one for each bound section. This is a bug.");
                    Stage::Bound { pristine: Arc::new(pristine), next: *next }
                }
                Section::Free { triggers, may_end, limit, reasoning } => Stage::Free(FreeStage {
                    triggers: Triggers::new(triggers),
                    may_end: *may_end,
                    reasoning: *reasoning,
                    limit: match limit {
                        Some(limit) => Some((limit.tokens, vocab.encode(&[(&limit.text, true)])?)),
                        None => None,
                    },
                    crossing: Vec::new(),
                    refused: HashMap::new(),
                }),
            });
        }
        let least = vec![0; stages.len()];
        let mut plan = Plan {
            stages,
            ends: Arc::clone(ends),
            vocab: Arc::clone(vocab),
            habits: Arc::clone(habits),
            complete: true,
            least,
            narrowed: Vec::new(),
        };
        for stage in &mut plan.stages {
            if let Stage::Free(free) = stage {
                let tokens = (0..vocab.len() as Token).filter(|token| !ends.eog.contains(token));
                free.crossing = tokens.filter(|token| free.triggers.may_cross(vocab.bytes(*token))).collect();
            }
        }
        let refused = (0..plan.stages.len()).map(|i| plan.refused(i)).collect::<Result<Vec<_>>>()?;
        for (stage, refused) in plan.stages.iter_mut().zip(refused) {
            if let Stage::Free(free) = stage {
                free.refused = refused;
            }
        }
        Ok(plan)
    }

    /// The tokens that must not come in the section's free text, by the state of the search.
    fn refused(&self, section: usize) -> Result<HashMap<(usize, StateID), Vec<Token>>> {
        let mut refused = HashMap::new();
        let Stage::Free(free) = &self.stages[section] else { return Ok(refused) };
        let mut parts = HashMap::new();
        for (finder, state) in free.triggers.states() {
            let mut list = Vec::new();
            for token in &free.crossing {
                let bytes = self.vocab.bytes(*token);
                let Some((trigger, taken)) = free.triggers.feed_one(finder, state, bytes) else { continue };
                let next = free.triggers.list()[trigger].next;
                if !self.takes(next, &bytes[taken..], &mut parts)? {
                    list.push(*token);
                }
            }
            if !list.is_empty() {
                refused.insert((finder, state.of(finder)), list);
            }
        }
        Ok(refused)
    }

    /// Whether a section may begin with these bytes; `parts` are kept from call to call.
    fn takes(&self, section: Option<usize>, bytes: &[u8], parts: &mut HashMap<usize, Part>) -> Result<bool> {
        let Some(section) = section else { return Ok(false) };
        match &self.stages[section] {
            _ if bytes.is_empty() => Ok(true),
            Stage::Free(free) => match free.triggers.feed(&mut free.triggers.start(), bytes) {
                None => Ok(true),
                Some((trigger, taken)) => {
                    self.takes(free.triggers.list()[trigger].next, &bytes[taken..], parts)
                }
            },
            Stage::Bound { pristine, .. } => {
                let part = parts.entry(section).or_insert_with(|| Part::new(Arc::clone(pristine)));
                part.takes(&self.split(bytes))
            }
        }
    }

    /// Bytes as tokens, however a tokenizer would cut them.
    pub(super) fn split(&self, bytes: &[u8]) -> Vec<Token> {
        self.vocab.tok_env().tok_trie().greedy_tokenize(bytes)
    }

    /// The beginning of the output.
    pub(super) fn begin(&self) -> At {
        let place = match &self.stages[0] {
            Stage::Free(free) => Place::Free(free.begin()),
            Stage::Bound { pristine, .. } => Place::Bound(Box::new(Part::new(Arc::clone(pristine)))),
        };
        At { section: 0, place }
    }

    /// The section at its beginning and these bytes of it; None where it does not take them.
    fn enter(&self, mut section: usize, mut rest: &[u8]) -> Result<Option<At>> {
        // Each round takes bytes or ends a part that had a token.
        for _ in 0..=rest.len() + self.stages.len() {
            match &self.stages[section] {
                Stage::Free(free) => {
                    let mut state = free.triggers.start();
                    let Some((trigger, taken)) = free.triggers.feed(&mut state, rest) else {
                        let place = Place::Free(Free { state, tokens: 0 });
                        return Ok(Some(At { section, place }));
                    };
                    let Some(next) = free.triggers.list()[trigger].next else { return Ok(None) };
                    (section, rest) = (next, &rest[taken..]);
                }
                Stage::Bound { pristine, next } => {
                    let mut part = Part::new(Arc::clone(pristine));
                    let tokens = self.split(rest);
                    for token in &tokens {
                        if !part.push(*token)? {
                            return Ok(None);
                        }
                    }
                    part.keep();
                    match next.filter(|_| part.is_ended()) {
                        Some(next) => (section, rest) = (next, &[]),
                        None => return Ok(Some(At { section, place: Place::Bound(Box::new(part)) })),
                    }
                }
            }
        }
        Err(broken("its sections follow each other without end"))
    }

    /// The section that follows a bound one that has ended.
    pub(super) fn after(&self, at: &At) -> Result<Option<At>> {
        match (&self.stages[at.section], &at.place) {
            (Stage::Bound { next: Some(next), .. }, Place::Bound(part)) if part.is_ended() => {
                self.enter(*next, &[])
            }
            _ => Ok(None),
        }
    }

    /// Walks over a token; false where it is refused, or an end token: `at` is as before then.
    pub(super) fn push(&self, at: &mut At, token: Token) -> Result<bool> {
        let free = match &mut at.place {
            Place::Bound(part) => {
                if !part.push(token)? {
                    return Ok(false);
                }
                part.keep();
                if let Some(next) = self.after(at)? {
                    *at = next;
                }
                return Ok(true);
            }
            Place::Free(free) => free,
        };
        let Stage::Free(stage) = &self.stages[at.section] else { return Ok(false) };
        if token as usize >= self.ends.width
            || self.ends.eog.contains(&token)
            || stage.due(free).is_some_and(|due| due != token)
        {
            return Ok(false);
        }
        let mut state = free.state;
        let bytes = self.vocab.bytes(token);
        let Some((trigger, taken)) = stage.triggers.feed(&mut state, bytes) else {
            (free.state, free.tokens) = (state, free.tokens + 1);
            return Ok(true);
        };
        let Some(next) = stage.triggers.list()[trigger].next else { return Ok(false) };
        let entered = self.enter(next, &bytes[taken..])?;
        let taken = entered.is_some();
        *at = entered.unwrap_or(At { section: at.section, place: Place::Free(*free) });
        Ok(taken)
    }

    /// What may come next.
    pub(super) fn next(&self, at: &mut At) -> Result<Next> {
        let free = match &mut at.place {
            Place::Bound(part) => return part.mask().map(Next::Only),
            Place::Free(free) => free,
        };
        let Stage::Free(stage) = &self.stages[at.section] else { return Ok(Next::Any { end: true }) };
        if let Some(due) = stage.due(free) {
            return Ok(Next::Only(Mask::of([due], self.ends.width)));
        }
        let lists = [0, 1].map(|finder| stage.refused.get(&(finder, free.state.of(finder))));
        if lists.iter().all(Option::is_none) {
            return Ok(Next::Any { end: stage.may_end });
        }
        let mut mask = Mask::all(self.ends.width);
        let ends = self.ends.eog.iter().filter(|_| !stage.may_end);
        lists.into_iter().flatten().flatten().chain(ends).for_each(|t| mask.set(*t, false));
        Ok(Next::Only(mask))
    }

    /// Whether nothing may follow.
    pub(super) fn is_ended(&self, at: &At) -> bool {
        let last = matches!(self.stages[at.section], Stage::Bound { next: None, .. });
        last && matches!(&at.place, Place::Bound(part) if part.is_ended())
    }

    /// Whether the output may end here.
    pub(super) fn may_end(&self, at: &mut At) -> bool {
        match (&self.stages[at.section], &mut at.place) {
            (Stage::Free(free), _) => free.may_end,
            (Stage::Bound { .. }, Place::Bound(part)) => part.may_end(),
            (Stage::Bound { .. }, Place::Free(_)) => false,
        }
    }

    /// Whether the next token is reasoning.
    pub(super) fn is_reasoning(&self, at: &At) -> bool {
        matches!(&self.stages[at.section], Stage::Free(free) if free.reasoning)
    }
}

impl At {
    /// The same state apart from this one, to walk ahead in.
    pub(super) fn apart(&self) -> At {
        let place = match &self.place {
            Place::Free(free) => Place::Free(*free),
            Place::Bound(part) => Place::Bound(Box::new(part.apart())),
        };
        At { section: self.section, place }
    }
}

impl FreeStage {
    pub(super) fn begin(&self) -> Free {
        Free { state: self.triggers.start(), tokens: 0 }
    }

    /// The token that must come where the section has been as long as it may be.
    fn due(&self, free: &Free) -> Option<Token> {
        let (most, close) = self.limit.as_ref()?;
        close.get(free.tokens.checked_sub(*most)? as usize).copied()
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("sections", &self.stages.len()).finish_non_exhaustive()
    }
}

/// Refuses sections that lead nowhere, or would cost too much to look for.
///
/// # Errors
/// `Error::Grammar` with a pointer to the section.
pub(super) fn check(sections: &[Section]) -> Result<()> {
    let refuse = |at: usize, why: String| Err(Error::grammar(format!("/sections/{at}"), "sections", why));
    if sections.is_empty() || sections.len() > MOST_SECTIONS {
        return refuse(0, format!("there must be 1 to {MOST_SECTIONS}"));
    }
    for (at, section) in sections.iter().enumerate() {
        let (triggers, limit, next) = match section {
            Section::Bound { grammar: super::GrammarSpec::Sections(_), .. } => {
                return refuse(at, "a section is no grammar of sections".into());
            }
            Section::Bound { next, .. } => (&[][..], &None, *next),
            Section::Free { triggers, limit, .. } => (&triggers[..], limit, None),
        };
        let right = |trigger: &Trigger| (1..=LONGEST_TRIGGER).contains(&trigger.text.len());
        let bytes: usize = triggers.iter().map(|trigger| trigger.text.len()).sum();
        if triggers.len() > MOST_TRIGGERS || bytes > MOST_BYTES || !triggers.iter().all(right) {
            let why = format!(
                "may have {MOST_TRIGGERS} triggers of 1 to {LONGEST_TRIGGER} bytes, {MOST_BYTES} in all"
            );
            return refuse(at, why);
        }
        let known = |next: &usize| *next < sections.len();
        if !next.iter().chain(triggers.iter().filter_map(|t| t.next.as_ref())).all(known) {
            return refuse(at, "names a section that is not there".into());
        }
        let closes = |t: &Trigger| !t.at_start && t.next.is_some();
        if let Some(limit) = limit
            && (limit.text.len() > LONGEST_TRIGGER * 4
                || !triggers.iter().any(|t| closes(t) && limit.text.ends_with(&t.text)))
        {
            return refuse(at, "what its limit writes must end with a trigger".into());
        }
    }
    Ok(())
}
