"""Launch paths of other frameworks: an adapter a file, which imports its framework only when that is asked for."""
