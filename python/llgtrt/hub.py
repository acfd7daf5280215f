"""Models from the Hugging Face hub: `org/name` or `org/name:Q4_K_M`, as llama-server names them.

`huggingface_hub` caches whole files, resumes interrupted downloads, and shows their progress. `HF_TOKEN`,
`HF_HOME` and `HF_ENDPOINT` have their usual meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from llgtrt.settings import StartError

PREFERRED = ("Q4_K_M", "Q8_0")
"""Quantisations that are taken where none is named, the first one that there is."""


def fetch(name: str) -> str:
    """Path of the model's (first) .gguf file, downloaded where it is not in the cache.

    Raises:
        StartError: there is no such model, or the hub cannot be reached.
    """
    repository, _, quantisation = name.partition(":")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise StartError(f"-hf {name}: must be org/name, or org/name:QUANTISATION")
    # Loaded here: it takes a while, and most starts need none of it.
    import huggingface_hub
    from huggingface_hub.errors import GatedRepoError, RemoteEntryNotFoundError, RepositoryNotFoundError

    try:
        there = huggingface_hub.HfApi().list_repo_files(repository)
        files = choose(there, quantisation, name)
        first, *_ = [huggingface_hub.hf_hub_download(repository, file) for file in files]
        return first
    except GatedRepoError as e:
        raise StartError(f"-hf {name}: ask for access on the hub first, then set HF_TOKEN") from e
    except (RepositoryNotFoundError, RemoteEntryNotFoundError) as e:
        raise StartError(f"-hf {name}: the hub has no such model (a private one needs HF_TOKEN)") from e
    except StartError:
        raise
    except Exception as e:  # whatever its HTTP client of the moment raises
        found = _cached(repository, quantisation, name)
        if found is not None:
            return found
        why = str(e).splitlines()[0]
        raise StartError(
            f"-hf {name}: the hub cannot be reached ({why}); download the .gguf file elsewhere and name it"
        ) from e


def _cached(repository: str, quantisation: str, name: str) -> str | None:
    """The same from the cache alone, where everything of it is there."""
    import huggingface_hub

    try:
        folder = huggingface_hub.snapshot_download(repository, local_files_only=True)
    except (OSError, ValueError):
        return None
    there = [str(path.relative_to(folder)) for path in Path(folder).rglob("*.gguf") if path.is_file()]
    try:
        return str(Path(folder) / choose(there, quantisation, name)[0])
    except StartError:
        return None


def choose(there: Sequence[str], quantisation: str, name: str) -> list[str]:
    """The files of one model among those of a repository: several where it is split, in their order.

    Raises:
        StartError: none, or not of that quantisation, or not all of its files.
    """
    models = sorted(f for f in there if f.lower().endswith(".gguf") and "mmproj" not in f.lower())
    if not models:
        raise StartError(f"-hf {name}: this repository has no .gguf file; choose one with GGUF in its name")
    for wanted in [quantisation] if quantisation else [*PREFERRED, ""]:
        fitting = [f for f in models if _is_of(f, wanted)]
        if fitting:
            split = re.fullmatch(r"(.*-)\d{5}(-of-(\d{5})\.gguf)", fitting[0])
            if split is None:
                return fitting[:1]
            parts = [f"{split[1]}{i:05}{split[2]}" for i in range(1, int(split[3]) + 1)]
            missing = [part for part in parts if part not in fitting]
            if missing:
                raise StartError(f"-hf {name}: {missing[0]} is missing; choose another quantisation")
            return parts
    raise StartError(f"-hf {name}: no file of {quantisation}; there are {', '.join(models[:20])}")


def _is_of(file: str, quantisation: str) -> bool:
    """Whether the file's name, or its folder's, says so."""
    end = re.escape(quantisation)
    return not quantisation or re.search(rf"(^|[-./_]){end}([-./]|$)", file, re.IGNORECASE) is not None
