"""The engine, endpoints and receiver of the tests of webhooks."""

from tests.integration.workflows.conftest import ledger as ledger
from tests.integration.workflows.webhooks.conftest import engine as engine
from tests.integration.workflows.webhooks.conftest import owner as owner
from tests.integration.workflows.webhooks.conftest import receiver as receiver
from tests.integration.workflows.webhooks.conftest import register as register
from tests.integration.workflows.webhooks.conftest import sender as sender
