#!/bin/sh
# Create the roles and the database. PostgreSQL's image runs it when its volume is empty.
set -eu
secrets=${SECRETS:-/run/secrets}
psql -v ON_ERROR_STOP=1 -q --username "$POSTGRES_USER" --dbname postgres \
  -v owner_password="$(cat "$secrets/owner_password")" \
  -v app_password="$(cat "$secrets/app_password")" <<'SQL'
CREATE ROLE holdpoint_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE holdpoint_app LOGIN PASSWORD :'app_password';
CREATE DATABASE holdpoint OWNER holdpoint_owner;
SQL
psql -v ON_ERROR_STOP=1 -q --username "$POSTGRES_USER" --dbname holdpoint \
  -c 'CREATE EXTENSION IF NOT EXISTS vector'
