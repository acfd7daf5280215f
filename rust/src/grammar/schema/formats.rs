//! Formats as regular expressions for whole texts.

/// What a format asks of a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    /// A match of this expression.
    Regex(String),
    /// The same, and the expression has only a part of what the specification allows: that is within the second one, if there
    /// is one.
    Part(String, Option<String>),
    /// Nothing: the specification that has the name asks nothing of strings.
    Free,
    /// A specification has the name, and what it asks cannot be said.
    Standard,
    /// No specification has the name.
    Unknown,
}

/// Days that exist.
const DAY: &str = concat!(
    "(?:[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])",
    "|[0-9]{4}-(?:0[13-9]|1[0-2])-(?:29|30)",
    "|[0-9]{4}-(?:0[13578]|1[02])-31",
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)",
);
/// RFC 3339: hours and minutes.
const TIME: &str = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]";
const FRACTION: &str = r"(?:\.[0-9]+)?";
const ZONE: &str = "(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
/// RFC 3339, appendix A: a unit is followed by the next smaller ones only.
const DURATION: &str =
    "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T(?:TIME))?|T(?:TIME))";
const DURATION_TIME: &str = "[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S";
const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const LABEL: &str = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
const UUID: &str = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
/// A letter of RFC 5322's atoms, as RFC 5321 takes them.
const ATOM: &str = r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]";
/// RFC 4648, section 4.
const BASE64: &str = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
const POINTER: &str = "(?:/(?:[^~/]|~[01])*)*";

/// What stands in a path segment of a URI (RFC 3986).
const SEGMENT: &str = r"(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})";

/// RFC 3339. A second 60 comes at the end of a day in UTC, which is seen where it is written in UTC: other leap seconds are not
/// among the first, and times that are none among the second.
fn time(date: &str) -> Format {
    let usual = format!("{TIME}:[0-5][0-9]{FRACTION}{ZONE}");
    let certain = format!("{date}(?:{usual}|23:59:60{FRACTION}(?:[zZ]|[+-]00:00))");
    Format::Part(certain, Some(format!("{date}{TIME}:(?:[0-5][0-9]|60){FRACTION}{ZONE}")))
}

fn ipv4() -> String {
    format!(r"{BYTE}(?:\.{BYTE}){{3}}")
}

/// RFC 4291: eight groups, a run of which may be left out once; the last two may be written as IPv4.
fn ipv6() -> String {
    let (group, last) = ("[0-9a-fA-F]{1,4}", format!("(?:[0-9a-fA-F]{{1,4}}:[0-9a-fA-F]{{1,4}}|{})", ipv4()));
    let mut ways = vec![format!("(?:{group}:){{6}}{last}")];
    // So many groups before the gap at most, so many after it, the last two aside.
    for before in 0..=5 {
        let head =
            if before == 0 { String::new() } else { format!("(?:(?:{group}:){{0,{}}}{group})?", before - 1) };
        ways.push(format!("{head}::(?:{group}:){{{}}}{last}", 5 - before));
    }
    ways.push(format!("(?:(?:{group}:){{0,5}}{group})?::{group}"));
    ways.push(format!("(?:(?:{group}:){{0,6}}{group})?::"));
    format!("(?:{})", ways.join("|"))
}

/// After the scheme, or without one.
fn uri_rest(first: &str) -> String {
    let user = r"(?:[a-zA-Z0-9._~!$&'()*+,;=:-]|%[0-9a-fA-F]{2})*";
    let name = r"(?:[a-zA-Z0-9._~!$&'()*+,;=-]|%[0-9a-fA-F]{2})*";
    let future = r"[vV][0-9a-fA-F]+\.[a-zA-Z0-9._~!$&'()*+,;=:-]+";
    let authority = format!(r"(?:{user}@)?(?:\[(?:{}|{future})\]|{name})(?::[0-9]*)?", ipv6());
    let tail = format!(r"(?:\?(?:{SEGMENT}|[/?])*)?(?:#(?:{SEGMENT}|[/?])*)?");
    let path = format!("(?:/(?:{SEGMENT}+(?:/{SEGMENT}*)*)?|{first}(?:/{SEGMENT}*)*)?");
    format!("(?://{authority}(?:/{SEGMENT}*)*|{path}){tail}")
}

fn uri() -> String {
    format!("[a-zA-Z][a-zA-Z0-9+.-]*:{}", uri_rest(&format!("{SEGMENT}+")))
}

/// The first segment of a path without a scheme has no colon.
fn uri_reference() -> String {
    let first = r"(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})+";
    format!("(?:{}|{})", uri(), uri_rest(first))
}

/// RFC 6570.
fn uri_template() -> String {
    let literal = r#"(?:[^\x00-\x20"'%<>\\^`{|}\x7f]|%[0-9a-fA-F]{2})"#;
    let character = "(?:[A-Za-z0-9_]|%[0-9a-fA-F]{2})";
    let variable = format!(r"{character}(?:\.?{character})*(?::[1-9][0-9]{{0,3}}|\*)?");
    format!(r"(?:{literal}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*")
}

fn email() -> String {
    // At most 64 letters, counted with a dot behind each where there is one (RFC 5321, section 4.5.3.1.1).
    let local = format!(r"(?:{ATOM}{{1,64}}|{ATOM}(?:\.?{ATOM}){{0,31}})");
    // So short that with any of these the address has no more than its 254 letters.
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?";
    format!(r"{local}@(?:{label}(?:\.{label}){{0,4}}|\[{}\])", ipv4())
}

/// A subset of ECMA-262's syntax that every reader takes for the same.
fn regex() -> String {
    let atom = r"(?:[^\\^$.*+?()\[\]{}|\n\r]|\\[dDsSwW.*+?()\[\]{}|^$/\\nrt]|\.|\[\^?(?:[a-zA-Z0-9_]|a-z|A-Z|0-9|\\[dsw])+\])";
    let group = format!(r"(?:{atom}[*+?]?|\((?:\?:)?(?:{atom}[*+?]?\|?)*{atom}[*+?]?\)[*+?]?)");
    format!(r"\^?(?:{group}+(?:\|{group}+)*)?\$?")
}

/// What the format of that name asks of a string.
pub(super) fn of(name: &str) -> Format {
    let regex = match name {
        "date" => DAY.to_owned(),
        "time" => return time(""),
        "date-time" => return time(&format!("{DAY}[tT]")),
        "duration" => DURATION.replace("TIME", DURATION_TIME),
        "email" => email(),
        "hostname" => format!(r"{LABEL}(?:\.{LABEL})*"),
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "uuid" => UUID.to_owned(),
        "uri" => uri(),
        "uri-reference" => uri_reference(),
        "uri-template" => uri_template(),
        "json-pointer" => POINTER.to_owned(),
        "relative-json-pointer" => format!("(?:0|[1-9][0-9]*)(?:#|{POINTER})"),
        "regex" => regex(),
        "byte" => BASE64.to_owned(),
        // OpenAPI's numeric formats say nothing of strings, and these two ask nothing.
        "int32" | "int64" | "float" | "double" | "password" | "binary" => return Format::Free,
        "idn-email" | "idn-hostname" | "iri" | "iri-reference" => return Format::Standard,
        _ => return Format::Unknown,
    };
    match name {
        "email" | "regex" => Format::Part(regex, None),
        _ => Format::Regex(regex),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_tell_right_from_wrong() {
        let rows = [
            ("ipv6", "1::d6:192.168.0.1", true),
            ("ipv6", "::", true),
            ("ipv6", "1:2:3:4:5:6:7:8", true),
            ("ipv6", "1:2::3:4:5:6:7:8", false),
            ("ipv6", "12345::", false),
            ("ipv6", "1::2::3", false),
            ("uri", "http://[::1]:80/a?b#c", true),
            ("uri", "urn:a:b", true),
            ("uri", "//a", false),
            ("uri", "http://a b", false),
            ("uri-reference", "#frag", true),
            ("uri-reference", "a/b:c", true),
            ("uri-reference", "1:b", false),
            ("uri-template", "/a/{b}{?c,d*}", true),
            ("uri-template", "/a/{b", false),
            ("duration", "P1Y2M3DT4H", true),
            ("duration", "P1Y3D", false),
            ("duration", "PT", false),
            ("byte", "YQ==", true),
            ("byte", "YQ=", false),
            ("regex", "^(a|b+)[a-z]*$", true),
            ("regex", "a**", false),
            ("regex", "(a", false),
            ("json-pointer", "/a~0/b", true),
            ("json-pointer", "/a~2", false),
            ("hostname", "a-b.c", true),
            ("hostname", "-a.c", false),
            ("time", "23:59:60Z", true),
            ("time", "22:59:60Z", false),
            ("time", "23:59:60+01:00", false),
            ("date-time", "1998-12-31t23:59:60.5+00:00", true),
            ("email", "a.b@c.de", true),
            ("email", "a..b@c", false),
            ("email", &format!("{}@c", "a".repeat(64)), true),
            ("email", &format!("{}@c", "a".repeat(65)), false),
            ("email", &format!("{}a@c", "a.".repeat(32)), false),
        ];
        for (name, text, yes) in rows {
            let (Format::Regex(rx) | Format::Part(rx, _)) = of(name) else { panic!("{name}") };
            assert_eq!(llguidance::derivre::Regex::new(&rx).unwrap().is_match(text), yes, "{name} {text}");
        }
    }
}
