"""What OpenAI's own package and LangChain's get from `/v1/embeddings` and `/v1/models`: embeddings, and errors as OpenAI has them."""

import math
import os

import openai
from langchain_openai import OpenAIEmbeddings

BASE = os.environ["DRAGOMAN_URL"] + "/v1"
MODEL = "ems-small"
TEXTS = ["Kirjasto on suljettu maanantaisin.", "The library is closed on Mondays.", "Το πλοίο φεύγει στις οκτώ."]

client = openai.OpenAI(base_url=BASE, api_key="none", max_retries=0)


def refused(error, call, *words):
    """The error of a call, which must be of this kind and have these words."""
    try:
        call()
    except error as caught:
        assert all(word in caught.message for word in words), caught.message
        return caught
    raise AssertionError(f"nothing refused {words}")


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b))


# Models.
model = client.models.retrieve(MODEL)
assert (model.id, model.object, model.owned_by) == (MODEL, "model", "dragoman") and model.created > 0, model
assert [one.id for one in client.models.list()] == [MODEL]
missing = refused(openai.NotFoundError, lambda: client.models.retrieve("text-embedding-3-small"), MODEL)
assert (missing.code, missing.type) == ("unknown_model", "invalid_request_error"), missing

# Without a format the package asks for base64 and decodes it itself.
packed = client.embeddings.create(model=MODEL, input=TEXTS, user="somebody")
plain = client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float", dimensions=model.dimension)
assert [one.index for one in packed.data] == [0, 1, 2] and packed.model == MODEL and packed.usage.total_tokens > 0, packed.usage
for one, other in zip(packed.data, plain.data):
    assert len(one.embedding) == model.dimension and math.isclose(cosine(one.embedding, one.embedding), 1, abs_tol=1e-4)
    assert all(math.isclose(x, y, abs_tol=1e-6) for x, y in zip(one.embedding, other.embedding))
finnish, english, greek = (one.embedding for one in packed.data)
assert cosine(finnish, english) > 0.5 > cosine(finnish, greek), "a translation is nearer than another sentence"

# Errors, by the exceptions that the package has for their statuses.
unknown = refused(openai.NotFoundError, lambda: client.embeddings.create(model="other", input="a"), MODEL)
assert (unknown.code, unknown.param) == ("unknown_model", "model"), unknown
shorter = refused(openai.BadRequestError, lambda: client.embeddings.create(model=MODEL, input="a", dimensions=64), str(model.dimension))
assert (shorter.code, shorter.param, shorter.type) == ("invalid_request", "dimensions", "invalid_request_error"), shorter
refused(openai.BadRequestError, lambda: client.embeddings.create(model=MODEL, input=["a", " "]), "/input/1")
refused(openai.BadRequestError, lambda: client.embeddings.create(model=MODEL, input=[]), "got 0")
for tokens in [9906, 1917], [[9906], [1917]]:
    refused(openai.BadRequestError, lambda: client.embeddings.create(model=MODEL, input=tokens), "check_embedding_ctx_length=False")

# LangChain.
embeddings = OpenAIEmbeddings(base_url=BASE, api_key="none", model=MODEL, check_embedding_ctx_length=False)
documents = embeddings.embed_documents(TEXTS)
assert all(math.isclose(x, y, abs_tol=1e-6) for one, other in zip(documents, plain.data) for x, y in zip(one, other.embedding))
assert len(embeddings.embed_query("When does the ship leave?")) == model.dimension
print("openai and langchain-openai: ok")
