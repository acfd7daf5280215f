//! Regular expressions as JSON Schema means them (ECMA-262), for an engine that reads some of them otherwise.

use std::str::Chars;

/// The pattern for the regex engine.
///
/// In its character classes `[` opens another class, and `&&`, `--` and `~~` are set operations; in ECMA-262 all of them
/// are plain characters. Its white space has U+0085, and lacks U+FEFF; its dot takes all line ends but one. Its `\\<` and
/// `\\>` are no characters.
///
/// # Errors
/// What ECMA-262 does not have, or cannot be said otherwise, with its place.
pub(super) fn for_engine(pattern: &str) -> Result<String, String> {
    let mut rest = pattern.chars();
    translated(&mut rest).map_err(|why| {
        let at = pattern.chars().count() - rest.count();
        format!("up to character {at}: {why}")
    })
}

fn translated(rest: &mut Chars<'_>) -> Result<String, &'static str> {
    let mut out = String::new();
    // Whether a quantifier ends here, after which no other may stand but the `?` of a lazy one.
    let (mut is_counted, mut is_lazy) = (false, false);
    while let Some(c) = rest.next() {
        let counts = matches!(c, '*' | '+' | '?') || c == '{' && is_count(rest.as_str());
        if counts && (is_lazy || is_counted && c != '?') {
            return Err("ECMA-262 has no quantifier of a quantifier: put a group around the first");
        }
        (is_counted, is_lazy) = (counts && !is_counted, counts && is_counted);
        match c {
            '.' => out.push_str(NO_LINE_END),
            '{' if !counts => out.push_str("\\{"),
            _ => out.push(c),
        }
        match c {
            '{' if counts => braced(rest, &mut out),
            '(' => group(rest, &mut out)?,
            '\\' => escape(rest, &mut out)?,
            '[' => class(rest, &mut out)?,
            _ => {}
        }
    }
    Ok(out)
}

/// Copies what stands behind `(` where that says of what kind the group is.
fn group(rest: &mut Chars<'_>, out: &mut String) -> Result<(), &'static str> {
    let Some(ahead) = rest.as_str().strip_prefix('?') else { return Ok(()) };
    let flags = &ahead[..ahead.find([':', ')']).unwrap_or(ahead.len())];
    let are_flags = !flags.is_empty() && flags.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
    if are_flags && ahead[flags.len()..].starts_with(')') {
        return Err("ECMA-262 has no flags for what follows: write (?i: and the like around it");
    }
    // No quantifier.
    out.extend(rest.next());
    Ok(())
}

/// Whether a brace that has been read opens a count.
fn is_count(rest: &str) -> bool {
    let Some((inner, _)) = rest.split_once('}') else { return false };
    let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
    !least.is_empty() && least.chars().chain(most.chars()).all(|c| c.is_ascii_digit())
}

/// Copies what follows to the end of the braces.
fn braced(rest: &mut Chars<'_>, out: &mut String) {
    for c in rest {
        out.push(c);
        if c == '}' {
            break;
        }
    }
}

/// Copies what follows a backslash that is in `out` already.
fn escape(rest: &mut Chars<'_>, out: &mut String) -> Result<(), &'static str> {
    let c = rest.next().ok_or("it ends in a lone backslash")?;
    match c {
        's' | 'S' => {
            out.pop();
            out.push_str(if c == 's' { WHITE } else { NOT_WHITE });
        }
        '<' | '>' => {
            out.pop();
            out.push(c);
        }
        // The name of a class, or a number.
        'p' | 'P' | 'u' | 'x' if rest.as_str().starts_with('{') => {
            out.push(c);
            braced(rest, out);
        }
        c if c.is_ascii_alphabetic() && !"dDwWbBnrtvfcxupPk".contains(c) => {
            return Err("ECMA-262 has no escape of this letter");
        }
        _ => out.push(c),
    }
    Ok(())
}

/// `.` of ECMA-262.
const NO_LINE_END: &str = r"[^\n\r\x{2028}\x{2029}]";
/// `\s` and `\S` of ECMA-262.
const WHITE: &str = r"[\s\uFEFF--\u0085]";
const NOT_WHITE: &str = r"[^\s\uFEFF--\u0085]";

/// Copies a class after its `[`, to its `]`.
fn class(rest: &mut Chars<'_>, out: &mut String) -> Result<(), &'static str> {
    // First in a class, `]` is a character of it.
    for first in ['^', ']'] {
        if rest.as_str().starts_with(first) {
            out.extend(rest.next());
        }
    }
    while let Some(c) = rest.next() {
        if c == ']' {
            out.push(c);
            return Ok(());
        }
        atom(c, rest, out)?;
        // A range, unless the hyphen is the last character of the class.
        let ahead = rest.as_str().strip_prefix('-');
        if ahead.is_some_and(|ahead| !ahead.is_empty() && !ahead.starts_with(']')) {
            out.extend(rest.next());
            if let Some(end) = rest.next() {
                atom(end, rest, out)?;
            }
        }
    }
    // The engine says what is wrong with it.
    Ok(())
}

fn atom(c: char, rest: &mut Chars<'_>, out: &mut String) -> Result<(), &'static str> {
    match c {
        '\\' if rest.as_str().starts_with('b') => {
            rest.next();
            out.push_str("\\x08");
        }
        '\\' => {
            out.push(c);
            escape(rest, out)?;
        }
        '[' | '&' | '~' | '-' => out.extend(['\\', c]),
        _ => out.push(c),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::for_engine;

    #[test]
    fn classes_hold_plain_characters() {
        let rows = [
            ("[a[b]]", r"[a\[b]]"),
            ("[a&&b]", r"[a\&\&b]"),
            ("[+--]", r"[+-\-]"),
            ("[--a]", r"[\--a]"),
            ("[a-]", r"[a\-]"),
            ("[^]a]", "[^]a]"),
            (r"[\]\d-]x[0-9]", r"[\]\d\-]x[0-9]"),
            (r"[\u0041-\u005a]", r"[\u0041-\u005a]"),
            (r"\[a--b\]", r"\[a--b\]"),
            (r"\\s\s[\Sx]", r"\\s[\s\uFEFF--\u0085][[^\s\uFEFF--\u0085]x]"),
        ];
        for (pattern, expected) in rows {
            assert_eq!(for_engine(pattern).unwrap(), expected, "{pattern}");
        }
    }
}
