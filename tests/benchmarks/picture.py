def draw(figures, path): pass
