//! Regular expressions as JSON Schema means them (ECMA-262), for an engine that reads some of them otherwise.

/// The pattern for the regex engine.
///
/// In its character classes `[` opens another class, and `&&`, `--` and `~~` are set operations; in ECMA-262 all of them
/// are plain characters. Its white space has U+0085, and lacks U+FEFF. Its `(?P<stop>…)` is a look-ahead.
///
/// # Errors
/// What cannot be said otherwise.
pub(super) fn for_engine(pattern: &str) -> Result<String, &'static str> {
    if pattern.contains("<stop>") && (pattern.contains("(?<stop>") || pattern.contains("(?P<stop>")) {
        return Err("a group cannot be named stop");
    }
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        out.push(c);
        match c {
            '\\' => escape(&mut rest, &mut out)?,
            '[' => class(&mut rest, &mut out)?,
            _ => {}
        }
    }
    Ok(out)
}

/// Copies what follows a backslash that is in `out` already.
fn escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Result<(), &'static str> {
    let c = rest.next().ok_or("it ends in a lone backslash")?;
    match c {
        's' | 'S' => {
            out.pop();
            out.push_str(if c == 's' { WHITE } else { NOT_WHITE });
        }
        _ => out.push(c),
    }
    Ok(())
}

/// `\s` and `\S` of ECMA-262.
const WHITE: &str = r"[\s\uFEFF--\u0085]";
const NOT_WHITE: &str = r"[^\s\uFEFF--\u0085]";

/// Days that exist: llguidance's own pattern has a 29th of February in every year.
const DAY: &str = concat!(
    "(?:[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])",
    "|[0-9]{4}-(?:0[13-9]|1[0-2])-(?:29|30)",
    "|[0-9]{4}-(?:0[13578]|1[02])-31",
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)",
);

/// A pattern for what llguidance accepts of a format beyond its definition, where there is one.
pub(super) fn for_format(format: &str) -> Option<String> {
    match format {
        "date" => Some(format!("^{DAY}$")),
        "date-time" => Some(format!("^{DAY}[tT]")),
        _ => None,
    }
}

/// Copies a class after its `[`, to its `]`.
fn class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Result<(), &'static str> {
    out.extend(rest.next_if_eq(&'^'));
    // First in a class, `]` is a character of it.
    out.extend(rest.next_if_eq(&']'));
    while let Some(c) = rest.next() {
        if c == ']' {
            out.push(c);
            return Ok(());
        }
        atom(c, rest, out)?;
        // A range, unless the hyphen is the last character of the class.
        let mut ahead = rest.clone();
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|c| *c != ']') {
            rest.next();
            out.push('-');
            if let Some(end) = rest.next() {
                atom(end, rest, out)?;
            }
        }
    }
    // The engine says what is wrong with it.
    Ok(())
}

fn atom(
    c: char,
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Result<(), &'static str> {
    match c {
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

    #[test]
    fn what_cannot_be_said_is_refused() {
        assert!(for_engine("a\\").is_err());
        assert!(for_engine("(?P<stop>a)").is_err());
    }
}
