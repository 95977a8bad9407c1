"""What each page shows, as plain values; the templates only print it."""
