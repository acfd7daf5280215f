//! Texts around the names and arguments of calls, in parts of which the model chooses what stands there: an id, a number, white space.

/// A text that the model chooses, within a text around calls.
#[derive(Debug)]
pub(super) struct Chosen {
    /// What stands for it.
    pub(super) mark: &'static str,
    /// All such texts, as a regular expression.
    pub(super) rx: &'static str,
    /// The bytes that they have, and the least and largest number of them.
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

/// A text around calls: parts that are fixed, and behind each but the last what is chosen there.
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

    /// The most bytes that it has.
    pub(super) fn longest(&self) -> usize {
        self.fixed.iter().map(Vec::len).sum::<usize>()
            + self.chosen.iter().map(|chosen| chosen.most).sum::<usize>()
    }

    /// Bytes that are fixed.
    pub(super) fn certain(&self) -> usize {
        self.fixed.iter().map(Vec::len).sum()
    }

    /// Whether a text ends with it.
    pub(super) fn ends(&self, text: &[u8]) -> bool {
        self.ends_up_to(self.chosen.len(), text)
    }

    /// The same with the first so many chosen parts, and the fixed ones up to them.
    fn ends_up_to(&self, chosen: usize, text: &[u8]) -> bool {
        let Some(text) = text.strip_suffix(&self.fixed[chosen][..]) else { return false };
        let Some(before) = chosen.checked_sub(1) else { return true };
        let Chosen { has, least, most, .. } = *self.chosen[before];
        let count = text.iter().rev().take(most).take_while(|byte| has(**byte)).count();
        (least..=count).any(|size| self.ends_up_to(before, &text[..text.len() - size]))
    }
}

/// The first place where something is chosen.
pub(super) fn next_chosen(text: &str) -> Option<(usize, &'static Chosen)> {
    let places = CHOSEN.iter().filter_map(|chosen| Some((text.find(chosen.mark)?, chosen)));
    places.min_by_key(|(at, _)| *at)
}
