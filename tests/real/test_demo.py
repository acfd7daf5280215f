"""The demo: what README and the playground show of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from server.serving import ROOT, Server

MIB = 1024 * 1024


def chat(server: Server, body: dict[str, Any]) -> dict[str, Any]:
    answer = server.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


def test_readme_s_first_call_answers_as_printed(shown: Server) -> None:
    readme = (ROOT / "README.md").read_text()
    asked = re.search(
        r"chat/completions -H 'content-type: application/json' -d '(\{.*?\n\})'\n", readme, re.S
    )
    printed = re.search(r'^\{"id":"chatcmpl-.*$', readme, re.M)
    assert asked
    assert printed
    choice = chat(shown, json.loads(asked[1]))
    assert choice == json.loads(printed[0])["choices"][0]


def examples(folder: Path) -> list[dict[str, Any]]:
    """The playground's examples with a schema, as JavaScript reads them."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    module = folder / "examples.mjs"
    shutil.copy(ROOT / "python" / "llgtrt" / "page" / "examples.js", module)
    script = f"import({json.dumps(module.as_uri())}).then(m => console.log(JSON.stringify(m.EXAMPLES)))"
    printed = subprocess.run([node, "-e", script], capture_output=True, text=True, check=True).stdout
    return [example for example in json.loads(printed) if "schema" in example]


def test_examples_of_the_playground_end(shown: Server, tmp_path: Path) -> None:
    found = examples(tmp_path)
    assert len(found) == 4
    for example in found:
        schema = {"name": "answer", "schema": example["schema"]}
        body = {
            "messages": [{"role": "user", "content": example["prompt"]}],
            "response_format": {"type": "json_schema", "json_schema": schema},
            "temperature": 0,
            "max_tokens": 400,
        }
        choice = chat(shown, body)
        assert choice["finish_reason"] == "stop", choice
        jsonschema.validate(json.loads(choice["message"]["content"]), example["schema"])


def test_the_demo_takes_modest_memory(shown: Server) -> None:
    (engine,) = shown.children()
    status = Path(f"/proc/{engine}/status").read_text()
    resident = int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024
    # 94 MiB of weights, and 720 of KV.
    assert resident < 1300 * MIB, f"{resident / MIB:.0f} MiB"
