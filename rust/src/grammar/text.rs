//! Makes llguidance's messages fit for a client.

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
    let message = message
        .strip_prefix("panic: ")
        .map_or_else(|| message.to_owned(), |p| format!("cannot be compiled ({p})"));
    match message.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &message[..cut]),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn backtraces_and_states_are_cut() {
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
