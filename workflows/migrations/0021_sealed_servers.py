"""Environment and headers of MCP servers are encrypted with SECRET_KEY, value by value."""

from django.db import migrations

from workflows.common.secret_encryption import EncryptedTexts, encrypt, decrypt

_FIELDS = ("env", "headers")


def seal_stored(apps, schema_editor):
    _rewrite(apps, schema_editor, encrypt)


def open_stored(apps, schema_editor):
    _rewrite(apps, schema_editor, decrypt)


def _rewrite(apps, schema_editor, change):
    servers = apps.get_model("workflows", "McpServer").objects.using(
        schema_editor.connection.alias
    )
    for server in servers.all():
        for field in _FIELDS:
            stored = getattr(server, field) or {}
            setattr(server, field, {name: change(str(text)) for name, text in stored.items()})
        server.save(update_fields=_FIELDS)


class Migration(migrations.Migration):
    dependencies = [("workflows", "0020_sign_in_alerts")]

    operations = [
        # First, while the fields are still plain JSON here: the sealed field changes no column.
        migrations.RunPython(seal_stored, open_stored),
        migrations.AlterField("mcpserver", "env", EncryptedTexts(blank=True, default=dict)),
        migrations.AlterField("mcpserver", "headers", EncryptedTexts(blank=True, default=dict)),
    ]
