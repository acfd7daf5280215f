//! Formats as regular expressions for whole texts.

/// What a format asks of a string.
#[derive(Debug)]
pub(super) struct Format {
    /// The pattern of strings that are of the format for certain.
    pub(super) under: String,
    /// The pattern of all that are, where that is another one.
    pub(super) over: Option<String>,
    /// What a user may miss among the first.
    pub(super) left_out: &'static str,
}

fn part(under: &str, over: &str, left_out: &'static str) -> Format {
    Format { under: whole(under), over: Some(whole(over)), left_out }
}

/// The pattern that has the whole text.
fn whole(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

/// Any text.
const ANY: &str = "(?s:.*)";
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
const UUID: &str = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
/// A letter of RFC 5322's atoms, as RFC 5321 takes them.
const ATOM: &str = r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]";
const POINTER: &str = "(?:/(?:[^~/]|~[01])*)*";

/// What stands everywhere in a URI (RFC 3986: unreserved and sub-delims).
const LETTER: &str = r"a-zA-Z0-9._~!$&'()*+,;=\-";
/// What IRIs have besides (RFC 3987: ucschar), and in their queries (iprivate).
const UCS: &str = concat!(
    r"\u{a0}-\u{d7ff}\u{f900}-\u{fdcf}\u{fdf0}-\u{ffef}\u{10000}-\u{1fffd}\u{20000}-\u{2fffd}\u{30000}-\u{3fffd}",
    r"\u{40000}-\u{4fffd}\u{50000}-\u{5fffd}\u{60000}-\u{6fffd}\u{70000}-\u{7fffd}\u{80000}-\u{8fffd}",
    r"\u{90000}-\u{9fffd}\u{a0000}-\u{afffd}\u{b0000}-\u{bfffd}\u{c0000}-\u{cfffd}\u{d0000}-\u{dfffd}",
    r"\u{e1000}-\u{efffd}",
);
const PRIVATE: &str = r"\u{e000}-\u{f8ff}\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}";
/// Letters that every version of IDNA takes as they are, in any order: small ones of Latin, Greek and Cyrillic, kana, Han, Hangul.
const LETTERS: &str = concat!(
    r"a-z0-9\u{df}-\u{f6}\u{f8}-\u{ff}\u{3b1}-\u{3c1}\u{3c3}-\u{3c9}\u{430}-\u{44f}\u{3041}-\u{3096}\u{30a1}-\u{30fa}",
    r"\u{4e00}-\u{9fa5}\u{ac00}-\u{d7a3}",
);

/// Labels with dots between them (RFC 1123), and those that are not for Punycode, which need not be right: it has two hyphens in
/// the third and fourth place.
fn hostnames() -> [String; 2] {
    let (end, inner) = ("[a-zA-Z0-9]", "[a-zA-Z0-9-]");
    let plain = format!("{inner}{{0,2}}{end}|{inner}(?:{end}{inner}|-{end}){inner}{{0,58}}{end}");
    [format!("{inner}{{0,61}}{end}"), plain].map(|more| {
        let label = format!("{end}(?:{more})?");
        format!(r"(?=[a-zA-Z0-9.-]{{1,253}}$){label}(?:\.{label})*")
    })
}

/// RFC 5890: labels so short that with any of these letters they have no more than 63 in Punycode.
fn idn_hostname() -> String {
    let label = format!("[{LETTERS}](?:-?[{LETTERS}]){{0,9}}");
    // With one of its own hyphens in the third place and a letter in the fourth, no label looks like Punycode.
    format!(r"{label}(?:\.{label}){{0,3}}")
}

/// RFC 3339. A second 60 comes at the end of a day in UTC, which is seen where it is written in UTC: other leap seconds are not
/// among the first, and times that are none among the second.
fn time(date: &str) -> Format {
    let usual = format!("{TIME}:[0-5][0-9]{FRACTION}{ZONE}");
    let certain = format!("{date}(?:{usual}|23:59:60{FRACTION}(?:[zZ]|[+-]00:00))");
    part(&certain, &format!("{date}{TIME}:(?:[0-5][0-9]|60){FRACTION}{ZONE}"), "")
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

/// A letter, or one of some others.
fn letter(others: &str, more: &str) -> String {
    format!("(?:[{LETTER}{others}{more}]|%[0-9a-fA-F]{{2}})")
}

/// After the scheme, or without one; `more` may stand where letters do, and `query` in a query.
fn uri_rest(first: &str, more: &str, query: &str) -> String {
    let [segment, user, name] = [":@", ":", ""].map(|others| letter(others, more));
    let future = format!(r"[vV][0-9a-fA-F]+\.[{LETTER}:]+");
    let authority = format!(r"(?:{user}*@)?(?:\[(?:{}|{future})\]|{name}*)(?::[0-9]*)?", ipv6());
    let tail = format!(r"(?:\?(?:{segment}|[/?{query}])*)?(?:#(?:{segment}|[/?])*)?");
    let path = format!("(?:/(?:{segment}+(?:/{segment}*)*)?|{first}+(?:/{segment}*)*)?");
    format!("(?://{authority}(?:/{segment}*)*|{path}){tail}")
}

fn uri(more: &str, query: &str) -> String {
    format!("[a-zA-Z][a-zA-Z0-9+.-]*:{}", uri_rest(&letter(":@", more), more, query))
}

/// The first segment of a path without a scheme has no colon.
fn uri_reference(more: &str, query: &str) -> String {
    format!("(?:{}|{})", uri(more, query), uri_rest(&letter("@", more), more, query))
}

/// RFC 6570.
fn uri_template() -> String {
    let literal = r#"(?:[^\x00-\x20"'%<>\\^`{|}\x7f]|%[0-9a-fA-F]{2})"#;
    let character = "(?:[A-Za-z0-9_]|%[0-9a-fA-F]{2})";
    let variable = format!(r"{character}(?:\.?{character})*(?::[1-9][0-9]{{0,3}}|\*)?");
    format!(r"(?:{literal}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*")
}

/// Has at most 64 letters before the @ (RFC 5321, section 4.5.3.1).
fn email() -> String {
    let [_, domain] = hostnames();
    format!(r"(?=[^@]{{1,64}}@){ATOM}+(?:\.{ATOM}+)*@(?:{domain}|\[{}\])", ipv4())
}

/// RFC 6531: with letters of up to three bytes in at most 64.
fn idn_email() -> String {
    let local = format!("(?:{ATOM}|[{LETTERS}])");
    format!(r"{local}(?:\.?{local}){{0,15}}@{}", idn_hostname())
}

/// ECMA-262's syntax as every reader takes it, with groups in groups up to a depth.
fn regex() -> String {
    let ranges = ["az", "AZ", "09"].map(|ends| {
        let (first, last) = (ends.as_bytes()[0], ends.as_bytes()[1]);
        let range = |from| format!("{}-[{}-{}]", char::from(from), char::from(from + 1), char::from(last));
        (first..last).map(range).collect::<Vec<_>>().join("|")
    });
    let number = r"\\(?:x[0-9a-fA-F]{2}|u(?:[0-9a-ceA-CEfF][0-9a-fA-F]|[dD][0-7])[0-9a-fA-F]{2})";
    let member = format!(
        r"{}|[ !]-~|[^\\\[\]^\-&~|\x00-\x1f]|{number}|\\[dDsSwW.*+?()\[\]{{}}|\\/^$fnrtv-]",
        ranges.join("|")
    );
    let class = format!(r"\[\^?(?:{member})+-?\]");
    let atom =
        format!(r"[^\\^$.*+?()\[\]{{}}|\x00-\x1f]|\\[dDsSwW.*+?()\[\]{{}}|^$/\\fnrtv]|\.|{number}|{class}");
    // In a count such as `{2,5}` the first number must not be greater than the second.
    let tens = ["".to_owned()].into_iter().chain((1..10).map(|tens| tens.to_string()));
    let same = tens.flat_map(|tens| (0..10).map(move |ones| format!("{tens}{ones},{tens}[{ones}-9]")));
    let more = (1..9).map(|tens| format!("{tens}[0-9],[{}-9][0-9]", tens + 1));
    let pairs = same.chain(more).collect::<Vec<_>>().join("|");
    let digits = "[0-9],[1-9][0-9]{1,2}|[1-9][0-9],[1-9][0-9]{2}";
    let times = format!(r"(?:(?:[*+?]|\{{(?:(?:0|[1-9][0-9]{{0,2}}),?|{digits}|{pairs})\}})\??)?");
    let (mut groups, mut inner) = (String::new(), String::new());
    for _ in 0..4 {
        let term = format!(r"(?:(?:{atom}{groups}){times}|[\^$]|\\[bB])*");
        inner = format!(r"{term}(?:\|{term})*");
        groups = format!(r"|\((?:\?:)?{inner}\)");
    }
    inner
}

/// What the format of that name asks of a string; None: no specification has the name.
pub(super) fn of(name: &str) -> Option<Format> {
    let address = "(?s:.+)@(?s:.+)";
    let under = match name {
        "date" => DAY.to_owned(),
        "time" => return Some(time("")),
        "date-time" => return Some(time(&format!("{DAY}[tT]"))),
        "duration" => DURATION.replace("TIME", DURATION_TIME),
        "email" => return Some(part(&email(), address, "quotation marks, comments and Punycode")),
        "hostname" => {
            let [all, plain] = hostnames();
            return Some(part(&plain, &all, "Punycode"));
        }
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "uuid" => UUID.to_owned(),
        "uri" => uri("", ""),
        "uri-reference" => uri_reference("", ""),
        "iri" => uri(UCS, PRIVATE),
        "iri-reference" => uri_reference(UCS, PRIVATE),
        "idn-email" => return Some(part(&idn_email(), address, LONG)),
        "idn-hostname" => return Some(part(&idn_hostname(), ANY, LONG)),
        "uri-template" => uri_template(),
        "json-pointer" => POINTER.to_owned(),
        "relative-json-pointer" => format!("(?:0|[1-9][0-9]*)(?:#|{POINTER})"),
        "regex" => return Some(part(&regex(), ANY, "what some readers do not know")),
        // OpenAPI's formats are notes: those of numbers say nothing of strings, and validators take any string for the others.
        "int32" | "int64" | "float" | "double" | "password" | "binary" | "byte" => ANY.to_owned(),
        _ => return None,
    };
    Some(Format { under: whole(&under), over: None, left_out: "" })
}

const LONG: &str = "long names, and letters of many scripts";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::strings::Strings;

    fn check(rows: &[(&str, &str, bool)]) {
        for (name, text, yes) in rows {
            let Format { under, over, .. } = of(name).unwrap();
            let mut strings = Strings::new();
            let under = strings.pattern(&under).unwrap();
            assert_eq!(strings.has(under, text), *yes, "{name} {text}");
            let over = over.map(|over| strings.pattern(&over).unwrap());
            assert!(!yes || over.is_none_or(|over| strings.has(over, text)), "{name} {text}");
        }
    }

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
            ("byte", "YQ=", true),
            ("regex", "^(a|b+)[a-z]*$", true),
            ("regex", "a**", false),
            ("regex", r"^[\w.+-]{2,3}@[a-f0-9]+?\.(?:de|com){1,10}$", true),
            ("regex", "^(?:a((b)|c{10,12})$|\\b[ -~\\u00e9]{8,128})", true),
            ("regex", "a{3,2}", false),
            ("regex", "a{12,10}", false),
            ("regex", "[b-a]", false),
            ("regex", "(a", false),
            ("json-pointer", "/a~0/b", true),
            ("json-pointer", "/a~2", false),
            ("time", "23:59:60Z", true),
            ("time", "22:59:60Z", false),
            ("time", "23:59:60+01:00", false),
            ("date-time", "1998-12-31t23:59:60.5+00:00", true),
        ];
        check(&rows);
    }

    #[test]
    fn names_and_addresses_are_right_in_any_script() {
        check(&[
            ("hostname", "a-b.c", true),
            ("hostname", "-a.c", false),
            ("hostname", "a-b-c--d.ef-g", true),
            ("hostname", "xn--x", false),
            ("hostname", "a.b.c.d.e.f", true),
            ("hostname", "a.bc--d", false),
            ("hostname", "bcd--e.a", true),
            ("hostname", &[&"a".repeat(63), &"b".repeat(63), &"c".repeat(63), "d"].join("."), true),
            ("hostname", &"a".repeat(64), false),
            ("hostname", &"a.".repeat(150), false),
            ("idn-hostname", "bücher.例え", true),
            ("idn-hostname", "ab--c", false),
            ("idn-hostname", "Bücher", false),
            ("idn-email", "jürgen.k@bücher.de", true),
            ("idn-email", "jürgen..k@b", false),
            ("iri", "http://例え/ü?\u{e000}#é", true),
            ("iri", "http://a/\u{e000}", false),
            ("iri", "//ü", false),
            ("iri-reference", "ü/a:b", true),
            ("iri-reference", "ü:b", false),
            ("uri", "http://ü", false),
            ("email", "a.b@c.de", true),
            ("email", "a..b@c", false),
            ("email", &format!("{}@c", "a".repeat(64)), true),
            ("email", &format!("{}@c", "a".repeat(65)), false),
            ("email", &format!("{}a@c", "a.".repeat(32)), false),
            ("email", &format!("a@{}.org", "b".repeat(63)), true),
            ("email", "a@b.xn--c", false),
            ("email", "a@[127.0.0.1]", true),
        ]);
    }
}
