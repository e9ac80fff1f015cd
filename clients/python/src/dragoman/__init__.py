"""A client for Dragoman, a vector-search database across languages.

from dragoman import Client

with Client("http://127.0.0.1:7700") as client:
    client.get_or_create_collection("news")
    client.upsert("news", [{"id": "de", "text": "Wegen eines Streiks fahren am Freitag keine Züge."}])
    for hit in client.search("news", "¿Hay trenes el viernes?", limit=3)["hits"]:
        print(hit["id"], hit["score"])
"""

from .async_client import AsyncClient, AsyncJob
from .client import Client, Job
from .errors import DragomanError, Violation

__all__ = ["AsyncClient", "AsyncJob", "Client", "DragomanError", "Job", "Violation"]
