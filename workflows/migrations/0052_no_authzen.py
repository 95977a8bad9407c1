from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0051_count_shown_runs"),
        # Its function no longer names the column.
        ("reviews", "0039_erase_without_authzen"),
    ]

    operations = [migrations.RemoveField(model_name="approval", name="authzen_callback")]
