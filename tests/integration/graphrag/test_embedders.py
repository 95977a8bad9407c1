"""Embedders beside the default one, against a real HTTP server that speaks the API."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphrag.catalogue import ingest
from graphrag.embedding import embedders, hashing
from graphrag.models import DIMENSIONS, Tool
from graphrag.retrieval import search
from tests.integration.graphrag.conftest import make_tool


class Server(ThreadingHTTPServer):
    """``POST /v1/embeddings``; ``answer`` makes the body from the question."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.status = 200
        self.answer: Callable[[dict[str, Any]], Any] = vectors

    @property
    def setting(self) -> str:
        return f"openai:http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked | {"path": self.path})
        self.server.keys.append(self.headers.get("Authorization", ""))
        body = json.dumps(self.server.answer(asked)).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def vectors(asked: dict[str, Any], size: int = 256) -> dict[str, Any]:
    """Hashed vectors of another size, in an order of the server's own."""
    rows = hashing.embed_documents(asked["input"], dimensions=size).tolist()
    data = [{"index": at, "embedding": row} for at, row in enumerate(rows)]
    return {"data": data[::-1]}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def remote(server: Server, holdpoint: Callable[..., None]) -> Server:
    holdpoint(embedder=server.setting, embedder_model="small", embedder_api_key="secret")
    return server


def test_texts_come_back_as_unit_vectors_in_their_order(remote: Server) -> None:
    embedder = embedders.current()
    found = embedder.embed_documents(["list files", "parse xml", "send mail"])
    assert found.shape == (3, DIMENSIONS)
    assert np.allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)
    assert np.allclose(found[1, :256], hashing.embed_documents(["parse xml"], dimensions=256)[0])
    assert embedder.embed_query("x y").shape == (DIMENSIONS,)
    assert remote.asked[0]["path"] == "/v1/embeddings"
    assert (remote.asked[0]["model"], remote.asked[0]["dimensions"]) == ("small", DIMENSIONS)
    assert set(remote.keys) == {"Bearer secret"}


def test_many_texts_go_in_batches(remote: Server) -> None:
    assert embedders.current().embed_documents([f"text {n}" for n in range(130)]).shape[0] == 130
    assert [len(asked["input"]) for asked in remote.asked] == [64, 64, 2]
    assert embedders.current().embed_documents([]).shape == (0, DIMENSIONS)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (lambda _: {"error": "no"}, 500),
        (lambda _: {"error": "no"}, 200),
        (lambda _: ["not", "an", "object"], 200),
        (lambda _: {"data": []}, 200),
        (lambda _: {"data": [{"index": 0, "embedding": "text"}]}, 200),
        (lambda _: {"data": [{"index": 0, "embedding": [1e999, 1.0]}]}, 200),
    ],
)
def test_a_server_that_answers_badly_is_an_embedder_error(
    remote: Server, answer: Callable[[dict[str, Any]], Any], status: int
) -> None:
    remote.answer, remote.status = answer, status
    with pytest.raises(embedders.EmbedderError):
        embedders.current().embed_query("anything")


def test_longer_vectors_are_cut_off(remote: Server) -> None:
    remote.answer = lambda asked: vectors(asked, 1024)
    found = embedders.current().embed_documents(["parse xml"])[0]
    whole = hashing.embed_documents(["parse xml"], dimensions=1024)[0][:DIMENSIONS]
    assert np.allclose(found, whole / np.linalg.norm(whole), atol=1e-5)


def test_prefixes_are_sent_and_name_the_vector_space(
    remote: Server, holdpoint: Callable[..., None]
) -> None:
    plain = embedders.current().identity
    holdpoint(
        embedder=remote.setting,
        embedder_model="small",
        embedder_query_prefix="query: ",
        embedder_document_prefix="passage: ",
    )
    embedder = embedders.current()
    embedder.embed_query("send mail")
    embedder.embed_documents(["Sends mail"])
    assert [asked["input"] for asked in remote.asked] == [
        ["query: send mail"],
        ["passage: Sends mail"],
    ]
    assert embedder.identity == f"{plain}#passage: "


@pytest.mark.django_db
def test_changing_the_embedder_changes_every_vector_and_mixes_none(
    server: Server, holdpoint: Callable[..., None]
) -> None:
    ingest.upsert_tools([make_tool("s.read", "Read files"), make_tool("s.send", "Send mail")])
    holdpoint(embedder=server.setting)
    assert search.search("read files").found[0].cosine is None
    assert ingest.reembed() == 2
    identity = f"{server.setting}#text-embedding-3-small"
    assert set(Tool.objects.values_list("embedder", flat=True)) == {identity}
    best = search.search("read files").found[0]
    assert best.tool.name == "s.read"
    assert best.cosine is not None
    assert ingest.upsert_tools([make_tool("s.read", "Read files")]).unchanged == ("s.read",)


@pytest.mark.django_db
def test_a_server_failure_keeps_the_finished_batches(
    server: Server, holdpoint: Callable[..., None]
) -> None:
    ingest.upsert_tools([make_tool(f"s.t{at:03}", f"Tool {at}") for at in range(250)])
    holdpoint(embedder=server.setting)

    def dies(asked: dict[str, Any]) -> Any:
        server.status = 200 if len(server.asked) <= 4 else 503
        return vectors(asked)

    server.answer = dies
    with pytest.raises(embedders.EmbedderError):
        ingest.reembed()
    assert ingest.outdated().count() == 50
    server.answer, server.status = vectors, 200
    assert ingest.reembed() == 50


@pytest.mark.parametrize(
    "spec", ["", "magic", "openai:", "openai:ftp://x", "sentence-transformers:"]
)
def test_an_unknown_embedder_setting_is_reported(holdpoint: Callable[..., None], spec: str) -> None:
    holdpoint(embedder=spec)
    with pytest.raises(embedders.EmbedderError, match="use 'hashing'"):
        embedders.current()


def test_a_missing_package_is_named(holdpoint: Callable[..., None], monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    holdpoint(embedder="sentence-transformers:some-model")
    with pytest.raises(embedders.EmbedderError, match="not installed"):
        embedders.current().embed_query("x")


@pytest.mark.django_db
def test_the_extra_finds_a_tool_in_other_words_and_languages(
    holdpoint: Callable[..., None],
) -> None:
    holdpoint(embedder="semantic")
    ingest.upsert_tools(
        [
            make_tool("s.create_event", "Create an event in a calendar."),
            make_tool("s.send_message", "Send a message to a channel."),
            make_tool("s.read_file", "Read the content of a file."),
        ]
    )
    assert set(Tool.objects.values_list("embedder", flat=True)) == {"semantic:use-multilingual-3"}
    for query, name in (
        ("set up an appointment with the dentist", "s.create_event"),
        ("Lies das Dokument vor", "s.read_file"),
    ):
        found = search.search(query).found
        assert found[0].tool.name == name
        assert 0.0 < found[0].similarity <= 1.0
    vector = embedders.current().embed_query("anything")
    assert vector.shape == (DIMENSIONS,)
    assert embedders.current().embed_documents([]).shape == (0, DIMENSIONS)
    assert embedders.current().embed_documents(["name"]).shape == (1, DIMENSIONS)


def test_the_extra_limits_the_threads_of_its_model() -> None:
    """The package ignores its argument ``threads`` without threadpoolctl, which installs with it.

    Threads of BLAS that wait for each other on busy cores make a query 15 times as slow.
    """
    assert find_spec("threadpoolctl") is not None


def test_a_missing_extra_is_named(monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, embedders.SEMANTIC_PACKAGE, None)
    with pytest.raises(embedders.EmbedderError, match="extra 'semantic'"):
        embedders.SemanticEmbedder().embed_query("x")


@pytest.fixture
def local_model(tmp_path: Path) -> str:
    """A real model in a folder: a table of word vectors, as untrained as it was made."""
    package = pytest.importorskip("sentence_transformers", reason="an extra of one's own choice")
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = ["[UNK]", "read", "files", "send", "mail", "list", "folders"]
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    table = np.random.default_rng(7).normal(size=(len(words), 128)).astype(np.float32)
    model = package.SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=table)], device="cpu"
    )
    model.save(str(tmp_path / "model"))
    return str(tmp_path / "model")


@pytest.mark.django_db
@pytest.mark.filterwarnings("default")  # the packages below it warn of each other
def test_a_local_model_is_loaded_from_its_folder(
    local_model: str, holdpoint: Callable[..., None]
) -> None:
    ingest.upsert_tools([make_tool("s.read", "read files"), make_tool("s.send", "send mail")])
    holdpoint(embedder=f"sentence-transformers:{local_model}")
    assert ingest.reembed() == 2
    assert set(Tool.objects.values_list("embedder", flat=True)) == {
        f"sentence-transformers:{local_model}"
    }
    vector = embedders.current().embed_query("read files")
    assert vector.shape == (DIMENSIONS,)
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
    found = search.search("send mail").found
    assert found[0].tool.name == "s.send"
    assert found[0].cosine > (found[1].cosine if len(found) > 1 else 0.0)
