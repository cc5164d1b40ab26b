"""Object storage behind one interface."""
