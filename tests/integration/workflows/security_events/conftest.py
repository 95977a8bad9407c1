"""People, runs and staff, as in the tests of reviews."""

from tests.integration.reviews.admin.conftest import staff as staff
from tests.integration.reviews.conftest import make_user as make_user
from tests.integration.reviews.conftest import operator as operator
from tests.integration.reviews.conftest import start as start
