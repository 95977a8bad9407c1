"""Optional features, each a Django app of its own. The core never imports them."""
