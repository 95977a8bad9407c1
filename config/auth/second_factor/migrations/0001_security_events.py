"""Security events of second factors that people set up, and of those that are removed.

The migration is here because the table exists only where second factors are enabled.
"""

from django.conf import settings
from django.db import migrations

FORWARD = """
CREATE FUNCTION holdpoint_security_of_factor() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    factor mfa_authenticator;
    owner text;
BEGIN
    IF TG_OP = 'DELETE' THEN factor := OLD; ELSE factor := NEW; END IF;
    SELECT username INTO owner FROM auth_user WHERE id = factor.user_id;
    PERFORM holdpoint_security_event(
        CASE TG_OP WHEN 'INSERT' THEN 'factor_added' ELSE 'factor_removed' END,
        CASE TG_OP WHEN 'INSERT' THEN owner END, '',
        jsonb_build_object('factor', factor.type, 'owner', owner));
    RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_security_event AFTER INSERT OR DELETE ON mfa_authenticator
    FOR EACH ROW EXECUTE FUNCTION holdpoint_security_of_factor();
"""

BACKWARD = """
DROP TRIGGER holdpoint_security_event ON mfa_authenticator;
DROP FUNCTION holdpoint_security_of_factor();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('mfa', '0003_authenticator_type_uniq'),
        ('reviews', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
