"""A use of a standing answer may also change its sums; the guard is otherwise that of 0038."""

from django.db import migrations

GUARD = """
CREATE OR REPLACE FUNCTION holdpoint_guard_grant() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    free text[] := '{uses,last_used_at,revoked_at,revoked_by,sums}';
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a grant is revoked, not deleted' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NEW.why = '' AND pg_has_role(
        current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')
    THEN
        free := array_append(free, 'why');
    END IF;
    IF (to_jsonb(NEW) - free) IS DISTINCT FROM (to_jsonb(OLD) - free)
        OR NEW.uses < OLD.uses
        OR (OLD.revoked_at IS NOT NULL AND (NEW.revoked_at, NEW.revoked_by)
            IS DISTINCT FROM (OLD.revoked_at, OLD.revoked_by))
    THEN
        RAISE EXCEPTION 'a grant can be used and revoked, nothing else'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
"""
SUMS = ",sums}'"


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0039_delegators_by_id"),
        ("workflows", "0055_limits_of_standing_answers"),
    ]

    operations = [migrations.RunSQL(GUARD, GUARD.replace(SUMS, "}'"))]
