from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("reviews", "0026_slack_links_end_with_the_password"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="humanreviewrecord",
            index=models.Index(fields=["target", "-id"], name="record_by_target"),
        ),
    ]
