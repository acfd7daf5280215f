//! How the JSON texts of strings are spelled, and the white space between JSON's tokens.

use crate::sets::syntax;
use crate::written::expr::{Expr, class, common, quoted};
use regex_syntax::hir::ClassUnicode;

/// A character of a JSON string, in any spelling (RFC 8259): as it is, by a letter, by its number, or by the two numbers of a
/// surrogate pair. As Lark has expressions between slashes.
pub(super) const CHARACTER: &str = concat!(
    r#"(?:[^"\\\x00-\x1f]|\\["\\\/bfnrt]|\\u(?:[0-9a-ceA-CEfF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}"#,
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
);
/// A character of a JSON string, in one spelling. Control characters without a letter are left out: `\u00` could only go on to
/// them, and a model that begins so mostly means another character.
pub(super) const PLAIN: &str = r#"(?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt])"#;

/// The JSON texts of all strings, in any spelling.
pub(super) fn any() -> Expr {
    let characters = Expr::Regex(CHARACTER.to_owned()).times(0, None);
    Expr::concat([Expr::text("\""), characters, Expr::text("\"")])
}

/// The expression for the JSON texts of all strings, each in one spelling.
pub(super) fn plain() -> String {
    format!("\"{PLAIN}*\"")
}

/// An expression for white space, as JSON has it.
///
/// # Errors
/// Where it is none, or takes other characters.
pub(super) fn space(pattern: &str) -> Result<String, String> {
    let is_other = |part: &Expr| match part {
        Expr::Text(text) => !text.chars().all(|c| JSON_SPACE.contains(&(c, c))),
        _ => part.looks(),
    };
    // `\s` has more than JSON.
    fn json(expr: &Expr) -> Expr {
        match expr {
            Expr::Class(ranges) => Expr::class(&common(ranges, &class(&JSON_SPACE))),
            _ => expr.map(&json),
        }
    }
    let expr = syntax::parse(pattern)?;
    if expr.has(&is_other) {
        return Err("takes other characters than white space: name spaces, tabs and line breaks".to_owned());
    }
    Ok(json(&expr).regex())
}

const JSON_SPACE: [(char, char); 4] = [('\t', '\t'), ('\n', '\n'), ('\r', '\r'), (' ', ' ')];

/// The JSON text of a string without its quotes.
fn spelled(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// The JSON texts of the strings that match, each in one spelling.
pub(super) fn quote(expr: &Expr) -> Expr {
    match expr {
        all if *all == Expr::anything() => Expr::Regex(plain()),
        Expr::Any(ways) => Expr::any(ways.iter().map(quote)),
        // Excluded texts are written as whole JSON texts: the lexer compares bytes (`languages/difference.rs`).
        Expr::All(parts) if parts.iter().any(is_all_but_listed) => {
            let (listed, others): (Vec<&Expr>, Vec<&Expr>) =
                parts.iter().partition(|part| is_all_but_listed(part));
            let others = quote(&Expr::all(others.into_iter().cloned()));
            let texts = listed.iter().flat_map(|not| not.parts()).filter_map(Expr::listed).flatten();
            let texts = Expr::any(texts.map(|text| Expr::Text(quoted(text))));
            Expr::all([others, texts.not()])
        }
        _ => Expr::concat([Expr::text("\""), within_quotes(expr, false), Expr::text("\"")]),
    }
}

fn is_all_but_listed(part: &Expr) -> bool {
    matches!(part, Expr::Not(texts) if texts.listed().is_some())
}

/// `controls`: inside a negation. Outside, control characters among many others are left out as in [`PLAIN`]. Inside, "any text" is
/// written as any bytes, since a negation always stands beside an expression that restricts the text to a JSON string. Written as
/// JSON text, the lexer would have to go through all ways to end the string to find that nothing is left.
pub(super) fn within_quotes(expr: &Expr, controls: bool) -> Expr {
    match expr {
        all if controls && *all == Expr::anything() => Expr::NOTHING.not(),
        Expr::Text(text) => Expr::Text(spelled(text)),
        Expr::Class(ranges) => quoted_class(&class(ranges), controls),
        Expr::Not(inner) => within_quotes(inner, !controls).not(),
        _ => expr.map(&|part| within_quotes(part, controls)),
    }
}

fn quoted_class(all: &ClassUnicode, controls: bool) -> Expr {
    const SPECIAL: [(char, char); 4] = [('\0', '\u{1f}'), ('"', '"'), ('\\', '\\'), ('\u{7f}', '\u{7f}')];
    let special = common(&SPECIAL, all);
    let mut plain = all.clone();
    plain.difference(&special);
    let characters = special.iter().flat_map(|range| range.start()..=range.end());
    let mut spelled: Vec<String> = characters.map(|c| spelled(c.encode_utf8(&mut [0; 4]))).collect();
    if !controls && plain.iter().any(|range| (range.start()..=range.end()).contains(&'é')) {
        // A model that escapes characters where there are many escapes such.
        spelled.retain(|text| !text.starts_with("\\u"));
    }
    // One branch for each control character would take the lexer five times as long.
    let escapes = ["\\", "\\u000", "\\u001", "\\u007"].into_iter().map(|begin| {
        let last = spelled.iter().filter_map(|text| text.strip_prefix(begin)?.parse().ok());
        let last: Vec<(char, char)> = last.map(|c| (c, c)).collect();
        Expr::concat([Expr::text(begin), Expr::class(&class(&last))])
    });
    Expr::any([Expr::class(&plain)].into_iter().chain(escapes))
}

#[cfg(test)]
mod tests {
    use super::{CHARACTER, any, quote, within_quotes};
    use crate::sets::strings::Strings;
    use crate::written::expr::Expr;
    use llguidance::derivre::Regex;

    fn matches(pattern: &str, controls: bool, text: &str) -> bool {
        let mut strings = Strings::new();
        let found = strings.pattern(pattern).unwrap();
        let quoted = within_quotes(&strings.expr(found), controls).regex();
        Regex::new(&format!("\"{quoted}\"")).unwrap().is_match(text)
    }

    #[test]
    fn each_character_has_one_spelling() {
        assert!(matches("^[\\x00-\\x07]$", false, r#""\u0001""#));
        for (text, yes) in [(r#""é""#, true), (r#""\t""#, true), (r#""\u0001""#, false)] {
            assert_eq!(matches("^[^a]$", false, text), yes, "{text}");
            assert!(matches("^[^a]$", true, text), "{text}");
        }
        for (text, yes) in [
            (r#""\u0001b\n""#, true),
            (r#""\tb\n""#, true),
            (r#""\"b\n""#, true),
            (r#""!b\n""#, true),
            (r#""\u000ab\n""#, false),
            (r#"""b\n""#, false),
        ] {
            assert_eq!(matches("^[\\x00-\\x22]b\\n$", false, text), yes, "{text}");
        }
    }

    #[test]
    fn open_are_strings_with_any_text_before_what_is_asked_for() {
        let is_open = |pattern: &str| {
            let mut strings = Strings::new();
            let found = strings.pattern(pattern).unwrap();
            quote(&strings.expr(found)).is_open(&within_quotes(&Expr::character(), false))
        };
        for pattern in ["[ab]{3}", "a.*b", "\\n\"", "b$", "é[^x]"] {
            assert!(is_open(pattern), "{pattern}");
        }
        // What comes behind a control character need not have any text before it.
        for pattern in ["^a", "^[ab]*$", "\\x01", "[\\x00-\\x09]b", "\\x7f", "(?!a)b"] {
            assert!(!is_open(pattern), "{pattern}");
        }
    }

    #[test]
    fn any_string_has_every_spelling() {
        let mut any = Regex::new(&any().regex()).unwrap();
        let mut one = Regex::new(&format!("\"{CHARACTER}\"")).unwrap();
        for text in [
            "a",
            "é",
            "\u{7f}",
            r"\/",
            r"\n",
            r"\u00e9",
            r"\uD7FF",
            r"\ue000",
            r"\ufffF",
            r"\ud83d\ude00",
            "😀",
        ] {
            let text = format!("\"{text}\"");
            assert!(any.is_match(&text) && one.is_match(&text), "{text}");
            assert_eq!(serde_json::from_str::<String>(&text).unwrap().chars().count(), 1, "{text}");
        }
        for text in [r"\u00g9", r"\ud83d", r"\ude00", r"\ud83d\u0041", r"\x", "\u{1}", "\""] {
            assert!(!any.is_match(&format!("\"{text}\"")), "{text}");
        }
    }
}
