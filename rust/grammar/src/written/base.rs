//! Terminals as llguidance's lexer has them, and what all grammars have in common.

use super::WHITESPACE;
use super::expr::{Expr, class};
use super::multiple;
use super::rules::spaced;
use super::strings::Limited;
use crate::gbnf::of_class;
use crate::languages::{Language, Languages, Pattern, Texts};
use ahash::AHashMap;
use llguidance::derivre::{ExprRef, RegexAst, RegexBuilder};
use llguidance::earley::lexerspec::{LexemeClass, LexemeIdx, LexerSpec};
use std::sync::Arc;

/// Steps that it may take to tell where an expression ends.
const FUEL: u64 = 1_000_000;

/// Expressions for JSON strings.
pub(crate) struct Strings {
    /// All strings, each in one spelling.
    pub(crate) plain: Expr,
    /// All characters, each in one spelling.
    pub(crate) character: Expr,
    /// Regular expressions that terminals have for whole strings and for characters.
    pub(crate) regexes: Vec<Expr>,
}

/// What is made once for all grammars of a vocabulary: a lexer that has the regular expressions of most grammars already, since parsing
/// one takes 10 to 30 us, and the automata of terminals.
pub(crate) struct Base {
    pub(super) lexer: LexerSpec,
    pub(super) class: LexemeClass,
    pub(super) regexes: AHashMap<String, ExprRef>,
    languages: Languages<Expr>,
    strings: Strings,
    slices: Vec<String>,
    /// Bytes of the longest token.
    longest: u32,
}

impl Base {
    /// `common`: the expressions, besides those of brackets, commas and colons; `slices` and
    /// `longest`: the vocabulary's slices, and bytes of its longest token.
    ///
    /// # Errors
    /// What is no regular expression among them.
    pub(crate) fn new(
        common: impl IntoIterator<Item = String>,
        strings: Strings,
        (slices, longest): (Vec<String>, u32),
    ) -> Result<Self, String> {
        let mut lexer = LexerSpec::new().map_err(|e| e.to_string())?;
        let class = begin(&mut lexer)?;
        let mut regexes = AHashMap::new();
        let spaced = [",", ":", "{", "}", "[", "]"].iter().filter_map(|text| spaced(text, Some(WHITESPACE)));
        for rx in common.into_iter().chain(spaced) {
            let built = regex(&mut lexer.regex_builder, &rx)?;
            regexes.insert(rx, built);
        }
        Ok(Base { lexer, class, regexes, languages: Languages::new(), strings, slices, longest })
    }

    /// Adds the texts of a terminal. Each alternative is added on its own, since other terminals may have the same alternative.
    pub(super) fn texts(&self, expr: &Expr, texts: &mut Texts) -> Result<(), String> {
        match (expr.listed(), expr) {
            (Some(list), _) => texts.listed.extend(list.into_iter().map(|text| text.as_bytes().into())),
            (None, Expr::Any(parts)) if !parts.is_empty() => {
                parts.iter().try_for_each(|part| self.texts(part, texts))?;
            }
            _ => texts.described.push(self.language(expr)?),
        }
        Ok(())
    }

    fn language(&self, expr: &Expr) -> Result<Arc<Language>, String> {
        self.languages.of(expr, || {
            let mut language = self.new_language(expr)?;
            language.is_string = expr.is_string(&self.strings.regexes);
            Ok(language)
        })
    }

    fn new_language(&self, expr: &Expr) -> Result<Language, String> {
        if let Some((base, bounds)) = expr.counted()
            && let Some(counted) = Language::counted(&self.language(&base)?, None, &bounds, self.longest)
        {
            return Ok(counted);
        }
        if let Some(Limited { pattern, farthest, units, bounds }) = expr.limited(&self.strings.character) {
            let pattern = Pattern { base: self.language(&pattern)?, farthest };
            let units = self.language(&units)?;
            if let Some(counted) = Language::counted(&units, Some(pattern), &bounds, self.longest) {
                return Ok(counted);
            }
        }
        if let Some((base, listed)) = expr.difference()
            && (base == self.strings.plain || base.is_endless())
        {
            let listed = listed.into_iter().map(|text| text.as_bytes().into()).collect();
            return Ok(Language::difference(&self.language(&base)?, listed));
        }
        let (spec, lexeme) = lexer_of(expr, &self.slices)?;
        let mut language = Language::new(&spec, lexeme)?;
        language.is_open = expr.is_open(&self.strings.character);
        Ok(language)
    }
}

/// Makes regular expressions be about characters, not bytes.
pub(super) fn of_characters(builder: &mut RegexBuilder) {
    builder.unicode(true).utf8(true);
}

/// Begins a class of lexemes between which nothing is skipped: white space is a part of brackets, commas and colons.
fn begin(lexer: &mut LexerSpec) -> Result<LexemeClass, String> {
    of_characters(&mut lexer.regex_builder);
    lexer.setup_lexeme_class(RegexAst::NoMatch).map_err(|e| e.to_string())
}

/// Makes a lexer for one terminal, with the regular expressions `slices` as extra lexemes. Returns the terminal's lexeme, too.
pub(crate) fn lexer_of(expr: &Expr, slices: &[String]) -> Result<(LexerSpec, LexemeIdx), String> {
    let mut lexer = LexerSpec::new().map_err(|e| e.to_string())?;
    begin(&mut lexer)?;
    let rx = build(&mut lexer.regex_builder, &AHashMap::new(), expr)?;
    let lexeme = greedy(&mut lexer, rx)?;
    lexer.add_extra_lexemes(slices);
    Ok((lexer, lexeme))
}

/// Whether a text of the expression, and a text of `first` behind it, begin a text of the expression again: then the lexer does not
/// end the first one there.
///
/// # Errors
/// What is no regular expression, or too complex to tell.
pub(crate) fn goes_on(expr: &Expr, first: &Expr) -> Result<bool, String> {
    let longer = Expr::concat([expr.clone(), first.clone(), Expr::anything()]);
    let mut builder = RegexBuilder::new();
    of_characters(&mut builder);
    let rx = build(&mut builder, &AHashMap::new(), &Expr::all([expr.clone(), longer]))?;
    let mut regex = builder.to_regex_limited(rx, FUEL).map_err(|e| e.to_string())?;
    let start = regex.initial_state();
    Ok((0..=255).any(|byte| !regex.transition(start, byte).is_dead()))
}

/// Adds a lexeme.
pub(super) fn greedy(lexer: &mut LexerSpec, rx: ExprRef) -> Result<LexemeIdx, String> {
    let added = lexer.add_greedy_lexeme(String::new(), RegexAst::ExprRef(rx), false, None, usize::MAX);
    added.map_err(|e| e.to_string())
}

fn regex(builder: &mut RegexBuilder, rx: &str) -> Result<ExprRef, String> {
    builder.mk_regex(rx).map_err(|e| format!("invalid regex {rx:?}: {e}"))
}

/// `known`: regular expressions that are there already.
pub(super) fn build(
    builder: &mut RegexBuilder,
    known: &AHashMap<String, ExprRef>,
    expr: &Expr,
) -> Result<ExprRef, String> {
    let part = |part: &Expr| build(builder, known, part).map(RegexAst::ExprRef);
    let mut parts = expr.parts().iter().map(part).collect::<Result<Vec<_>, _>>()?;
    let ast = match expr {
        Expr::Regex(rx) => return known.get(rx).map_or_else(|| regex(builder, rx), |known| Ok(*known)),
        // Parsing a class from its text takes ten times as long. llguidance accepts other classes only as text.
        Expr::Class(ranges) if ranges.iter().all(|(_, last)| last.is_ascii()) => {
            let mut bytes = vec![0_u32; 8];
            let each = ranges.iter().flat_map(|(first, last)| *first as u32..=*last as u32);
            each.for_each(|byte| bytes[byte as usize / 32] |= 1 << (byte % 32));
            RegexAst::ByteSet(bytes)
        }
        Expr::Class(ranges) => return regex(builder, &of_class(&class(ranges))),
        Expr::Text(text) => RegexAst::Literal(text.clone()),
        Expr::All(_) | Expr::Any(_) if parts.len() == 1 => parts.remove(0),
        Expr::All(_) => RegexAst::And(parts),
        Expr::Any(_) => RegexAst::Or(parts),
        Expr::Concat(_) => RegexAst::Concat(parts),
        Expr::Not(_) => RegexAst::Not(Box::new(parts.remove(0))),
        Expr::Repeat(_, least, most) => {
            RegexAst::Repeat(Box::new(parts.remove(0)), *least, most.unwrap_or(u32::MAX))
        }
        Expr::Multiples(d, yes) => multiple::condition(*d, *yes),
        Expr::Look(_) | Expr::Ahead(..) => unreachable!("patterns are translated. This is a bug."),
    };
    builder.mk(&ast).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn equal_terminals_are_one() {
        let languages = Languages::new();
        let of = |most| {
            let digits = Expr::Class(vec![('0', '9')]).times(1, Some(most));
            let make = || {
                let (spec, lexeme) = lexer_of(&digits, &["[a-z]+".to_owned()])?;
                Language::new(&spec, lexeme)
            };
            languages.of(&digits, make).unwrap()
        };
        let one = of(3);
        assert!(Arc::ptr_eq(&one, &of(3)));
        assert!(!Arc::ptr_eq(&one, &of(4)));
        assert!(Arc::ptr_eq(&one, &one.renewed()));
        // Characters that it does not tell apart are one to it.
        let classes: HashSet<usize> = (0..=255).map(|byte| one.automaton().class(byte)).collect();
        assert!(classes.len() < 8);
    }
}
