-- The blocks that an event publishes: the hash below the lowest of them, and theirs, lowest first, 32 bytes each. The
-- highest is the event's own block. Null in events of other kinds, and in those of versions that named one block.
ALTER TABLE tx_event ADD COLUMN confirmations bytea;
