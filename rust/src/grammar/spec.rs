//! What a client may ask the output to be.

use crate::config::{KeyOrder, UndeclaredKeys, Whitespace};
use serde::{Deserialize, Serialize};

/// A constraint on the output. Texts are passed as the client wrote them: key order is output order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrammarSpec {
    /// Any JSON object.
    JsonObject,
    /// JSON that the schema (JSON text) accepts.
    JsonSchema(String),
    /// The whole output matches this regular expression.
    Regex(String),
    /// A Lark grammar in llguidance's dialect.
    LarkGrammar(String),
    /// A grammar in GBNF, or in EBNF of its kind.
    Gbnf(String),
    /// An llguidance grammar list (JSON text) or Lark.
    Llguidance(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Exactly this text; special tokens are known in it.
    Text(String),
    /// Calls of functions.
    Calls(Box<Calls>),
    /// Parts, of which only some are constrained; the output begins with the first.
    Sections(Vec<Section>),
    /// The same with JSON written in this style.
    Styled {
        /// In place of what the configuration says.
        style: JsonStyle,
        /// No sections.
        grammar: Box<GrammarSpec>,
    },
}

/// How JSON is written, as far as a request says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "snake_case", deny_unknown_fields)]
pub struct JsonStyle {
    /// In which order keys come.
    pub key_order: Option<KeyOrder>,
    /// Whether objects have keys that they do not declare.
    pub undeclared_keys: Option<UndeclaredKeys>,
    /// White space between tokens.
    pub whitespace: Option<Whitespace>,
    /// The same as a regular expression, of which it is one match or none.
    pub whitespace_pattern: Option<String>,
}

/// A part of the output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Section {
    /// Anything; no mask is computed.
    Free {
        /// The texts that end it, the first that is complete; special tokens count as their written form.
        #[serde(default)]
        triggers: Vec<Trigger>,
        /// The output may end in it.
        #[serde(default)]
        may_end: bool,
        /// How long it may be.
        #[serde(default)]
        limit: Option<Limit>,
        /// Its tokens are counted as reasoning, those of the trigger included.
        #[serde(default)]
        reasoning: bool,
    },
    /// What the grammar accepts; sections are no grammar.
    Bound {
        /// The grammar.
        grammar: GrammarSpec,
        /// The section that follows where nothing can go on in this one; None: the output ends there.
        #[serde(default)]
        next: Option<usize>,
    },
}

/// A text that ends a free section.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// The text, 1 to 256 bytes; tokens may cut it anywhere.
    pub text: String,
    /// It counts only behind white space at the beginning of the section.
    #[serde(default)]
    pub at_start: bool,
    /// The section that follows; None: the text must not come at all.
    pub next: Option<usize>,
}

/// The most tokens of a free section.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Tokens of the model's own, before `text`.
    pub tokens: u32,
    /// What is written then; it ends with a trigger.
    pub text: String,
}

/// Calls: `open`, then for each call `before`, the function's name, `between`, the arguments as JSON and `after`, with
/// `separator` between two calls, then `close`. Special tokens are known in these texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// The functions that may be called.
    pub tools: Vec<Tool>,
    /// Before the first call.
    #[serde(default)]
    pub open: String,
    /// Before a name.
    pub before: String,
    /// Between a name and the arguments.
    pub between: String,
    /// Behind the arguments.
    pub after: String,
    /// Between two calls; None: there is one call only.
    #[serde(default)]
    pub separator: Option<String>,
    /// Behind the last call.
    #[serde(default)]
    pub close: String,
    /// How the text begins that is there already: a beginning of `open` and `before`.
    #[serde(default)]
    pub begun: String,
    /// What the output may be instead; no sections.
    #[serde(default)]
    pub or: Option<GrammarSpec>,
}

/// A function that may be called.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The schema of its arguments, JSON text.
    pub schema: String,
    /// Where the schema stands in the request, as a JSON pointer, for errors.
    #[serde(default)]
    pub at: String,
}

impl GrammarSpec {
    /// Texts that mark where parts begin and end: special tokens among them belong to the output's text.
    pub fn markers(&self) -> Vec<&str> {
        match self {
            GrammarSpec::Text(text) => vec![text],
            GrammarSpec::Calls(calls) => calls.texts().to_vec(),
            GrammarSpec::Sections(sections) => sections.iter().flat_map(Section::markers).collect(),
            GrammarSpec::Styled { grammar, .. } => grammar.markers(),
            _ => Vec::new(),
        }
    }

    /// Bytes of all texts in it.
    pub fn bytes(&self) -> usize {
        match self {
            GrammarSpec::JsonObject => 0,
            GrammarSpec::JsonSchema(s)
            | GrammarSpec::Regex(s)
            | GrammarSpec::Gbnf(s)
            | GrammarSpec::LarkGrammar(s)
            | GrammarSpec::Llguidance(s)
            | GrammarSpec::Text(s) => s.len(),
            GrammarSpec::Choice(list) => list.iter().map(|t| t.len() + 24).sum(),
            GrammarSpec::Calls(calls) => {
                let tools: usize = calls.tools.iter().map(|t| t.name.len() + t.schema.len() + 24).sum();
                tools + calls.or.as_ref().map_or(0, GrammarSpec::bytes)
            }
            GrammarSpec::Sections(sections) => sections.iter().map(Section::bytes).sum(),
            GrammarSpec::Styled { style, grammar } => {
                grammar.bytes() + style.whitespace_pattern.as_ref().map_or(0, String::len)
            }
        }
    }
}

impl Section {
    fn markers(&self) -> Vec<&str> {
        match self {
            Section::Free { triggers, limit, .. } => {
                let closing = limit.iter().map(|limit| &*limit.text);
                triggers.iter().map(|trigger| &*trigger.text).chain(closing).collect()
            }
            Section::Bound { grammar, .. } => grammar.markers(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Section::Free { .. } => self.markers().iter().map(|text| text.len()).sum(),
            Section::Bound { grammar, .. } => grammar.bytes(),
        }
    }
}

impl Calls {
    /// The texts around names and arguments.
    pub fn texts(&self) -> [&str; 6] {
        let separator = self.separator.as_deref().unwrap_or_default();
        [&self.open, &self.before, &self.between, &self.after, separator, &self.close]
    }
}
