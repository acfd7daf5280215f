//! Texts around the names and arguments of calls. They may have placeholders for texts that the model chooses: an id, a number,
//! white space.

/// A placeholder for a text that the model chooses.
#[derive(Debug)]
pub(super) struct Chosen {
    /// The placeholder, as formats write it.
    pub(super) mark: &'static str,
    /// The texts that the model may write, as a regular expression.
    pub(super) rx: &'static str,
    /// Whether such a text may have this byte. It has `least` to `most` of them.
    has: fn(u8) -> bool,
    pub(super) least: usize,
    most: usize,
}

static CHOSEN: [Chosen; 3] = [
    Chosen { mark: "{id}", rx: "[A-Za-z0-9_.:-]{1,64}", has: is_of_id, least: 1, most: 64 },
    Chosen { mark: "{index}", rx: "[0-9]{1,4}", has: |byte| byte.is_ascii_digit(), least: 1, most: 4 },
    Chosen {
        mark: "{ws}",
        rx: r"[ \t\r\n]{1,32}",
        has: |byte| b" \t\r\n".contains(&byte),
        least: 0,
        most: 32,
    },
];

fn is_of_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte)
}

/// A text around calls: fixed parts, with a placeholder between each two of them.
#[derive(Debug, Clone)]
pub(super) struct Around {
    fixed: Vec<Vec<u8>>,
    chosen: Vec<&'static Chosen>,
}

impl Around {
    pub(super) fn new(text: &str) -> Self {
        let (mut around, mut rest) = (Around { fixed: Vec::new(), chosen: Vec::new() }, text);
        while let Some((at, chosen)) = next_chosen(rest) {
            around.fixed.push(rest.as_bytes()[..at].to_vec());
            around.chosen.push(chosen);
            rest = &rest[at + chosen.mark.len()..];
        }
        around.fixed.push(rest.as_bytes().to_vec());
        around
    }

    /// The greatest length of the text in bytes.
    pub(super) fn longest(&self) -> usize {
        self.fixed.iter().map(Vec::len).sum::<usize>()
            + self.chosen.iter().map(|chosen| chosen.most).sum::<usize>()
    }

    /// The length of the fixed parts in bytes.
    pub(super) fn certain(&self) -> usize {
        self.fixed.iter().map(Vec::len).sum()
    }

    /// Whether `text` ends with this text.
    pub(super) fn ends(&self, text: &[u8]) -> bool {
        self.ends_up_to(self.chosen.len(), text)
    }

    /// Whether `text` ends with the first `chosen` placeholders and the fixed parts around them.
    fn ends_up_to(&self, chosen: usize, text: &[u8]) -> bool {
        let Some(text) = text.strip_suffix(&self.fixed[chosen][..]) else { return false };
        let Some(before) = chosen.checked_sub(1) else { return true };
        let Chosen { has, least, most, .. } = *self.chosen[before];
        let count = text.iter().rev().take(most).take_while(|byte| has(**byte)).count();
        (least..=count).any(|size| self.ends_up_to(before, &text[..text.len() - size]))
    }
}

/// The first placeholder of a text, and its place.
pub(super) fn next_chosen(text: &str) -> Option<(usize, &'static Chosen)> {
    let places = CHOSEN.iter().filter_map(|chosen| Some((text.find(chosen.mark)?, chosen)));
    places.min_by_key(|(at, _)| *at)
}
