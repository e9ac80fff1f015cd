"""Makes of the description in OpenAPI 3.0 (by openapi-down-convert) one that progenitor can read.

    for_progenitor.py DESCRIPTION-3.0 OUTPUT

progenitor knows OpenAPI 3.0 only, and of an operation one media type each for its body, its success and its errors.
"""

import json
import sys

#: Of several media types the one that is kept.
PREFERRED = ["application/json", "application/problem+json", "application/octet-stream"]
METHODS = {"get", "put", "post", "patch", "delete"}


def one_media_type(part: dict) -> None:
    content = part.get("content", {})
    kept = next((kind for kind in PREFERRED if kind in content), None)
    if kept is None and content:
        # Lines, events and archives: bytes, as far as progenitor is concerned.
        part["content"] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    elif kept is not None:
        # It reads problems as JSON, under whatever name.
        media = "application/json" if kept == "application/problem+json" else kept
        part["content"] = {media: content[kept]}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    parts = document["components"]
    for response in parts.get("responses", {}).values():
        one_media_type(response)
    for path in document["paths"].values():
        for method, operation in path.items():
            if method not in METHODS:
                continue
            one_media_type(operation.get("requestBody", {}))
            responses = operation["responses"]
            successes = [status for status in responses if status.startswith("2")]
            # A batch of documents has one form of answer, whether all of them were stored (200) or some (207).
            for status in successes[1:]:
                del responses[status]
            for response in responses.values():
                one_media_type(response)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(document, file)


main()
