"""Pages: one file each, which refers to nothing outside of itself."""
