"""Past decisions beside the present one, a line each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _

from reviews.components import labels as components_labels
from reviews.components.number_formatting import percent
from reviews.decisions.rights import right_now
from reviews.decisions.similar_decisions import precedents
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def precedents_context(user: User, hold: Hold) -> dict[str, Any]:
    """precedents: sentence, subject, alike (words), at, url, comment, reuse (JSON text or "")."""
    may_edit = right_now(user, hold).approve
    return {
        "precedents": tuple(
            {
                "sentence": components_labels.record_sentence(each.record, short=True),
                "subject": components_labels.record_subject(each.record),
                "alike": _("%(share)s alike") % {"share": percent(each.alike)},
                "at": each.record.reviewed_at,
                "url": reverse("reviews:record", args=(each.record.pk,)),
                "comment": each.record.comment,
                "reuse": json.dumps(each.reuse[0], ensure_ascii=False)
                if each.reuse and may_edit
                else "",
            }
            for each in precedents(user, hold)
        )
    }
