from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("reviews", "0041_erase_without_authzen")]

    operations = [
        migrations.DeleteModel("PushMessage"),
        migrations.DeleteModel("PushSubscription"),
        migrations.DeleteModel("PushKey"),
    ]
