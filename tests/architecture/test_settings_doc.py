"""docs/settings.md is written from the settings' classes, which have all that the product reads."""

import re
from collections import Counter

from config.settings.documentation import PATH, document
from config.settings.topic import variable_of
from config.settings.topics import ALL
from tests.architecture.files import package_modules

#: A read of the environment itself.
READ = re.compile(r"""environ\.get\(\s*"([A-Z][A-Z0-9_]+)\"""")
#: Variables that belong to the system or to the tests.
FOREIGN = {"HOME", "MONTY_BIN", "NO_COLOR", "PATH", "PYTEST_XDIST_WORKER"}
#: Credentials of a client of the product, not settings of the product.
OF_CLIENTS = {"HOLDPOINT_TOKEN", "HOLDPOINT_URL"}


def variables() -> list[str]:
    return [variable_of(*field) for topic in ALL for field in topic.model_fields.items()]


def documented() -> set[str]:
    return set(variables())


def test_the_page_is_current() -> None:
    assert PATH.read_text("utf-8") == document(), "run `manage.py settings_doc`"


def test_each_setting_has_one_place_and_a_sentence() -> None:
    assert [name for name, count in Counter(variables()).items() if count > 1] == []
    for topic in ALL:
        for name, field in topic.model_fields.items():
            assert (field.description or "").endswith("."), name


def test_the_product_reads_no_other_variable() -> None:
    modules = package_modules()
    read = {name for path in modules for name in READ.findall(path.read_text("utf-8"))}
    assert read - FOREIGN - OF_CLIENTS - documented() == set()
