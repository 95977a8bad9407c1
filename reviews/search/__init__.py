"""One search over reviews, runs, workflows, tools, people and records."""
