"""Chat templates: a jinja2 sandbox with what templates published with models use.

Most templates are tested with Hugging Face's library, so this offers the same: trimmed blocks, loop
controls, `tojson` that leaves HTML alone, `raise_exception`, `strftime_now`, and `generation` blocks that
mark what a model wrote. Kimi's templates also change lists, and DeepSeek's use a filter `from_json`.
"""

from __future__ import annotations

import datetime
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from llgtrt.settings import Settings, StartError

PRESETS = Path(__file__).parent / "presets"
"""The templates that come with the server, `<name>.j2`."""

NAMED = {"tool_use": "tools", "rag": "documents"}
"""Names of the templates that a model may have beside its default one, and the variables they are for."""

FILES: Mapping[str, Path] = {name: Path("additional_chat_templates") / f"{name}.jinja" for name in NAMED}
"""Where a model's folder has them."""

Message = dict[str, Any]
"""`role`, `content` and perhaps `name`, all of them text."""


ASK: Mapping[str, Any] = {"add_generation_prompt": True}
"""The options of a chat in which it is the assistant's turn."""


class RenderError(ValueError):
    """The template does not accept these messages."""


class _Generation(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}`: a scope without effect on the text."""

    tags = {"generation"}  # noqa: RUF012 (declared so by jinja2)

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(layout: str) -> str:
    return datetime.datetime.now().strftime(layout)


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The sandbox, in which templates may also change lists: Kimi's keep the ids of calls in one."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may use this attribute."""
        is_list = isinstance(obj, list) and attr in ("append", "pop")
        return is_list or super().is_safe_attribute(obj, attr, value)


def _environment() -> jinja2.Environment:
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.filters["from_json"] = json.loads
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class ChatTemplate:
    """A compiled template and the texts of the model's special tokens, which templates name."""

    def __init__(
        self, source: str, special: Mapping[str, str], named: Mapping[str, str | None] | None = None
    ) -> None:
        """Compiles it.

        `special`: `bos_token`, `eos_token`, … by name. `named`: the model's other templates (`NAMED`).

        Raises:
            StartError: `source` is not a template.
        """
        try:
            environment = _environment()
            self._template = environment.from_string(source)
            self._takes = jinja2.meta.find_undeclared_variables(environment.parse(source))
        except jinja2.TemplateSyntaxError as e:
            raise StartError(
                f"chat template, line {e.lineno}: {e.message}; correct it or pass another"
            ) from e
        others = {name: text for name in NAMED if named and (text := named.get(name))}
        self.source = "\n".join([source, *others.values()])
        """The text of all templates."""
        self._named = {name: ChatTemplate(text, special) for name, text in others.items()}
        self._special = dict(special)
        self._knows_developer = "developer" in source

    def render(self, messages: Sequence[Message], options: Mapping[str, Any] = ASK) -> str:
        """The prompt that asks the assistant for its turn, or what `options` say instead.

        `options`: variables of the template; with `continue_final_message` the last message is left open.

        Raises:
            RenderError: the template refuses the messages, or cannot cope with them.
        """
        chosen = self._for(options)
        if chosen is not self:
            return chosen.render(messages, options)
        known = [self._known(message) for message in messages]
        variables = {"tools": None, "documents": None, **options, **self._special}
        if not options.get("continue_final_message"):
            return self._rendered(known, variables)
        last = known[-1]["content"]
        mark = secrets.token_hex(12)
        known[-1] = {**known[-1], "content": f"{last}{mark} "}
        return _opened(self._rendered(known, {**variables, "add_generation_prompt": False}), last, mark)

    def has_place(self, options: Mapping[str, Any]) -> bool:
        """Whether the documents of these options come into the prompt, and functions beside them."""
        return not options.get("documents") or self._for(options).takes(options)

    def takes(self, options: Mapping[str, Any]) -> bool:
        """Whether this template itself looks at the functions and documents of these options."""
        return all(of in self._takes for of in NAMED.values() if options.get(of))

    def _for(self, options: Mapping[str, Any]) -> ChatTemplate:
        """The template for these options."""
        named = [one for name, one in self._named.items() if options.get(NAMED[name])]
        fitting = [one for one in (*named, self) if one.takes(options)]
        return [*fitting, *named, self][0]

    def _known(self, message: Message) -> Message:
        """A message under the names that the template knows."""
        if message["role"] == "developer" and not self._knows_developer:
            message = {**message, "role": "system"}
        if "reasoning_content" in message:
            # The templates of gpt-oss and LFM 2.5 have a name of their own for it.
            message = {"thinking": message["reasoning_content"], **message}
        return message

    def _rendered(self, messages: Sequence[Message], variables: Mapping[str, Any]) -> str:
        try:
            return self._template.render(messages=messages, **variables)
        except (
            jinja2.TemplateError,
            TypeError,
            ValueError,
            LookupError,
            ArithmeticError,
            RecursionError,
        ) as e:
            raise RenderError(f"the model's chat template refuses them: {e}") from e


def _opened(rendered: str, last: str, mark: str) -> str:
    """A prompt up to the mark and the space that were put behind its last message, `last`.

    Raises:
        RenderError: the template changed that message.
    """
    begin, found, rest = rendered.rpartition(mark)
    if not found or last.strip() not in begin:
        raise RenderError("the last one is changed by the model's chat template: it cannot be continued")
    # Where the template cuts white space behind messages, the last one's goes, as it would without the mark.
    return begin if rest.startswith(" ") or not last.strip() else begin.rstrip()


def load(settings: Settings, info: Mapping[str, Any]) -> ChatTemplate | None:
    """The template to use: the configured one, else the folder's, else the model file's.

    Raises:
        StartError: a named or found template cannot be used.
    """
    special = {f"{name}_token": info.get(f"{name}_text") or "" for name in ("bos", "eos")}
    special.update(_special_tokens(settings.folder))
    sources = _sources(settings, info)
    source = sources.get("default")
    return ChatTemplate(source, special, sources) if source else None


def check(settings: Settings) -> None:
    """Refuses an unusable configured template before the model is loaded.

    Raises:
        StartError: as `load` would.
    """
    load(settings, {})


def _sources(settings: Settings, info: Mapping[str, Any]) -> Mapping[str, str | None]:
    """The templates by name: `default`, and perhaps others (`NAMED`)."""
    name = settings.server.chat_template
    if name is not None:
        preset = PRESETS / f"{name}.j2"
        return {"default": _read(preset if preset.is_file() else Path(name))}
    if settings.is_toy:
        return {"default": _read(PRESETS / "chatml.j2")}
    for file in ("chat_template.j2", "chat_template.jinja"):
        if settings.folder and (settings.folder / file).is_file():
            others = {name: settings.folder / other for name, other in FILES.items()}
            named = {name: _read(other) for name, other in others.items() if other.is_file()}
            return {"default": _read(settings.folder / file), **named}
    return _from_tokenizer_config(settings.folder) or {
        "default": info.get("chat_template"),
        **{name: info.get(f"{name}_template") for name in NAMED},
    }


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        known = ", ".join(sorted(p.stem for p in PRESETS.glob("*.j2")))
        raise StartError(f"chat template {file}: cannot be read; pass a file, or a preset ({known})") from e


def _tokenizer_config(folder: Path | None) -> dict[str, Any]:
    file = folder / "tokenizer_config.json" if folder else None
    if file is None or not file.is_file():
        return {}
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise StartError(f"{file}: not JSON ({e}); correct or remove it") from e
    return config if isinstance(config, dict) else {}


def _from_tokenizer_config(folder: Path | None) -> dict[str, str]:
    given = _tokenizer_config(folder).get("chat_template")
    if isinstance(given, str):
        return {"default": given}
    if not isinstance(given, list):
        return {}
    named = {t.get("name"): t.get("template") for t in given if isinstance(t, dict)}
    return {name: text for name, text in named.items() if isinstance(name, str) and isinstance(text, str)}


def _special_tokens(folder: Path | None) -> dict[str, str]:
    """Texts of the tokens that the folder names: `"eos_token": "…"` or `"eos_token": {"content": "…"}`."""
    texts = {}
    for name, value in _tokenizer_config(folder).items():
        text = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            texts[name] = text
    return texts
