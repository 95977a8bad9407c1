"""The parts of `python -m config.supervisor`: console, children, guards, preparation."""
