"""Results on disk: columns, record, files, and the protocol that makes rows comparable."""
