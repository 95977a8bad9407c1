"""The journal writes shapers and the rows of lists, instead of triggers."""

from django.db import migrations

DROP = """
DROP TRIGGER holdpoint_shapers ON workflows_executionevent;
DROP TRIGGER holdpoint_shapers ON workflows_execution;
DROP TRIGGER holdpoint_lists ON workflows_execution;
DROP TRIGGER holdpoint_lists ON workflows_hold;
DROP FUNCTION holdpoint_shapers_of_event();
DROP FUNCTION holdpoint_way_of(workflows_executionevent);
DROP FUNCTION holdpoint_shapers_of_execution();
DROP FUNCTION holdpoint_lists_of_execution();
DROP FUNCTION holdpoint_lists_of_hold();
DROP FUNCTION holdpoint_hold_words(workflows_hold);
"""


class Migration(migrations.Migration):
    dependencies = [("workflows", "0059_no_authzen")]
    operations = [migrations.RunSQL(DROP)]
