#!/bin/sh
# Install the product below a folder. The image runs these steps; they work without a container too.
#
#   deploy/install.sh dependencies FOLDER [EXTRA...]    FOLDER/venv with the pinned packages
#   deploy/install.sh product FOLDER                    FOLDER/app and FOLDER/static
#
# PYTHON names the interpreter that the virtual environment is made of (default: python3).
set -eu

usage() {
  sed -n 's/^# \{0,1\}//; 2,7p' "$0" >&2
  exit 2
}

[ $# -ge 2 ] || usage
step=$1 folder=$2
shift 2
source=$(cd "$(dirname "$0")/.." && pwd)
python=$folder/venv/bin/python

case $step in
  dependencies)
    "${PYTHON:-python3}" -m venv "$folder/venv"
    "$python" - "$source/pyproject.toml" "$@" > "$folder/requirements.txt" <<'PYTHON'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
lists = [project["optional-dependencies"][extra] for extra in sys.argv[2:]]
print(*project["dependencies"], *(each for names in lists for each in names), sep="\n")
PYTHON
    "$python" -m pip install --quiet --disable-pip-version-check \
      -c "$source/constraints.txt" -r "$folder/requirements.txt"
    ;;
  product)
    mkdir -p "$folder/app"
    for part in config workflows reviews graphrag templates manage.py; do
      cp -R "$source/$part" "$folder/app/"
    done
    # Values that only let the settings load: nothing connects, and nothing is stored.
    cd "$folder/app"
    DJANGO_SETTINGS_MODULE=config.settings.base SECRET_KEY=unused ALLOWED_HOSTS=localhost \
      DATABASE_URL=postgres://localhost/unused REDIS_URL=redis://localhost \
      STATIC_ROOT="$folder/static" \
      "$python" manage.py collectstatic --noinput --verbosity 0
    # The file system of the image is read-only, so that nothing can be compiled later.
    "$python" -m compileall -q .
    ;;
  *)
    usage
    ;;
esac
