"""The parts of `python -m config.devserver.supervisor`: console, children, guards, preparation."""
