"""The pages: thin skins over services and selectors."""
