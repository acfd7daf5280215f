//! Rules and terminals as a grammar over lexemes, and those as llguidance's lexer has them.
//!
//! The same could be written in Lark: but llguidance makes a lexer for Lark's syntax each time that it reads some, which takes as
//! long as all else that a compilation does.

use super::Written;
use super::base::{Base, build, greedy, of_characters};
use super::expr::Expr;
use super::rules::{Symbol, condition, spaced, with_parameter};
use crate::languages::Texts;
use crate::productions::{Id, Productions};
use crate::types::Token;
use ahash::AHashMap;
use llguidance::api::{GrammarInit, ParserLimits};
use llguidance::derivre::ExprRef;
use llguidance::earley::lexerspec::{LexemeClass, LexemeIdx, LexerSpec};
use llguidance::earley::{Grammar, ParamCond, ParamExpr, SymIdx};
use toktrie::TokTrie;

/// Repetitions are put together from so many at a time, so that their rules grow with the logarithm of a count. As many as
/// llguidance's own have.
const AT_A_TIME: u32 = 4;

/// White space behind a text, as far as one token has it.
const BEHIND: &str = r"[ \t\r\n]{1,8}";

/// A grammar over lexemes, and those.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) productions: Productions,
    pub(crate) lexer: LexerSpec,
    /// What is known of the lexemes of these productions.
    pub(crate) texts: AHashMap<LexemeIdx, Texts>,
    class: LexemeClass,
}

impl Parts {
    /// The same, where it is within what llguidance's builder checks.
    ///
    /// # Errors
    /// Where it is not.
    pub(crate) fn within(self, limits: &ParserLimits) -> Result<Self, String> {
        let fits = self.lexer.cost() <= limits.initial_lexer_fuel
            && self.productions.symbols.len() <= limits.max_grammar_size;
        if fits { Ok(self) } else { Err("its grammar is too large: make it simpler".to_owned()) }
    }

    /// The same for llguidance.
    ///
    /// # Errors
    /// What is no grammar of it.
    pub(crate) fn init(self) -> anyhow::Result<GrammarInit> {
        let mut grammar = Grammar::new(None);
        let start = self.add_to(&mut grammar)?;
        grammar.sym_props_mut(start).is_start = true;
        Ok(GrammarInit::Internal(grammar, self.lexer))
    }

    /// Adds the rules to those of a grammar whose lexer this one is behind, and returns the symbol of their texts.
    ///
    /// # Errors
    /// What is no grammar of llguidance's.
    pub(crate) fn add_to(&self, grammar: &mut Grammar) -> anyhow::Result<SymIdx> {
        self.productions.add_to(grammar, (self.class, &self.lexer))
    }
}

impl Written {
    /// The same over lexemes.
    ///
    /// # Errors
    /// What is no regular expression.
    pub(crate) fn parts(&self, base: &Base) -> Result<Parts, String> {
        self.assemble(base, (base.lexer.clone(), base.class), &base.regexes)
    }

    /// The same with lexemes behind those of another grammar's lexer, in a class of that.
    ///
    /// # Errors
    /// What is no regular expression.
    pub(crate) fn parts_behind(
        &self,
        base: &Base,
        (mut lexer, class): (LexerSpec, LexemeClass),
    ) -> Result<Parts, String> {
        of_characters(&mut lexer.regex_builder);
        lexer.current_class = class;
        self.assemble(base, (lexer, class), &AHashMap::new())
    }

    /// `regexes`: expressions that the lexer has already.
    fn assemble(
        &self,
        base: &Base,
        (lexer, class): (LexerSpec, LexemeClass),
        regexes: &AHashMap<String, ExprRef>,
    ) -> Result<Parts, String> {
        let mut assembly = Assembly {
            productions: Productions::default(),
            lexer,
            space: self.space.as_deref(),
            terminals: &self.terminals,
            base,
            regexes,
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
        Ok(Parts { productions: productions.simplified()?, lexer, texts: known, class })
    }
}

/// A grammar that is being put together.
struct Assembly<'a> {
    productions: Productions,
    lexer: LexerSpec,
    space: Option<&'a str>,
    terminals: &'a [Expr],
    base: &'a Base,
    /// Those that the lexer has.
    regexes: &'a AHashMap<String, ExprRef>,
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
        let rx = build(&mut self.lexer.regex_builder, self.regexes, expr)?;
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
