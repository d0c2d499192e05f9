"""Views of a world: the same pictures, fewer of them or drawn otherwise."""
