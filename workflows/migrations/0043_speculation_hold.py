from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("workflows", "0042_questions"),
    ]

    operations = [
        migrations.AddField(
            model_name="speculation",
            name="hold",
            field=models.CharField(blank=True, db_default="", default="", max_length=40),
        ),
    ]
