"""The errors that the client raises when the request, the key, the server or the connection is at fault."""

from __future__ import annotations

import http.server
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conftest import ADMIN_KEY, Server
from dragoman import Client, DragomanError, operations
from dragoman.calls import Pause


def error_of(call: object, *arguments: object, **options: object) -> DragomanError:
    with pytest.raises(DragomanError) as error:
        call(*arguments, **options)  # type: ignore[operator]
    return error.value


def test_a_bad_member_is_named_with_its_limit_and_what_came(client: Client, news: str) -> None:
    error = error_of(client.search, news, "Züge", limit=0)
    assert (error.code, error.status) == ("invalid_request", 422)
    assert error.violations[0].pointer == "/limit"
    assert "1" in error.violations[0].detail and "got 0" in error.violations[0].detail
    assert error.request_id and error.request_id in str(error)


def test_a_bad_parameter_is_named(client: Client) -> None:
    error = error_of(client.request, "GET", "/v1/collections", query={"limit": "many"})
    assert (error.violations[0].parameter, error.violations[0].field) == ("limit", "limit")


def test_a_bad_filter_is_named_by_its_place(client: Client, news: str) -> None:
    error = error_of(client.search, news, "Züge", filter={"and": [{"field": "topic", "gt": True}]})
    assert (error.code, error.violations[0].field) == ("invalid_filter", "/filter/and/0/gt")


def test_an_unknown_collection_has_its_code(client: Client) -> None:
    error = error_of(client.search, "nowhere", "Züge")
    assert (error.code, error.status) == ("collection_not_found", 404)


def test_an_error_in_the_shape_of_openai_is_the_same_error(client: Client) -> None:
    error = error_of(client.embed, [" "])
    assert (error.code, error.status) == ("invalid_request", 400)
    assert error.violations[0].field and "input" in error.violations[0].field


def test_nothing_is_sent_that_is_no_json(client: Client, news: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        client.search(news, vector=[float("nan")])


def test_the_address_of_a_server_ends_before_its_version(server: Server) -> None:
    with Client(f"{server.url}/v1") as client:
        error = error_of(client.search, "news", "Züge")
    assert (error.code, error.status) == ("route_not_found", 404)
    assert error.detail.endswith("/v1/v1/collections/news/search; give clients the server's address without /v1")


def test_a_guarded_server_asks_for_a_key(guarded_server: Server) -> None:
    with Client(guarded_server.url) as client:
        error = error_of(lambda: list(client.list_collections()))
    assert (error.code, error.status) == ("unauthorized", 401)
    with Client(guarded_server.url, api_key=ADMIN_KEY) as client:
        assert list(client.list_collections()) == []


def test_a_key_that_may_only_read_may_not_write(guarded_server: Server) -> None:
    with Client(guarded_server.url, api_key=ADMIN_KEY) as client:
        secret = client.request("POST", "/v1/keys", json={"name": "reader", "scope": "read"})["secret"]
    with Client(guarded_server.url, api_key=secret) as client:
        error = error_of(client.create_collection, "news")
    assert (error.code, error.status) == ("forbidden", 403)


def test_a_collection_that_exists_needs_no_right_to_create_it(guarded_server: Server) -> None:
    with Client(guarded_server.url, api_key=ADMIN_KEY) as admin:
        admin.create_collection("shared")
        admin.request("PUT", "/v1/aliases/current", json={"collection": "shared"})
        secret = admin.request("POST", "/v1/keys", json={"name": "writer", "scope": "write"})["secret"]
        with Client(guarded_server.url, api_key=secret) as client:
            assert client.get_or_create_collection("shared")["name"] == "shared"
            assert client.get_or_create_collection("current")["name"] == "shared"
            assert error_of(client.get_or_create_collection, "missing").code == "forbidden"
        admin.delete_collection("shared")


def test_a_key_is_in_no_text_and_in_no_log(guarded_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Client(guarded_server.url, api_key=ADMIN_KEY) as client:
        error = error_of(client.get_collection, "nowhere")
        texts = [repr(client), str(vars(client)), repr(error), str(error), caplog.text]
    assert caplog.text
    assert not any(ADMIN_KEY in text for text in texts)


@pytest.mark.parametrize("url", ["http://user:secret@127.0.0.1:7700", "http://127.0.0.1:7700/?key=1", "127.0.0.1:7700"])
def test_a_url_with_a_key_or_without_a_scheme_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url must be"):
        Client(url)


def test_a_key_that_would_end_the_header_is_refused() -> None:
    with pytest.raises(ValueError, match="api_key"):
        Client(api_key="key\r\nhost: elsewhere")


def test_a_server_that_is_away_is_unreachable_after_some_attempts() -> None:
    with Client("http://127.0.0.1:9", retries=1) as client:
        error = error_of(client.get_collection, "news")
    assert (error.code, error.status) == ("unreachable", None)
    assert error.detail.startswith("http://127.0.0.1:9: ")


def test_a_server_that_comes_back_is_asked_again() -> None:
    server = Server()
    try:
        with Client(server.url, retries=8) as client:
            client.create_collection("kept")
            server.stop()
            threading.Timer(0.5, server.start).start()
            assert client.get_collection("kept")["name"] == "kept"
    finally:
        server.remove()


#: A status, headers and a body.
Answer = tuple[int, dict[str, str], bytes]


@contextmanager
def answering(*answers: Answer) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A server that gives these answers in turn, and the requests that it received, with their idempotency keys."""
    asked: list[tuple[str, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append((self.command, self.headers["idempotency-key"]))
            status, headers, body = answers[min(len(asked), len(answers)) - 1]
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


BUSY: Answer = (503, {"retry-after": "0"}, b'{"code": "overloaded", "detail": "a queue is full"}')
STORED: Answer = (
    200,
    {},
    b'{"results": [{"id": "a", "status": "created", "version": 1}], "failed": 0}',
)


def test_a_write_that_is_sent_again_keeps_its_idempotency_key() -> None:
    with answering(BUSY, (429, {"retry-after": "0"}, BUSY[2]), STORED) as (url, asked), Client(url) as client:
        assert client.upsert("news", {"id": "a", "text": "Hallo"})["failed"] == 0
    assert len(asked) == 3 and asked[0][1] and len(set(asked)) == 1


def test_what_a_batch_stored_before_it_failed_is_told() -> None:
    too_large: Answer = (413, {}, b'{"code": "body_too_large", "detail": "the body is too large"}')
    broken: Answer = (500, {}, b'{"code": "internal", "detail": "the server failed"}')
    with answering(too_large, STORED, broken) as (url, _), Client(url) as client:
        error = error_of(client.upsert, "news", [{"id": "a", "text": "Hallo"}, {"id": "b", "text": "Welt"}])
    assert error.code == "internal" and [result["id"] for result in error.results] == ["a"]


def test_a_job_may_take_hours() -> None:
    flow = operations.wait_for_job("0198c0de-7a11-7000-8000-2f1de5c0ffee")
    next(flow)
    for _ in range(5_000):
        pause = flow.send({"status": "running"})
        assert isinstance(pause, Pause) and pause.seconds <= 2.0
        flow.send(None)


def test_a_deletion_whose_answer_was_lost_has_succeeded() -> None:
    lost = (200, {"content-length": "100", "connection": "close"}, b"")
    gone: Answer = (404, {}, b'{"code": "document_not_found", "detail": "there is no document a"}')
    with answering(lost, gone) as (url, asked), Client(url) as client:
        client.delete_document("news", "a")
    assert len(asked) == 2
    with answering(gone) as (url, asked), Client(url) as client:
        assert error_of(client.delete_document, "news", "a").code == "document_not_found"


def test_the_attempts_are_bounded() -> None:
    with answering(BUSY) as (url, asked), Client(url, retries=2) as client:
        assert error_of(client.get_collection, "news").code == "overloaded"
    assert len(asked) == 3


def test_what_may_not_be_done_twice_is_sent_once() -> None:
    with answering(BUSY) as (url, asked), Client(url) as client:
        assert error_of(client.create_snapshot).code == "overloaded"
    assert asked == [("POST", None)]


def test_an_answer_that_no_dragoman_gives_is_told_as_such() -> None:
    with answering((502, {}, b"<html>Bad gateway</html>"), (200, {}, b"<html>")) as (url, _), Client(url) as client:
        error = error_of(client.get_collection, "news")
        assert (error.code, error.status, error.detail) == (
            "bad_answer",
            502,
            "the answer is from a proxy or another server, not from Dragoman",
        )
        assert error_of(client.get_collection, "news").code == "bad_answer"


def test_a_server_that_is_silent_is_given_up() -> None:
    silent = (200, {"content-length": "100"}, b"{")
    with answering(silent) as (url, asked), Client(url, timeout=0.2) as client:
        assert error_of(client.get_collection, "news").code == "timeout"
    assert len(asked) == 1
