//! How vocabularies write bytes as text.

/// The byte that a character stands for in byte-level vocabularies (GPT-2): printable Latin-1 stands for itself, the
/// other bytes for the characters from U+0100 on, in order.
pub(super) fn byte_of(c: char) -> Option<u8> {
    static OTHERS: std::sync::LazyLock<Vec<u8>> =
        std::sync::LazyLock::new(|| (0..=255u8).filter(|b| !stands_for_itself(*b)).collect());
    match u32::from(c) {
        code @ 0..=0xff => Some(code as u8).filter(|b| stands_for_itself(*b)),
        code => OTHERS.get((code - 0x100) as usize).copied(),
    }
}

fn stands_for_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The bytes of a byte-level token; its own text where a character stands for no byte.
pub(super) fn byte_level(text: &str) -> Vec<u8> {
    text.chars().map(byte_of).collect::<Option<Vec<u8>>>().unwrap_or_else(|| text.as_bytes().to_vec())
}

/// The bytes of a SentencePiece token: `▁` is a space.
pub(super) fn sentence_piece(text: &str) -> Vec<u8> {
    text.replace('▁', " ").into_bytes()
}

/// The byte of a byte-fallback token such as `<0x0A>`.
pub(super) fn fallback(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    // `from_str_radix` would take a sign.
    let exact = hex.len() == 2 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    if exact { u8::from_str_radix(hex, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut seen: Vec<u8> = ('\u{0}'..='\u{200}').filter_map(byte_of).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..=255).collect::<Vec<u8>>());
        assert_eq!(byte_level("ĠaĊ"), b" a\n");
        assert_eq!(byte_level("｜"), "｜".as_bytes());
    }

    #[test]
    fn byte_fallback_is_exact() {
        assert_eq!(fallback("<0x0A>"), Some(10));
        for other in ["<0x0>", "<0x0AB>", "0x0A", "<0xGG>", "<0x+A>"] {
            assert_eq!(fallback(other), None, "{other}");
        }
    }
}
