"""A real server for the tests: a program, a port and a data directory of their own, on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import Client

ROOT = Path(__file__).resolve().parents[3]
ADMIN_KEY = "an-admin-key-of-the-tests-0123456789"


def program() -> str:
    """DRAGOMAN_PROGRAM, or what cargo built."""
    built = [ROOT / "target" / kind / "dragoman" for kind in ("release", "debug")]
    found = os.environ.get("DRAGOMAN_PROGRAM") or next((str(path) for path in built if path.exists()), None)
    if found is None:
        pytest.exit("there is no program: build one, or say where it is by DRAGOMAN_PROGRAM", 2)
    return found


class Server:
    """A running server. `stop` ends it, and `start` brings it back on the same port with the same data."""

    def __init__(self, *arguments: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.arguments = arguments
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        log = Path(self.folder.name) / "log"
        libraries = ROOT / ".runtime" / "onnxruntime" / "libonnxruntime.so"
        environment = {"ORT_DYLIB_PATH": str(libraries), **os.environ}
        data = str(Path(self.folder.name) / "data")
        command = [program(), "serve", "--listen", self.listen, "--data", data, "--log-format", "json", *self.arguments]
        with log.open("wb") as file:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=file)
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            addresses = [json.loads(line).get("address") for line in log.read_text().splitlines() if line.endswith("}")]
            if any(addresses):
                self.listen = next(filter(None, addresses))
                self.url = f"http://{self.listen}"
                return
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"the server did not start: {log.read_text()}")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def remove(self) -> None:
        self.stop()
        self.folder.cleanup()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def guarded_server() -> Iterator[Server]:
    """A server that requires a key."""
    server = Server("--admin-key", ADMIN_KEY)
    yield server
    server.remove()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def news(client: Client) -> Iterator[str]:
    """A collection of four documents in four languages."""
    client.create_collection("news", metadata_indexes=["topic"])
    client.upsert(
        "news",
        [
            {"id": "de", "text": "Wegen eines Streiks fahren am Freitag keine Züge.", "metadata": {"topic": "transport"}},
            {"id": "zh", "text": "工人们正在修复被洪水冲毁的桥。", "metadata": {"topic": "transport"}},
            {
                "id": "fr",
                "text": "De fortes pluies sont attendues demain dans le nord du pays.",
                "metadata": {"topic": "weather"},
            },
            {"id": "el", "text": "Η ορχήστρα έδωσε δωρεάν συναυλία στην πλατεία.", "metadata": {"topic": "music"}},
        ],
    )
    yield "news"
    client.delete_collection("news")
