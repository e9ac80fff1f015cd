"""Tests of the synchronous client against a real server."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import Client, DragomanError, operations, wire
from dragoman.wire import DocumentInput, JobInfo


def test_a_search_finds_what_was_said_in_another_language(client: Client, news: str) -> None:
    found = client.search(news, "Are there trains on Friday?", limit=1)
    assert found["hits"][0]["id"] == "de"
    assert found["hits"][0]["metadata"] == {"topic": "transport"}


def test_the_options_of_a_search_reach_the_server(client: Client, news: str) -> None:
    found = client.search(
        news, "Züge", mode="lexical", languages=["de", "fr"], filter={"field": "topic", "eq": "transport"}, include=["text"]
    )
    assert [hit["text"] for hit in found["hits"]] == ["Wegen eines Streiks fahren am Freitag keine Züge."]
    assert "passage" not in found["hits"][0]


def test_a_search_counts_facets_beside_its_hits(client: Client, news: str) -> None:
    found = client.search(news, "news of today", facets=[{"field": "topic", "limit": 1}])
    assert found["facets"][0]["values"] == [{"value": "transport", "documents": 2}]


def test_searches_are_made_in_batches_and_by_examples(client: Client, news: str) -> None:
    batch = client.search_batch(news, [{"query": "concert", "limit": 1}, {"like": "fr", "limit": 3}])
    assert batch["results"][0]["hits"][0]["id"] == "el"
    assert "fr" not in [hit["id"] for hit in batch["results"][1]["hits"]]
    alike = client.recommend(news, {"texts": ["Heavy rain is coming."]}, {"ids": ["el"]}, limit=1)
    assert alike["hits"][0]["id"] == "fr"


def test_a_collection_is_made_once(client: Client) -> None:
    made = client.get_or_create_collection("once", description="The first words stay.")
    again = client.get_or_create_collection("once", description="These come too late.")
    assert made["description"] == again["description"] == "The first words stay."
    assert client.change_collection("once", description="Changed.")["description"] == "Changed."
    client.delete_collection("once")
    with pytest.raises(DragomanError) as error:
        client.get_collection("once")
    assert error.value.code == "collection_not_found"


def test_lists_go_on_from_page_to_page(client: Client) -> None:
    names = ["list-a", "list-b", "list-c"]
    for name in names:
        client.create_collection(name)
    assert [made["name"] for made in client.list_collections(limit=1) if made["name"] in names] == names
    for name in names:
        client.delete_collection(name)


def test_one_document_is_stored_read_patched_and_deleted(client: Client, news: str) -> None:
    stored = client.upsert(news, {"id": "한 글/?#", "title": "Meer", "text": "과학자들이 새로운 물고기를 발견했다."})
    assert stored["results"] == [{"id": "한 글/?#", "status": "created", "version": stored["results"][0]["version"]}]
    read = client.get_document(news, "한 글/?#")
    assert (read["title"], read["language"]) == ("Meer", "ko")
    found = client.search(news, "Meer", mode="lexical")
    assert found["hits"][0]["title_marks"] == [{"start": 0, "end": 4}]
    patched = client.patch_document(news, "한 글/?#", {"title": None, "metadata": {"sea": True}}, if_match=read["version"])
    assert "title" not in patched and patched["metadata"] == {"sea": True}
    with pytest.raises(DragomanError) as error:
        client.delete_document(news, "한 글/?#", if_match=read["version"])
    assert (error.value.code, error.value.status) == ("precondition_failed", 412)
    client.delete_document(news, "한 글/?#")
    assert client.count_documents(news) == 4


def test_many_documents_are_cut_into_batches(client: Client, news: str) -> None:
    documents: list[DocumentInput] = [{"id": f"n{number}", "text": f"Nachricht {number}"} for number in range(25)]
    answer = client.upsert(news, (document for document in documents), batch_documents=10)
    assert [result.get("id") for result in answer["results"]] == [document["id"] for document in documents]
    assert client.count_documents(news) == 29
    assert client.delete_documents(news, filter={"field": "id", "prefix": "n"}) == 25


def test_a_batch_larger_than_the_server_takes_is_halved(client: Client) -> None:
    client.create_collection("points", dimension=2)
    answer = client.upsert("points", ({"vector": [1.0, number]} for number in range(1500)), batch_documents=1500)
    assert answer["failed"] == 0 and len({result.get("id") for result in answer["results"]}) == 1500
    client.delete_collection("points")


def test_a_partial_failure_is_told_by_document(client: Client, news: str) -> None:
    answer = client.upsert(
        news,
        [{"id": "a", "text": "Guten Tag"}, {"id": "b", "text": " "}, {"id": "c", "text": "x", "language": "is"}],
        batch_documents=2,
    )
    assert answer["failed"] == 2
    assert [result["status"] for result in answer["results"]] == ["created", "failed", "failed"]
    assert [result["error"]["pointer"] for result in answer["results"][1:]] == ["/documents/1/text", "/documents/2/language"]


def test_when_all_fail_the_error_names_every_field(client: Client, news: str) -> None:
    with pytest.raises(DragomanError) as error:
        client.upsert(news, [{"text": " "}, {"text": ""}, {"text": "\n"}], batch_documents=1)
    assert error.value.code == "invalid_request"
    assert [violation.field for violation in error.value.violations] == [f"/documents/{place}/text" for place in range(3)]


def test_what_was_stored_before_an_error_is_told(client: Client, news: str) -> None:
    def documents() -> Iterator[DocumentInput]:
        yield {"id": "before", "text": "Vorher"}
        yield {"id": "after", "text": "Nachher"}
        client.delete_collection(news)
        yield {"id": "more", "text": "Mehr"}

    with pytest.raises(DragomanError) as error:
        client.upsert(news, documents(), batch_documents=1)
    client.create_collection(news)
    assert error.value.code == "collection_not_found"
    assert [result.get("id") for result in error.value.results] == ["before"]


def test_documents_are_listed_by_ids_filter_and_order(client: Client, news: str) -> None:
    by_id = client.list_documents(news, ids=["zh", "el", "none"], limit=1)
    assert [document["id"] for document in by_id] == ["el", "zh"]
    both = client.list_documents(news, ids=["zh", "el"], filter={"field": "topic", "eq": "music"})
    assert [document["id"] for document in both] == ["el"]
    backward = client.list_documents(news, order="id", descending=True, limit=3)
    assert [document["id"] for document in backward] == ["zh", "fr", "el", "de"]


def test_documents_are_deleted_by_ids_and_by_filter(client: Client, news: str) -> None:
    assert client.delete_documents(news, ids=["de", "none"]) == 1
    assert client.delete_documents(news, ids=[]) == 0
    assert client.delete_documents(news, filter={"field": "topic", "eq": "weather"}) == 1
    assert sorted(document["id"] for document in client.list_documents(news)) == ["el", "zh"]
    with pytest.raises(ValueError, match="either ids or filter"):
        client.delete_documents(news)


def test_one_string_is_not_taken_for_a_list_of_its_characters(client: Client, news: str) -> None:
    client.upsert(news, {"id": "d", "text": "Il mercato apre alle sette."})
    with pytest.raises(TypeError, match="ids must be a list of strings, got one string"):
        client.delete_documents(news, ids="de")
    with pytest.raises(TypeError, match="ids must be"):
        client.update_documents(news, ids="de", change={"metadata": {"seen": True}})
    with pytest.raises(TypeError, match="ids must be"):
        list(client.list_documents(news, ids="de"))
    with pytest.raises(TypeError, match="texts must be"):
        client.embed("Es regnet.")
    with pytest.raises(TypeError, match="texts must be"):
        client.detect_languages("Es regnet.")
    with pytest.raises(TypeError, match="texts must be"):
        client.predict("topics", "Es regnet.")
    with pytest.raises(TypeError, match="second must be"):
        client.compare_sets(["Es regnet."], "Il pleut.")
    assert client.get_document(news, "d")["text"] == "Il mercato apre alle sette."


def test_a_text_is_not_taken_for_a_document(client: Client, news: str) -> None:
    for documents in ("Es regnet.", ["Es regnet."]):
        with pytest.raises(TypeError, match="a document must be a dictionary"):
            client.upsert(news, documents)  # type: ignore[arg-type]


def test_facets_are_counted(client: Client, news: str) -> None:
    counted = client.count_facets(news, [{"field": "topic"}], filter={"not": {"field": "language", "eq": "el"}})
    assert counted["documents"] == 3
    assert counted["facets"][0]["values"][0] == {"value": "transport", "documents": 2}


@pytest.mark.parametrize("name", ["lines.ndjson", "lines.jsonl.gz"])
def test_a_file_is_imported_with_progress_and_results_by_line(client: Client, news: str, tmp_path: Path, name: str) -> None:
    lines = b'{"id": "ja", "text": "\xe6\x96\xb0\xe3\x81\x97\xe3\x81\x84\xe5\x88\x97\xe8\xbb\x8a"}\n{"id": "bad", "text": " "}\n'
    (tmp_path / name).write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    seen: list[JobInfo] = []
    job = client.import_file(news, tmp_path / name, progress=seen.append).wait(timeout=60)
    assert job.info["status"] == seen[-1]["status"] == "succeeded"
    assert seen[-1]["progress"]["done"] == seen[-1]["progress"]["total"] > 0
    assert [line["line"] for line in job.results(status="failed")] == [2]
    assert client.get_document(news, "ja")["text"] == "新しい列車"


def test_a_table_is_imported_by_its_name(client: Client, news: str, tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("id\ttext\tyear\nsw\tBasi la jioni limechelewa.\t2026\n")
    client.import_file(news, tmp_path / "table.tsv").wait(timeout=60)
    assert client.get_document(news, "sw")["metadata"] == {"year": "2026"}
    client.import_file(news, tmp_path / "table.tsv", types="year:int").wait(timeout=60)
    assert client.get_document(news, "sw")["metadata"] == {"year": 2026}
    with pytest.raises(ValueError, match="give content_type"):
        client.import_file(news, tmp_path / "table.xlsx")


def test_an_export_is_what_was_stored_whatever_separates_lines(client: Client, news: str) -> None:
    text = "Zeile\u2028Zeile\u0085Zeile\rZeile\nZeile"
    client.upsert(news, {"id": "lines", "text": text})
    exported = {document["id"]: document["text"] for document in client.export_documents(news)}
    assert exported["lines"] == text and len(exported) == 5


def test_a_job_that_takes_too_long_goes_on(client: Client, news: str, tmp_path: Path) -> None:
    lines = (json.dumps({"id": f"n{number}", "text": f"Nachricht Nummer {number}"}) for number in range(3000))
    (tmp_path / "many.ndjson").write_text("\n".join(lines))
    job = client.import_file(news, tmp_path / "many.ndjson")
    with pytest.raises(DragomanError) as error:
        job.wait(timeout=0.0)
    assert error.value.code == "timeout" and error.value.job is not None
    job.cancel()
    with pytest.raises(DragomanError) as error:
        job.wait(timeout=60)
    assert error.value.code == "canceled"
    assert client.get_job(job.id).info["status"] == "canceled"
    assert job.id in [info["id"] for info in client.list_jobs(type="import", status="canceled")]


def test_a_classifier_answers_in_languages_that_it_never_saw(client: Client) -> None:
    made = client.create_classifier(
        "topics",
        "knn",
        knn={"neighbors": 3},
        examples=[
            {"text": "The train to the coast is cancelled.", "labels": ["transport"]},
            {"text": "A new bus line opens next week.", "labels": ["transport"]},
            {"text": "It will snow in the mountains tonight.", "labels": ["weather"]},
            {"text": "Heavy rain is expected on Sunday.", "labels": ["weather"]},
        ],
    )
    client.get_job(made["job"]).wait(timeout=60)
    told = client.predict("topics", ["Basi la jioni limechelewa.", "Morgen wird es regnen."], explain=1)
    assert [prediction["labels"] for prediction in told["predictions"]] == [["transport"], ["weather"]]
    judged = client.evaluate_classifier("topics", examples=[{"text": "Der Flug hat Verspätung.", "labels": ["transport"]}])
    assert judged["all"]["examples"] == 1
    client.train_classifier("topics").wait(timeout=60)
    assert client.get_classifier("topics")["version"] == 2
    assert [classifier["name"] for classifier in client.list_classifiers()] == ["topics"]
    client.delete_classifier("topics")


def test_a_classifier_labels_a_collection(client: Client, news: str) -> None:
    made = client.create_classifier("music", "prototype", labels=[{"name": "music"}, {"name": "weather and rain"}])
    client.get_job(made["job"]).wait(timeout=60)
    client.apply_classifier("music", news, "told").wait(timeout=60)
    assert client.get_document(news, "fr")["metadata"]["told"] == "weather and rain"
    client.delete_classifier("music")


@pytest.mark.parametrize("document", ["", ".", ".."])
def test_no_id_leads_to_another_route(client: Client, news: str, document: str) -> None:
    for call in (client.delete_document, client.get_document):
        with pytest.raises(ValueError, match="cannot be a name or an id"):
            call(news, document)
    with pytest.raises(ValueError, match="cannot be a name or an id"):
        client.delete_collection(document)
    assert client.get_collection(news)["documents"] > 0


def test_an_id_that_is_a_number_is_refused_by_name(client: Client, news: str) -> None:
    with pytest.raises(TypeError, match="an id must be a string, got 5"):
        client.get_document(news, 5)  # type: ignore[arg-type]


def test_a_failed_download_leaves_the_file_as_it_was(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.tar.zst"
    file.write_text("precious")
    with pytest.raises(DragomanError) as raised:
        client.download_snapshot("01a217e0-d3c3-7377-8bbd-b1889905ab56", file)
    assert raised.value.code == "snapshot_not_found"
    assert [path.name for path in tmp_path.iterdir()] == [file.name] and file.read_text() == "precious"


def test_translation_pairs_are_mined(client: Client) -> None:
    german = ["Wo ist der Bahnhof?", "Die Suppe ist zu heiß.", "Meine Schwester lernt Chinesisch.", "Morgen wird es schneien."]
    turkish = ["Yarın kar yağacak.", "Kız kardeşim Çince öğreniyor.", "Kedi masanın altında uyuyor.", "Çorba çok sıcak."]
    job = client.mine_pairs({"texts": german}, {"texts": turkish}, threshold=1.5).wait(timeout=60)
    pairs = {(pair["first"]["text"], pair["second"]["text"]) for pair in job.pairs()}
    assert pairs == {(german[2], turkish[1]), (german[3], turkish[0]), (german[1], turkish[3])}


def test_duplicates_are_found_across_languages(client: Client, news: str) -> None:
    client.upsert(news, {"id": "nl", "text": "Morgen wordt in het hele noorden van het land zware regen verwacht."})
    job = client.find_duplicates(news, score_min=0.4, pairs="different").wait(timeout=60)
    assert [sorted(member["id"] for member in cluster["members"]) for cluster in job.clusters()] == [["fr", "nl"]]


def test_texts_are_detected_compared_and_embedded(client: Client) -> None:
    detected = client.detect_languages(["Kje je postaja?", "12345"])
    assert detected[0]["language"] == "sl" and detected[1] == {}
    near, far = client.compare_pairs(
        [{"first": "Es regnet.", "second": text} for text in ("雨が降っています。", "Der Zug ist voll.")]
    )
    assert near["score"] > far["score"]
    assert client.compare_sets(["Es regnet."], ["雨が降っています。"])["scores"][0][0] == pytest.approx(near["score"], abs=1e-4)
    (model,) = client.list_models()
    assert [len(values) for values in client.embed(["Es regnet.", "雨が降っています。"])] == [model["dimension"]] * 2
    assert len(client.embed(["Wann regnet es?"], input_type="query")[0]) == model["dimension"]


def test_any_number_of_texts_is_embedded_and_detected(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "BATCH_TEXTS", 2)
    texts = ["Es regnet.", "Kje je postaja?", "雨が降っています。", "Le chat dort.", "Meine Schwester lernt Chinesisch."]
    for text, values in zip(texts, client.embed(texts), strict=True):
        assert values == pytest.approx(client.embed([text])[0], abs=1e-3)
    assert [found.get("language") for found in client.detect_languages(texts)] == ["de", "sl", "ja", "fr", "de"]
    assert client.embed([]) == []


def test_any_number_of_pairs_is_compared(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "BATCH_TEXTS", 2)
    second = ["Es regnet.", "雨が降っています。", "Der Zug ist voll."]
    pairs: list[wire.TextPair] = [{"first": "Es regnet.", "second": text} for text in second]
    same, near, far = (result["score"] for result in client.compare_pairs(pairs))
    assert same == pytest.approx(1, abs=1e-3)
    assert same > near > far
    assert client.compare_pairs([]) == []


def test_labels_are_predicted_for_any_number_of_texts_and_documents(
    client: Client, news: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "BATCH_TEXTS", 2)
    labels: list[wire.LabelInput] = [
        {"name": "transport", "descriptions": ["trains and buses"]},
        {"name": "weather", "descriptions": ["rain and snow"]},
    ]
    made = client.create_classifier("subjects", "prototype", labels=labels)
    client.get_job(made["job"]).wait(timeout=60)
    texts = ["Es regnet.", "Der Zug ist voll.", "Il neige.", "Le bus est en retard.", "Morgen schneit es."]
    predicted = client.predict("subjects", texts, scores=1)
    assert [prediction["labels"][0] for prediction in predicted["predictions"]] == [
        "weather",
        "transport",
        "weather",
        "transport",
        "weather",
    ]
    assert {len(prediction["scores"]) for prediction in predicted["predictions"]} == {1}
    ids = ["zh", "de", "fr"]
    stored = client.predict("subjects", documents={"collection": news, "ids": ids}, threshold=1.0)
    assert [prediction.get("id") for prediction in stored["predictions"]] == ids
    assert stored["abstained"] == 3
    with pytest.raises(ValueError, match="either texts or documents"):
        client.predict("subjects")
    with pytest.raises(DragomanError) as refused:
        client.predict("subjects", ["Es regnet.", "Es schneit.", " "])
    assert refused.value.violations[0].pointer == "/texts/2"
    client.delete_classifier("subjects")


def test_the_place_of_a_bad_text_counts_all_texts(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "BATCH_TEXTS", 2)
    with pytest.raises(DragomanError) as refused:
        client.compare_pairs([{"first": "a", "second": text} for text in ("b", "c", " ")])
    assert refused.value.violations[0].pointer == "/pairs/2/second"
    with pytest.raises(DragomanError) as refused:
        client.embed(["Es regnet.", "Es schneit.", "Es hagelt.", " "])
    assert refused.value.detail == "/input/3: must not be blank"
    with pytest.raises(DragomanError) as refused:
        client.detect_languages(["Es regnet.", "Es schneit.", " "])
    assert (refused.value.detail, refused.value.violations[0].pointer) == ("/texts/2: must not be blank", "/texts/2")


def test_a_snapshot_is_made_kept_and_restored(client: Client, news: str, tmp_path: Path) -> None:
    job = client.create_snapshot([news]).wait(timeout=60)
    snapshot = job.info["details"]["snapshot"]
    assert snapshot in [made["id"] for made in client.list_snapshots()]
    client.download_snapshot(snapshot, tmp_path / "news.tar.zst")
    assert (tmp_path / "news.tar.zst").read_bytes().startswith(b"\x28\xb5\x2f\xfd")
    client.restore_snapshot(snapshot, collection=news, rename_to="news-copy").wait(timeout=60)
    assert client.count_documents("news-copy") == 4
    client.delete_collection("news-copy")
    client.delete_snapshot(snapshot)
    assert client.upload_snapshot(snapshot, tmp_path / "news.tar.zst")["collections"][0]["name"] == news
    client.restore_snapshot(snapshot, collection=news, rename_to="news-copy").wait(timeout=60)
    client.delete_collection("news-copy")
    client.delete_snapshot(snapshot)


def test_an_alias_is_set_switched_listed_and_deleted(client: Client, news: str) -> None:
    assert client.put_alias("current", news) == {"alias": "current", "collection": news}
    assert client.count_documents("current") == 4
    client.create_collection("news-next")
    client.put_alias("current", "news-next")
    assert list(client.list_aliases()) == [{"alias": "current", "collection": "news-next"}]
    client.delete_alias("current")
    assert list(client.list_aliases()) == []
    client.delete_collection("news-next")


def test_what_has_no_method_is_asked_by_request(client: Client, news: str) -> None:
    document = {"text": "Die Fähre fährt um acht.", "language": "de"}
    assert client.request("PUT", f"/v1/collections/{news}/documents/ferry", json=document)["status"] == "created"
    assert client.request("DELETE", f"/v1/collections/{news}/documents/ferry") is None
    assert client.request("GET", "/v1/collections", query={"limit": 1})["collections"][0]["name"] == news
    with pytest.raises(ValueError, match="slash"):
        client.request("GET", "@elsewhere.example/v1/collections")
