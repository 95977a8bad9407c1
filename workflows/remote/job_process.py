"""The program of a Kubernetes job: call the tool of a request, and print the result.

    python -u -m workflows.remote.job_process /run/holdpoint/request.json

The result is the last line of the log, behind the marker of the request; progress has lines of its
own.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

from . import remote_process
from .output import Output


def main(path: str) -> None:
    """Run the call in the file at `path` and end the process, also its threads."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    request = Path(path).read_text()
    marker, log = json.loads(request)["marker"], sys.stdout

    def publish(output: Output) -> None:
        if output.progress is not None:
            log.write(f"{marker} progress {output.progress}\n")
            log.flush()

    result = remote_process.run(request, publish)
    sys.stderr.flush()
    # A tool may have printed a line without its end.
    log.write(f"\n{marker} result {result}\n")
    log.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
