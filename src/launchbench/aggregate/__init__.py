"""Join raw results into tables: flags, medians and intervals, straight lines, gaps."""
