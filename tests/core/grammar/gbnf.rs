//! Grammars in GBNF in which rules refer to themselves: drawn at random and compared with a recogniser that knows nothing of
//! regular expressions, lexemes or parsers, and such as clients write.

use super::common::{Bench, Dice};
use super::specs::admits;
use llgtrt::error::Error;
use llgtrt::grammar::{Grammar, GrammarSpec};

/// Grammars of a run; `LLGTRT_DRAWN` says how many.
const GRAMMARS: usize = 1_000;
/// What texts are made of. Two of them begin with the same byte, and the last one is in no class that is not negated.
const LETTERS: [char; 5] = ['a', 'b', 'é', 'è', 'z'];
/// Longest text, in letters.
const LENGTH: usize = 4;

/// A part of a rule.
#[derive(Debug)]
enum Node {
    /// A class; the flag negates it.
    Class(Vec<char>, bool),
    Text(Vec<char>),
    Rule(usize),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Times(Box<Node>, usize, Option<usize>),
}

impl Node {
    /// As GBNF has it.
    fn text(&self) -> String {
        let joined = |nodes: &[Node], by: &str| nodes.iter().map(Node::text).collect::<Vec<_>>().join(by);
        match self {
            Node::Class(of, negated) => {
                format!("[{}{}]", if *negated { "^" } else { "" }, of.iter().collect::<String>())
            }
            Node::Text(of) => format!("\"{}\"", of.iter().collect::<String>()),
            Node::Rule(rule) => name(*rule),
            Node::Sequence(nodes) => format!("({})", joined(nodes, " ")),
            Node::Choice(nodes) => format!("({})", joined(nodes, " | ")),
            Node::Times(node, 0, None) => format!("{}*", node.text()),
            Node::Times(node, 0, Some(1)) => format!("{}?", node.text()),
            Node::Times(node, least, None) => format!("{}{{{least},}}", node.text()),
            Node::Times(node, least, Some(most)) => format!("{}{{{least},{most}}}", node.text()),
        }
    }
}

fn name(rule: usize) -> String {
    if rule == 0 { "root".into() } else { format!("r{rule}") }
}

fn draw(dice: &mut Dice, rules: usize, depth: usize) -> Node {
    let letters =
        |dice: &mut Dice, count: usize| (0..count).map(|_| LETTERS[dice.roll(4)]).collect::<Vec<_>>();
    match dice.roll(if depth == 0 { 4 } else { 9 }) {
        0 | 1 => Node::Rule(dice.roll(rules)),
        2 => {
            let count = 1 + dice.roll(2);
            Node::Class(letters(dice, count), dice.roll(5) == 0)
        }
        3 => {
            let count = dice.roll(3);
            Node::Text(letters(dice, count))
        }
        4 | 5 => Node::Sequence((0..1 + dice.roll(3)).map(|_| draw(dice, rules, depth - 1)).collect()),
        6 | 7 => Node::Choice((0..1 + dice.roll(3)).map(|_| draw(dice, rules, depth - 1)).collect()),
        _ => {
            let least = dice.roll(3);
            let most = (dice.roll(2) == 0).then(|| least.max(1) + dice.roll(2));
            Node::Times(Box::new(draw(dice, rules, depth - 1)), least, most)
        }
    }
}

/// A whole rule. Most refer to some rule between two letters, so that they are no regular expressions.
fn draw_rule(dice: &mut Dice, rules: usize) -> Node {
    let any = draw(dice, rules, 3);
    if dice.roll(3) == 0 {
        return any;
    }
    let mut letter = || Node::Class(vec![LETTERS[dice.roll(4)]], false);
    let (first, last) = (letter(), letter());
    let middle = Node::Sequence(vec![first, Node::Rule(dice.roll(rules)), last]);
    Node::Choice(vec![middle, any])
}

/// Which places of a text a rule reaches from which, as bits; and from which places the text's rest begins one of its texts.
struct Reading<'a> {
    text: &'a [char],
    can_end: &'a [bool],
    ends: Vec<Vec<u32>>,
    begins: Vec<u32>,
}

impl<'a> Reading<'a> {
    /// All is read again until nothing more is found.
    fn new(rules: &[Node], can_end: &'a [bool], text: &'a [char]) -> Self {
        let ends = vec![vec![0; text.len() + 1]; rules.len()];
        let mut reading = Reading { text, can_end, ends, begins: vec![0; rules.len()] };
        loop {
            let before = (reading.ends.clone(), reading.begins.clone());
            for (rule, node) in rules.iter().enumerate() {
                for at in 0..=text.len() {
                    reading.ends[rule][at] |= reading.reached(node, 1 << at);
                    reading.begins[rule] |= u32::from(reading.is_begun(node, 1 << at)) << at;
                }
            }
            if before == (reading.ends.clone(), reading.begins.clone()) {
                return reading;
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.ends[0][0] & self.end() != 0
    }

    fn can_go_on(&self) -> bool {
        self.begins[0] & 1 != 0
    }

    fn end(&self) -> u32 {
        1 << self.text.len()
    }

    fn places(&self, of: u32) -> impl Iterator<Item = usize> {
        (0..=self.text.len()).filter(move |at| of & (1 << at) != 0)
    }

    fn is_in(class: &[char], negated: bool, letter: char) -> bool {
        class.contains(&letter) != negated
    }

    /// The places behind a part that begins at one of these.
    fn reached(&self, node: &Node, from: u32) -> u32 {
        match node {
            Node::Class(of, negated) => {
                let fits = |at: &usize| self.text.get(*at).is_some_and(|c| Self::is_in(of, *negated, *c));
                self.places(from).filter(fits).fold(0, |all, at| all | 1 << (at + 1))
            }
            Node::Text(of) => {
                let fits = |at: &usize| self.text[*at..].starts_with(of);
                self.places(from).filter(fits).fold(0, |all, at| all | 1 << (at + of.len()))
            }
            Node::Rule(rule) => self.places(from).fold(0, |all, at| all | self.ends[*rule][at]),
            Node::Sequence(nodes) => nodes.iter().fold(from, |at, node| self.reached(node, at)),
            Node::Choice(nodes) => nodes.iter().fold(0, |all, node| all | self.reached(node, from)),
            Node::Times(node, least, most) => {
                let mut at = (0..*least).fold(from, |at, _| self.reached(node, at));
                // As many more rounds as there are places find all of them.
                let rounds = most.map_or(self.text.len() + 1, |most| most - least);
                for _ in 0..rounds {
                    at |= self.reached(node, at);
                }
                at
            }
        }
    }

    /// Whether the rest of the text from one of these places begins a text of the part.
    fn is_begun(&self, node: &Node, from: u32) -> bool {
        let over = from & self.end() != 0;
        match node {
            Node::Class(..) => over || self.reached(node, from) & self.end() != 0,
            Node::Text(of) => self.places(from).any(|at| of.starts_with(&self.text[at..])),
            Node::Rule(rule) => self.begins[*rule] & from != 0,
            Node::Choice(nodes) => nodes.iter().any(|node| self.is_begun(node, from)),
            Node::Sequence(nodes) => {
                let mut at = from;
                nodes.iter().enumerate().any(|(i, node)| {
                    let rest = nodes[i + 1..].iter().all(|node| ends(node, self.can_end));
                    let begun = rest && self.is_begun(node, at);
                    at = self.reached(node, at);
                    begun
                }) || at & self.end() != 0
            }
            Node::Times(node, least, most) => {
                let mut at = from;
                for round in 0..most.unwrap_or(least + self.text.len() + 1) {
                    if self.is_begun(node, at) && (round + 1 >= *least || ends(node, self.can_end)) {
                        return true;
                    }
                    at = if round < *least { self.reached(node, at) } else { at | self.reached(node, at) };
                }
                *least == 0 && over
            }
        }
    }
}

/// Whether a part has a text, where it is known of which rules that is true.
fn ends(node: &Node, can_end: &[bool]) -> bool {
    match node {
        Node::Class(..) | Node::Text(_) => true,
        Node::Rule(rule) => can_end[*rule],
        Node::Sequence(nodes) => nodes.iter().all(|node| ends(node, can_end)),
        Node::Choice(nodes) => nodes.iter().any(|node| ends(node, can_end)),
        Node::Times(node, least, _) => *least == 0 || ends(node, can_end),
    }
}

/// The grammar after a text, byte by byte.
fn after(grammar: &Grammar, text: &[char]) -> Grammar {
    let mut fresh = grammar.restart();
    for byte in text.iter().collect::<String>().bytes() {
        fresh.commit(u32::from(byte)).unwrap();
    }
    fresh
}

/// The letters that may come next, and whether the text may end.
fn next(bench: &Bench, grammar: &mut Grammar) -> (Vec<char>, bool) {
    let may_end = bench.may_end(grammar).unwrap();
    let allowed = |c: &char| {
        let mut cursor = grammar.cursor();
        c.to_string().bytes().all(|byte| {
            let next = cursor.mask().unwrap();
            next.allows(u32::from(byte)) && cursor.push(u32::from(byte)).unwrap()
        })
    };
    (LETTERS.iter().copied().filter(allowed).collect(), may_end)
}

/// Compares all texts that begin like this one; how many there are.
fn compare(bench: &Bench, grammar: &Grammar, rules: (&[Node], &[bool], &str), text: &mut Vec<char>) -> usize {
    let (nodes, can_end, source) = rules;
    let whole = Reading::new(nodes, can_end, text).is_whole();
    let (letters, may_end) = next(bench, &mut after(grammar, text));
    assert_eq!(may_end, whole, "{text:?} of\n{source}\n{:?}", grammar.guide());
    let mut count = 1;
    for letter in LETTERS {
        text.push(letter);
        let expected = Reading::new(nodes, can_end, text).can_go_on();
        assert_eq!(letters.contains(&letter), expected, "{text:?} of\n{source}\n{:?}", grammar.guide());
        if expected && text.len() < LENGTH {
            count += compare(bench, grammar, rules, text);
        }
        text.pop();
    }
    count
}

#[test]
fn what_is_drawn_means_what_it_says_at_every_letter() {
    let count = std::env::var("LLGTRT_DRAWN").map_or(GRAMMARS, |count| count.parse().unwrap());
    let (bench, mut dice) = (Bench::new(), Dice(5));
    let (mut endless, mut recursive, mut lexemes, mut texts) = (0, 0, 0, 0);
    for _ in 0..count {
        let number = 1 + dice.roll(4);
        let rules: Vec<Node> = (0..number).map(|_| draw_rule(&mut dice, number)).collect();
        let line = |(rule, node): (usize, &Node)| format!("{} ::= {}\n", name(rule), node.text());
        let source: String = rules.iter().enumerate().map(line).collect();
        let mut can_end = vec![false; number];
        for _ in 0..number {
            can_end = rules.iter().map(|rule| ends(rule, &can_end)).collect();
        }
        match bench.compile(&GrammarSpec::Gbnf(source.clone())) {
            Err(Error::Grammar { why, .. }) => {
                assert!(!can_end[0] && why.contains("can never end"), "{source}: {why}");
                endless += 1;
            }
            Err(other) => panic!("{source}: {other}"),
            Ok(grammar) => {
                assert!(can_end[0], "{source}");
                let guide = grammar.guide().unwrap();
                recursive += usize::from(guide.starts_with("start: r0"));
                lexemes += usize::from(guide.starts_with("start: r0") && guide.contains(")"));
                texts += compare(&bench, &grammar, (&rules, &can_end, &source), &mut Vec::new());
            }
        }
    }
    println!("{endless} without end; {recursive} as rules, {lexemes} of them with lexemes; {texts} texts");
    assert!(endless * 20 > count && recursive * 4 > count && lexemes * 20 > count && texts > 10 * count);
}

const JSON: &str = r#"
# JSON, with white space between its tokens
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (pair (ws "," ws pair)*)? ws "}"
pair ::= string ws ":" ws value
array ::= "[" ws (value (ws "," ws value)*)? ws "]"
string ::= "\"" (
  [^"\\\x00-\x1f] | # as it stands
  "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
)* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= ([ \t\n] ws)?
"#;

#[test]
fn json_is_what_a_parser_of_json_reads() {
    let (bench, mut dice) = (Bench::new(), Dice(3));
    let grammar = bench.compile(&GrammarSpec::Gbnf(JSON.into())).unwrap();
    let texts = [
        r#"{"a": [true, false, null], "b" : {"c": "x\n\"", "é": -1.5e+2}}"#,
        "[\n\t[], {} , \"\", 0.25 ,10]",
        r#"[[[{"":[{"a":""}]}]], "\\", 1E-7]"#,
    ];
    let signs: Vec<char> = "{}[]:,\"\\ \nae0-.1".chars().collect();
    let (mut valid, mut invalid) = (0, 0);
    for _ in 0..1_500 {
        let mut text: Vec<char> = texts[dice.roll(texts.len())].chars().collect();
        for _ in 0..dice.roll(3) {
            let at = dice.roll(text.len());
            match dice.roll(3) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, signs[dice.roll(signs.len())]),
                _ => text[at] = signs[dice.roll(signs.len())],
            }
        }
        let text: String = text.into_iter().collect();
        // The parser takes white space around a text, too.
        if text.trim() != text {
            continue;
        }
        let expected = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        assert_eq!(bench.accepts(&mut grammar.restart(), &text).unwrap(), expected, "{text}");
        if expected { valid += 1 } else { invalid += 1 }
    }
    assert!(valid > 400 && invalid > 400, "{valid} {invalid}");
}

#[test]
fn tokens_come_as_tokens_only() {
    let bench = Bench::new();
    let token = |text: &str| bench.vocab.encode(&[(text, true)]).unwrap()[0];
    let start = token("<|im_start|>");
    for named in ["<|im_start|>".to_owned(), format!("<[{start}]>")] {
        let source = format!("root ::= \"a\"* {named} [b-c]+ ({named} \"d\" | root)?");
        let mut grammar = bench.compile(&GrammarSpec::Gbnf(source.clone())).unwrap();
        let (a, b, d) = (token("a"), token("b"), token("d"));
        for (given, may_end) in [(a, false), (start, false), (b, true), (start, true), (d, true)] {
            let mask = grammar.mask().unwrap();
            assert!(mask.allows(given), "{source}: {given}");
            // The letters of its name are no token.
            assert!(!mask.allows(token("<")), "{source}");
            grammar.commit(given).unwrap();
            assert_eq!(grammar.may_end(), may_end && given != start, "{source}: {given}");
        }
        assert!(grammar.commit(a).is_err());
    }
    let refused = |source: &str| bench.compile(&GrammarSpec::Gbnf(source.into())).unwrap_err().to_string();
    for (named, why) in [
        ("<|nobody|>", "<|nobody|> is no special token of this model"),
        ("<[9999]>", "<[9999]> is no token of this model"),
        ("<[99999999999]>", "is no token of this model"),
        ("<|im_end|>", "<|im_end|> ends an answer: leave it out"),
    ] {
        let told = refused(&format!("root ::= \"a\" {named}"));
        assert!(told.contains("line 1, column 14") && told.contains(why), "{told}");
    }
}

#[test]
fn any_token_but_one() {
    let bench = Bench::new();
    let token = |text: &str| bench.vocab.encode(&[(text, true)]).unwrap()[0];
    let (start, end) = (token("<|im_start|>"), token("<|im_end|>"));
    for (left_out, other) in [("<|im_start|>", token("a")), ("<[97]>", start), ("<|im_end|>", start)] {
        let kept = token(if left_out == "<[97]>" { "a" } else { left_out });
        let source = format!("root ::= !{left_out}{{2}} \"!\"");
        let mut grammar = bench.compile(&GrammarSpec::Gbnf(source.clone())).unwrap();
        for _ in 0..2 {
            let mask = grammar.mask().unwrap();
            assert!(mask.allows(other) && mask.allows(token("!")), "{source}");
            assert!(!mask.allows(kept) && !mask.allows(end), "{source}");
            grammar.commit(other).unwrap();
        }
        assert_eq!(grammar.mask().unwrap().single(), Some(token("!")));
    }
    // As many as there are, up to the token.
    let spec = GrammarSpec::Gbnf("root ::= !<|im_start|>* <|im_start|> \"b\"".into());
    let mut grammar = bench.compile(&spec).unwrap();
    for given in [token("x"), token("<"), start, token("b")] {
        assert!(grammar.mask().unwrap().allows(given), "{given}");
        grammar.commit(given).unwrap();
    }
    assert!(grammar.is_ended());
}

#[test]
fn grammars_of_clients() {
    let spec = |source: &str| GrammarSpec::Gbnf(source.to_owned());
    let sums = "root ::= sum \"\\n\"\nsum ::= sum [-+] product | product\nproduct ::= product [*/] atom | atom\n\
                atom ::= [0-9]+ | [a-z] [a-z0-9]* | \"(\" sum \")\" | \"-\" atom";
    admits(&spec(sums), &["1\n", "a+b*(c-12)/-x1\n", "((1))-1\n"], &["1", "1+\n", "(1\n", "1x\n", "a b\n"]);
    let mirror = "root ::= \"a\" root \"a\" | [bc] root [bc] | \"\"";
    admits(&spec(mirror), &["", "aa", "abca", "bccb"], &["a", "aba", "abab", "ab"]);
    // A keyword is the beginning of a name, a name is all of a statement.
    let code = "root ::= statement*\nstatement ::= \"if\" ws name block | \"int\" ws name \";\" | name ws? \"=\" ws? name \";\" |\n\
                comment\nblock ::= \"{\" statement* \"}\"\nname ::= [a-z_] [a-z_0-9]*\nws ::= [ \\t\\n]+\n\
                comment ::= \"/*\" ([^*] | \"*\" [^/])* \"*/\" | \"//\" [^\\n]* \"\\n\"";
    let yes = ["", "int x;", "int integer;if x{intx = iffy;/* * a */}", "ifx=int;", "if ifx{if a{}}// }\n"];
    admits(&spec(code), &yes, &["intx;", "int ;", "if x{", "if x{}}", "x = 1;", "/* */ */", "// x"]);
    let counted = "root ::= (\"(\" root \")\"){1,2} | [0-9]{3}";
    admits(&spec(counted), &["123", "(123)", "((123)(456))"], &["", "12", "1234", "(123)(456)(789)", "()"]);
    let xgrammar = "root ::= ((\"a\" root \"b\")) | (\"c\"){2, -1} | \"\\e\\?\"";
    admits(&spec(xgrammar), &["cc", "acccb", "a\x1b?b"], &["c", "acb", "aab"]);
}
