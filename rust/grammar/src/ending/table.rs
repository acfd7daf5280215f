//! The rules of a compiled grammar.

use crate::productions::Productions;
use llguidance::earley::lexerspec::LexemeIdx;
use llguidance::earley::{ParamCond, ParamExpr, ParamValue};

/// No symbol follows, or no rule.
pub(super) const END: u32 = u32::MAX;

/// The value of a symbol's parameter; 0 where it has none.
pub(super) type Arg = u64;

/// The first symbol is the start.
pub(super) struct Table {
    pub(super) symbols: Vec<Symbol>,
    pub(super) dots: Vec<Dot>,
}

pub(super) struct Symbol {
    /// Of terminals.
    pub(super) lexeme: Option<LexemeIdx>,
    nullable: bool,
    /// When it may be empty.
    empty: Vec<ParamCond>,
    /// The first dots of its rules, and when they hold.
    rules: Vec<(u32, ParamCond)>,
    /// When what the parameter counts may end, here or in rules that hand the parameter on.
    ends: Vec<ParamCond>,
}

/// A place in a rule; the next one is that behind its symbol.
pub(super) struct Dot {
    /// What follows; [`END`] behind the last.
    pub(super) symbol: u32,
    /// What the rule is one of.
    pub(super) lhs: u32,
    /// The parameter of what follows.
    arg: ParamExpr,
}

impl Table {
    pub(super) fn new(productions: &Productions) -> Self {
        let mut table = Table { symbols: Vec::new(), dots: Vec::new() };
        for (lhs, symbol) in (0..).zip(&productions.symbols) {
            let mut rules = Vec::new();
            for (holds, line) in &symbol.rules {
                rules.push((table.dots.len() as u32, holds.clone()));
                table.dots.extend(line.iter().map(|(symbol, arg)| Dot {
                    symbol: *symbol,
                    lhs,
                    arg: arg.clone(),
                }));
                table.dots.push(Dot { symbol: END, lhs, arg: ParamExpr::Null });
            }
            let (nullable, empty) = (symbol.nullable, symbol.empty.clone());
            table.symbols.push(Symbol { lexeme: symbol.lexeme, nullable, empty, rules, ends: Vec::new() });
        }
        for symbol in 0..table.symbols.len() {
            table.symbols[symbol].ends = table.ends(symbol as u32);
        }
        table
    }

    /// The dots of a rule from here on, but for that behind the last symbol.
    pub(super) fn rest(&self, dot: u32) -> impl Iterator<Item = (u32, &Dot)> {
        (dot..).zip(&self.dots[dot as usize..]).take_while(|(_, dot)| dot.symbol != END)
    }

    /// The parameter of the symbol at this dot, in a rule whose own is `arg`.
    pub(super) fn arg(&self, dot: u32, arg: Arg) -> Arg {
        self.dots[dot as usize].arg.eval(ParamValue(arg)).0
    }

    /// The parameter of the symbol at this dot where no other is handed on to it.
    pub(super) fn own_arg(dot: &Dot) -> Option<Arg> {
        (!dot.arg.needs_param()).then(|| dot.arg.eval(ParamValue(0)).0)
    }

    pub(super) fn is_nullable(&self, symbol: u32, arg: Arg) -> bool {
        let symbol = &self.symbols[symbol as usize];
        symbol.nullable || symbol.empty.iter().any(|when| when.eval(ParamValue(arg)))
    }

    /// Whether it may be empty, whatever its parameter is.
    pub(super) fn may_be_empty(&self, symbol: u32) -> bool {
        let symbol = &self.symbols[symbol as usize];
        symbol.nullable || !symbol.empty.is_empty()
    }

    /// The rules that hold.
    pub(super) fn rules(&self, symbol: u32, arg: Arg) -> impl Iterator<Item = u32> {
        let rules = self.symbols[symbol as usize].rules.iter();
        rules.filter(move |(_, holds)| holds.eval(ParamValue(arg))).map(|(rule, _)| *rule)
    }

    /// All rules, whether they hold or not.
    pub(super) fn all_rules(&self, symbol: u32) -> impl Iterator<Item = u32> {
        self.symbols[symbol as usize].rules.iter().map(|(rule, _)| *rule)
    }

    /// Whether the symbol's parameter is handed on in the rule.
    pub(super) fn hands_on(&self, rule: u32) -> bool {
        self.rest(rule).any(|(_, dot)| dot.arg.needs_param())
    }

    /// Whether the rule may bring what the parameter counts nearer to an end.
    pub(super) fn brings(&self, rule: u32, arg: Arg) -> bool {
        let now = ParamValue(arg);
        let ends = &self.symbols[self.dots[rule as usize].lhs as usize].ends;
        let wanted = if ends.iter().any(|end| end.eval(now)) {
            0
        } else {
            ends.iter().map(|end| wanted(end, now)).fold(0, |a, b| a | b)
        };
        self.rest(rule).any(|(at, dot)| dot.arg.needs_param() && (self.arg(at, arg) ^ arg) & wanted != 0)
    }

    /// See [`Symbol::ends`].
    fn ends(&self, symbol: u32) -> Vec<ParamCond> {
        let (mut seen, mut ends) = (vec![symbol], Vec::new());
        let mut at = 0;
        while let Some(symbol) = seen.get(at).copied() {
            at += 1;
            let data = &self.symbols[symbol as usize];
            ends.extend(data.empty.iter().cloned());
            for (rule, holds) in &data.rules {
                if !self.hands_on(*rule) {
                    ends.push(holds.clone());
                }
                for (_, dot) in self.rest(*rule).filter(|(_, dot)| dot.arg.needs_param()) {
                    if !seen.contains(&dot.symbol) {
                        seen.push(dot.symbol);
                    }
                }
            }
        }
        ends
    }
}

/// The bits that a condition that does not hold looks at.
fn wanted(when: &ParamCond, now: ParamValue) -> Arg {
    if when.eval(now) {
        return 0;
    }
    match when {
        ParamCond::True => 0,
        ParamCond::NE(bits, _)
        | ParamCond::EQ(bits, _)
        | ParamCond::LE(bits, _)
        | ParamCond::LT(bits, _)
        | ParamCond::GE(bits, _)
        | ParamCond::GT(bits, _)
        | ParamCond::BitCountNE(bits, _)
        | ParamCond::BitCountEQ(bits, _)
        | ParamCond::BitCountLE(bits, _)
        | ParamCond::BitCountLT(bits, _)
        | ParamCond::BitCountGE(bits, _)
        | ParamCond::BitCountGT(bits, _) => bits.mask(),
        ParamCond::And(a, b) | ParamCond::Or(a, b) => wanted(a, now) | wanted(b, now),
        ParamCond::Not(_) => Arg::MAX,
    }
}
