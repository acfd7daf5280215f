"""Lists what the wheel is made of and needs, in a CycloneDX file: crates, C++, JavaScript, Python packages.

`python launch/sbom.py FILE`, from the repository's root, in the environment of launch/requirements/run.txt
and audit.txt. Equal sources give equal files.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli

Json = dict[str, Any]
PAGE = Path("python/llgtrt/page/vendor/README.md")


def main() -> None:
    """Writes the file."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = bill()
    # A number of this content.
    found["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(found))}"
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")


def bill() -> Json:
    """The whole file but its number."""
    graph = Crates()
    python = Packages()
    inside = [*compiled(graph), *scripts()]
    version = str(graph.packages[graph.root]["version"])
    own = {
        "type": "application",
        "bom-ref": f"pkg:pypi/llgtrt@{version}",
        "name": "llgtrt",
        "version": version,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "purl": f"pkg:pypi/llgtrt@{version}",
    }
    contained = [graph.reference(graph.root), *(one["bom-ref"] for one in inside)]
    whole = {"ref": own["bom-ref"], "dependsOn": sorted([*contained, *python.direct()])}
    components = [*graph.components(), *inside, *python.components()]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": committed(), "tools": python.tools, "component": own},
        "components": sorted(components, key=lambda one: str(one["bom-ref"])),
        "dependencies": [whole, *graph.dependencies(), *python.dependencies()],
    }


def committed() -> str:
    """The time of the newest commit."""
    command = ["git", "log", "-1", "--format=%cI"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Crates:
    """The crates that the extension is compiled from, or compiled by, on Linux on x86-64."""

    def __init__(self) -> None:
        command = ["cargo", "metadata", "--format-version", "1", "--locked", "--features", "python,llama"]
        command += ["--filter-platform", "x86_64-unknown-linux-gnu"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        self.packages: dict[str, Json] = {one["id"]: one for one in found["packages"]}
        self.nodes: dict[str, Json] = {one["id"]: one for one in found["resolve"]["nodes"]}
        self.root: str = found["resolve"]["root"]
        locked = tomli.loads(Path("Cargo.lock").read_text())["package"]
        self.sums = {(one["name"], one["version"]): one.get("checksum") for one in locked}
        self.linked = self.reached(build=False)
        self.used = self.reached(build=True)

    def needs(self, crate: str, build: bool) -> list[str]:
        """What a crate is compiled with; with `build`, also what only runs in the compiler."""
        kinds = [None, "build"] if build else [None]
        deps = self.nodes[crate]["deps"]
        wanted = [one["pkg"] for one in deps if any(kind["kind"] in kinds for kind in one["dep_kinds"])]
        return wanted if build else [one for one in wanted if not self.is_macro(one)]

    def is_macro(self, crate: str) -> bool:
        """Whether the compiler runs it."""
        return any("proc-macro" in target["kind"] for target in self.packages[crate]["targets"])

    def reached(self, build: bool) -> set[str]:
        """The crates that `needs` leads to from the extension."""
        seen: set[str] = set()
        waiting = [self.root]
        while waiting:
            crate = waiting.pop()
            if crate not in seen:
                seen.add(crate)
                waiting += self.needs(crate, build)
        return seen

    def reference(self, crate: str) -> str:
        """Its package URL."""
        package = self.packages[crate]
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def components(self) -> Iterator[Json]:
        """One for each crate, with its licence and its checksum in Cargo.lock."""
        for crate in self.used:
            package = self.packages[crate]
            component = {
                "type": "library",
                "bom-ref": self.reference(crate),
                "name": package["name"],
                "version": package["version"],
                # "excluded" is CycloneDX's word for what is not there when the program runs.
                "scope": "required" if crate in self.linked else "excluded",
                "licenses": [{"expression": package["license"].replace("/", " OR ")}],
                "purl": self.reference(crate),
            }
            checksum = self.sums[package["name"], package["version"]]
            if checksum is not None:
                component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
            yield component

    def dependencies(self) -> list[Json]:
        """What each crate needs."""
        edges = [(self.reference(crate), self.needs(crate, build=True)) for crate in self.used]
        return [{"ref": ref, "dependsOn": sorted(map(self.reference, needs))} for ref, needs in sorted(edges)]


class Packages:
    """The pinned Python packages that a server needs, as cyclonedx-py finds them in this environment."""

    def __init__(self) -> None:
        command = [
            "cyclonedx-py",
            "environment",
            "--output-reproducible",
            "--spec-version",
            "1.6",
            sys.executable,
        ]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        text = Path("launch/requirements/run.txt").read_text()
        names = {plain(name) for name in re.findall(r"^([\w.-]+)==", text, re.M)}
        kept = {one["bom-ref"]: one for one in found["components"] if plain(one["name"]) in names}
        self.tools: Json = found["metadata"]["tools"]
        self.kept = kept
        self.edges = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}

    def components(self) -> Iterator[Json]:
        """One for each package, with its licence."""
        for component in self.kept.values():
            yield component | {"bom-ref": component["purl"], "scope": "required"}

    def direct(self) -> list[str]:
        """Those that pyproject.toml names."""
        wanted = tomli.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]
        names = {plain(re.split(r"[^\w.-]", text)[0]) for text in wanted}
        return [str(one["purl"]) for one in self.kept.values() if plain(one["name"]) in names]

    def dependencies(self) -> list[Json]:
        """What each package needs."""
        purls = {ref: str(one["purl"]) for ref, one in self.kept.items()}
        edges = [(purls[ref], self.edges.get(ref, [])) for ref in purls]
        kept = [(ref, sorted(purls[one] for one in needs if one in purls)) for ref, needs in sorted(edges)]
        return [{"ref": ref, "dependsOn": needs} for ref, needs in kept]


def plain(name: str) -> str:
    """The name of a package as the index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def compiled(crates: Crates) -> Iterator[Json]:
    """The C++: llama.cpp, whose copy in a crate has only ggml's number, and the wheel's C++ library."""
    crate = next(one for one in crates.packages.values() if one["name"] == "llama-cpp-sys-2")
    text = (Path(crate["manifest_path"]).parent / "llama.cpp/ggml/CMakeLists.txt").read_text()
    version = ".".join(re.findall(r"^set\(GGML_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)\)", text, re.M))
    yield {
        "type": "library",
        "bom-ref": "pkg:github/ggml-org/llama.cpp",
        "name": "llama.cpp",
        "version": f"ggml {version}",
        "description": f"As packaged in the crate llama-cpp-sys-2 {crate['version']}",
        "scope": "required",
        "licenses": [{"license": {"id": "MIT"}}],
        "purl": "pkg:github/ggml-org/llama.cpp",
    }
    yield {
        "type": "library",
        "bom-ref": "libstdc++",
        "name": "libstdc++",
        "description": "GCC's, of the system that made the wheel, linked statically",
        "scope": "required",
        "licenses": [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}],
    }


def scripts() -> Iterator[Json]:
    """The libraries of the page, from the table in their folder."""
    rows = re.findall(
        r"^\| (\S+\.js) \| (\S+) ([\d.]+), .* \| (.*) \(.*\) \| (\w+) \|$", PAGE.read_text(), re.M
    )
    for _, name, version, licence, checksum in rows:
        yield {
            "type": "library",
            "bom-ref": f"pkg:npm/{name}@{version}",
            "name": name,
            "version": version,
            "scope": "required",
            "licenses": [{"expression": licence.replace(" or ", " OR ")}],
            "hashes": [{"alg": "SHA-256", "content": checksum}],
            "purl": f"pkg:npm/{name}@{version}",
        }


if __name__ == "__main__":
    main()
