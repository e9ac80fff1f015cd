"""The tools at `/mcp`, called by the official Python SDK of the Model Context Protocol, in each of its two ways to connect."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from conftest import ADMIN_KEY, Server
from dragoman import Client, wire

MODES = ["auto", "legacy"]


async def call(agent: McpClient, tool: str, arguments: dict[str, Any]) -> Any:
    """Calls a tool that succeeds; both forms of its result say the same."""
    result = await agent.call_tool(tool, arguments)
    assert not result.is_error, result
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_finds_and_reads_what_it_adds(server: Server, news: str, mode: Any) -> None:
    async with McpClient(f"{server.url}/mcp", mode=mode) as agent:
        assert agent.server_info is not None and agent.server_info.name == "dragoman"
        assert "list_collections" in (agent.instructions or "")
        listed = await call(agent, "list_collections", {})
        assert [one["name"] for one in listed["collections"]] == [news]
        text = "Kirjasto on suljettu maanantaisin."
        added = await call(agent, "add_documents", {"collection": news, "documents": [{"id": "fi", "text": text}]})
        assert added["failed"] == 0
        found = await call(agent, "search", {"collection": news, "query": "On which day is the library closed?", "limit": 1})
        assert [hit["id"] for hit in found["hits"]] == ["fi"]
        stored = await call(agent, "get_document", {"collection": news, "id": "fi"})
        assert (stored["text"], stored["language"]) == (text, "fi")
        deleted = await call(agent, "delete_documents", {"collection": news, "ids": ["fi"]})
        assert deleted["deleted"] == 1


async def test_every_tool_says_what_it_takes_and_what_it_changes(server: Server) -> None:
    async with McpClient(f"{server.url}/mcp") as agent:
        tools = (await agent.list_tools()).tools
    reading = {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint}
    assert {tool.name for tool in tools} - reading == {"add_documents", "delete_documents"}
    for tool in tools:
        assert tool.description and tool.input_schema["type"] == "object", tool


async def test_a_failed_call_is_a_result_with_the_code_and_the_argument(server: Server, news: str) -> None:
    async with McpClient(f"{server.url}/mcp") as agent:
        result = await agent.call_tool("search", {"collection": news, "query": "a", "limit": 0})
        assert result.is_error and isinstance(result.structured_content, dict)
        assert result.structured_content["code"] == "invalid_request"
        assert [error["pointer"] for error in result.structured_content["errors"]] == ["/limit"]
        with pytest.raises(MCPError, match="no tool"):
            await agent.call_tool("drop_tables", {})


async def test_languages_are_detected_texts_compared_and_labels_predicted(server: Server, client: Client) -> None:
    examples: list[wire.LabeledText] = [
        {"text": "The train is cancelled.", "labels": ["transport"]},
        {"text": "It will rain on Sunday.", "labels": ["weather"]},
    ]
    made = client.create_classifier("mcp", "knn", examples=examples, knn={"neighbors": 1})
    client.get_job(made["job"]).wait()
    async with McpClient(f"{server.url}/mcp") as agent:
        detected = await call(agent, "detect_language", {"texts": ["Kje je postaja?"]})
        assert detected["detections"][0]["language"] == "sl"
        pairs = [{"first": "Es regnet.", "second": "雨が降っています。"}, {"first": "Es regnet.", "second": "Der Zug ist voll."}]
        near, far = (await call(agent, "compare_texts", {"pairs": pairs}))["results"]
        assert near["score"] > far["score"]
        assert [one["name"] for one in (await call(agent, "list_classifiers", {}))["classifiers"]] == ["mcp"]
        predicted = await call(agent, "classify", {"classifier": "mcp", "texts": ["Am Sonntag wird es regnen."]})
        assert predicted["predictions"][0]["labels"] == ["weather"]
    client.delete_classifier("mcp")


async def test_a_key_decides_what_an_agent_may_do(guarded_server: Server) -> None:
    with Client(guarded_server.url, api_key=ADMIN_KEY) as admin:
        admin.get_or_create_collection("open")
        made = admin.request("POST", "/v1/keys", json={"name": "agent", "scope": "read", "collections": ["open"]})
        secret = made["secret"]
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}) as http:
        async with McpClient(streamable_http_client(f"{guarded_server.url}/mcp", http_client=http)) as agent:
            assert "add_documents" not in [tool.name for tool in (await agent.list_tools()).tools]
            refused = await agent.call_tool("add_documents", {"collection": "open", "documents": [{"text": "a"}]})
            assert refused.is_error and refused.structured_content["code"] == "forbidden"
            hidden = await agent.call_tool("search", {"collection": "secret", "query": "a"})
            assert hidden.is_error and hidden.structured_content["code"] == "forbidden"
    with pytest.raises(Exception):  # noqa: B017 - the SDK wraps the refusal in a group of exceptions
        async with McpClient(f"{guarded_server.url}/mcp") as stranger:
            await stranger.list_tools()
