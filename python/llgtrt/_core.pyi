"""The Rust core. Everything that takes time releases the GIL."""

from collections.abc import Callable, Sequence
from typing import Protocol, final

__all__ = [
    "CoreError",
    "Engine",
    "EngineClosed",
    "EngineError",
    "Event",
    "Grammar",
    "GrammarError",
    "InvalidRequest",
    "Matcher",
    "NotFound",
    "Overloaded",
    "Vocabulary",
    "engine_process",
    "fill_bitmasks",
    "follow",
    "load_config",
    "print_config",
    "quantize",
]

class CoreError(Exception):
    """An error of the core; the base of all others here. `args` is one line of text."""

class InvalidRequest(CoreError, ValueError):
    """The request or the configuration is wrong."""

    what: str
    """Name of the offending field, as the client wrote it."""
    why: str
    """What is wrong and what to do."""
    code: str | None
    """Machine-readable reason, e.g. "context_length_exceeded"."""

class GrammarError(CoreError, ValueError):
    """The constraint cannot be enforced, or broke while generating."""

    pointer: str
    """JSON pointer into the schema; empty for the root and for specs that are not JSON."""
    keyword: str
    """The schema keyword, or the kind of spec, that cannot be enforced."""
    why: str
    """What is wrong and what to do."""

class NotFound(CoreError):
    """No such thing."""

class Overloaded(CoreError):
    """The waiting line is full; try again later."""

class EngineError(CoreError):
    """The engine failed; the request may be sent again."""

class EngineClosed(CoreError):
    """The engine is closed, or not ready for the first time yet."""

@final
class Event:
    """News of one choice."""

    @property
    def request(self) -> int:
        """The request's id, as `Engine.submit` returned it."""

    @property
    def choice(self) -> int:
        """Index of the choice within its request, from 0."""

    @property
    def text(self) -> str:
        """New text; may be empty while a character or a stop string is undecided."""

    @property
    def tokens(self) -> list[int]:
        """New tokens, in order; they may run ahead of the text."""

    @property
    def logprobs(self) -> list[tuple[int, float, list[tuple[int, float]]]]:
        """(token, logprob, alternatives) per new token, natural logarithm, best alternative first; [] unless asked for."""

    @property
    def allowed(self) -> list[float | None]:
        """The probability of all tokens together that the constraint allows, per entry of `logprobs`.

        By the raw logits; None without a constraint, or where origins and raw log-probabilities were not both asked for.
        """

    @property
    def origins(self) -> list[tuple[str | None, list[tuple[int, str]]]]:
        """(who drafted it, [(token refused in its stead, who drafted that), ...]) per new token; [] unless asked for.

        None = the target drew it, and nobody had drafted it.
        """

    @property
    def prompt_logprobs(self) -> list[tuple[int, float, list[tuple[int, float]]]]:
        """Log-probabilities of further prompt tokens, from the second on; [] unless asked for."""

    @property
    def successors(self) -> list[tuple[list[float], list[tuple[int, float]]]]:
        """For a decision, (probabilities, [(token, probability), ...]) for each place of the choice's path; otherwise [].

        For each option, the probability of the tokens after which only this option remains; and the tokens after which
        several remain.
        """

    @property
    def narrowed(self) -> list[tuple[str, str, str]]:
        """(JSON pointer, keyword, what is left out) where less is allowed than a schema says; on the last event."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt whose KV was taken from an earlier request."""

    @property
    def queue_seconds(self) -> float:
        """Seconds from the request's arrival to its admission."""

    @property
    def compile_seconds(self) -> float:
        """Of these, the seconds until the constraint was compiled or found in the cache; 0 without one."""

    @property
    def completion_tokens(self) -> int:
        """Tokens generated so far, the end token included."""

    @property
    def reasoning_tokens(self) -> int:
        """Of those, the tokens of reasoning, its end marker included."""
    @property
    def shortened(self) -> bool:
        """A draw was not taken because the output could not have been completed within `max_tokens` behind it."""

    @property
    def drafts(self) -> dict[str, tuple[int, int, int]]:
        """Drafted tokens so far by source: (given to the target, emitted, refused)."""

    @property
    def finish_reason(self) -> str | None:
        """ "stop", "length" or "cancelled" on the choice's last event; None before it, and where it failed."""

    @property
    def error(self) -> CoreError | None:
        """Why the choice failed, on its last event."""

@final
class Engine:
    """An engine in the background: a supervised process, or a thread of this one.

    May be used from several threads. Dropping it closes it without waiting.
    """

    def __new__(cls, target: str, config: str, child: Sequence[str] | None = None) -> Engine:
        """Start an engine and return at once; the model is loaded in the background.

        target: an engine folder, a .gguf file, or "toy". config: the effective configuration, as `load_config` gives
        it. child: command line of the engine process, to which the number of its inherited socket is appended, for
        `engine_process`; None = a thread of this process.

        Raises InvalidRequest (what = "target") for a missing folder or a folder without a model.
        """

    def state(self) -> tuple[str, str]:
        """ "loading", "ready", "restarting", "failed" or "closed", and one line about it."""

    def info(self) -> str:
        """Facts of the engine in JSON: those of `engine::Info`, "eos_text" and "bos_text" (or null).

        Raises EngineClosed until the engine is ready for the first time.
        """

    def encode(self, parts: Sequence[tuple[str, bool]]) -> list[int]:
        """Tokens of the parts' concatenation; special tokens are known only in parts whose flag is True.

        Raises EngineClosed until the engine is ready for the first time.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of the tokens; special ones are left out, invalid UTF-8 becomes U+FFFD.

        Raises EngineClosed until the engine is ready for the first time.
        """

    def token_bytes(self, token: int) -> bytes:
        """Bytes of one token, b"" for an unknown one; special tokens: their written form.

        Raises EngineClosed until the engine is ready for the first time.
        """

    def longest_token(self) -> int:
        """Bytes of the longest token.

        Raises EngineClosed until the engine is ready for the first time.
        """

    def bos_token(self) -> int | None:
        """The token to put before a prompt that comes as plain text, if the model wants one.

        Raises EngineClosed until the engine is ready for the first time.
        """

    def check_grammar(self, spec: str, text: str | None = None, show: bool = False) -> str:
        """Compile a constraint, the JSON of `grammar::GrammarSpec`, and walk a text over it. Takes as long as that does.

        The report in JSON: "compile_ms", "mask_ms" (of the first mask), and with a text "matches" and "matched", the
        characters of it that can begin an output; with `show` "lark", the grammar as Lark text, None where Lark cannot say it.

        Raises GrammarError where it cannot be enforced or takes too long, InvalidRequest, or EngineClosed until the
        engine is ready for the first time.
        """

    def submit(self, request: str) -> int:
        """Hand in a request, the JSON of `request::RequestSpec`, and return its id. While restarting it waits.

        Raises InvalidRequest, Overloaded, or EngineClosed where the engine is loading, failed or closed.
        """

    def cancel(self, request: int) -> None:
        """End a request; its open choices end as "cancelled". Never fails."""

    def drain(self) -> list[Event]:
        """Take the events that wait, one per choice at most, and reset the descriptor. Never blocks."""

    def fileno(self) -> int:
        """A descriptor that is readable while drain() has something or since state() changed. Only for polling."""

    def metrics(self) -> str:
        """Totals over all restarts and present gauges in JSON: `metrics::Snapshot` and "restarts"."""

    def close(self) -> None:
        """End the engine now; unfinished requests end with EngineClosed. Returns when nothing of it is left."""

class _Array(Protocol):
    """An array that lends its memory, such as NumPy's and torch's."""

    def __dlpack__(self) -> object:
        """A DLPack capsule."""

@final
class Vocabulary:
    """A vocabulary, and a compiler with a cache; see `llgtrt.grammar`. May be used from several threads.

    settings: overrides of the configuration in JSON, of which the group `grammar` counts.
    """

    @staticmethod
    def from_tokenizer_json(text: bytes, eos: Sequence[int], size: int | None, settings: str) -> Vocabulary:
        """From the text of a tokenizer.json. size: width of the model's logits. Raises InvalidRequest."""

    @staticmethod
    def from_gguf(path: str, settings: str) -> Vocabulary:
        """From a GGUF file. Raises InvalidRequest."""

    @staticmethod
    def from_tokens(
        tokens: Sequence[bytes | None],
        eos_and_special: tuple[Sequence[int], Sequence[int]],
        encode: Callable[[str], Sequence[int]] | None,
        settings: str,
    ) -> Vocabulary:
        """From the bytes of each token. encode: text to ids, called from any thread. Raises InvalidRequest."""

    @property
    def size(self) -> int:
        """Number of ids."""

    @property
    def eos(self) -> list[int]:
        """The end tokens, ascending."""

    @property
    def hash(self) -> str:
        """16 hexadecimal digits."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, none of them special. Raises InvalidRequest."""

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a token, b"" for an unknown one."""

    def compile(self, spec: str) -> Grammar:
        """Compile a constraint, the JSON of `grammar::GrammarSpec`. Takes as long as that does.

        Raises GrammarError where it cannot be enforced or takes too long, or InvalidRequest.
        """

    def deserialize(self, data: bytes) -> Grammar:
        """Compile what `Grammar.serialize` wrote. Raises InvalidRequest, or GrammarError."""

@final
class Grammar:
    """A compiled constraint."""

    def matcher(self, max_tokens: int | None = None) -> Matcher:
        """The constraint at its beginning, for an output of at most `max_tokens` tokens, an end token aside.

        Raises InvalidRequest (what = "max_tokens") where no output is so short.
        """

    @property
    def report(self) -> list[tuple[str, str, str]]:
        """(JSON pointer, keyword, what is left out) where less is allowed than a schema says."""

    @property
    def min_tokens(self) -> int | None:
        """The fewest tokens that complete an output; None where that cannot be told."""
    def serialize(self) -> bytes:
        """The constraint with the hash of its vocabulary, for `Vocabulary.deserialize`."""

@final
class Matcher:
    """The state of one output. May be used from several threads, one at a time."""

    def accept(self, tokens: Sequence[int]) -> bool:
        """Take tokens; False where one of them may not come, and none is taken then.

        An end token is taken where the output may end. Nothing is taken behind it. Raises GrammarError where a limit is hit.
        """

    def validate(self, tokens: Sequence[int]) -> int:
        """How many of these tokens may come, one after another; the state stays. Raises GrammarError where a limit is hit."""

    def rollback(self, n: int) -> None:
        """Take the last n tokens back. Raises InvalidRequest where there are fewer."""

    def fill_bitmask(self, row: _Array) -> None:
        """Write what may come next into int32 words: bit t % 32 of word t // 32 for token t; further words become 0.

        Only end tokens where the output is complete. Raises GrammarError where a limit is hit, InvalidRequest where the row
        is too short, and TypeError or ValueError for another kind of array.
        """

    def forced(self) -> list[int]:
        """The tokens that must come next, without end tokens. Raises GrammarError where a limit is hit."""

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""

    def is_complete(self) -> bool:
        """Whether nothing but an end token may follow."""

    def may_end(self) -> bool:
        """Whether the output may end here."""

    @property
    def tokens(self) -> list[int]:
        """The tokens accepted so far."""

    def reset(self) -> None:
        """Go back to the beginning."""

    def copy(self) -> Matcher:
        """A copy with a life of its own."""

def fill_bitmasks(matchers: Sequence[Matcher], array: _Array, rows: Sequence[int] | None = None) -> None:
    """Fill a row for each matcher, on several threads: its number in `rows`, or its place in the list.

    Raises as `Matcher.fill_bitmask`, once all other rows are filled, and ValueError where a row is named twice or is not there.
    """

def follow(target: str, config: str) -> None:
    """Computes on a rank of MPI that does not lead, until the leader ends.

    Raises:
        InvalidRequest: there is no engine that has such ranks, or it cannot be loaded.
    """

def load_config(text: str | None, overrides: str) -> str:
    """The effective configuration in JSON, from JSON with comments (or None) and overrides as a JSON object.

    Raises InvalidRequest naming the key.
    """

def print_config(effective: str) -> str:
    """The same with one comment per key; itself valid input of `load_config`.

    Raises InvalidRequest naming the key.
    """

def quantize(source: str, target: str, qformat: str) -> None:
    """Write the model of the GGUF file `source`, in F32, F16 or BF16, to `target` with its matrices in another format.

    qformat: "f16", "bf16", "q8_0", "q4_0" or "q4_k_m". Rows whose length the format's blocks do not divide get the next
    best one.

    Raises InvalidRequest (what = "qformat" or "source"), or EngineError with llama.cpp's reason; `target` is of no use
    then.
    """

def engine_process(fd: int) -> int:
    """The main function of the engine process: serve on this socket until it closes. Returns the exit code."""
