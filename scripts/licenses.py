#!/usr/bin/env python3
"""Prints the licenses of all crates in the program, each text once.

`licenses.py TARGET` asks cargo which crates a build for TARGET (such as x86_64-unknown-linux-gnu) contains, and reads the texts from
their sources. A crate without a license text is listed with the license that it declares.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ("license", "licence", "copying", "notice", "unlicense", "copyright")


def crates(target):
    """Every package in the program: what the server needs when it runs, not what builds or tests it."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [package["id"] for package in packages.values() if package["name"] == "dragoman"]
    found = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            runs = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if runs and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return sorted((packages[one] for one in found if packages[one]["source"]), key=lambda one: (one["name"], one["version"]))


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.lower().startswith(NAMES))
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: licenses.py TARGET")
    holders = {}
    print("The program contains these crates. Their licenses follow, each text once, with the crates that have it.\n")
    for package in crates(sys.argv[1]):
        name = f"{package['name']} {package['version']}"
        declared = package["license"] or "see its text"
        print(f"{name}: {declared}{'' if package['repository'] is None else ', ' + package['repository']}")
        for text in texts(package):
            holders.setdefault(text, []).append(name)
    print("\nThe table of Chinese characters is from Open Chinese Convert: Apache-2.0, https://github.com/BYVoid/OpenCC")
    for text, names in holders.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n{'-' * 80}\n{text}")


if __name__ == "__main__":
    main()
