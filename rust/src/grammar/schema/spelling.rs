//! How the JSON texts of strings are spelled, and the white space between JSON's tokens.

use super::edges;
use super::pattern::mapped;
use crate::grammar::text::of_regex;
use regex_syntax::Parser;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};
use serde_json::Value;

/// A character of a JSON string, in any spelling (RFC 8259): as it is, by a letter, by its number, or by the two numbers of a
/// surrogate pair.
pub(super) const CHARACTER: &str = concat!(
    r#"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9a-ceA-CEfF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}"#,
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
);
/// A character of a JSON string, in one spelling. Control characters without a letter are left out: `\u00` could only go on to
/// them, and a model that begins so mostly means another character.
pub(super) const PLAIN: &str = r#"(?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt])"#;

/// The expression for the JSON texts of all strings, in any spelling.
pub(super) fn any() -> String {
    format!("\"{CHARACTER}*\"")
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
    let hir = Parser::new().parse(pattern).map_err(|e| of_regex(pattern, &e))?;
    let json = |part: &Hir| match part.kind() {
        HirKind::Empty => Ok(Hir::empty()),
        HirKind::Literal(text) if text.0.iter().all(|b| b" \t\n\r".contains(b)) => Ok(part.clone()),
        HirKind::Class(Class::Unicode(class)) => {
            // `\s` has more than JSON.
            let mut json = ClassUnicode::new([' ', '\t', '\n', '\r'].map(|c| ClassUnicodeRange::new(c, c)));
            json.intersect(class);
            Ok(Hir::class(Class::Unicode(json)))
        }
        _ => Err("takes other characters than white space: name spaces, tabs and line breaks".to_owned()),
    };
    Ok(mapped(&hir, &json)?.to_string())
}

/// The JSON text of a string, which Lark reads alike. Each character is spelled in one way only: a name that could be spelled in
/// two ways would pass for two names.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// The same without its quotes.
fn spelled(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// The expression for the JSON texts of the strings that match; it is for whole texts.
///
/// # Errors
/// Where it is no regular expression.
pub(super) fn quote(regex: &str) -> Result<String, String> {
    let hir = Parser::new().parse(regex).map_err(|e| e.to_string())?;
    let quoted = |part: &Hir| match part.kind() {
        HirKind::Literal(text) => Ok(Hir::literal(spelled(&String::from_utf8_lossy(&text.0)).into_bytes())),
        HirKind::Class(Class::Unicode(class)) => Ok(quoted_class(class)),
        _ => Ok(part.clone()),
    };
    Ok(format!("\"(?:{})\"", mapped(&hir, &quoted)?))
}

fn quoted_class(class: &ClassUnicode) -> Hir {
    let special = [('\0', '\u{1f}'), ('"', '"'), ('\\', '\\'), ('\u{7f}', '\u{7f}')];
    let mut special = ClassUnicode::new(special.map(|(from, to)| ClassUnicodeRange::new(from, to)));
    let mut plain = class.clone();
    plain.difference(&special);
    special.intersect(class);
    let characters = special.iter().flat_map(|range| range.start()..=range.end());
    let mut spelled: Vec<String> = characters.map(|c| spelled(c.encode_utf8(&mut [0; 4]))).collect();
    if plain.iter().any(|range| (range.start()..=range.end()).contains(&'é')) {
        // As in `PLAIN`, where characters are many: a model that escapes them escapes such.
        spelled.retain(|text| !text.starts_with("\\u"));
    }
    // Expressions are read again by the lexer: one with a branch for each control character takes it five times as long.
    let escapes = ["\\", "\\u000", "\\u001", "\\u007"].into_iter().map(|begin| {
        let last = spelled.iter().filter_map(|text| text.strip_prefix(begin)?.parse().ok());
        let class = ClassUnicode::new(last.map(|c| ClassUnicodeRange::new(c, c)));
        Hir::concat(vec![Hir::literal(begin.as_bytes()), Hir::class(Class::Unicode(class))])
    });
    edges::any([Hir::class(Class::Unicode(plain))].into_iter().chain(escapes).collect())
}

#[cfg(test)]
mod tests {
    use super::{CHARACTER, any, quote};

    #[test]
    fn each_character_has_one_spelling() {
        let control = quote("[\\x00-\\x07]").unwrap();
        assert!(llguidance::derivre::Regex::new(&control).unwrap().is_match(r#""\u0001""#));
        let many = quote("[^a]").unwrap();
        let mut many = llguidance::derivre::Regex::new(&many).unwrap();
        assert!(many.is_match(r#""é""#) && many.is_match(r#""\t""#) && !many.is_match(r#""\u0001""#));
        let rx = quote("[\\x00-\\x22]b\\n").unwrap();
        let mut rx = llguidance::derivre::Regex::new(&rx).unwrap();
        for (text, yes) in [
            (r#""\u0001b\n""#, true),
            (r#""\tb\n""#, true),
            (r#""\"b\n""#, true),
            (r#""!b\n""#, true),
            (r#""\u000ab\n""#, false),
            (r#"""b\n""#, false),
        ] {
            assert_eq!(rx.is_match(text), yes, "{text}");
        }
    }

    #[test]
    fn any_string_has_every_spelling() {
        let mut any = llguidance::derivre::Regex::new(&any()).unwrap();
        let mut one = llguidance::derivre::Regex::new(&format!("\"{CHARACTER}\"")).unwrap();
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
