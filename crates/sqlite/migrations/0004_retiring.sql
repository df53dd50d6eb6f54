-- What ended long ago may go, in two steps: first its details, then the rest. The guards stay for all else.

-- How far retiring has come: endings up to these numbers of the feed, and rows up to this id.
CREATE TABLE retention (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    thinned_seq INTEGER NOT NULL CHECK (thinned_seq >= 0),
    -- The feed begins after this one.
    deleted_seq INTEGER NOT NULL CHECK (deleted_seq >= 0),
    swept_tx    BLOB    NOT NULL CHECK (length(swept_tx) = 16)
) STRICT;
INSERT INTO retention VALUES (1, 0, 0, zeroblob(16));

CREATE TRIGGER retention_goes_on BEFORE UPDATE ON retention
WHEN NEW.thinned_seq < OLD.thinned_seq OR NEW.deleted_seq < OLD.deleted_seq
    OR NEW.deleted_seq > (SELECT seq FROM feed_head WHERE id = 1)
BEGIN SELECT RAISE(ABORT, 'what was retired stays retired'); END;

-- What deleted rows leave behind in their lane: the nonces below were used, and events were numbered so far.
CREATE TABLE lane_floor (
    lane_id  INTEGER PRIMARY KEY REFERENCES signer_lease,
    nonce    INTEGER NOT NULL CHECK (nonce >= 0),
    lane_seq INTEGER NOT NULL CHECK (lane_seq >= 0)
) STRICT;

CREATE TRIGGER lane_floor_rises BEFORE UPDATE ON lane_floor
WHEN NEW.nonce < OLD.nonce OR NEW.lane_seq < OLD.lane_seq
BEGIN SELECT RAISE(ABORT, 'what was used stays used'); END;

DROP TRIGGER IF EXISTS managed_tx_stays;
CREATE TRIGGER managed_tx_stays BEFORE DELETE ON managed_tx
WHEN OLD.state NOT IN ('CONFIRMED', 'FAILED_FINAL', 'USED', 'RECYCLABLE')
    OR EXISTS (SELECT 1 FROM tx_completion WHERE tx_id = OLD.tx_id)
    OR (OLD.nonce IS NOT NULL AND OLD.nonce >=
        coalesce((SELECT nonce FROM lane_floor WHERE lane_id = OLD.lane_id), 0))
BEGIN SELECT RAISE(ABORT, 'a transaction is never deleted before it is retired'); END;

-- An empty payload is one that was retired; its hash stays.
DROP TRIGGER IF EXISTS managed_tx_intent;
CREATE TRIGGER managed_tx_intent
BEFORE UPDATE OF tx_id, lane_id, kind, request_id, payload_hash, lock_token, created_at ON managed_tx
BEGIN SELECT RAISE(ABORT, 'what was asked for never changes'); END;

CREATE TRIGGER managed_tx_payload BEFORE UPDATE OF payload ON managed_tx
WHEN NEW.payload IS NOT NULL AND (NEW.payload <> x''
    OR NEW.state NOT IN ('CONFIRMED', 'FAILED_FINAL') OR OLD.state <> NEW.state)
BEGIN SELECT RAISE(ABORT, 'what was asked for never changes before it has ended'); END;

CREATE TRIGGER managed_tx_is_over BEFORE UPDATE OF state ON managed_tx
WHEN OLD.payload = x'' AND NEW.state <> OLD.state
BEGIN SELECT RAISE(ABORT, 'what was retired has ended'); END;

DROP TRIGGER IF EXISTS tx_attempt_stays;
CREATE TRIGGER tx_attempt_stays BEFORE DELETE ON tx_attempt
WHEN (SELECT state FROM managed_tx WHERE tx_id = OLD.tx_id)
    NOT IN ('CONFIRMED', 'FAILED_FINAL', 'USED', 'RECYCLABLE')
BEGIN SELECT RAISE(ABORT, 'an attempt is never deleted before its transaction has ended'); END;

DROP TRIGGER IF EXISTS tx_event_stays;
CREATE TRIGGER tx_event_stays BEFORE DELETE ON tx_event
WHEN (SELECT state FROM managed_tx WHERE tx_id = OLD.tx_id)
        NOT IN ('CONFIRMED', 'FAILED_FINAL', 'USED', 'RECYCLABLE')
    OR OLD.lane_seq > coalesce((SELECT lane_seq FROM lane_floor WHERE lane_id = OLD.lane_id), 0)
BEGIN SELECT RAISE(ABORT, 'what was told stays told until its transaction has ended'); END;

DROP TRIGGER IF EXISTS tx_event_numbers;
CREATE TRIGGER tx_event_numbers BEFORE INSERT ON tx_event
WHEN NEW.lane_seq <> 1 + max(
    coalesce((SELECT max(lane_seq) FROM tx_event WHERE lane_id = NEW.lane_id), 0),
    coalesce((SELECT lane_seq FROM lane_floor WHERE lane_id = NEW.lane_id), 0))
BEGIN SELECT RAISE(ABORT, 'a lane tells without holes'); END;

DROP TRIGGER IF EXISTS tx_completion_stays;
CREATE TRIGGER tx_completion_stays BEFORE DELETE ON tx_completion
WHEN OLD.seq > (SELECT deleted_seq FROM retention WHERE id = 1)
BEGIN SELECT RAISE(ABORT, 'the feed never loses a row above its floor'); END;
