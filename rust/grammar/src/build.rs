//! Spec to compiled matcher. Takes milliseconds to seconds and a deep stack: runs on the compiler's threads only.

mod composed;
mod functions;
mod lark;

use super::budget::Budget;
use super::ending::{Common, Endings};
use super::gbnf::{self, Dialect};
use super::habits::Habits;
use super::languages::Known;
use super::lark::Named;
use super::mask::Mask;
use super::masks::Masks;
use super::matching::{Compiled, Ends};
use super::part::{Part, Pristine, Source, UNFOLLOWED};
use super::schema::{self, Library};
use super::sections::{self, Plan};
use super::spec::Section;
use super::unique::{Quotes, Rules, Shape};
use super::written::Written;
use super::written::assemble::Parts;
use super::written::base::Base;
use super::{GrammarSpec, env, text, texts};
use crate::config::GrammarConfig;
use crate::error::{Error, Result};
use crate::types::{Narrowed, Token};
use crate::vocab::Vocab;
use functions::Functions;
use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::{Logger, Matcher, ParserFactory, TokenParser};
use std::fmt;
use std::sync::{Arc, Once};
use toktrie::InferenceCapabilities;

/// Most states that the lexer of one constraint may come to have. No schema of MaskBench needs more than 3,000.
const MAX_STATES: usize = 50_000;
/// Most that all of those at work may have together: about half a KiB each.
const ALL_STATES: usize = 2_000_000;

/// Limits for grammars that other engines read: how deep rules are nested, and how long a client's text is. They read it on a
/// thread with 8 MiB of stack. Each nested rule takes 3 KB of it, each byte of a client's text up to 830 bytes.
const GUIDE_DEPTH: usize = 1_000;
const GUIDE_BYTES: usize = 8_192;

/// Any object.
const OBJECT: &str = r#"{"type":"object"}"#;

/// What all compilations share: the vocabulary's tables and the limits.
pub(super) struct Builder {
    factory: Arc<ParserFactory>,
    /// Limits for grammars that come from a schema, a regular expression or a list of choices.
    own: ParserLimits,
    /// Limits for grammars in Lark, which may be ambiguous: with the wider ones a mask of an ambiguous rule takes up to
    /// 0.9 s, with these some milliseconds.
    user: ParserLimits,
    /// Limits for grammars in GBNF, parts of which the parser may read character by character: where letters may be written,
    /// that takes some items for each text of a large vocabulary. Narrow rows bound what ambiguous rules cost.
    rules: ParserLimits,
    config: GrammarConfig,
    library: Library,
    caps: InferenceCapabilities,
    ends: Arc<Ends>,
    common: Arc<Common>,
    masks: Arc<Masks>,
    habits: Arc<Habits>,
    quotes: Arc<Quotes>,
    functions: Functions,
    base: Arc<Base>,
    /// Tokens of white space.
    blank: Arc<Mask>,
    vocab: Arc<Vocab>,
}

impl Builder {
    /// `running`: sequences at work at a time.
    pub(super) fn new(vocab: &Arc<Vocab>, config: &GrammarConfig, running: usize) -> Result<Self> {
        let env = env::safe(vocab)?;
        let caps = InferenceCapabilities { ff_tokens: env.tokenize_is_canonical(), ..Default::default() };
        let slices = SlicedBiasComputer::general_slices();
        let factory = ParserFactory::new(&env, caps.clone(), &slices)
            .map_err(|e| Error::invalid("tokenizer", text::clean(&format!("{e:#}"))))?;
        let max_lexer_states = MAX_STATES.min(ALL_STATES / running.max(1));
        let own = ParserLimits {
            max_items_in_row: 20_000,
            max_lexer_states,
            verbose_errors: false,
            ..Default::default()
        };
        let user = ParserLimits {
            max_items_in_row: 500,
            step_max_items: 5_000,
            step_lexer_fuel: 50_000,
            ..own.clone()
        };
        let rules = ParserLimits { max_items_in_row: 500, step_max_items: 200_000, ..own.clone() };
        let ends = Arc::new(Ends { eog: vocab.eog().to_vec(), width: vocab.len() });
        let (config, library, vocab) = (config.clone(), Library::open(config)?, Arc::clone(vocab));
        let common = Arc::new(Common::new((&vocab, env), &slices, caps.ff_tokens)?);
        let (masks, habits) = (Arc::new(Masks::new(ends.width)), Arc::new(Habits::new()));
        let quotes = Quotes::new(&vocab);
        let blank = Arc::new(blank(&vocab));
        let base =
            Base::new(schema::common(), schema::strings(), (factory.extra_lexemes(), vocab.longest() as u32))
                .map_err(|why| Error::grammar("", "schema", why))?;
        Ok(Builder {
            factory: Arc::new(factory),
            own,
            user,
            rules,
            config,
            library,
            caps,
            ends,
            common,
            masks,
            habits,
            quotes,
            functions: Functions::new(),
            base: Arc::new(base),
            blank,
            vocab,
        })
    }

    /// That a compilation may take.
    pub(super) fn steps(&self) -> u64 {
        self.config.compile_steps
    }

    pub(super) fn build(&self, spec: &GrammarSpec, budget: &Budget) -> Result<Plan> {
        let mut plan = self.plan(spec, budget)?;
        plan.complete = self.config.complete;
        plan.narrowed = budget.take_notes(0);
        if let Some(Narrowed { pointer, keyword, reason }) = plan.narrowed.first() {
            let more = match plan.narrowed.len() - 1 {
                0 => String::new(),
                more => format!(" ({more} more: /v1/grammar/check lists them)"),
            };
            log::info!("less is allowed than the schema does: {keyword} at {pointer:?}: {reason}{more}");
        }
        Ok(plan)
    }

    fn plan(&self, spec: &GrammarSpec, budget: &Budget) -> Result<Plan> {
        let GrammarSpec::Sections(list) = spec else {
            return Ok(Plan::plain(self.whole(spec, budget)?, (&self.vocab, &self.habits)));
        };
        sections::check(list)?;
        let bound = list.iter().filter_map(|section| match section {
            Section::Bound { grammar, .. } => Some(grammar),
            Section::Free { .. } => None,
        });
        let compiled = bound.map(|grammar| self.whole(grammar, budget)).collect::<Result<_>>()?;
        Ok(Plan::new(list, compiled, (&self.vocab, &self.ends, &self.habits))?.priced())
    }

    /// A grammar of the whole output, or of a section.
    fn whole(&self, spec: &GrammarSpec, budget: &Budget) -> Result<Pristine> {
        match unstyled(spec, budget) {
            GrammarSpec::JsonObject => self.json_alone(OBJECT, budget),
            GrammarSpec::JsonSchema(source) => self.json_alone(source, budget),
            GrammarSpec::LarkGrammar(source) => self.lark("lark_grammar", source, budget),
            GrammarSpec::Llguidance(source) if !source.trim_start().starts_with('{') => {
                self.lark("llguidance", source, budget)
            }
            GrammarSpec::Llguidance(source) => self.llguidance(source, budget),
            spec @ (GrammarSpec::Gbnf(source) | GrammarSpec::Ebnf(source)) => {
                let list = TopLevelGrammar::from_lark(self.gbnf(source, Dialect::of(spec), budget)?);
                let named = Named::new(budget, &self.library);
                self.compile_list(list, named, &self.rules).map_err(|why| Error::grammar("", "gbnf", why))
            }
            GrammarSpec::Calls(calls) => functions::build(self, calls, budget),
            spec => {
                let written = self.written(spec, budget)?;
                schema::check_divisors(written.divisors)?;
                let kind = match spec {
                    GrammarSpec::Regex(_) => "regex",
                    GrammarSpec::Choice(_) => "choice",
                    GrammarSpec::Text(_) => "text",
                    _ => "structural_tag",
                };
                self.finish(written).map_err(|why| Error::grammar("", kind, why))
            }
        }
    }

    /// A grammar that may stand beside others.
    fn written(&self, spec: &GrammarSpec, budget: &Budget) -> Result<Written> {
        match spec {
            GrammarSpec::JsonObject => self.json(OBJECT, budget),
            GrammarSpec::JsonSchema(source) => self.json(source, budget),
            GrammarSpec::Regex(rx) => texts::regex(rx, &self.config),
            GrammarSpec::Choice(list) => texts::choice(list, &self.config),
            GrammarSpec::Text(text) => texts::fixed(text, &self.config, &self.vocab),
            GrammarSpec::Tags(tags) => composed::tagged(self, tags, budget),
            GrammarSpec::Sequence(_)
            | GrammarSpec::Or(_)
            | GrammarSpec::Repeat { .. }
            | GrammarSpec::UpTo { .. }
            | GrammarSpec::Arguments { .. } => composed::written(self, spec, budget),
            _ => {
                let why = "of this kind cannot stand beside tools; use response_format json_schema";
                Err(Error::grammar("", "grammar", why))
            }
        }
    }

    fn json(&self, source: &str, budget: &Budget) -> Result<Written> {
        let schema = schema::parse(source, &self.config)?;
        schema::prepare(&schema, &self.config, (budget, &self.library, true))
    }

    /// A schema that is the whole grammar.
    fn json_alone(&self, source: &str, budget: &Budget) -> Result<Pristine> {
        let written = self.json(source, budget)?;
        self.finish(written).map_err(|why| Error::grammar("", "schema", why))
    }

    fn finish(&self, mut written: Written) -> Result<Pristine, String> {
        let Parts { productions, lexer, texts, .. } = written.parts(&self.base)?.within(&self.own)?;
        let shape = written.shape.take();
        // An engine's own llguidance knows no filter.
        let is_free = !shape.as_ref().is_some_and(Shape::is_needed);
        let guides = written.depth() <= GUIDE_DEPTH && is_free;
        let written = Arc::new(written);
        let (factory, caps, limits) = (Arc::clone(&self.factory), self.caps.clone(), self.own.clone());
        let (source, base) = (Arc::clone(&written), Arc::clone(&self.base));
        let make = move || {
            let init = source.parts(&base).map_err(anyhow::Error::msg).and_then(Parts::init);
            Matcher::new(init.and_then(|init| parser((&factory, caps), init, limits)))
        };
        let compiled = Compiled::new(&lexer, Box::new(make));
        let known = Known { texts, clients: 0 };
        let endings = Endings::new(&productions, &lexer, (&self.common, &self.own), known);
        let blank = written.has_space_around().then(|| Arc::clone(&self.blank));
        let mut pristine = self.pristine((compiled, endings), (Source::Written(written), guides))?;
        pristine.blank = blank;
        pristine.rules = self.filter(shape);
        Ok(pristine)
    }

    /// What is enforced beside the grammar.
    fn filter(&self, shape: Option<Shape>) -> Option<Arc<Rules>> {
        shape.map(|shape| Arc::new(Rules::new(shape, &self.quotes)))
    }

    fn gbnf(&self, source: &str, dialect: Dialect, budget: &Budget) -> Result<String> {
        texts::check_size("gbnf", source, &self.config)?;
        let names = |name: &str, is_other: bool| self.named_token(name, is_other);
        gbnf::to_lark(source, (dialect, &names), self.config.max_lark_bytes, budget)
    }

    /// A token, by its text or its number, in Lark's notation; or any other token that an answer may have.
    ///
    /// # Errors
    /// Why a grammar cannot name it.
    fn named_token(&self, name: &str, is_other: bool) -> Result<String, String> {
        let number = name.strip_prefix("<[").and_then(|rest| rest.strip_suffix("]>"));
        let found = match number {
            Some(number) => number.parse().ok().filter(|token| (*token as usize) < self.vocab.len()),
            None => match self.vocab.encode(&[(name, true)]).as_deref() {
                Ok([token]) => Some(*token).filter(|token| self.vocab.is_special(*token)),
                _ => None,
            },
        };
        match found {
            None if number.is_some() => Err(format!("{name} is no token of this model")),
            None => Err(format!("{name} is no special token of this model")),
            Some(token) if is_other => Ok(self.others(token)),
            Some(end) if self.vocab.is_eog(end) => Err(format!(
                "{name} ends an answer: leave it out, the end of the grammar is the end of the answer"
            )),
            Some(_) => Ok(name.to_owned()),
        }
    }

    /// All tokens but this one, those that end an answer, and those without a text.
    fn others(&self, token: Token) -> String {
        let vocab = &self.vocab;
        let left_out = |t: &Token| *t == token || vocab.is_eog(*t) || vocab.bytes(*t).is_empty();
        let mut ranges: Vec<(Token, Token)> = Vec::new();
        for t in (0..vocab.len() as Token).filter(left_out) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == t => *last = t,
                _ => ranges.push((t, t)),
            }
        }
        let ranges: Vec<String> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        format!("<[^{}]>", ranges.join(","))
    }

    /// The grammar at its beginning. Also computes the first mask, since a grammar can compile and still allow no token.
    fn pristine(
        &self,
        (compiled, endings): (Compiled, Option<Endings>),
        (source, guides): (Source, bool),
    ) -> Result<Pristine, String> {
        if endings.is_none() {
            log::info!("{UNFOLLOWED}: llguidance alone follows them");
        }
        let (ends, masks) = (Arc::clone(&self.ends), Arc::clone(&self.masks));
        let pristine = Arc::new(Pristine {
            compiled,
            ends,
            source,
            guides,
            rules: None,
            endings: endings.map(Arc::new),
            masks,
            told: Once::new(),
            blank: None,
        });
        Part::new(Arc::clone(&pristine)).mask().map_err(|e| match e {
            Error::Grammar { why, .. } => why,
            e => e.to_string(),
        })?;
        Arc::into_inner(pristine).ok_or_else(|| "it is used already. This is a bug.".to_owned())
    }
}

/// llguidance's parser.
fn parser(
    (factory, caps): (&ParserFactory, InferenceCapabilities),
    init: GrammarInit,
    limits: ParserLimits,
) -> anyhow::Result<TokenParser> {
    factory.create_parser_from_init_ext(init, Logger::new(0, 0), caps, limits)
}

/// Tokens of white space.
fn blank(vocab: &Vocab) -> Mask {
    Mask::of((0..vocab.len() as Token).filter(|token| vocab.is_blank(*token)), vocab.len())
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Unwraps `Styled`; its style holds for all schemas that are compiled after it.
fn unstyled<'a>(mut spec: &'a GrammarSpec, budget: &Budget) -> &'a GrammarSpec {
    while let GrammarSpec::Styled { style, grammar } = spec {
        budget.set_style(style);
        spec = grammar;
    }
    spec
}
