//! Parts as regular expressions.

use super::parse::MAX_DEPTH;
use super::part::Part;
use regex_syntax::hir::ClassUnicode;
use std::fmt::Write;

/// Counts beyond this are no counts where only the ways matter on which texts go on.
const COUNTED: u32 = 16;

/// The regular expression of a part whose rules do not refer to themselves, of about `most` bytes and parts at most; None:
/// it would be longer, or too deep, or names a token. `loose`: with fewer states, and more texts.
pub(super) fn text(part: &Part, rules: &[Part], most: usize, loose: bool) -> Option<String> {
    let mut writer = Writer { rules, most, loose, out: String::new(), parts: 0 };
    writer.part(part, 0)?;
    Some(writer.out)
}

struct Writer<'a> {
    rules: &'a [Part],
    most: usize,
    loose: bool,
    out: String,
    /// Parts so far, of which some are empty.
    parts: usize,
}

impl Writer<'_> {
    fn part(&mut self, part: &Part, depth: usize) -> Option<()> {
        self.parts += 1;
        if self.parts.max(self.out.len()) > self.most || depth > 3 * MAX_DEPTH {
            return None;
        }
        match part {
            Part::Class(class) => self.out.push_str(&of_class(class)),
            Part::Token(_) => return None,
            Part::Rule(rule, _) => self.part(&self.rules[*rule], depth + 1)?,
            Part::Sequence(parts) => parts.iter().try_for_each(|part| self.part(part, depth + 1))?,
            Part::Choice(choices) => {
                for (i, choice) in choices.iter().enumerate() {
                    self.out.push_str(if i == 0 { "(?:" } else { "|" });
                    self.part(choice, depth + 1)?;
                }
                self.out.push(')');
            }
            Part::Repeat(part, least, most) => {
                self.out.push_str("(?:");
                self.part(part, depth + 1)?;
                let many = most.unwrap_or(*least) > COUNTED;
                let (least, most) =
                    if self.loose && many { ((*least).min(1), None) } else { (*least, *most) };
                self.out.push(')');
                self.out.push_str(&times(least, most));
            }
        }
        Some(())
    }
}

/// How often, in regular expressions and in Lark.
pub(crate) fn times(least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, None) => "*".into(),
        (1, None) => "+".into(),
        (0, Some(1)) => "?".into(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) if least == most => format!("{{{least}}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    }
}

/// A class without signs that mean something.
pub(crate) fn of_class(class: &ClassUnicode) -> String {
    match class.ranges() {
        [all] if (all.start(), all.end()) == ('\0', char::MAX) => "(?s:.)".into(),
        [one] if one.start() == one.end() => plain(one.start()),
        ranges => {
            let mut out = String::from("[");
            for range in ranges {
                out.push_str(&plain(range.start()));
                if range.start() < range.end() {
                    write!(out, "-{}", plain(range.end())).expect("a String takes all. This is a bug.");
                }
            }
            out.push(']');
            out
        }
    }
}

/// A character so that it means itself, in a class and outside.
fn plain(c: char) -> String {
    if c.is_ascii_alphanumeric() { c.into() } else { format!("\\x{{{:x}}}", u32::from(c)) }
}
