"""Keep the names of groups: roles, policies and settings name groups, so a name is an identity."""

from django.db import migrations

GUARD = """
CREATE FUNCTION holdpoint_group_names() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    RAISE EXCEPTION 'the group % is a role and cannot be deleted', OLD.name
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RAISE EXCEPTION 'a group cannot be renamed: roles, policies and settings name it'
    USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER holdpoint_group_renamed BEFORE UPDATE ON auth_group FOR EACH ROW
  WHEN (OLD.name IS DISTINCT FROM NEW.name) EXECUTE FUNCTION holdpoint_group_names();
CREATE TRIGGER holdpoint_role_deleted BEFORE DELETE ON auth_group FOR EACH ROW
  WHEN (OLD.name IN ('reviewer', 'auditor', 'operator', 'integrator', 'admin'))
  EXECUTE FUNCTION holdpoint_group_names();
"""
NO_GUARD = """
DROP TRIGGER holdpoint_role_deleted ON auth_group;
DROP TRIGGER holdpoint_group_renamed ON auth_group;
DROP FUNCTION holdpoint_group_names();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("workflows", "0053_identity_by_user_id"),
    ]
    operations = [migrations.RunSQL(GUARD, NO_GUARD)]
