//! A grammar over lexemes: what the tables of [`ending`](super::ending) are made from, and llguidance's own grammar.

use llguidance::earley::lexerspec::{LexemeClass, LexemeIdx, LexerSpec};
use llguidance::earley::{CGrammar, CSymIdx, Grammar, ParamCond, ParamExpr, ParamValue, SymIdx, SymbolProps};
use std::collections::HashMap;

/// A symbol, by its number.
pub(super) type Id = u32;

/// Symbols in a row, each with its parameter.
pub(super) type Line = Vec<(Id, ParamExpr)>;

/// A grammar; the first symbol is the start.
#[derive(Debug, Clone, Default)]
pub(super) struct Productions {
    pub(super) symbols: Vec<Symbol>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Symbol {
    /// Of terminals.
    pub(super) lexeme: Option<LexemeIdx>,
    pub(super) has_parameter: bool,
    /// Whether it may be empty whatever its parameter is, and when else.
    pub(super) nullable: bool,
    pub(super) empty: Vec<ParamCond>,
    /// Its rules that are not empty, each with its condition.
    pub(super) rules: Vec<(ParamCond, Line)>,
}

impl Symbol {
    /// Its rule, if it has one only and is never empty.
    fn only(&self) -> Option<&Line> {
        match self.rules.as_slice() {
            [(ParamCond::True, line)] if !self.nullable && self.empty.is_empty() => Some(line),
            _ => None,
        }
    }
}

impl Productions {
    /// Those of a grammar that llguidance compiled, without symbols that the start does not reach.
    pub(super) fn of(grammar: &CGrammar) -> Self {
        let mut numbers = HashMap::from([(grammar.start().as_index(), 0)]);
        let mut found: Vec<CSymIdx> = vec![grammar.start()];
        let mut symbols = Vec::new();
        while let Some(symbol) = found.get(symbols.len()).copied() {
            let data = grammar.sym_data(symbol);
            let mut number = |part: &CSymIdx| {
                *numbers.entry(part.as_index()).or_insert_with(|| {
                    found.push(*part);
                    found.len() as Id - 1
                })
            };
            let line = |rule| {
                let (parts, args, _) = grammar.rule_rhs(rule);
                parts.iter().zip(args).map(|(part, arg)| (number(part), arg.clone())).collect()
            };
            let lines: Vec<Line> = data.rules.iter().copied().map(line).collect();
            symbols.push(Symbol {
                lexeme: data.lexeme,
                has_parameter: data.props.parametric,
                nullable: data.is_nullable,
                empty: data.cond_nullable.clone(),
                rules: data.rules_cond.iter().cloned().zip(lines).collect(),
            });
        }
        Productions { symbols }
    }

    /// A symbol without rules.
    pub(super) fn symbol(&mut self) -> Id {
        self.symbols.push(Symbol::default());
        self.symbols.len() as Id - 1
    }

    /// The terminal of a lexeme.
    pub(super) fn terminal(&mut self, lexeme: LexemeIdx, spec: &LexerSpec) -> Id {
        let terminal = self.symbol();
        self.symbols[terminal as usize].lexeme = Some(lexeme);
        if !spec.is_nullable(lexeme) {
            return terminal;
        }
        // Lexemes have a byte at least.
        let symbol = self.symbol();
        self.add(symbol, ParamCond::True, vec![(terminal, ParamExpr::Null)]);
        self.add(symbol, ParamCond::True, Vec::new());
        symbol
    }

    /// One more rule of a symbol.
    pub(super) fn add(&mut self, symbol: Id, holds: ParamCond, line: Line) {
        let symbol = &mut self.symbols[symbol as usize];
        match line.is_empty() {
            true if holds.is_true() => symbol.nullable = true,
            true => symbol.empty.push(holds),
            false => symbol.rules.push((holds, line)),
        }
    }

    /// The same language with fewer symbols, as Earley's algorithm takes a step for each. A symbol whose only rule is one other symbol
    /// is replaced by that symbol. A symbol with one rule and one use is replaced by that rule.
    ///
    /// # Errors
    /// Where it can't be told whether a line is empty.
    pub(super) fn simplified(mut self) -> Result<Self, String> {
        // What a symbol stands for mostly has a higher number, and is renamed already then.
        for number in (0..self.symbols.len()).rev() {
            self.rename(number as Id);
        }
        let uses = self.uses();
        let mut out = Productions::default();
        let mut numbers = HashMap::from([(0, 0)]);
        let mut found: Vec<Id> = vec![0];
        while let Some(number) = found.get(out.symbols.len()).copied() {
            let mut symbol = self.symbols[number as usize].clone();
            for (_, line) in &mut symbol.rules {
                self.expand(line, &uses);
                for (part, _) in line {
                    *part = *numbers.entry(*part).or_insert_with(|| {
                        found.push(*part);
                        found.len() as Id - 1
                    });
                }
            }
            out.symbols.push(symbol);
        }
        out.find_empty()?;
        Ok(out)
    }

    /// How often each symbol is used in rules that the start reaches. A use that sets or changes the parameter counts twice, since a
    /// rule cannot take its place.
    fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.symbols.len()];
        let mut open: Vec<Id> = vec![0];
        while let Some(number) = open.pop() {
            for (part, arg) in self.symbols[number as usize].rules.iter().flat_map(|(_, line)| line) {
                let known = &mut uses[*part as usize];
                if *known == 0 && *part != 0 {
                    open.push(*part);
                }
                *known += if arg.is_null() || arg.is_self_ref() { 1 } else { 2 };
            }
        }
        uses
    }

    /// In the rules of one symbol, replaces symbols whose only rule is one other symbol.
    fn rename(&mut self, number: Id) {
        let mut rules = std::mem::take(&mut self.symbols[number as usize].rules);
        for (part, _) in rules.iter_mut().flat_map(|(_, line)| line) {
            let mut steps = self.symbols.len();
            while let Some([(other, arg)]) = self.symbols[*part as usize].only().map(Vec::as_slice)
                && *part != number
                && steps > 0
                && if self.symbols[*part as usize].has_parameter { arg.is_self_ref() } else { arg.is_null() }
            {
                (*part, steps) = (*other, steps - 1);
            }
        }
        self.symbols[number as usize].rules = rules;
    }

    /// Inlines symbols that have one rule and are used once.
    fn expand(&self, line: &mut Line, uses: &[u32]) {
        let mut open: Line = std::mem::take(line);
        open.reverse();
        while let Some((part, arg)) = open.pop() {
            match self.symbols[part as usize].only().filter(|_| part != 0 && uses[part as usize] == 1) {
                Some(inner) => open.extend(inner.iter().rev().cloned()),
                None => line.push((part, arg)),
            }
        }
    }

    /// Finds what may be empty since all of its parts may.
    fn find_empty(&mut self) -> Result<(), String> {
        let mut changed = true;
        while changed {
            changed = false;
            for number in 0..self.symbols.len() {
                let Symbol { nullable, rules, .. } = &self.symbols[number];
                let is_empty =
                    |(holds, line): &(_, _)| *holds == ParamCond::True && self.is_empty(line) == Some(true);
                if !nullable && rules.iter().any(is_empty) {
                    self.symbols[number].nullable = true;
                    changed = true;
                }
            }
        }
        let open = self.symbols.iter().filter(|symbol| !symbol.nullable);
        if open.flat_map(|symbol| &symbol.rules).any(|(_, line)| self.is_empty(line) != Some(false)) {
            return Err("a line may be empty on a condition of its parts. This is a bug.".to_owned());
        }
        Ok(())
    }

    /// Whether all of these may be empty. None where that depends on a parameter that is handed on to them.
    fn is_empty(&self, line: &Line) -> Option<bool> {
        let mut all = Some(true);
        for (part, arg) in line {
            let Symbol { nullable, empty, .. } = &self.symbols[*part as usize];
            let value = arg.eval(ParamValue(0));
            match nullable {
                true => {}
                false if empty.is_empty() => return Some(false),
                false if arg.needs_param() => all = None,
                false if empty.iter().any(|holds| holds.eval(value)) => {}
                false => return Some(false),
            }
        }
        all
    }

    /// Adds them to a grammar of llguidance's, and returns the start there.
    ///
    /// # Errors
    /// What is no grammar of it.
    pub(super) fn add_to(
        &self,
        grammar: &mut Grammar,
        (class, spec): (LexemeClass, &LexerSpec),
    ) -> anyhow::Result<SymIdx> {
        let mut all = Vec::with_capacity(self.symbols.len());
        for (number, symbol) in self.symbols.iter().enumerate() {
            let props =
                SymbolProps { grammar_id: class, parametric: symbol.has_parameter, ..SymbolProps::default() };
            let id = grammar.fresh_symbol_ext(&format!("s{number}"), props);
            if let Some(lexeme) = symbol.lexeme {
                grammar.make_terminal(id, lexeme, spec)?;
            }
            all.push(id);
        }
        for (id, symbol) in all.iter().zip(&self.symbols) {
            for (holds, line) in &symbol.rules {
                let line = line.iter().map(|(part, arg)| (all[*part as usize], arg.clone())).collect();
                grammar.add_rule_ext(*id, holds.clone(), line)?;
            }
            for holds in symbol.empty.iter().chain(symbol.nullable.then_some(&ParamCond::True)) {
                grammar.add_rule_ext(*id, holds.clone(), Vec::new())?;
            }
        }
        all.first().copied().ok_or_else(|| anyhow::anyhow!("a grammar without symbols. This is a bug."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules of symbols without parameters, by their numbers; terminals have none.
    fn productions(rules: &[&[&[Id]]]) -> Productions {
        let mut all = Productions::default();
        for _ in rules {
            all.symbol();
        }
        for (symbol, lines) in (0..).zip(rules) {
            for line in *lines {
                let line = line.iter().map(|part| (*part, ParamExpr::Null)).collect();
                all.add(symbol, ParamCond::True, line);
            }
        }
        all
    }

    fn lines(all: &Productions) -> Vec<Vec<Vec<Id>>> {
        let line = |(_, line): &(ParamCond, Line)| line.iter().map(|(part, _)| *part).collect();
        all.symbols.iter().map(|symbol| symbol.rules.iter().map(line).collect()).collect()
    }

    #[test]
    fn what_stands_for_one_thing_gives_way_to_it() {
        // 0: 1 2 | 4; 1: 2; 2: 3 3 | 4 2; 4: 3 5; 3 and 5 are terminals. 1 is 2, and 4 has two uses.
        let all = productions(&[&[&[1, 2], &[4]], &[&[2]], &[&[3, 3], &[4, 2]], &[], &[&[3, 5]], &[]]);
        let simple = all.simplified().unwrap();
        // Numbers in the order in which they are met: 2 is 1 now, 4 is 2, 3 and 5 are 3 and 4.
        assert_eq!(
            lines(&simple),
            [vec![vec![1, 1], vec![2]], vec![vec![3, 3], vec![2, 1]], vec![vec![3, 4]], vec![], vec![]]
        );
        // A symbol that is used once is written out, through others such.
        let all = productions(&[&[&[1, 4], &[4, 4]], &[&[2, 4]], &[&[3, 4]], &[&[4, 4]], &[]]);
        assert_eq!(lines(&all.simplified().unwrap()), [vec![vec![1; 5], vec![1, 1]], vec![]]);
    }

    #[test]
    fn what_has_empty_parts_alone_may_be_empty() {
        let all = productions(&[&[&[1, 2], &[3]], &[&[], &[3]], &[&[1, 1], &[3, 3]], &[]]);
        let simple = all.simplified().unwrap();
        let nullable: Vec<bool> = simple.symbols.iter().map(|symbol| symbol.nullable).collect();
        assert_eq!(nullable, [true, true, true, false]);
    }

    #[test]
    fn conditions_are_decided_where_the_parameter_is_known() {
        let at_least = |n| ParamCond::GE(llguidance::earley::ParamRef::full(), ParamValue(n));
        let with = |first: ParamExpr| {
            let mut all = productions(&[&[], &[], &[]]);
            all.symbols[1].has_parameter = true;
            all.add(1, at_least(3), Vec::new());
            all.add(1, ParamCond::True, vec![(2, ParamExpr::Null), (1, ParamExpr::SelfRef)]);
            all.add(0, ParamCond::True, vec![(1, first)]);
            all.simplified()
        };
        let is_empty = |n| with(ParamExpr::Const(ParamValue(n))).unwrap().symbols[0].nullable;
        assert!(!is_empty(2) && is_empty(3));
        assert!(with(ParamExpr::SelfRef).is_err());
    }
}
