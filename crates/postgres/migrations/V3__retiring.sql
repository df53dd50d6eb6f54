-- What ended long ago is made small, and later deleted.

-- How far that has come: endings up to these numbers of the feed, and rows up to this id. Its row is the lock
-- that lets one batch run at a time; completers never take it.
CREATE TABLE retention (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    thinned_seq bigint  NOT NULL DEFAULT 0 CHECK (thinned_seq >= 0),
    -- The feed begins after this one.
    deleted_seq bigint  NOT NULL DEFAULT 0 CHECK (deleted_seq >= 0),
    swept_tx    uuid    NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
) WITH (fillfactor = 10);
INSERT INTO retention DEFAULT VALUES;

CREATE TRIGGER retention_goes_on BEFORE UPDATE ON retention FOR EACH ROW
    WHEN (NEW.thinned_seq < OLD.thinned_seq OR NEW.deleted_seq < OLD.deleted_seq)
    EXECUTE FUNCTION refuse_rewriting();

-- Nonces of a lane below this were used, by transactions that are deleted. Gaps are looked for, and cursors
-- lowered, above it alone.
CREATE TABLE lane_floor (
    lane_id bigint PRIMARY KEY,
    nonce   bigint NOT NULL CHECK (nonce > 0)
) WITH (fillfactor = 50);

-- An empty payload is one that was retired; its hash stays. Nothing brings its transaction back. Rows that were
-- written before cannot break this, so they are not read for it.
ALTER TABLE managed_tx ADD CONSTRAINT retired_has_ended CHECK (
    length(payload) > 0 OR state IN ('CONFIRMED', 'FAILED_FINAL')) NOT VALID;
