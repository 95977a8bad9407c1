"""The service that writes a record stores its words for the search."""

from django.db import migrations

DROP = """
DROP TRIGGER holdpoint_words_of_record ON reviews_humanreviewrecord;
DROP FUNCTION holdpoint_words_of_record();
"""


class Migration(migrations.Migration):
    dependencies = [("reviews", "0043_no_security_triggers")]

    operations = [migrations.RunSQL(DROP, migrations.RunSQL.noop)]
