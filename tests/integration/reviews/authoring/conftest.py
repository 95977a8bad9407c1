"""Staff of several kinds, logged in."""

from tests.integration.reviews.admin.conftest import staff as staff
