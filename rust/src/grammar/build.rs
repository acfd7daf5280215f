//! Spec to compiled matcher. Takes milliseconds to seconds and a deep stack: runs on the compiler's threads only.

use super::budget::Budget;
use super::schema::{self, Together};
use super::{GrammarSpec, env, gbnf, lark, text};
use crate::config::GrammarConfig;
use crate::error::{Error, Result};
use crate::types::Token;
use crate::vocab::Vocab;
use llguidance::api::{GrammarInit, GrammarWithLexer, ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::{Logger, Matcher, ParserFactory, regex_to_lark};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use toktrie::InferenceCapabilities;

/// Most choices of a choice list: 40,000 take 0.23 s.
const MAX_CHOICES: usize = 50_000;

/// Most states that the lexer of one constraint may come to have. No schema of MaskBench needs more than 3,000.
const MAX_STATES: usize = 50_000;
/// Most that all of those at work may have together: about 1 KiB each.
const ALL_STATES: usize = 1_000_000;

/// A compiled grammar at its beginning. Never walked: clones are.
pub(super) struct Pristine {
    pub(super) matcher: Matcher,
    pub(super) can_rollback: bool,
    pub(super) ends: Arc<Ends>,
}

/// The end tokens, and the width of a mask.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) eog: Vec<Token>,
    pub(super) width: usize,
}

impl fmt::Debug for Pristine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pristine").field("can_rollback", &self.can_rollback).finish_non_exhaustive()
    }
}

/// What all compilations share: the vocabulary's tables and the limits.
pub(super) struct Builder {
    factory: ParserFactory,
    /// Limits for grammars that come from a schema, a regular expression or a list of choices.
    own: ParserLimits,
    /// Limits for grammars in Lark, which may be ambiguous: with the wider ones a mask of an ambiguous rule takes up to
    /// 0.9 s, with these some milliseconds.
    user: ParserLimits,
    config: GrammarConfig,
    caps: InferenceCapabilities,
    ends: Arc<Ends>,
}

impl Builder {
    /// `running`: sequences at work at a time.
    pub(super) fn new(vocab: &Vocab, config: &GrammarConfig, running: usize) -> Result<Self> {
        let env = env::safe(vocab)?;
        let caps = InferenceCapabilities { ff_tokens: env.tokenize_is_canonical(), ..Default::default() };
        let factory = ParserFactory::new(&env, caps.clone(), &SlicedBiasComputer::general_slices())
            .map_err(|e| Error::invalid("tokenizer", text::clean(&format!("{e:#}"))))?;
        let max_lexer_states = MAX_STATES.min(ALL_STATES / running.max(1));
        let own = ParserLimits { max_lexer_states, verbose_errors: false, ..Default::default() };
        let user = ParserLimits {
            max_items_in_row: 500,
            step_max_items: 5_000,
            step_lexer_fuel: 50_000,
            ..own.clone()
        };
        let ends = Arc::new(Ends { eog: vocab.eog().to_vec(), width: vocab.len() });
        Ok(Builder { factory, own, user, config: config.clone(), caps, ends })
    }

    pub(super) fn build(&self, spec: &GrammarSpec, budget: &Budget) -> Result<Pristine> {
        match spec {
            GrammarSpec::JsonObject => self.json_source(r#"{"type":"object"}"#, budget),
            GrammarSpec::JsonSchema(source) => self.json_source(source, budget),
            GrammarSpec::Regex(rx) => self.lark("regex", &regex(rx, &self.config)?, &self.own),
            GrammarSpec::Gbnf(source) => self.gbnf(source),
            GrammarSpec::Choice(list) => self.lark("choice", &choice(list, &self.config)?, &self.own),
            GrammarSpec::LarkGrammar(source) => self.user_lark("lark_grammar", source, budget),
            GrammarSpec::Llguidance(source) => self.llguidance(source, budget),
        }
    }

    fn json_source(&self, source: &str, budget: &Budget) -> Result<Pristine> {
        let schema = schema::parse(source, &self.config)?;
        let prepared = schema::prepare(&schema, &self.config, budget)?;
        self.lark("schema", &prepared.lark, &self.own)
    }

    fn lark(&self, kind: &str, source: &str, limits: &ParserLimits) -> Result<Pristine> {
        self.compile(TopLevelGrammar::from_lark(source.to_owned()), limits)
            .map_err(|why| Error::grammar("", kind, why))
    }

    fn gbnf(&self, source: &str) -> Result<Pristine> {
        check_size("gbnf", source, &self.config)?;
        let rx = gbnf::to_regex(source, self.config.max_lark_bytes)?;
        self.lark("gbnf", &format!("start: /{}/", regex_to_lark(&rx, "dw")), &self.own)
    }

    fn user_lark(&self, kind: &str, source: &str, budget: &Budget) -> Result<Pristine> {
        check_size(kind, source, &self.config)?;
        let mut together = Together::new(budget);
        let ready = lark::with_schemas(source, &self.config, &mut together)?;
        let mut list = TopLevelGrammar::from_lark(ready);
        list.grammars.extend(together.named());
        self.compile(list, &self.user).map_err(|why| Error::grammar("", kind, why))
    }

    fn llguidance(&self, source: &str, budget: &Budget) -> Result<Pristine> {
        let refuse = |why: String| Error::grammar("", "llguidance", why);
        if !source.trim_start().starts_with('{') {
            return self.user_lark("llguidance", source, budget);
        }
        if source.len() > self.config.max_schema_bytes {
            return Err(refuse(format!("longer than {} bytes", self.config.max_schema_bytes)));
        }
        let mut list: TopLevelGrammar = serde_json::from_str(source).map_err(|e| refuse(e.to_string()))?;
        if list.max_tokens.is_some() {
            return Err(refuse("max_tokens cannot be set here: use the request's max_tokens".into()));
        }
        let mut together = Together::new(budget);
        for (i, part) in list.grammars.iter_mut().enumerate() {
            self.list_part(part, &mut together)
                .map_err(|e| within(e, &format!("/grammars/{i}/json_schema")))?;
        }
        list.grammars.extend(together.named());
        self.compile(list, &self.user).map_err(refuse)
    }

    fn list_part(&self, part: &mut GrammarWithLexer, together: &mut Together<'_>) -> Result<()> {
        if let Some(source) = &mut part.lark_grammar {
            check_size("llguidance", source, &self.config)?;
            *source = lark::with_schemas(source, &self.config, together)?;
        }
        if let Some(schema) = part.json_schema.take() {
            part.lark_grammar = Some(format!("start: @{}", together.prepare(&schema, &self.config)?));
        }
        Ok(())
    }

    /// Compiles, and computes the first mask: some grammars compile and then admit nothing.
    fn compile(&self, grammar: TopLevelGrammar, limits: &ParserLimits) -> Result<Pristine, String> {
        let parser = self
            .factory
            .create_parser_from_init_ext(
                GrammarInit::Serialized(grammar),
                Logger::new(0, 0),
                self.caps.clone(),
                limits.clone(),
            )
            .map_err(|e| text::clean(&format!("{e:#}")))?;
        let can_rollback = parser.parser.grammar().lexer_spec().can_rollback();
        let mut matcher = Matcher::new(Ok(parser));
        match super::mask_of(&mut matcher, &self.ends) {
            Ok(_) => Ok(Pristine { matcher, can_rollback, ends: Arc::clone(&self.ends) }),
            Err(Error::Grammar { why, .. }) => Err(why),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}

fn check_size(kind: &str, source: &str, config: &GrammarConfig) -> Result<()> {
    if source.len() > config.max_lark_bytes {
        return Err(Error::grammar("", kind, format!("longer than {} bytes", config.max_lark_bytes)));
    }
    Ok(())
}

/// An error inside a part of a larger document.
fn within(e: Error, prefix: &str) -> Error {
    match e {
        Error::Grammar { pointer, keyword, why } => {
            Error::Grammar { pointer: format!("{prefix}{pointer}"), keyword, why }
        }
        other => other,
    }
}

/// A Lark grammar for a regular expression over the whole output. `\d` and `\w` are ASCII, as in JSON schemas.
fn regex(rx: &str, config: &GrammarConfig) -> Result<String> {
    check_size("regex", rx, config)?;
    if rx.is_empty() {
        return Ok("start: \"\"".into());
    }
    if rx.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1 {
        return Err(Error::grammar("", "regex", "ends in a lone backslash"));
    }
    Ok(format!("start: /{}/", regex_to_lark(rx, "dw")))
}

/// A Lark grammar for a list of texts, as one terminal: as alternatives of a rule, masks cost a hundred times more.
fn choice(list: &[String], config: &GrammarConfig) -> Result<String> {
    let bytes: usize = list.iter().map(String::len).sum();
    if list.is_empty() {
        return Err(Error::grammar("", "choice", "the list is empty"));
    }
    if list.len() > MAX_CHOICES || bytes > config.max_schema_bytes {
        let why = format!("more than {MAX_CHOICES} texts or {} bytes", config.max_schema_bytes);
        return Err(Error::grammar("", "choice", why));
    }
    let texts: Vec<String> = list.iter().filter(|t| !t.is_empty()).map(|t| literal(t)).collect();
    let mut lark = String::from("start: ");
    match (texts.is_empty(), texts.len() < list.len()) {
        (true, _) => lark.push_str("\"\""),
        (false, may_be_empty) => {
            lark.push_str(if may_be_empty { "C?\nC: " } else { "C\nC: " });
            lark.push_str(&texts.join(" | "));
        }
    }
    Ok(lark)
}

/// A Lark string literal: JSON's escapes, and U+007F escaped too, which the Lark lexer refuses raw.
fn literal(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
