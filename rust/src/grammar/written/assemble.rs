//! Rules and terminals as a grammar over lexemes, and those as llguidance's lexer has them.
//!
//! The same could be written in Lark, and is where a grammar has parts in other hands: but llguidance makes a lexer for Lark's
//! syntax each time that it reads some, which takes as long as all else that a compilation does.

use super::expr::{Expr, class};
use super::multiple;
use super::rules::{Symbol, condition, spaced, with_parameter};
use super::{WHITESPACE, Written};
use crate::grammar::gbnf::of_class;
use crate::grammar::languages::{Language, Languages, Texts};
use crate::grammar::productions::{Id, Productions};
use crate::types::Token;
use ahash::AHashMap;
use llguidance::api::{GrammarInit, ParserLimits};
use llguidance::derivre::{ExprRef, RegexAst, RegexBuilder};
use llguidance::earley::lexerspec::{LexemeClass, LexemeIdx, LexerSpec};
use llguidance::earley::{ParamCond, ParamExpr};
use std::sync::Arc;
use toktrie::TokTrie;

/// Repetitions are put together from so many at a time, so that their rules grow with the logarithm of a count. As many as
/// llguidance's own have.
const AT_A_TIME: u32 = 4;

/// White space behind a text, as far as one token has it.
const BEHIND: &str = r"[ \t\r\n]{1,8}";

/// A grammar over lexemes, and those.
#[derive(Debug, Clone)]
pub(in crate::grammar) struct Parts {
    pub(in crate::grammar) productions: Productions,
    pub(in crate::grammar) lexer: LexerSpec,
    pub(in crate::grammar) texts: AHashMap<LexemeIdx, Texts>,
    class: LexemeClass,
}

impl Parts {
    /// Whether it is within what llguidance's builder checks.
    pub(in crate::grammar) fn fits(&self, limits: &ParserLimits) -> bool {
        self.lexer.cost() <= limits.initial_lexer_fuel
            && self.productions.symbols.len() <= limits.max_grammar_size
    }

    /// The same for llguidance.
    ///
    /// # Errors
    /// What is no grammar of it.
    pub(in crate::grammar) fn init(self) -> anyhow::Result<GrammarInit> {
        let grammar = self.productions.grammar(self.class, &self.lexer)?;
        Ok(GrammarInit::Internal(grammar, self.lexer))
    }
}

impl Written {
    /// The same over lexemes.
    ///
    /// # Errors
    /// What is no regular expression.
    pub(in crate::grammar) fn parts(&self, base: &Base) -> Result<Parts, String> {
        let Base { lexer, class, .. } = base;
        let mut assembly = Assembly {
            productions: Productions::default(),
            lexer: lexer.clone(),
            space: self.space.as_deref(),
            terminals: &self.terminals,
            base,
            texts: AHashMap::new(),
            built: AHashMap::new(),
            lexemes: AHashMap::new(),
            tokens: AHashMap::new(),
            known: AHashMap::new(),
            rules: Vec::new(),
            repeated: AHashMap::new(),
        };
        let start = assembly.productions.symbol();
        assembly.rules = self.rules.iter().map(|_| assembly.productions.symbol()).collect();
        for rule in with_parameter(&self.rules) {
            let symbol = assembly.rules[rule];
            assembly.productions.symbols[symbol as usize].has_parameter = true;
        }
        let root = assembly.rules[0];
        assembly.add(start, vec![root]);
        if self.has_space_around() {
            // Pieces of some vocabularies carry a space before a text, and line breaks behind its last bracket.
            let before = assembly.lexeme(&Expr::Text(" ".to_owned()))?;
            let behind = assembly.lexeme(&Expr::Regex(BEHIND.to_owned()))?;
            assembly.add(start, vec![before, root]);
            assembly.add(start, vec![root, behind]);
            assembly.add(start, vec![before, root, behind]);
        }
        for (rule, line) in
            self.rules.iter().enumerate().flat_map(|(r, lines)| lines.iter().map(move |l| (r, l)))
        {
            let symbols = line.iter().filter(|symbol| !matches!(symbol, Symbol::If(_)));
            let symbols = symbols.map(|symbol| assembly.part(symbol)).collect::<Result<_, _>>()?;
            assembly.productions.add(assembly.rules[rule], condition(line).clone(), symbols);
        }
        let Assembly { productions, lexer, known, .. } = assembly;
        Ok(Parts { productions: productions.simplified()?, lexer, texts: known, class: *class })
    }
}

/// What grammars begin with: the white space that is skipped, and regular expressions that most of them have. To read one takes
/// 10 to 30 us.
pub(in crate::grammar) struct Base {
    lexer: LexerSpec,
    class: LexemeClass,
    regexes: AHashMap<String, ExprRef>,
    languages: Languages<Expr>,
    /// A character of a string in JSON, in one spelling.
    character: Expr,
    slices: Vec<String>,
    /// Bytes of the longest token.
    longest: u32,
}

impl Base {
    /// `common`: the expressions, besides those of brackets, commas and colons; `character`: that of a string in JSON. `slices` and
    /// `longest`: the vocabulary's slices, and bytes of its longest token.
    ///
    /// # Errors
    /// What is no regular expression among them.
    pub(in crate::grammar) fn new(
        (common, character): (impl IntoIterator<Item = String>, Expr),
        (slices, longest): (Vec<String>, u32),
    ) -> Result<Self, String> {
        let mut lexer = LexerSpec::new().map_err(|e| e.to_string())?;
        of_characters(&mut lexer.regex_builder);
        // White space is a part of brackets, commas and colons: before the last two, and in other places, there is none.
        let class = lexer.setup_lexeme_class(RegexAst::NoMatch).map_err(|e| e.to_string())?;
        let mut regexes = AHashMap::new();
        let spaced = [",", ":", "{", "}", "[", "]"].iter().filter_map(|text| spaced(text, Some(WHITESPACE)));
        for rx in common.into_iter().chain(spaced) {
            let built = regex(&mut lexer.regex_builder, &rx)?;
            regexes.insert(rx, built);
        }
        Ok(Base { lexer, class, regexes, languages: Languages::new(), character, slices, longest })
    }

    /// Adds the texts of a terminal. Each alternative is added on its own, since other terminals may have the same alternative.
    fn texts(&self, expr: &Expr, texts: &mut Texts) -> Result<(), String> {
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
            if let Some((base, bounds)) = expr.counted()
                && let Some(counted) = Language::counted(&self.language(&base)?, &bounds, self.longest)
            {
                return Ok(counted);
            }
            let (spec, lexeme) = lexer_of(expr, &self.slices)?;
            let mut language = Language::new(&spec, lexeme)?;
            language.is_open = expr.is_open(&self.character);
            Ok(language)
        })
    }
}

/// Makes regular expressions be about characters, not bytes.
fn of_characters(builder: &mut RegexBuilder) {
    builder.unicode(true).utf8(true);
}

/// Makes a lexer for one terminal, with the regular expressions `slices` as extra lexemes. Returns the terminal's lexeme, too.
pub(in crate::grammar) fn lexer_of(expr: &Expr, slices: &[String]) -> Result<(LexerSpec, LexemeIdx), String> {
    let mut lexer = LexerSpec::new().map_err(|e| e.to_string())?;
    of_characters(&mut lexer.regex_builder);
    lexer.setup_lexeme_class(RegexAst::NoMatch).map_err(|e| e.to_string())?;
    let rx = build(&mut lexer.regex_builder, &AHashMap::new(), expr)?;
    let lexeme = greedy(&mut lexer, rx)?;
    lexer.add_extra_lexemes(slices);
    Ok((lexer, lexeme))
}

fn greedy(lexer: &mut LexerSpec, rx: ExprRef) -> Result<LexemeIdx, String> {
    let added = lexer.add_greedy_lexeme(String::new(), RegexAst::ExprRef(rx), false, None, usize::MAX);
    added.map_err(|e| e.to_string())
}

fn regex(builder: &mut RegexBuilder, rx: &str) -> Result<ExprRef, String> {
    builder.mk_regex(rx).map_err(|e| format!("invalid regex {rx:?}: {e}"))
}

/// A grammar that is being put together.
struct Assembly<'a> {
    productions: Productions,
    lexer: LexerSpec,
    space: Option<&'a str>,
    terminals: &'a [Expr],
    base: &'a Base,
    /// Symbols of texts and terminals, and of what they come to.
    texts: AHashMap<&'a str, Id>,
    built: AHashMap<&'a Expr, Id>,
    lexemes: AHashMap<ExprRef, Id>,
    tokens: AHashMap<Token, Id>,
    known: AHashMap<LexemeIdx, Texts>,
    rules: Vec<Id>,
    /// By symbol, least and most.
    repeated: AHashMap<(Id, u32, Option<u32>), Id>,
}

impl<'a> Assembly<'a> {
    fn add(&mut self, symbol: Id, line: Vec<Id>) {
        let line = line.into_iter().map(|part| (part, ParamExpr::Null)).collect();
        self.productions.add(symbol, ParamCond::True, line);
    }

    /// A symbol, and what it remembers.
    fn part(&mut self, symbol: &'a Symbol) -> Result<(Id, ParamExpr), String> {
        let plain = match symbol {
            Symbol::Rule(rule) => self.rules[*rule],
            Symbol::Times(rule, least, most) => self.times(self.rules[*rule], *least, *most),
            Symbol::Terminal(terminal) => {
                let expr = &self.terminals[*terminal];
                match self.built.get(expr) {
                    Some(known) => *known,
                    None => {
                        let built = self.lexeme(expr)?;
                        self.built.insert(expr, built);
                        built
                    }
                }
            }
            Symbol::Text(text) => match self.texts.get(&**text) {
                Some(known) => *known,
                None => {
                    let spaced = spaced(text, self.space);
                    let built =
                        self.lexeme(&spaced.map_or_else(|| Expr::Text(text.to_string()), Expr::Regex))?;
                    self.texts.insert(text, built);
                    built
                }
            },
            Symbol::Token(token) => self.token(*token)?,
            Symbol::With(rule, bits) => return Ok((self.rules[*rule], bits.clone())),
            Symbol::If(_) | Symbol::Needs(_) => return Err("a rule is not pruned. This is a bug.".to_owned()),
        };
        Ok((plain, ParamExpr::Null))
    }

    fn lexeme(&mut self, expr: &Expr) -> Result<Id, String> {
        let rx = build(&mut self.lexer.regex_builder, &self.base.regexes, expr)?;
        if let Some(known) = self.lexemes.get(&rx) {
            return Ok(*known);
        }
        let lexeme = greedy(&mut self.lexer, rx)?;
        let symbol = self.productions.terminal(lexeme, &self.lexer);
        self.lexemes.insert(rx, symbol);
        let mut texts = Texts::default();
        self.base.texts(expr, &mut texts)?;
        self.known.insert(lexeme, texts);
        Ok(symbol)
    }

    fn token(&mut self, token: Token) -> Result<Id, String> {
        if let Some(known) = self.tokens.get(&token) {
            return Ok(*known);
        }
        let name = format!("<[{token}]>");
        let lexeme = self.lexer.add_special_token(name, vec![token..=token]).map_err(|e| e.to_string())?;
        // No text begins with this byte.
        let marker = vec![[TokTrie::SPECIAL_TOKEN_MARKER].into()];
        self.known.insert(lexeme, Texts { listed: marker, described: Vec::new() });
        let symbol = self.productions.terminal(lexeme, &self.lexer);
        self.tokens.insert(token, symbol);
        Ok(symbol)
    }

    /// So many of a symbol.
    fn times(&mut self, symbol: Id, least: u32, most: Option<u32>) -> Id {
        if let Some(known) = self.repeated.get(&(symbol, least, most)) {
            return *known;
        }
        let all = self.productions.symbol();
        let lines = match most {
            None if least == 0 => vec![Vec::new(), vec![all, symbol]],
            Some(most) if most == least && least <= 2 * AT_A_TIME => vec![vec![symbol; least as usize]],
            Some(most) if most == least => {
                let mut line = vec![symbol; (least % AT_A_TIME) as usize];
                line.push(self.groups(symbol, (least / AT_A_TIME, least / AT_A_TIME)));
                vec![line]
            }
            Some(most) if least == 0 && most < 3 * AT_A_TIME => {
                (0..=most as usize).map(|count| vec![symbol; count]).collect()
            }
            // In one way each: all whole groups and what is left, or fewer whole groups and what is short of one.
            Some(most) if least == 0 => {
                let (groups, left) = (most / AT_A_TIME, most % AT_A_TIME);
                let whole = vec![self.groups(symbol, (groups, groups)), self.times(symbol, 0, Some(left))];
                let short = self.times(symbol, 0, Some(AT_A_TIME - 1));
                vec![whole, vec![self.groups(symbol, (0, groups - 1)), short]]
            }
            _ => {
                let more = most.map(|most| most.saturating_sub(least));
                vec![vec![self.times(symbol, least, Some(least)), self.times(symbol, 0, more)]]
            }
        };
        lines.into_iter().for_each(|line| self.add(all, line));
        self.repeated.insert((symbol, least, most), all);
        all
    }

    fn groups(&mut self, symbol: Id, (least, most): (u32, u32)) -> Id {
        let group = self.times(symbol, AT_A_TIME, Some(AT_A_TIME));
        self.times(group, least, Some(most))
    }
}

/// `known`: regular expressions that are there already.
fn build(
    builder: &mut RegexBuilder,
    known: &AHashMap<String, ExprRef>,
    expr: &Expr,
) -> Result<ExprRef, String> {
    let part = |part: &Expr| build(builder, known, part).map(RegexAst::ExprRef);
    let mut parts = expr.parts().iter().map(part).collect::<Result<Vec<_>, _>>()?;
    let ast = match expr {
        Expr::Regex(rx) => return known.get(rx).map_or_else(|| regex(builder, rx), |known| Ok(*known)),
        // To read a text takes ten times as long, and llguidance takes other classes as text only.
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
