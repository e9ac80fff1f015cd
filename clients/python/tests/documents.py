"""Runs the code in the documents about the clients, and the programs in examples/, against a live server.

    documents.py FOLDER

The text block after a block of Python or TypeScript is exactly what the code prints. All blocks of one language in a document
are one program. In FOLDER the TypeScript package is installed, and `built/` has its compiled tests and examples.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from conftest import ROOT, Server

DOCUMENTS = ["clients/python/README.md", "clients/typescript/README.md", "docs/clients.md"]
MESSAGES = {
    "Mi paquete todavía no ha llegado.": "delivery",
    "パスワードを忘れてログインできません。": "login",
    "Nimesahau nenosiri langu.": "login",
}
PAIRS = {
    "Meine Großmutter backt jeden Sonntag einen Apfelkuchen.": "Mia nonna prepara una torta di mele ogni domenica.",
    "Das Museum ist montags geschlossen.": "Il museo è chiuso il lunedì.",
    "Der Zug nach Rom hat zwei Stunden Verspätung.": "Il treno per Roma ha due ore di ritardo.",
    "Im Winter frieren die Seen in den Bergen zu.": "In inverno i laghi di montagna gelano.",
    "Unser Hund hat Angst vor Gewittern.": "Il nostro cane ha paura dei temporali.",
}


def run(command: list[str], folder: Path, server: Server) -> str:
    environment = {**os.environ, "DRAGOMAN_SERVER": server.url}
    done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def programs(document: str) -> dict[str, tuple[str, str]]:
    """For each programming language of a document, its program and what it prints."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found: dict[str, tuple[str, str]] = {}
    for language, block, shown in re.findall(r"^```(python|ts)\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", text, re.S | re.M):
        program, prints = found.get(language, ("", ""))
        found[language] = (program + block, prints + shown)
    return found


def check_document(document: str, folder: Path, server: Server) -> None:
    """Python first, because a document's TypeScript may use what its Python stored."""
    for language, (program, prints) in sorted(programs(document).items()):
        program = program.replace("http://127.0.0.1:7700", server.url)
        if language == "ts":
            source = folder / "document.ts"
            source.write_text(program, encoding="utf-8")
            run([str(folder.parent / "node_modules" / ".bin" / "tsc"), "--project", "tsconfig.json"], folder, server)
            printed = run(["node", "built/document.js"], folder, server)
        else:
            with tempfile.TemporaryDirectory() as place:
                printed = run([sys.executable, "-c", program], Path(place), server)
        if printed != prints:
            sys.exit(f"{document} shows\n{prints}\nits {language} prints\n{printed}")
        print(f"{document}: {language} prints what is shown")


def check_examples(folder: Path, server: Server) -> None:
    ways: dict[str, Callable[[str], list[str]]] = {
        "python": lambda name: [sys.executable, f"examples/python/{name}.py"],
        "typescript": lambda name: ["node", str(folder / "built" / f"{name}.js")],
        "shell": lambda name: [f"examples/shell/{name}.sh"],
    }
    for language, way in ways.items():
        found = run([*way("search_folder"), "examples/texts", "When does the last bus leave?"], ROOT, server)
        assert found.split("\n")[0].split()[1] == "busfahrplan.de.txt" and len(found.splitlines()) == 3, found
        sentences = ["examples/sentences/german.txt", "examples/sentences/italian.txt"]
        aligned = run([*way("align_texts"), *sentences], ROOT, server)
        cells = [line.split("\t")[-2:] for line in aligned.splitlines() if not line.startswith("score")]
        assert {first: second for first, second in cells} == PAIRS, aligned
        told = run([*way("classify_messages"), "examples/messages.tsv", *MESSAGES], ROOT, server)
        labels = {line.split("\t")[-1]: line.split("\t")[0] for line in told.splitlines()}
        assert labels == MESSAGES, told
        print(f"examples/{language}: three programs find what they should")


def check_rust_example(server: Server) -> None:
    """A pair that is taught twice is stored once, and a sentence in a third language finds both sides of it."""
    built = ["cargo", "run", "--quiet", "--manifest-path", "examples/rust/Cargo.toml", "--"]
    learn = [*built, "learn", "examples/sentences/german.txt", "examples/sentences/italian.txt"]
    assert run(learn, ROOT, server) == "5 pairs, 10 documents new\n"
    assert run(learn, ROOT, server) == "5 pairs, 0 documents new\n"
    found = run([*built, "find", "Our dog is afraid of thunderstorms."], ROOT, server)
    cells = [line.split("\t") for line in found.splitlines()]
    both = {("Unser Hund hat Angst vor Gewittern.", "Il nostro cane ha paura dei temporali.")}
    assert {tuple(sorted(cell[1:], reverse=True)) for cell in cells[:2]} == both, found
    run([*built, "forget"], ROOT, server)
    again = subprocess.run([*built, "forget"], cwd=ROOT, env={**os.environ, "DRAGOMAN_SERVER": server.url}, capture_output=True)
    assert again.returncode == 1 and b"collection_not_found" in again.stderr, again
    print("examples/rust: the translation memory learns, finds and forgets")


def main() -> None:
    folder = Path(sys.argv[1])
    server = Server()
    try:
        for document in DOCUMENTS:
            check_document(document, folder, server)
        check_examples(folder, server)
        check_rust_example(server)
    finally:
        server.remove()


main()
