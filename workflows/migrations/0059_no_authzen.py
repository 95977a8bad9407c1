from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0058_confined_servers"),
        # Its function no longer names the column.
        ("reviews", "0041_erase_without_authzen"),
    ]

    operations = [migrations.RemoveField(model_name="approval", name="authzen_callback")]
