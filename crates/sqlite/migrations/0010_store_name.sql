-- The store's own name, so that a node which remembers it notices when it is led to another file.
CREATE TABLE store_name (
    only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
    store_id    BLOB    NOT NULL CHECK (length(store_id) = 16),
    -- An operator has declared by `fencepost migrate --new-store` that the store is meant to be new.
    declared_at INTEGER
) STRICT;

INSERT INTO store_name (only_row, store_id) VALUES (1, randomblob(16));

-- The stores whose place this one takes, as an operator has declared.
CREATE TABLE store_replaced (
    store_id BLOB    NOT NULL PRIMARY KEY CHECK (length(store_id) = 16),
    at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
