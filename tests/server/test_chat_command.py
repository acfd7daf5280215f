"""`llgtrt chat`: a conversation in the terminal, with a server and in process."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .serving import COMMAND, PACKAGE, PATIENCE, ROOT, Server, serving

SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}
ASKED = "Tom is 12 years old.\nReturn age as JSON."
DEMO = str(ROOT / "demo" / "target")


def command(*arguments: str) -> list[str]:
    return [sys.executable, *COMMAND, "chat", *arguments]


def piped(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What is said when standard input is no terminal."""
    variables = os.environ | {"PYTHONPATH": PACKAGE}
    return subprocess.run(
        command(*arguments), input=text, env=variables, capture_output=True, text=True, timeout=PATIENCE
    )


class Terminal:
    """A conversation in a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._own, other = pty.openpty()
        variables = os.environ | {"PYTHONPATH": PACKAGE, "TERM": "dumb"}
        self._process = subprocess.Popen(
            command(*arguments),
            stdin=other,
            stdout=other,
            stderr=other,
            env=variables,
            start_new_session=True,
        )
        os.close(other)
        self._said = ""

    def wait(self, pattern: str) -> str:
        """Waits until this has been said since the last call; what was said until then."""
        end = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self._said, re.S)) is None:
            assert time.monotonic() < end, self._said
            ready, _, _ = select.select([self._own], [], [], 1)
            try:
                data = os.read(self._own, 4096) if ready else b""
            except OSError as e:  # the other side is closed
                raise AssertionError(self._said) from e
            self._said += data.decode(errors="replace").replace("\r\n", "\n")
        before, self._said = self._said[: found.end()], self._said[found.end() :]
        return before

    def say(self, line: str) -> None:
        os.write(self._own, line.encode() + b"\n")
        # The terminal's echo.
        self.wait(re.escape(line) + "\n")

    def answer(self, line: str) -> str:
        """Sends a line; what is said until the next one is asked for."""
        self.say(line)
        return self.wait("> $").removesuffix("> ").strip()

    def interrupt(self) -> None:
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self) -> int:
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._own)


@contextlib.contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    conversation = Terminal(*arguments)
    try:
        conversation.wait("> $")
        yield conversation
    finally:
        conversation.close()


@pytest.fixture(name="schema")
def fixture_schema(tmp_path: Path) -> str:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    return str(file)


@pytest.mark.parametrize("where", ["server", "process"])
def test_standard_input_is_one_message_and_its_answer_all_of_the_output(
    demo: Server, schema: str, where: str
) -> None:
    target = demo.url if where == "server" else DEMO
    ran = piped(ASKED, target, "--schema", schema, "--temperature", "0")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"age": 12}
    assert ran.stderr == ""


@pytest.mark.parametrize("where", ["server", "process"])
def test_an_answer_that_is_cut_says_so_apart_from_it(toy: Server, where: str) -> None:
    target = toy.url + "/v1" if where == "server" else "toy"
    ran = piped("hi", target, "--max-tokens", "3", "--seed", "1")
    assert ran.returncode == 0
    assert ran.stdout.strip()
    assert ran.stderr == "llgtrt: cut: no more tokens were allowed\n"


@pytest.mark.parametrize("where", ["server", "process"])
def test_what_is_refused_is_said_in_one_line(toy: Server, where: str) -> None:
    ran = piped("hi", toy.url if where == "server" else "toy", "--temperature", "9")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("llgtrt: temperature: ")
    assert ran.stderr.count("\n") == 1


def test_what_cannot_begin(toy: Server, tmp_path: Path) -> None:
    for arguments, said in [
        (("http://127.0.0.1:9",), "the connection failed"),
        ((toy.url + "/nothing",), "no such page"),
        ((toy.url, "--threads", "2"), "--threads: the server that runs there has its own"),
        ((toy.url, "draft"), "draft: the server that runs there has its own"),
        ((toy.url, "--schema", str(tmp_path / "none.json")), "--schema"),
        (("no/such/folder",), "no/such/folder: no such engine folder"),
        ((), "the target is missing"),
    ]:
        ran = piped("hi", *arguments)
        assert (ran.returncode, ran.stdout) == (2, ""), arguments
        assert said in ran.stderr
        assert ran.stderr.count("\n") == 1
    assert "standard input is empty" in piped(" ", toy.url).stderr


def test_a_key_is_sent(toy: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving("toy", environment={"LLGTRT_API_KEY": "secret"}) as server:
        server.wait_ready()
        monkeypatch.setenv("LLGTRT_API_KEY", "wrong")
        assert "API key" in piped("hi", server.url, "--max-tokens", "3").stderr
        monkeypatch.setenv("LLGTRT_API_KEY", "secret")
        assert piped("hi", server.url, "--max-tokens", "3").returncode == 0


class Scripted:
    """A server of OpenAI's API that says what it was asked, and what it was last sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.hold = threading.Event()
        scripted = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("application/json", b'{"data": [{"id": "scripted"}]}')

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                scripted.bodies.append(body)
                asked = body["messages"][-1]["content"]
                deltas = [{"reasoning_content": "thinking of it"}, {"content": f"You said <{asked}>"}]
                chunks = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
                ends: list[dict[str, Any]] = [{"choices": [{"delta": {}, "finish_reason": "stop"}]}]
                if asked == "break":
                    ends = [{"error": {"message": "the engine failed"}}]
                data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
                if asked == "wait":
                    self._answer("text/event-stream", data)
                    scripted.hold.wait(PATIENCE)
                    return
                data += b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in ends)
                self._answer("text/event-stream", data + b"data: [DONE]\n\n")

            def _answer(self, kind: str, data: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.end_headers()
                self.wfile.write(data)
                self.wfile.flush()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()

    def talk(self) -> list[tuple[str, str]]:
        """The messages of the last request."""
        return [(message["role"], message["content"]) for message in self.bodies[-1]["messages"]]


@pytest.fixture(name="scripted")
def fixture_scripted() -> Iterator[Scripted]:
    server = Scripted()
    yield server
    server.close()


def test_a_conversation_remembers_what_was_said(scripted: Scripted) -> None:
    with terminal(scripted.url, "--system", "be brief", "--max-tokens", "9") as chat:
        assert "You said <one>" in chat.answer("one")
        assert scripted.talk() == [("system", "be brief"), ("user", "one")]
        assert (scripted.bodies[-1]["model"], scripted.bodies[-1]["max_tokens"]) == ("scripted", 9)
        # Reasoning is shown, and is no part of what is sent.
        assert "\x1b[2mthinking of it\x1b[0m" in chat.answer("two")
        talk = [("system", "be brief"), ("user", "one"), ("assistant", "You said <one>"), ("user", "two")]
        assert scripted.talk() == talk
        assert "new conversation" in chat.answer("/reset")
        chat.answer("three")
        assert scripted.talk() == [("system", "be brief"), ("user", "three")]
        assert "be brief" in chat.answer("/system")
        chat.answer("/system be long")
        chat.answer("four")
        assert scripted.talk() == [("system", "be long"), ("user", "four")]
        assert "/quit" in chat.answer("/help")
        assert "no command /bogus" in chat.answer("/bogus")
        chat.say("several\\")
        chat.wait(r"\. $")
        chat.answer("lines")
        assert scripted.talk()[-1] == ("user", "several\nlines")
        chat.say("/quit")
        assert chat.end() == 0


def test_what_fails_is_no_part_of_the_conversation(scripted: Scripted) -> None:
    with terminal(scripted.url) as chat:
        assert "[the engine failed]" in chat.answer("break")
        chat.answer("again")
        assert scripted.talk() == [("user", "again")]


def test_a_stopped_answer_stays_in_the_conversation(scripted: Scripted) -> None:
    with terminal(scripted.url) as chat:
        chat.say("wait")
        chat.wait("You said <wait>")
        chat.interrupt()
        assert "[stopped]" in chat.wait("> $")
        chat.answer("go on")
        assert scripted.talk() == [("user", "wait"), ("assistant", "You said <wait>"), ("user", "go on")]


def test_the_engine_of_the_process_stops_and_goes_on(tmp_path: Path) -> None:
    # An answer that does not end by itself soon.
    long = tmp_path / "long.json"
    long.write_text(json.dumps({"type": "array", "items": {"type": "integer"}, "minItems": 9000}))
    with terminal("toy", "--schema", str(long), "--set", "engine.context=100000") as chat:
        for _ in range(2):
            chat.say("count")
            chat.wait(r"\d")
            chat.interrupt()
            chat.wait(r"\[stopped\]\n> $")
        chat.say("/quit")
        assert chat.end() == 0
    with terminal(DEMO, "--temperature", "0") as chat:
        first = chat.answer("What is the weather in Rome?")
        assert first
        chat.answer("/reset")
        assert chat.answer("What is the weather in Rome?") == first
        chat.say("/quit")
        assert chat.end() == 0
