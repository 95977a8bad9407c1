"""The catalogue of tools, how they follow each other, and the plans suggested from both."""
