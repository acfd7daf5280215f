//! Makes messages of llguidance and of the regular expressions' parser fit for a client.

/// Longest message passed on, in characters.
const LONGEST: usize = 400;

/// A message without backtraces, parser states and token lists, at most [`LONGEST`] characters long.
pub(super) fn clean(message: &str) -> String {
    let end = ["<backtrace>", "<state>", "<non-verbose/>", "<grammar>"]
        .iter()
        .filter_map(|m| message.find(m))
        .min()
        .unwrap_or(message.len());
    let message = message[..end].trim();
    // The list holds every special token of the model.
    let message =
        message.split_once("; following special tokens are available").map_or(message, |(head, _)| head);
    let message = match message.strip_prefix("panic: ") {
        None if ["lexer precomputation failed", "fuel exhausted"].iter().any(|m| message.starts_with(m)) => {
            "its patterns are together too complex: make them simpler".to_owned()
        }
        None => located(message),
        // llguidance numbers symbols in 16 bits.
        Some(panic) if panic.contains("symbols.len()") => {
            "its grammar is too large: make it simpler".to_owned()
        }
        Some(panic) => format!("cannot be compiled ({panic})"),
    };
    match message.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &message[..cut]),
        None => message,
    }
}

/// `2(6): …` and `at 2(6): …` in words.
fn located(message: &str) -> String {
    let place = message.strip_prefix("at ").unwrap_or(message).split_once("): ");
    let numbers = place.and_then(|(place, why)| Some((place.split_once('(')?, why)));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match numbers {
        Some(((line, column), why)) if is_number(line) && is_number(column) => {
            format!("line {line}, column {column}: {why}")
        }
        _ => message.to_owned(),
    }
}

/// What is wrong with a regular expression, and at which of its characters where that is known. `written`: as the client
/// wrote it, of which the parser may have read another form.
pub(super) fn of_regex(written: &str, error: &regex_syntax::Error) -> String {
    let found = |error: &regex_syntax::Error| match error {
        regex_syntax::Error::Parse(e) => (e.kind().to_string(), Some(e.span().start.offset)),
        regex_syntax::Error::Translate(e) => (e.kind().to_string(), Some(e.span().start.offset)),
        other => (other.to_string(), None),
    };
    let (why, _) = found(error);
    let itself = regex_syntax::Parser::new().parse(written).err().map(|e| found(&e));
    match itself {
        Some((same, Some(offset))) if same == why => {
            format!("at character {}: {why}", written[..offset].chars().count())
        }
        _ => why,
    }
}

#[cfg(test)]
mod tests {
    use super::{clean, of_regex};

    #[test]
    fn places_are_told_in_words() {
        assert_eq!(clean("at 2(6): no"), "line 2, column 6: no");
        assert_eq!(clean("1(12): lexer error"), "line 1, column 12: lexer error");
        assert_eq!(clean("at last(1): no"), "at last(1): no");
        let told = |rx: &str| of_regex(rx, &regex_syntax::Parser::new().parse(rx).unwrap_err());
        assert_eq!(told("é(b"), "at character 1: unclosed group");
        assert_eq!(of_regex("ab", &regex_syntax::Parser::new().parse("(").unwrap_err()), "unclosed group");
    }

    #[test]
    fn backtraces_and_states_are_cut() {
        let full = "panic: assertion failed: grammar.symbols.len() < u16::MAX as usize - 10";
        assert_eq!(clean(full), "its grammar is too large: make it simpler");
        let fuel = "lexer precomputation failed; either increase limits.initial_lexer_fuel or disable limits.precompute_large_lexemes";
        assert_eq!(clean(fuel), "its patterns are together too complex: make them simpler");
        assert_eq!(clean("panic: boom\n<backtrace>\n 0: frame"), "cannot be compiled (boom)");
        assert_eq!(clean("too complex\n<non-verbose/>"), "too complex");
    }

    #[test]
    fn the_list_of_special_tokens_is_cut() {
        let text = "unknown special token: \"<|x|>\"; following special tokens are available: <|y|>";
        assert_eq!(clean(text), "unknown special token: \"<|x|>\"");
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let text = clean(&"é".repeat(1000));
        assert_eq!(text.chars().count(), 401);
    }
}
