"""Beside llama-server on the same files, or vLLM: free and schemas, cold and known prompts, drafts."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import contest
import real
from extractions import Extractions
from servers import llama_server, ours, vllm
from work import SCHEMAS, Case

DRAFT_LEN = 10
"""Tokens that the peer drafts at once by a draft model; ours drafts as many as pay."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("peer", help="the llama-server program, or vllm")
    parser.add_argument("models", nargs="*", help=".gguf files, say one model in Q8_0, Q4_0 and Q4_K_M")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--context", type=int, default=2048, help="tokens of each slot")
    parser.add_argument(
        "--drafts",
        nargs="+",
        default=["none"],
        help="none, model, or one of the peer's --spec-type ngram-* (ours: prompt lookup)",
    )
    parser.add_argument("--draft", help="draft model, .gguf, for --drafts model")
    parser.add_argument(
        "--demo", action="store_true", help="the demo's extractions: for its models, also expanded ones"
    )
    parser.add_argument(
        "--real",
        action="store_true",
        help="real models in place of files: SmolLM2, and the pair of LLGTRT_MODELS with and without drafts",
    )
    parser.add_argument(
        "--folder",
        help="with vllm: the Hugging Face folder that it serves. Ours serves the .gguf files, or without any "
        "the same folder with vLLM as the engine",
    )
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--ours", default="{}", help="more of our configuration, JSON")
    parser.add_argument("--theirs", default="", help="more of the peer's flags")


def cases(clients: list[int], demo: bool = False) -> list[Case]:
    """All kinds of work for each number of clients; the second of the same prompts finds them known."""
    if demo:
        kinds = {"extractions, free": None, "extractions, schema": "its own"}
        return [
            Extractions(name, count, 0, 120, schema) for count in clients for name, schema in kinds.items()
        ]
    found = []
    for count in clients:
        found.append(Case("long answers, free", count, 4, 96))
        found += [Case(f"long answers, {name}", count, 4, 128, schema=name) for name in SCHEMAS]
        found.append(Case("long prompts", count, 120, 1, again=True))
        found.append(Case("long prompts, known", count, 120, 1, again=True))
        found.append(Case("both, free", count, 60, 48))
        found.append(Case("both, nested", count, 60, 96, schema="nested"))
    return found


def drafting(args: argparse.Namespace, way: str) -> tuple[dict[str, Any], list[str]]:
    """Our `speculative` and the peer's flags."""
    if way == "none":
        return {"sources": []}, []
    if way == "model":
        if args.draft is None:
            raise SystemExit("--drafts model needs --draft FILE")
        return {"draft_model": args.draft}, [
            *("-md", args.draft, "--spec-type", "draft-simple", "--spec-draft-n-max", str(DRAFT_LEN))
        ]
    return {"sources": ["forced", "prompt_lookup"]}, ["--spec-type", way]


def run_real(args: argparse.Namespace) -> int:
    """Real models: ours by default; the peer without drafts and, where there is a draft model, with it."""
    slots, meetings = max(args.clients), []
    args.context = max(args.context, real.CONTEXT)
    wanted = [case for case in real.cases(args.clients) if args.only in case.name]
    with tempfile.TemporaryDirectory() as folder:
        for model, draft in real.models():
            for theirs in [None] if draft is None else [None, draft]:
                config = real_config(args, slots, draft)
                flags = [] if theirs is None else drafting(argparse.Namespace(draft=theirs), "model")[1]
                label = f"{Path(model).stem}, theirs {'without' if theirs is None else 'with'} drafts: "
                with (
                    ours(model, config, Path(folder)) as mine,
                    llama_server(args.peer, model, slots, args.context, flags + args.theirs.split()) as other,
                ):
                    meetings += contest.meet((mine, other), wanted, args.rounds, label)
    contest.record("peers-real", ("llgtrt", "llama-server"), meetings).save()
    return 0


def real_config(args: argparse.Namespace, slots: int, draft: str | None) -> dict[str, Any]:
    """Our configuration: slots and contexts as the peer's, all else by default."""
    config: dict[str, Any] = {
        "max_batch_size": slots,
        "kv_cache_max_tokens": slots * args.context,
        "engine": {"context": args.context},
    }
    if draft is not None:
        config["speculative"] = {"draft_model": draft}
    more: dict[str, Any] = json.loads(args.ours)
    return config | more


def run_vllm(args: argparse.Namespace) -> int:
    """Beside vLLM without drafts, each at its own precision."""
    if args.folder is None:
        raise SystemExit("vllm needs --folder, a Hugging Face folder")
    slots, meetings = max(args.clients), []
    wanted = [
        dataclasses.replace(case, seeded=False) for case in cases(args.clients) if args.only in case.name
    ]
    config = real_config(args, slots, None) | {"speculative": {"sources": []}}
    for model in args.models or [None]:
        with contextlib.ExitStack() as stack:
            if model is None:
                mine = stack.enter_context(vllm(args.folder, slots, args.context, inside=True))
            else:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                mine = stack.enter_context(ours(model, config, folder))
            theirs = stack.enter_context(vllm(args.folder, slots, args.context))
            label = f"{Path(model).stem}: " if model else ""
            meetings += contest.meet((mine, theirs), wanted, args.rounds, label)
    contest.record("peers-vllm", (mine.name, "vLLM"), meetings).save()
    return 0


def run(args: argparse.Namespace) -> int:
    """All models and ways of drafting, a pair of servers for each."""
    if args.peer == "vllm":
        return run_vllm(args)
    if args.real:
        return run_real(args)
    slots = max(args.clients)
    wanted = [case for case in cases(args.clients, args.demo) if args.only in case.name]
    if not wanted or not args.models:
        raise SystemExit(f"no case holds {args.only!r}" if args.models else "name models, or --real")
    meetings = []
    with tempfile.TemporaryDirectory() as folder:
        for model, way in product(args.models, args.drafts):
            speculative, flags = drafting(args, way)
            config = {
                "max_batch_size": slots,
                "kv_cache_max_tokens": slots * args.context,
                "engine": {"context": args.context},
                "speculative": speculative,
            } | json.loads(args.ours)
            flags += args.theirs.split()
            label = f"{Path(model).stem}, {way}: " if len(args.models) + len(args.drafts) > 2 else ""
            with (
                ours(model, config, Path(folder)) as mine,
                llama_server(args.peer, model, slots, args.context, flags) as theirs,
            ):
                meetings += contest.meet((mine, theirs), wanted, args.rounds, label)
    contest.record("peers", ("llgtrt", "llama-server"), meetings).save()
    return 0
