"""The scrape, the alert rules and the dashboard of launch/ in a real Prometheus, where it is installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .serving import PATIENCE, ROOT, Server, serving_demo, until

LAUNCH = ROOT / "launch"
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


def program(name: str) -> str:
    """The path of a program of Debian's package `prometheus`."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"skipped: no {name}")
    return found


def expressions() -> list[str]:
    """All queries of the dashboard, as Grafana sends them."""
    panels = json.loads((LAUNCH / "grafana.json").read_text())["panels"]
    written = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [one.replace("$__rate_interval", "1m").replace("$instance", ".*") for one in written]


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "config", str(LAUNCH / "prometheus.yml")],
        ["test", "rules", str(ROOT / "tests" / "launch" / "prometheus-rules-test.yml")],
    ],
)
def test_the_files_are_valid_and_alerts_fire_when_they_should(arguments: list[str]) -> None:
    ran = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(name="server", scope="module")
def fixture_server() -> Iterator[Server]:
    speculative = {"draft_model": str(ROOT / "demo" / "draft"), "adaptive": False}
    with serving_demo({"speculative": speculative}) as server:
        yield server


@pytest.fixture(name="prometheus", scope="module")
def fixture_prometheus(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A Prometheus that scrapes the server by launch/prometheus.yml, but for the address and the interval."""
    path = program("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(LAUNCH / "prometheus-rules.yml", folder)
    config = (LAUNCH / "prometheus.yml").read_text()
    host, port = server.host
    config = config.replace("127.0.0.1:3000", f"{host}:{port}").replace("interval: 5s", "interval: 1s")
    (folder / "prometheus.yml").write_text("global: {evaluation_interval: 1s}\n" + config)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [path, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with Path(folder / "log").open("w+") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://{address}", timeout=PATIENCE) as client:
                yield client
        finally:
            process.kill()
            process.wait()


def asked(prometheus: httpx.Client, expression: str) -> list[dict[str, Any]]:
    """The series that a query finds; none while Prometheus starts."""
    try:
        answer = prometheus.get("/api/v1/query", params={"query": expression})
    except httpx.ConnectError:
        return []
    if answer.status_code == 503:
        return []
    body = answer.json()
    assert body["status"] == "success", (expression, body)
    found: list[dict[str, Any]] = body["data"]["result"]
    return found


def test_every_panel_of_the_dashboard_shows_something(server: Server, prometheus: httpx.Client) -> None:
    body = {
        "messages": [{"role": "user", "content": "Tom is 12 years old. Return age as JSON."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        "max_tokens": 60,
    }
    assert server.http.post("/v1/chat/completions", json=body).status_code == 200
    generated = "sum(rate(llgtrt_generated_tokens_total[1m]))"
    for _ in until():
        if asked(prometheus, generated) and asked(prometheus, "llgtrt_draft_fates_total"):
            break
    empty = [one for one in expressions() if not asked(prometheus, one)]
    assert empty == []


def test_all_rules_are_evaluated_and_the_server_is_well(server: Server, prometheus: httpx.Client) -> None:
    for _ in until():
        if asked(prometheus, "llgtrt_ready == 1"):
            break
    rules: list[dict[str, Any]] = []
    for _ in until():
        groups = prometheus.get("/api/v1/rules").json()["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        if all(rule["health"] != "unknown" for rule in rules):
            break
    assert len(rules) == (LAUNCH / "prometheus-rules.yml").read_text().count("- alert:")
    assert {rule["name"]: rule["health"] for rule in rules if rule["health"] != "ok"} == {}
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []


def test_memory_of_kv_is_counted_when_it_is_taken_and_when_it_is_returned() -> None:
    body = {
        "messages": [{"role": "user", "content": "Tell me about a horse."}],
        "max_tokens": 20,
        "min_tokens": 20,
    }
    with serving_demo() as server:
        assert server.metric("llgtrt_engine_threads") >= 1
        assert server.http.post("/v1/chat/completions", json=body).status_code == 200
        server.wait_metric("llgtrt_kv_kept_tokens")
        assert server.metric("llgtrt_kv_resident_tokens") >= server.metric("llgtrt_kv_kept_tokens")
    # Without kept prefixes, a slot that ends returns all that it had.
    with serving_demo({"enable_kv_cache_reuse": False}) as server:
        assert server.http.post("/v1/chat/completions", json=body).status_code == 200
        server.wait_idle()
        server.wait_metric("llgtrt_kv_returned_tokens_total", 20)
        assert server.metric("llgtrt_kv_resident_tokens") == 0
