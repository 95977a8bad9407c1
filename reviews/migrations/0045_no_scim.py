from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("reviews", "0044_no_teams_bots")]

    operations = [
        migrations.DeleteModel("ProvisionedGroup"),
        migrations.DeleteModel("ProvisionedUser"),
    ]
