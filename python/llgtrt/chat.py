"""`llgtrt chat`: a conversation in the terminal, with a server or with an engine of its own."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib
import json
import os
import sys
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from llgtrt.settings import StartError, given

_PAGE = "/v1/chat/completions"
_HELP = """\
/system TEXT   set the system prompt, and begin again; without TEXT: show it
/reset         begin again
/quit          end; so does Ctrl-D
Ctrl-C stops an answer. A line that ends with \\ goes on in the next one."""


class ChatError(Exception):
    """A message was not answered; one line that says why."""


class Answers(Protocol):
    """Where answers come from."""

    def answer(self, body: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
        """The chunks of the answer to a body of `/v1/chat/completions`.

        Raises:
            ChatError: there is no answer, or it broke off.
            KeyboardInterrupt: it was stopped.
        """


class Writes(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object:
        """Takes it."""

    def flush(self) -> None:
        """Shows it."""


def is_url(target: str | None) -> bool:
    """Whether the target is a server that runs already."""
    return target is not None and target.startswith(("http://", "https://"))


def with_server(parsed: argparse.Namespace) -> int:
    """Talks with a running server; the exit code.

    Raises:
        StartError: a file or the address cannot be used.
    """
    return talk(parsed, Remote(parsed.target, os.environ.get("LLGTRT_API_KEY")))


class Remote:
    """A server that speaks OpenAI's API."""

    def __init__(self, url: str, key: str | None) -> None:
        """Asks it for its model.

        Raises:
            StartError: it cannot be reached, or refuses.
        """
        parts = urlsplit(url)
        try:
            self._address = parts.hostname, parts.port
        except ValueError as e:
            raise StartError(f"{url}: {e}") from e
        if not parts.hostname:
            raise StartError(f"{url}: is not like http://127.0.0.1:3000")
        secure = parts.scheme == "https"
        self._kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._folder = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = {"content-type": "application/json"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        try:
            with self._request("GET", "/v1/models", None) as response:
                self._model = json.loads(response.read())["data"][0]["id"]
        except ChatError as e:
            raise StartError(f"{url}: {e}") from e
        except (ValueError, LookupError, TypeError) as e:
            raise StartError(f"{url}: does not answer as an OpenAI-compatible server") from e

    @contextlib.contextmanager
    def _request(self, method: str, page: str, body: bytes | None) -> Iterator[http.client.HTTPResponse]:
        host, port = self._address
        connection = self._kind(host or "", port)
        try:
            connection.request(method, self._folder + page, body, self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise ChatError(message_of(response.status, response.read()))
            yield response
        except (OSError, http.client.HTTPException) as e:
            raise ChatError(f"the connection failed ({e or type(e).__name__})") from e
        finally:
            connection.close()

    def answer(self, body: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
        """See `Answers`."""
        sent = json.dumps({"model": self._model, **body}).encode()
        with self._request("POST", _PAGE, sent) as response:
            yield from chunks(response)


def message_of(status: int, body: bytes) -> str:
    """What an answer says that is an error."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return f"the server answered with status {status}"


def chunks(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a stream of events, from its lines.

    Raises:
        ChatError: one of them is an error, or the stream ends without its mark.
    """
    for line in lines:
        if not line.startswith(b"data: "):
            continue
        data = line[6:].strip()
        if data == b"[DONE]":
            return
        chunk: dict[str, Any] = json.loads(data)
        if "error" in chunk:
            raise ChatError(str(chunk["error"].get("message", chunk["error"])))
        yield chunk
    raise ChatError("the answer broke off")


class Conversation:
    """What was said, and what answers are asked for."""

    def __init__(self, answers: Answers, system: str | None, fields: dict[str, Any]) -> None:
        self._answers = answers
        self._fields = fields
        self.system = system
        self.messages: list[dict[str, str]] = []

    def reset(self) -> None:
        """Begins again, with the same system prompt."""
        self.messages = []

    def say(self, text: str, out: Writes, thinking: Writes | None) -> str | None:
        """Sends a message, and writes the answer while it comes; why it ended early, if it did.

        What was not answered at all is no part of the conversation. `thinking`: where reasoning goes.

        Raises:
            ChatError: it was not answered.
        """
        asked = [*self.messages, {"role": "user", "content": text}]
        system = [{"role": "system", "content": self.system}] if self.system else []
        answer, finish = "", None
        try:
            with contextlib.closing(
                self._answers.answer({"messages": [*system, *asked], "stream": True, **self._fields})
            ) as news:
                for chunk in news:
                    for choice in chunk["choices"]:
                        delta = choice["delta"]
                        _write(thinking, delta.get("reasoning_content"))
                        _write(out, delta.get("content"))
                        answer += delta.get("content") or ""
                        finish = choice.get("finish_reason") or finish
        except KeyboardInterrupt:
            finish = "stopped"
        if answer or finish != "stopped":
            self.messages = [*asked, {"role": "assistant", "content": answer}]
        early = {"length": "cut: no more tokens were allowed", "stopped": "stopped"}
        return early.get(finish or "")


def _write(to: Writes | None, text: str | None) -> None:
    if to is not None and text:
        to.write(text)
        to.flush()


class _Dim:
    """Writes to the terminal in a fainter colour."""

    def write(self, text: str, /) -> None:
        sys.stdout.write(f"\x1b[2m{text}\x1b[0m")

    def flush(self) -> None:
        sys.stdout.flush()


def talk(parsed: argparse.Namespace, answers: Answers) -> int:
    """The conversation; the exit code.

    Raises:
        StartError: the schema cannot be read, or standard input is empty.
    """
    conversation = Conversation(answers, parsed.system, _fields(parsed))
    return _interact(conversation) if sys.stdin.isatty() else _once(conversation)


def _fields(parsed: argparse.Namespace) -> dict[str, Any]:
    """What each request has besides its messages.

    Raises:
        StartError: the schema cannot be read.
    """
    fields: dict[str, Any] = given(
        {"max_tokens": parsed.max_tokens, "temperature": parsed.temperature, "seed": parsed.seed}
    )
    if parsed.schema is not None:
        try:
            schema = json.loads(Path(parsed.schema).read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            raise StartError(f"--schema: {parsed.schema} cannot be read ({e})") from e
        form = {"name": "answer", "strict": True, "schema": schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": form}
    return fields


def _once(conversation: Conversation) -> int:
    """Answers standard input, which is one message; the exit code."""
    text = sys.stdin.read().strip()
    if not text:
        raise StartError("chat: standard input is empty; it is the message")
    try:
        early = conversation.say(text, sys.stdout, None)
    except ChatError as e:
        print(f"llgtrt: {e}", file=sys.stderr)
        return 1
    print()
    if early is not None:
        print(f"llgtrt: {early}", file=sys.stderr)
    return 0


def _interact(conversation: Conversation) -> int:
    """Reads messages from the terminal until the user ends; the exit code."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # lines can be edited then
    print("/help lists the commands.")
    while True:
        try:
            if not _turn(conversation, _line()):
                return 0
        except EOFError:
            print()
            return 0
        except KeyboardInterrupt:
            print()


def _turn(conversation: Conversation, line: str) -> bool:
    """Does what a line says, or answers it; False at the end."""
    if not line.strip():
        return True
    if line.startswith("/"):
        return _command(conversation, line)
    try:
        early = conversation.say(line, sys.stdout, _Dim())
    except ChatError as e:
        print(f"[{e}]")
    else:
        print(f"\n[{early}]" if early is not None else "")
    return True


def _line() -> str:
    """A message: lines that end with a backslash and one that does not."""
    line = input("> ")
    while line.endswith("\\"):
        line = line[:-1] + "\n" + input(". ")
    return line


def _command(conversation: Conversation, line: str) -> bool:
    """Does what a line that begins with `/` says; False at the end."""
    name, _, text = line.strip().partition(" ")
    match name:
        case "/quit" | "/exit" | "/bye":
            return False
        case "/reset":
            conversation.reset()
            print("[a new conversation]")
        case "/system" if text.strip():
            conversation.system = text.strip()
            conversation.reset()
            print("[a new conversation, with this system prompt]")
        case "/system":
            print(f"[{conversation.system or 'no system prompt'}]")
        case "/help":
            print(_HELP)
        case _:
            print(f"[no command {name}; /help lists them]")
    return True
