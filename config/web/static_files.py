"""The static files of a production installation, as `collectstatic` stores them."""

from django.contrib.staticfiles.apps import StaticFilesConfig
from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(StaticFilesConfig):
    """Django's app, without the extensions of htmx, which import htmx under no file's name."""

    ignore_patterns = [*StaticFilesConfig.ignore_patterns, "django_htmx/ext/*"]


class CollectedFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Compressed files with a digest in their names, also in imports of JavaScript modules."""

    support_js_module_import_aggregation = True
