//! The group `server` of `runtime.json`.

use super::tool_format::{ToolFormat, ToolFormats};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessLog {
    /// Not at all.
    Off,
    /// As words.
    Text,
    /// As JSON, one object a line.
    Json,
}

/// How log lines are written, the engine's included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Time, level, logger and message.
    Text,
    /// The same as JSON, one object a line.
    Json,
}

/// What to do with fields that the API does not have. Constraints in forms that are not read are always refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFields {
    /// Refuse those that are known to change an answer elsewhere; ignore the others and log their names once.
    RefuseKnown,
    /// Refuse all.
    Refuse,
    /// Ignore all and log their names once.
    Ignore,
}

/// Prompts for the questions of `/v1/systemone`, by type. `{instructions}`, `{options}` and `{state}` are replaced by the question, the
/// possible answers and the state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DecisionPrompts {
    /// For a choice; null = the built-in prompt (docs/decisions.md).
    #[schemars(length(min = 1))]
    pub choice: Option<String>,
    /// For a score.
    #[schemars(length(min = 1))]
    pub score: Option<String>,
    /// For yes or no.
    #[schemars(length(min = 1))]
    pub noul: Option<String>,
}

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on.
    #[schemars(length(min = 1))]
    pub host: String,
    /// Port to listen on; 0 = a free one.
    #[schemars(range(max = 65_535))]
    pub port: u16,
    /// The model's name in the API; null = the engine folder's name.
    #[schemars(length(min = 1))]
    pub served_model_name: Option<String>,
    /// More names that requests may use.
    #[schemars(inner(length(min = 1)))]
    pub served_model_aliases: Vec<String>,
    /// API keys, of which a client must send one; empty = no key is needed. The environment's `LLGTRT_API_KEY` is one more.
    #[schemars(inner(length(min = 1)))]
    pub api_keys: Vec<String>,
    /// A file with more of them, one in each line.
    #[schemars(length(min = 1))]
    pub api_key_file: Option<String>,
    /// CORS: origins (scheme and host) of web pages that may call the server; "*" = all. A preflight request needs no key.
    #[schemars(inner(length(min = 1)))]
    pub cors_origins: Vec<String>,
    /// Certificate chain and private key, PEM files; with them the server speaks TLS.
    #[schemars(length(min = 1))]
    pub ssl_certfile: Option<String>,
    /// See `ssl_certfile`.
    #[schemars(length(min = 1))]
    pub ssl_keyfile: Option<String>,
    /// Seconds that an idle connection is kept. Longer than proxies keep theirs, so that they do not use a connection that
    /// is closing.
    #[schemars(range(min = 1, max = 86_400))]
    pub keep_alive: u32,
    /// Chat template: a file, or the name of a preset; null = the model's own.
    #[schemars(length(min = 1))]
    pub chat_template: Option<String>,
    /// How the model writes function calls: a name, or an object that describes it (docs/tools.md); auto = as its chat template
    /// shows.
    pub tool_format: ToolFormats,
    /// The texts before and after thinking, for a model that always thinks; [] = it does not; null = as its chat template
    /// shows.
    #[schemars(length(max = 2), inner(length(min = 1, max = 256)))]
    pub reasoning_markers: Option<Vec<String>>,
    /// Prompts for the questions of `/v1/systemone`.
    pub decision_prompts: DecisionPrompts,
    /// Seconds without progress after which a client is disconnected: while it reads an answer, while it sends a request,
    /// and between connecting and its first request.
    #[schemars(range(max = 86_400), extend("exclusiveMinimum" = 0))]
    pub send_timeout: f64,
    /// Seconds that running and waiting requests have to finish at shutdown.
    #[schemars(range(min = 0, max = 86_400))]
    pub grace_period: f64,
    /// Seconds that a request may take, waiting included; then it ends with an error.
    #[schemars(range(max = 604_800), extend("exclusiveMinimum" = 0))]
    pub request_timeout: f64,
    /// Maximum output tokens of a request that does not set them; null = the room left in the context.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub default_max_tokens: Option<u32>,
    /// Log a line for each request: id, method, path, status, tokens, milliseconds in the queue, to the first token and in
    /// total; no text of the request.
    pub access_log: AccessLog,
    /// Format of the log. `LLGTRT_LOG_FORMAT=json` in the environment has the same effect, from the first line on.
    pub log_format: LogFormat,
    /// Largest request body in bytes.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub max_body_bytes: u64,
    /// What to do with unsupported and unknown fields of a request: refuse_known refuses fields of other servers that would
    /// change the answer.
    pub unknown_fields: UnknownFields,
    /// Serve the playground at `/`.
    pub page: bool,
    /// Run the engine in a supervised child process.
    pub engine_process: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            host: "127.0.0.1".into(),
            port: 3000,
            served_model_name: None,
            served_model_aliases: Vec::new(),
            api_keys: Vec::new(),
            api_key_file: None,
            cors_origins: Vec::new(),
            ssl_certfile: None,
            ssl_keyfile: None,
            keep_alive: 75,
            chat_template: None,
            tool_format: ToolFormats::Named(ToolFormat::Auto),
            reasoning_markers: None,
            decision_prompts: DecisionPrompts::default(),
            send_timeout: 30.0,
            grace_period: 30.0,
            request_timeout: 3600.0,
            access_log: AccessLog::Off,
            log_format: LogFormat::Text,
            default_max_tokens: None,
            max_body_bytes: 16 * 1024 * 1024,
            unknown_fields: UnknownFields::RefuseKnown,
            page: true,
            engine_process: true,
        }
    }
}
