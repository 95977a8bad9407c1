from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("reviews", "0043_erase_without_teams")]

    operations = [
        migrations.DeleteModel("TeamsMessage"),
        migrations.DeleteModel("TeamsAccount"),
        migrations.DeleteModel("TeamsBot"),
    ]
