//! Compiles a client's Lark, and the grammars that it names.
//!
//! llguidance compiles the Lark text. For each named grammar it is given a grammar without texts, which makes a symbol. Then the named
//! grammar is assembled as others are ([`Written::parts_behind`]), and its start becomes a rule of that symbol. Its lexemes get the
//! symbol's lexeme class, by which llguidance tells the parts of a grammar apart.

use super::{Builder, GUIDE_BYTES, parser};
use crate::budget::Budget;
use crate::ending::Endings;
use crate::error::{Error, Result};
use crate::languages::Known;
use crate::lark::{Named, with_schemas};
use crate::matching::Compiled;
use crate::part::{Pristine, Source};
use crate::productions::Productions;
use crate::text;
use crate::written::Written;
use ahash::AHashMap;
use llguidance::Matcher;
use llguidance::api::{GrammarInit, GrammarWithLexer, ParserLimits, TopLevelGrammar};
use llguidance::earley::{Grammar, SymIdx, SymbolProps};

impl Builder {
    /// A client's Lark.
    pub(super) fn lark(&self, kind: &str, source: &str, budget: &Budget) -> Result<Pristine> {
        let mut named = Named::new(budget, &self.library);
        let list = TopLevelGrammar::from_lark(with_schemas(kind, source, &self.config, &mut named)?);
        self.compile_list(list, named, &self.user).map_err(|why| Error::grammar("", kind, why))
    }

    /// A client's list of llguidance's.
    pub(super) fn llguidance(&self, source: &str, budget: &Budget) -> Result<Pristine> {
        let refuse = |why: String| Error::grammar("", "llguidance", why);
        if source.len() > self.config.max_schema_bytes {
            return Err(refuse(format!("longer than {} bytes", self.config.max_schema_bytes)));
        }
        let mut list: TopLevelGrammar = serde_json::from_str(source).map_err(|e| refuse(e.to_string()))?;
        if list.max_tokens.is_some() {
            return Err(refuse("max_tokens cannot be set here: use the request's max_tokens".into()));
        }
        let mut named = Named::new(budget, &self.library);
        for (i, part) in list.grammars.iter_mut().enumerate() {
            let at = format!("/grammars/{i}/json_schema");
            budget.within(&at, || self.list_part(part, &mut named))?;
        }
        self.compile_list(list, named, &self.user).map_err(refuse)
    }

    fn list_part(&self, part: &mut GrammarWithLexer, named: &mut Named<'_>) -> Result<()> {
        if let Some(source) = &mut part.lark_grammar {
            *source = with_schemas("llguidance", source, &self.config, named)?;
        }
        if let Some(schema) = part.json_schema.take() {
            part.lark_grammar = Some(format!("start: @{}", named.schema(&schema, &self.config)?));
        }
        Ok(())
    }

    /// A grammar of several parts, and those that it names.
    ///
    /// # Errors
    /// What llguidance does not take.
    pub(super) fn compile_list(
        &self,
        mut list: TopLevelGrammar,
        named: Named<'_>,
        limits: &ParserLimits,
    ) -> Result<Pristine, String> {
        let clean = |e: anyhow::Error| text::clean(&format!("{e:#}"));
        let skips_once = skips_once(&list);
        let named = named.grammars;
        let lark = lark_of(&list).filter(|_| named.is_empty());
        let guides = lark.as_ref().is_some_and(|lark| lark.len() <= GUIDE_BYTES);
        list.grammars.extend(named.iter().map(|(name, _)| place(name)));
        let init = GrammarInit::Serialized(list);
        let (mut grammar, mut lexer) =
            init.to_internal(Some(self.factory.tok_env().clone()), limits.clone()).map_err(clean)?;
        let mut known = Known::of_client(&lexer);
        let places = places(&mut grammar, &named)?;
        for ((_, written), place) in named.into_iter().zip(places) {
            // White space around it is that of a part of a text.
            let mut frame = Written::frame();
            let part = frame.part(written);
            frame.or(vec![part]);
            let class = grammar.sym_props(place).grammar_id;
            let parts = frame.parts_behind(&self.base, (lexer, class))?.within(limits)?;
            let start = parts.add_to(&mut grammar).map_err(clean)?;
            grammar.add_rule(place, vec![start]).map_err(clean)?;
            known.extend(parts.texts);
            lexer = parts.lexer;
        }
        let init = GrammarInit::Internal(grammar, lexer);
        let parser = parser((&self.factory, self.caps.clone()), init, limits.clone()).map_err(clean)?;
        let grammar = parser.parser.grammar();
        let spec = grammar.lexer_spec().clone();
        let productions = Productions::of(grammar);
        let endings = match skips_once {
            true => None,
            false => Endings::new(&productions, &spec, (&self.common, limits), known),
        };
        let matcher = Matcher::new(Ok(parser));
        let compiled = Compiled::new(&spec, Box::new(move || matcher));
        self.pristine((compiled, endings), (Source::Lark(lark), guides))
    }
}

/// Whether a grammar may say that what is skipped is so only once in a place: llguidance does not tell when it is compiled.
fn skips_once(grammar: &TopLevelGrammar) -> bool {
    let says = |part: &GrammarWithLexer| part.lark_grammar.iter().any(|lark| lark.contains("ignore_once"));
    grammar.grammars.iter().any(says)
}

/// The Lark text that a grammar is; None where it has several parts.
fn lark_of(grammar: &TopLevelGrammar) -> Option<String> {
    let [part] = grammar.grammars.as_slice() else { return None };
    part.lark_grammar.clone().filter(|_| part.json_schema.is_none())
}

/// A grammar of no text, for Lark to refer to. It captures under its name, by which it is found again.
fn place(name: &str) -> GrammarWithLexer {
    let lark = format!("start: place\nplace[capture=\"{name}\"]: NONE\nNONE: \"a\" & \"b\"\n");
    part(Some(name.to_owned()), lark)
}

/// The symbols of the places of named grammars.
///
/// # Errors
/// Where one is not there.
fn places(grammar: &mut Grammar, named: &[(String, Written)]) -> Result<Vec<SymIdx>, String> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    // Only a grammar makes a `SymIdx`, and each counts its symbols from 0: so another grammar makes those of this one.
    let mut counting = Grammar::new(None);
    let mut places = AHashMap::new();
    for _ in 0..grammar.num_symbols() {
        let symbol = counting.fresh_symbol_ext("", SymbolProps::default());
        if let Some(name) = &grammar.sym_props(symbol).capture_name {
            // A client's own symbol may capture under the same name, but comes before and is replaced.
            places.insert(name.clone(), symbol);
        }
    }
    let find = |(name, _): &(String, Written)| {
        let place =
            places.get(name).copied().ok_or_else(|| format!("{name} has no place. This is a bug."))?;
        grammar.sym_props_mut(place).capture_name = None;
        Ok(place)
    };
    named.iter().map(find).collect()
}

/// A part of a grammar.
pub(super) fn part(name: Option<String>, lark: String) -> GrammarWithLexer {
    GrammarWithLexer { name, lark_grammar: Some(lark), ..GrammarWithLexer::default() }
}
