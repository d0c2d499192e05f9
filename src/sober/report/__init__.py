"""Pages to look at: one self-contained HTML file each, which asks nothing of a server or a network."""
