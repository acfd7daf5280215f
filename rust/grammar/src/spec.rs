//! What a client may ask the output to be.

use crate::config::{KeyOrder, UndeclaredKeys, Whitespace};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    /// A grammar in llama.cpp's GBNF.
    Gbnf(String),
    /// A grammar in XGrammar's EBNF.
    Ebnf(String),
    /// An llguidance grammar list (JSON text) or Lark.
    Llguidance(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Exactly this text; special tokens are known in it.
    Text(String),
    /// Calls of functions.
    Calls(Box<Calls>),
    /// One of these, each between two texts.
    Tags(Box<Tags>),
    /// All of these, one after the other.
    Sequence(Vec<GrammarSpec>),
    /// One of these.
    Or(Vec<GrammarSpec>),
    /// So many of these.
    Repeat {
        /// One.
        grammar: Box<GrammarSpec>,
        /// At least.
        least: u32,
        /// At most; None: any number.
        most: Option<u32>,
    },
    /// Any text, up to and including the first of these texts.
    UpTo {
        /// What ends it; special tokens are known in it.
        ends: Vec<String>,
        /// Texts that do not come before it.
        #[serde(default)]
        excludes: Vec<String>,
    },
    /// The arguments of a function, written one by one.
    Arguments {
        /// The function; its name is not written.
        tool: Tool,
        /// How.
        parameters: Parameters,
    },
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

/// How calls are written: `open`, then for each call `before`, the function's name, `between`, the arguments and `after`, with `separator`
/// between two calls, then `close`. These texts may contain special tokens. `{id}`, `{index}` and `{ws}` stand for an id, a number
/// and white space that the model chooses, and `{name}` in `between` for the function's name.
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
    /// Other texts that may stand there.
    #[serde(default)]
    pub betweens: Vec<String>,
    /// Behind the arguments.
    pub after: String,
    /// Between two calls; None: there is one call only.
    #[serde(default)]
    pub separator: Option<String>,
    /// Behind the last call.
    #[serde(default)]
    pub close: String,
    /// How the text begins that is there already: a beginning of `open` and `before`. If there is one function and one call, its
    /// name and what follows may be there, too.
    #[serde(default)]
    pub begun: String,
    /// What the output may be instead; no sections.
    #[serde(default)]
    pub or: Option<GrammarSpec>,
    /// Before that.
    #[serde(default)]
    pub lead: String,
    /// How arguments are written one by one; None: they are one JSON object.
    #[serde(default)]
    pub parameters: Option<Parameters>,
    /// If given, the model may write a name that is not in this list, in a JSON string, and any text after its quotation mark. That
    /// is not a call. `tools` may then be empty.
    #[serde(default)]
    pub except: Option<Vec<String>>,
}

/// How arguments are written one by one: `before`, the parameter's name, a text that depends on the value's type, the value and
/// `after`. `separator` stands between two arguments. These texts may contain special tokens, and `{index}` as in [`Calls`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Before a name.
    pub before: String,
    /// Between a name and a value, by the value's type.
    pub between: BTreeMap<JsonType, String>,
    /// Behind a value.
    pub after: String,
    /// Between two arguments.
    #[serde(default)]
    pub separator: String,
    /// Strings are written as they are; otherwise as JSON. A raw string has nowhere what ends it: `quote` and `after`, whatever
    /// white space there is around both.
    pub raw: bool,
    /// Before and behind raw strings.
    #[serde(default)]
    pub quote: String,
    /// Arrays and objects have strings of this kind, too, and keys without quotes. Otherwise they are JSON.
    #[serde(default)]
    pub nested: bool,
    /// `true`, `false` and `null` may also be written `True`, `False` and `None`, except inside of arrays and objects.
    #[serde(default)]
    pub python: bool,
}

/// The type of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number, whole or not.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// Contents between texts. Special tokens are known in these texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tags {
    /// One of these comes.
    pub tags: Vec<Tag>,
    /// How the text begins that is there already. Tags that begin otherwise are left out.
    #[serde(default)]
    pub begun: String,
    /// There may be several tags, with this text between two.
    #[serde(default)]
    pub separator: Option<String>,
}

/// A content between two texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    /// Before the content.
    pub begin: String,
    /// The content; None: any text that has not `end` in it.
    #[serde(default)]
    pub content: Option<GrammarSpec>,
    /// Behind the content.
    pub end: String,
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
    /// The types of arguments that may be strings or values of other types. A raw string is never written like a value of one
    /// of these types, so that a reader knows which of both it is.
    #[serde(default)]
    pub types: BTreeMap<String, BTreeSet<JsonType>>,
}

impl GrammarSpec {
    /// Texts that mark where parts begin and end: special tokens among them belong to the output's text.
    pub fn markers(&self) -> Vec<&str> {
        match self {
            GrammarSpec::Text(text) => vec![text],
            GrammarSpec::Calls(calls) => calls.texts(),
            GrammarSpec::Tags(tags) => {
                let texts = tags.tags.iter().flat_map(|tag| [&*tag.begin, &*tag.end]);
                let contents = tags.tags.iter().flat_map(|tag| &tag.content);
                texts
                    .chain(tags.separator.as_deref())
                    .chain(contents.flat_map(GrammarSpec::markers))
                    .collect()
            }
            GrammarSpec::Sequence(list) | GrammarSpec::Or(list) => {
                list.iter().flat_map(GrammarSpec::markers).collect()
            }
            GrammarSpec::Repeat { grammar, .. } => grammar.markers(),
            GrammarSpec::UpTo { ends, .. } => ends.iter().map(String::as_str).collect(),
            GrammarSpec::Arguments { parameters, .. } => parameters.texts().collect(),
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
            | GrammarSpec::Ebnf(s)
            | GrammarSpec::LarkGrammar(s)
            | GrammarSpec::Llguidance(s)
            | GrammarSpec::Text(s) => s.len(),
            GrammarSpec::Choice(list) => list.iter().map(|t| t.len() + 24).sum(),
            GrammarSpec::Calls(calls) => {
                let tools: usize = calls.tools.iter().map(|t| t.name.len() + t.schema.len() + 24).sum();
                let names: usize = calls.except.iter().flatten().map(|name| name.len() + 24).sum();
                tools + names + calls.or.as_ref().map_or(0, GrammarSpec::bytes)
            }
            GrammarSpec::Tags(tags) => {
                let content = |tag: &Tag| tag.content.as_ref().map_or(0, GrammarSpec::bytes);
                tags.tags.iter().map(|tag| tag.begin.len() + tag.end.len() + 48 + content(tag)).sum()
            }
            GrammarSpec::Sequence(list) | GrammarSpec::Or(list) => {
                list.iter().map(|one| one.bytes() + 24).sum()
            }
            GrammarSpec::Repeat { grammar, .. } => grammar.bytes(),
            GrammarSpec::UpTo { ends, excludes } => {
                ends.iter().chain(excludes).map(|text| text.len() + 24).sum()
            }
            GrammarSpec::Arguments { tool, .. } => tool.schema.len(),
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
    /// A function's name and the text behind it, in each way.
    pub(crate) fn named(&self, tool: &Tool) -> impl Iterator<Item = String> {
        let texts = std::iter::once(&self.between).chain(&self.betweens);
        texts.map(|text| format!("{}{}", tool.name, text.replace("{name}", &tool.name)))
    }

    /// The texts around names and arguments.
    pub fn texts(&self) -> Vec<&str> {
        let separator = self.separator.as_deref().unwrap_or_default();
        let mut texts = vec![&*self.open, &self.before, &self.between, &self.after, separator, &self.close];
        texts.extend(self.betweens.iter().chain([&self.lead]).map(String::as_str));
        texts.extend(self.parameters.iter().flat_map(Parameters::texts));
        texts
    }
}

impl Parameters {
    /// The texts around names and values.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let around = [&*self.before, &self.after, &self.separator];
        around.into_iter().chain(self.between.values().map(String::as_str))
    }
}
