#!/bin/sh
# Make the passwords and keys of compose.yaml in the folder secrets beside it, once.
#
# The processes in the containers have a user of their own, so the files are readable by everybody
# and the folder only by its owner.
set -eu
umask 077
folder=$(cd "$(dirname "$0")" && pwd)/secrets
mkdir "$folder"

random() {
  od -An -N 32 -t x1 /dev/urandom | tr -d ' \n'
}

put() {
  printf '%s' "$2" > "$folder/$1"
  chmod 444 "$folder/$1"
}

owner=$(random) app=$(random)
put secret_key "$(random)"
put audit_key "$(random)"
put metrics_token "$(random)"
put postgres_password "$(random)"
put owner_password "$owner"
put app_password "$app"
put owner_database_url "postgres://holdpoint_owner:$owner@postgres/holdpoint"
put app_database_url "postgres://holdpoint_app:$app@postgres/holdpoint"
