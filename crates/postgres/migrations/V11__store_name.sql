-- The store's own name. It stays the same through failovers, dumps and restores, so that a node which remembers it
-- notices when it is led to another store.
CREATE TABLE store_name (
    only_row    boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    store_id    uuid        NOT NULL DEFAULT gen_random_uuid(),
    -- An operator has declared by `fencepost migrate --new-store` that the store is meant to be new.
    declared_at timestamptz
);

INSERT INTO store_name DEFAULT VALUES;

-- The stores whose place this one takes, as an operator has declared: nodes that remember one of them go on here.
CREATE TABLE store_replaced (
    store_id uuid        PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
