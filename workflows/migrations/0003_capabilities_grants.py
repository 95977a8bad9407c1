"""Capabilities and the ledger of grants; neither can be rewritten afterwards.

The SQL is literal on purpose: a migration must not change when the code does.
"""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


FORWARD = """
CREATE FUNCTION holdpoint_guard_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a grant is revoked, not deleted' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF (to_jsonb(NEW) - '{uses,last_used_at,revoked_at,revoked_by}'::text[])
        IS DISTINCT FROM (to_jsonb(OLD) - '{uses,last_used_at,revoked_at,revoked_by}'::text[])
        OR NEW.uses < OLD.uses
        OR (OLD.revoked_at IS NOT NULL AND (NEW.revoked_at, NEW.revoked_by)
            IS DISTINCT FROM (OLD.revoked_at, OLD.revoked_by))
    THEN
        RAISE EXCEPTION 'a grant can be used and revoked, nothing else'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER holdpoint_guard_grant
    BEFORE UPDATE OR DELETE ON workflows_grant
    FOR EACH ROW EXECUTE FUNCTION holdpoint_guard_grant();

CREATE FUNCTION holdpoint_guard_capability() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.name, NEW.language, NEW.code, NEW.input_schema, NEW.output_schema, NEW.permission_set)
        IS DISTINCT FROM
       (OLD.name, OLD.language, OLD.code, OLD.input_schema, OLD.output_schema, OLD.permission_set)
    THEN
        RAISE EXCEPTION 'the code and the permissions of capability % never change', OLD.name
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER holdpoint_guard_capability
    BEFORE UPDATE ON workflows_capability
    FOR EACH ROW EXECUTE FUNCTION holdpoint_guard_capability();
"""

BACKWARD = """
DROP TRIGGER holdpoint_guard_capability ON workflows_capability;
DROP FUNCTION holdpoint_guard_capability();
DROP TRIGGER holdpoint_guard_grant ON workflows_grant;
DROP FUNCTION holdpoint_guard_grant();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("workflows", "0002_guards"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Capability",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.SlugField(max_length=100, unique=True)),
                ("description", models.TextField(blank=True, default="")),
                (
                    "language",
                    models.CharField(
                        choices=[
                            ("python", "Python"),
                            ("typescript", "TypeScript"),
                            ("javascript", "JavaScript"),
                        ],
                        max_length=10,
                    ),
                ),
                ("code", models.TextField()),
                ("input_schema", models.JSONField(default=dict)),
                ("output_schema", models.JSONField(blank=True, null=True)),
                ("permission_set", models.JSONField(default=dict)),
                (
                    "approval_mode",
                    models.CharField(
                        choices=[("ask", "a person approves each use"), ("auto", "runs by itself")],
                        default="ask",
                        max_length=4,
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
                ("success_count", models.BigIntegerField(db_default=0, default=0)),
                ("from_task", models.CharField(blank=True, default="", max_length=64)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "from_execution",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="capabilities",
                        to="workflows.execution",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "capabilities",
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("task", "this task"),
                            ("execution", "this run"),
                            ("capability", "this capability"),
                            ("until", "this task in every run of its workflow, until a time"),
                        ],
                        max_length=10,
                    ),
                ),
                ("task_id", models.CharField(max_length=64)),
                ("subject", models.CharField(max_length=64)),
                ("operation", models.CharField(max_length=20)),
                ("resource", models.TextField()),
                ("permissions", models.JSONField()),
                ("granted_by", models.CharField(max_length=150)),
                ("why", models.TextField(blank=True, default="")),
                (
                    "granted_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("uses", models.BigIntegerField(db_default=0, default=0)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "revoked_by",
                    models.CharField(blank=True, db_default="", default="", max_length=150),
                ),
                (
                    "capability",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants",
                        to="workflows.capability",
                    ),
                ),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants",
                        to="workflows.execution",
                    ),
                ),
                (
                    "hold",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grant",
                        to="workflows.hold",
                    ),
                ),
                (
                    "workflow",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants",
                        to="workflows.workflow",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("revoked_at", None)),
                        fields=["execution"],
                        name="grant_of_execution",
                    ),
                    models.Index(
                        condition=models.Q(("revoked_at", None), ("scope", "until")),
                        fields=["workflow", "task_id"],
                        name="grant_until_by_task",
                    ),
                    models.Index(
                        condition=models.Q(("revoked_at", None), ("scope", "capability")),
                        fields=["capability"],
                        name="grant_of_capability",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("expires_at__isnull", False),
                            models.Q(("scope", "until"), _negated=True),
                            _connector="OR",
                        ),
                        name="grant_until_has_an_end",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("capability__isnull", False),
                            models.Q(("scope", "capability"), _negated=True),
                            _connector="OR",
                        ),
                        name="grant_names_its_capability",
                    ),
                ],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
