#!/bin/sh
# Install the product below a folder. The image runs these steps; they work without a container too.
#
#   deploy/install.sh dependencies FOLDER [EXTRA...]    FOLDER/venv with the pinned packages, by uv
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
    python_of_host=${PYTHON:-python3}
    "$python_of_host" -m venv --without-pip "$folder/venv"
    # uv installs the packages and is not installed with them.
    tools=$(mktemp -d)
    trap 'rm -rf "$tools"' EXIT
    "$python_of_host" -m venv "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
      -r "$source/requirements/uv.txt"
    extras=
    for extra in "$@"; do extras="$extras --extra $extra"; done
    # uv refuses a file whose hash is not in the constraints.
    # shellcheck disable=SC2086
    "$tools/bin/uv" pip install --quiet --python "$python" \
      -c "$source/requirements/production.txt" -r "$source/pyproject.toml" $extras
    # Nothing reads the packages' own tests and the sources of their translations (about 90 MB).
    find "$folder/venv" \( -type d -name tests -o -name '*.po' \) -prune -exec rm -r {} +
    "$python" -m compileall -q "$folder/venv/lib"
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
