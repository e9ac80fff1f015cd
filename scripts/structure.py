#!/usr/bin/env python3
"""Measures the structure of the server's sources and prints the measures as a Markdown table.

    structure.py [CHECKOUT] [LATER_CHECKOUT] [--circles] [--clusters]

With two checkouts, the table has a column for each, before and after. `--circles` also lists the files of each import cycle,
`--clusters` the file and the name of each type in a cluster.

A room is a top-level module: a directory of `src`, or a file of `src` with its directory. A file imports another if it refers to
one of its items by a path, in a `use` or inline: `crate::…`, `super::…`, `self::…`, or a path that begins with one of its own
child modules. A name belongs to the file that defines it: if a module reexports it with `pub use`, the path is followed to the
definition. Neither `mod child;` nor a `pub use` of a name that the file does not use itself is an import. Methods are not
followed: an `impl` in another file is not counted. A circle is a set of files that import each other in a cycle, directly or
not. Only the first row counts test-only code."""

import argparse
import pathlib
import re
from typing import Iterator

FILE_LINES_MAX, FIELDS_MIN, OVERLAP_MIN = 700, 3, 0.7

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^\\'])'|'\w+|\w+|::|->|=>|\S""",
    re.DOTALL,
)
WORD = re.compile(r"[A-Za-z_]\w*$")
OPENING, CLOSING = set("([{"), set(")]}")
CFG_TEST = ["#", "[", "cfg", "(", "test", ")", "]"]
ENDS_AT_SEMICOLON, ENDS_AT_BRACE = {"use", "const", "static", "type"}, {"fn", "mod", "struct", "enum", "trait", "impl"}
Module = tuple[str, ...]


def words_and_lines(text: str) -> tuple[list[str], list[int]]:
    """Splits text into tokens, with the line of each. Comments are left out; a string or character literal is one token."""
    words, lines, line, at = [], [], 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if not match.group().startswith(("//", "/*")):
            words.append(match.group())
            lines.append(line)
    return words, lines


def closing(words: list[str], at: int) -> int:
    """The index of the bracket that closes the one at `at`."""
    depth = 1
    while depth:
        at += 1
        depth += (words[at] in OPENING) - (words[at] in CLOSING)
    return at


def item_end(words: list[str], at: int) -> int:
    """The index after the item, field or statement that begins at `at`."""
    kind = next((word for word in words[at:] if word in ENDS_AT_SEMICOLON | ENDS_AT_BRACE | {":"}), "")
    while at < len(words) and words[at] not in CLOSING:
        word = words[at]
        if word == ";" or (word == "," and kind == ":"):
            return at + 1
        if word in OPENING:
            at = closing(words, at)
            if word == "{" and kind in ENDS_AT_BRACE:
                return at + 1
        at += 1
    return at


class File:
    """One source file without its tests."""

    def __init__(self, path: pathlib.Path, name: str) -> None:
        text = path.read_text(encoding="utf-8")
        parts = name.removesuffix(".rs").split("/")
        self.name, self.room, self.lines = name, parts[0], text.count("\n")
        self.module: Module = () if name == "lib.rs" else tuple(parts[:-1] if parts[-1] == "mod" else parts)
        self.words, self.test_modules, self.code_lines = [], set(), self.lines
        self.leave_out_tests(*words_and_lines(text))

    def leave_out_tests(self, words: list[str], lines: list[int]) -> None:
        at = 0
        while at < len(words):
            start, path = at, None
            if words[at : at + len(CFG_TEST)] != CFG_TEST:
                self.words.append(words[at])
                at += 1
                continue
            while words[at] == "#":
                path = words[at + 4].strip('"').removesuffix(".rs") if words[at + 2] == "path" else path
                at = closing(words, at + 1) + 1
            end = item_end(words, at)
            if "mod" in words[at:end] and words[end - 1] == ";":
                name = words[words.index("mod", at) + 1]
                self.test_modules.add(self.module[:-1] + (path,) if path else self.module + (name,))
            self.code_lines -= lines[end - 1] - lines[start] + 1
            at = end

    def structs(self) -> Iterator[tuple[str, set[str]]]:
        """Each struct with enough fields: its name and the names of its fields."""
        words = self.words
        for at in (place for place, word in enumerate(words) if word == "struct"):
            start = next(place for place in range(at, len(words)) if words[place] in "{;(")
            fields, depth = set(), 0
            for place in range(start, closing(words, start) if words[start] == "{" else start):
                depth += (words[place] in OPENING or words[place] == "<") - (words[place] in CLOSING or words[place] == ">")
                if depth == 1 and words[place + 1] == ":" and WORD.match(words[place]):
                    fields.add(words[place])
            if len(fields) >= FIELDS_MIN:
                yield words[at + 1], fields


def use_tree(words: list[str], at: int) -> tuple[list[list[str]], int]:
    """The paths of the use tree at `at`, each followed by the name that it introduces, and the index after the tree."""
    path: list[str] = []
    while words[at] == "::" or words[at] == "*" or WORD.match(words[at]):
        if words[at] == "as":
            return [path + [words[at + 1]]], at + 2
        path += [words[at]] if words[at] != "::" else []
        at += 1
    if words[at] != "{":
        return [path + path[-1:]], at
    paths, at = [], at + 1
    while words[at] != "}":
        inner, at = use_tree(words, at)
        paths.extend(path + path[-1:] if tail == ["self", "self"] else path + tail for tail in inner)
        at += words[at] == ","
    return paths, at + 1


def named_paths(file: File, children: set[str]) -> Iterator[tuple[Module, list[str], str]]:
    """Every path in the file: the module that contains it, its segments, and the name that a `pub use` gives it."""
    words, at, depth = file.words, 0, 0
    inner: list[tuple[str, int]] = []
    while at < len(words):
        word, before = words[at], words[max(0, at - 1)]
        depth += (word == "{") - (word == "}")
        if word == "{" and at > 1 and words[at - 2] == "mod":
            inner.append((before, depth))
        while inner and depth < inner[-1][1]:
            inner.pop()
        here = file.module + tuple(name for name, _ in inner)
        begins = word in ("crate", "super", "self") or (word in children and not inner)
        if word == "use" and words[at + 1] != "<":
            public = before == "pub" or (before == ")" and words[at - 4] == "pub")
            tree, at = use_tree(words, at + 1)
            yield from ((here, path[:-1], path[-1] if public else "") for path in tree)
        elif begins and before not in ("::", "in", "mod") and words[at + 1 : at + 2] == ["::"]:
            segments = [word]
            while words[at + 1] == "::" and WORD.match(words[at + 2]):
                segments, at = segments + [words[at + 2]], at + 2
            yield here, segments, ""
        at += 1


class Checkout:
    """The sources of a checkout and their imports."""

    def __init__(self, root: pathlib.Path) -> None:
        source = root / "src"
        files = [File(path, path.relative_to(source).as_posix()) for path in sorted(source.rglob("*.rs"))]
        self.lines = sum(file.lines for file in files)
        self.files = [file for file in files if not any(file.module in other.test_modules for other in files)]
        self.modules = {file.module: file for file in self.files if file.name != "main.rs"}
        self.children: dict[Module, set[str]] = {}
        for module in self.modules:
            self.children.setdefault(module[:-1], set()).update(module[-1:])
        self.passed_on: dict[Module, dict[str, Module]] = {}
        paths = [(file, *path) for file in self.files for path in named_paths(file, self.children.get(file.module, set()))]
        for file, here, segments, name in paths:
            if name:
                self.passed_on.setdefault(file.module, {})[name] = self.absolute(here, segments)
        self.imports: dict[str, set[str]] = {file.name: set() for file in self.files}
        for file, here, segments, name in paths:
            target = self.definition(self.absolute(here, segments))
            only_passed_on = name and file.words.count(name) < 2
            if target and target is not file and target.room == file.room and not only_passed_on:
                self.imports[file.name].add(target.name)

    def absolute(self, here: Module, segments: list[str]) -> Module:
        """The path from the crate root; empty if it leads out of the package."""
        if segments[0] == "crate":
            return tuple(segments[1:])
        if segments[0] in self.children.get(here, set()):
            return here + tuple(segments)
        if segments[0] not in ("super", "self"):
            return ()
        rest = tuple(segment for segment in segments if segment not in ("super", "self"))
        return here[: len(here) - segments.count("super")] + rest

    def definition(self, path: Module, steps: int = 9) -> "File | None":
        """The file that defines the item at a path from the crate root."""
        known = max(length for length in range(len(path) + 1) if path[:length] in self.modules)
        passed_on = self.passed_on.get(path[:known], {}).get(path[known]) if known < len(path) else None
        if passed_on and steps:
            return self.definition(passed_on + path[known + 1 :], steps - 1)
        return self.modules[path[:known]] if path else None

    def circles(self) -> dict[str, list[list[str]]]:
        """The import cycles of each room, largest first."""
        reach: dict[str, set[str]] = {}
        for name in self.imports:
            reach[name], waiting = set(), [name]
            while waiting:
                new = self.imports[waiting.pop()] - reach[name]
                reach[name] |= new
                waiting.extend(new)
        found: dict[str, list[list[str]]] = {}
        for file in self.files:
            circle = sorted(other for other in reach[file.name] if file.name in reach[other])
            if len(circle) > 1 and circle[0] == file.name:
                found.setdefault(file.room, []).append(circle)
        return {room: sorted(found[room], key=len, reverse=True) for room in sorted(found)}

    def clusters(self) -> list[list[str]]:
        """The clusters of structs with nearly the same fields: file and name of each struct."""
        clusters: list[list[tuple[str, set[str]]]] = []
        for name, fields in ((f"{file.name}:{name}", fields) for file in self.files for name, fields in file.structs()):
            alike = lambda other: len(fields & other[1]) / len(fields | other[1]) >= OVERLAP_MIN
            near = [cluster for cluster in clusters if any(map(alike, cluster))]
            clusters = [cluster for cluster in clusters if cluster not in near] + [sum(near, []) + [(name, fields)]]
        return [[name for name, _ in cluster] for cluster in clusters if len(cluster) > 1]


def measures(checkout: Checkout) -> dict[str, str]:
    sizes = {room: [len(circle) for circle in circles] for room, circles in checkout.circles().items()}
    table = {
        "lines of `src`": f"{checkout.lines:,}",
        "lines of `src` without tests": f"{sum(file.code_lines for file in checkout.files):,}",
        f"files over {FILE_LINES_MAX} lines": str(sum(file.lines > FILE_LINES_MAX for file in checkout.files)),
        "clusters of near-identical types": str(len(checkout.clusters())),
        "files in circles": str(sum(map(sum, sizes.values()))),
    }
    return table | {f"files in each circle of `{room}`": ", ".join(map(str, found)) for room, found in sizes.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", default=["."])
    parser.add_argument("--circles", action="store_true")
    parser.add_argument("--clusters", action="store_true")
    options = parser.parse_args()
    checkouts = [Checkout(pathlib.Path(root)) for root in options.checkouts[:2]]
    columns = [measures(checkout) for checkout in checkouts]
    print(f"| measure | {'before | after' if len(columns) == 2 else 'now'} |\n|---|{'---:|' * len(columns)}")
    for row in dict.fromkeys(sum(map(list, columns), [])):
        print(f"| {row} | {' | '.join(column.get(row, '0') for column in columns)} |")
    for circles in (checkout.circles() for checkout in checkouts if options.circles):
        print("".join(f"\n{room}: {' '.join(circle)}" for room, found in circles.items() for circle in found))
    for clusters in (checkout.clusters() for checkout in checkouts if options.clusters):
        print("".join(f"\n{' '.join(cluster)}" for cluster in clusters))


if __name__ == "__main__":
    main()
