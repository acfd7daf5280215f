//! How a model writes calls of functions.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A format by its name, or described.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolFormats {
    /// One of those that are known.
    Named(ToolFormat),
    /// Its parts, which the server reads.
    Described(Map<String, Value>),
}

/// How a model writes calls of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolFormat {
    /// As its chat template shows, else as JSON.
    Auto,
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen.
    Hermes,
    /// `{"name": …, "parameters": …}`: Llama 3.
    #[serde(rename = "llama3_json")]
    Llama3Json,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]`.
    Mistral,
    /// `[TOOL_CALLS]name[ARGS]{…}`: newer Mistral models.
    MistralArgs,
    /// `<|tool_call|>[{"name": …, "arguments": …}]<|/tool_call|>`: Phi-4 mini.
    Phi4,
    /// DeepSeek V3 and R1.
    Deepseek,
    /// `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`: Qwen3-Coder, Qwen3.5, Nemotron 3.
    #[serde(rename = "qwen3_coder")]
    Qwen3Coder,
    /// `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`: GLM 4.5 and later.
    Glm,
    /// `<|tool_call>call:name{key:value}<tool_call|>`: Gemma 4.
    Gemma,
    /// Messages in the channel `commentary`: gpt-oss.
    GptOss,
    /// `<|tool_call|>[{"name": …, "arguments": …}]`: Granite 3.
    Granite,
    /// `functools[{"name": …, "arguments": …}]`: Firefunction.
    Functools,
    /// `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`: Kimi K2.
    Kimi,
    /// Kimi K3's tags, with a tag for each argument.
    #[serde(rename = "kimi_k3")]
    KimiK3,
    /// `>>>name`, line break, `{…}`: Functionary 3.2.
    Functionary,
    /// A message to the function, with a tag for each argument: Muse Glimmer.
    Muse,
    /// `<|tool_call_start|>[name(key="value")]<|tool_call_end|>`: LFM2.
    Python,
    /// `{"name": …, "arguments": …}`.
    Json,
}

impl JsonSchema for ToolFormats {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ToolFormats".into()
    }

    /// That of the names. Whoever reads the parts of a description checks them.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let types = json!(["string", "object", "boolean", "null", "array"]);
        let value = json!({"type": types, "items": {"type": types}});
        let part = json!({"type": types, "items": {"type": types}, "additionalProperties": value});
        let parts = json!({"type": types, "items": {"type": types}, "additionalProperties": part});
        let mut schema = ToolFormat::json_schema(generator);
        schema.insert("type".to_owned(), json!(["string", "object"]));
        schema.insert("additionalProperties".to_owned(), parts);
        schema
    }
}
