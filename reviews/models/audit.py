"""Review records and the other append-only rows of the audit log."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Now
from django.utils.functional import cached_property

from workflows.common.guards import AppendOnly, AppendOnlyUntilErased, NoTruncate
from workflows.common.secret_encryption import decrypt
from workflows.engine.values.bounded_json import digest

from .record_guards import ContinuesChain, EmptiedByRetention


class Decision(models.TextChoices):
    """The decisions about a hold, and the withdrawal of one."""

    APPROVE = "APPROVE", "approved"
    REJECT = "REJECT", "rejected"
    REQUEST_CHANGES = "REQUEST_CHANGES", "sent back for changes"
    WITHDRAW = "WITHDRAW", "withdrawn"


#: The decisions that a person can make about an open hold.
ANSWERS = (Decision.APPROVE.value, Decision.REJECT.value, Decision.REQUEST_CHANGES.value)


class PayloadKey(models.Model):
    """The key with which the payloads of a run's records are encrypted.

    The key itself is encrypted with SECRET_KEY.  Deleting the row erases the payloads; a trigger
    allows that only for a run that retention erases.
    """

    execution = models.OneToOneField(
        "workflows.Execution", on_delete=models.PROTECT, related_name="payload_key"
    )
    key = models.TextField()

    class Meta:
        triggers = [AppendOnlyUntilErased(), NoTruncate()]

    def __str__(self) -> str:
        return f"key of run {self.execution_id}"


@dataclass(frozen=True, slots=True)
class SealedPayload:
    """The encrypted part of a record.

    Without the random `salt`, short comments could be guessed from their digest.
    """

    original: Any
    modified: Any
    comment: str
    salt: str

    def comment_digest(self) -> str:
        """Return the SHA-256 of salt and comment, which the chain covers."""
        return hashlib.sha256(f"{self.salt}{self.comment}".encode()).hexdigest()


def open_payload(sealed: str, key: str) -> SealedPayload:
    """Return the payload of a record's `sealed`, with the key as it is stored.

    An altered text or key gives an empty payload, which does not have the signed digests.  Raises
    DecryptionFailed if the key was encrypted with a SECRET_KEY that is not known.
    """
    if not key:
        return SealedPayload(None, None, "", "")
    try:
        text = Fernet(decrypt(key)).decrypt(sealed.encode())
    except (InvalidToken, ValueError):
        return SealedPayload(None, None, "", "")
    return SealedPayload(**json.loads(text))


#: In place of the payload of a record whose key was deleted.
_ERASED = SealedPayload(None, None, "", "")


class RecordSet(models.QuerySet["HumanReviewRecord"]):
    """Records, with a filter for those that are in effect."""

    def with_keys(self) -> RecordSet:
        """Annotate the keys of the payloads, which are else read one by one."""
        keys = PayloadKey.objects.filter(execution=OuterRef("execution")).values("key")
        return self.annotate(payload_key=Subquery(keys[:1]))

    def standing(self) -> RecordSet:
        """Exclude withdrawn records, and the records of their withdrawal."""
        return self.exclude(decision=Decision.WITHDRAW).filter(withdrawal__isnull=True)


class HumanReviewRecord(models.Model):
    """One decision: the data shown, the decision, its author, and the version of the execution.

    `canonical` is the hashed text; `hash` is the SHA-256 of the previous hash and that text.
    The payload columns repeat it for reading, and are never what is hashed.

    `sealed` has the payloads and the comment, encrypted with the key of the run.  Records from
    before migration 0031 have them in the columns `stored_…`, which are empty in later ones.
    """

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.PROTECT, related_name="review_records"
    )
    hold = models.ForeignKey("workflows.Hold", on_delete=models.PROTECT, related_name="records")
    node_id = models.CharField(max_length=64, blank=True, default="")
    workflow_title = models.CharField(max_length=200)
    reason = models.CharField(max_length=20)
    trigger_phase = models.CharField(max_length=20, blank=True, default="")
    target = models.CharField(max_length=200, blank=True, default="")
    # Null for a timeout; `actor` is "system" then.
    reviewer = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    actor = models.CharField(max_length=150)
    # The absent person for whom the actor decided as their delegate; "" for nobody.
    on_behalf_of = models.CharField(max_length=150, blank=True, default="", db_default="")
    on_behalf_of_id = models.BigIntegerField(null=True)
    source = models.CharField(max_length=20)
    decision = models.CharField(max_length=20, choices=Decision.choices)
    stored_original = models.JSONField(null=True, db_column="original_data")
    stored_modified = models.JSONField(null=True, db_column="modified_data")
    is_edited = models.BooleanField(default=False)
    change_count = models.IntegerField(default=0)
    stored_comment = models.TextField(blank=True, default="", db_column="comment")
    sealed = models.TextField(blank=True, default="", db_default="")
    version = models.BigIntegerField()
    waited_seconds = models.FloatField(default=0)
    # The record that this one withdraws; a record is withdrawn at most once.
    withdraws = models.OneToOneField(
        "self", null=True, on_delete=models.PROTECT, related_name="withdrawal"
    )
    reviewed_at = models.DateTimeField()
    shown_digest = models.CharField(max_length=64)
    decided_digest = models.CharField(max_length=64)
    canonical = models.TextField()
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)
    # Signature of the hash, with a key that is not in the database; "" without a configured key.
    signature = models.CharField(max_length=120, blank=True, default="", db_default="")

    objects = RecordSet.as_manager()

    class Meta:
        ordering = ("-id",)
        constraints = [
            # One say per step of the run; the races are lost here at the latest.
            models.UniqueConstraint(
                fields=["execution", "version"], name="record_once_per_version"
            ),
        ]
        indexes = [
            models.Index(fields=["reviewer", "-id"], name="record_by_reviewer"),
            models.Index(fields=["execution", "-id"], name="record_by_execution"),
            models.Index(fields=["-reviewed_at"], name="record_by_time"),
            models.Index(fields=["-id"], condition=Q(decision="REJECT"), name="record_rejections"),
            models.Index(fields=["actor", "-id"], name="record_by_actor"),
            models.Index(fields=["workflow_title", "-id"], name="record_by_title"),
            models.Index(fields=["target", "-id"], name="record_by_target"),
            models.Index(fields=["-id"], condition=Q(source="bulk"), name="record_bulk"),
            models.Index(fields=["-id"], condition=Q(is_edited=True), name="record_edited"),
        ]
        triggers = [EmptiedByRetention(), NoTruncate(), ContinuesChain()]
        verbose_name = "audit record"

    def __str__(self) -> str:
        return f"{self.actor} {self.get_decision_display()} {self.node_id or self.reason}"

    def seal(self, payload: SealedPayload, key: str) -> None:
        """Encrypt the payload with the key of the run, before the record is stored."""
        fields = {
            "original": payload.original,
            "modified": payload.modified,
            "comment": payload.comment,
            "salt": payload.salt,
        }
        self.sealed = Fernet(key).encrypt(json.dumps(fields).encode()).decode("ascii")
        self.payload = payload

    @cached_property
    def payload(self) -> SealedPayload:
        """The decrypted payload; empty if it was erased, or if the record has no `sealed`.

        Raises DecryptionFailed if the key was encrypted with a SECRET_KEY that is not known.
        """
        key = self._key() if self.sealed else None
        return _ERASED if key is None else open_payload(self.sealed, key)

    def _key(self) -> str | None:
        """Return the encrypted key of the run; None if it was deleted."""
        if "payload_key" in self.__dict__:  # from `with_keys`
            annotated: str | None = self.__dict__["payload_key"]
            return annotated
        rows = PayloadKey.objects.filter(execution=self.execution_id)
        return rows.values_list("key", flat=True).first()

    @property
    def is_erased(self) -> bool:
        """Whether retention erased the payload: nobody can read it any more.

        Data in the columns was put there later, and is compared with the signed digests.
        """
        if self.stored_original is not None or self.stored_modified is not None:
            return False
        if self.sealed:
            return self.payload is _ERASED and not self.stored_comment
        return self.shown_digest != digest(None)

    @property
    def original_data(self) -> Any:
        """The payload that the reviewer saw; None if it was erased."""
        stored = self.stored_original
        return self.payload.original if stored is None and self.sealed else stored

    @property
    def modified_data(self) -> Any:
        """The payload as the reviewer edited it."""
        stored = self.stored_modified
        return self.payload.modified if stored is None and self.sealed else stored

    @property
    def comment(self) -> str:
        """The reviewer's comment, stored with its secrets masked; "" if it was erased."""
        return self.stored_comment or self.payload.comment


class RecordWords(models.Model):
    """Full-text index of a record's task, tool, comment, workflow and person."""

    record = models.OneToOneField(
        HumanReviewRecord, primary_key=True, on_delete=models.CASCADE, related_name="words"
    )
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="words_of_records")]

    def __str__(self) -> str:
        return str(self.words)


class DeniedAttempt(models.Model):
    """An attempt to decide a hold without permission.  Append-only, as records are."""

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.PROTECT, related_name="denied_attempts"
    )
    hold = models.ForeignKey("workflows.Hold", on_delete=models.PROTECT, related_name="denied")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=20)
    wanted = models.CharField(max_length=20, choices=Decision.choices)
    code = models.CharField(max_length=30)
    # English text, code and parameters of a `workflows.engine.values.reasons.Reason`.
    reason = models.TextField()
    reason_code = models.CharField(max_length=40, default="", db_default="")
    reason_params = models.JSONField(default=dict, db_default={})
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)
        indexes = [models.Index(fields=["execution", "-id"], name="denied_by_execution")]
        triggers = [AppendOnly(), NoTruncate()]

    def __str__(self) -> str:
        return f"{self.actor} may not decide {self.hold_id}"


class SecretReveal(models.Model):
    """A masked value that was revealed to a user.  Append-only, as records are.

    `place` names the data (`hold:9-9`, `task:9:draft:output`, `record:4:original`), `path` the
    position in it; the value itself is not stored here.
    """

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.PROTECT, related_name="secret_reveals"
    )
    hold = models.ForeignKey(
        "workflows.Hold", null=True, on_delete=models.PROTECT, related_name="secret_reveals"
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=20)
    place = models.CharField(max_length=200)
    path = models.TextField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)
        indexes = [models.Index(fields=["execution", "-id"], name="reveal_by_execution")]
        triggers = [AppendOnly(), NoTruncate()]

    def __str__(self) -> str:
        return f"{self.actor} saw {self.path} of {self.place}"
