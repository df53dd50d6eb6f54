-- What no statement may do, whoever wrote it: the promises again, where a mistake in this program
-- or a hand at the sqlite3 prompt meets them.

-- Leases.
CREATE TRIGGER signer_lease_stays BEFORE DELETE ON signer_lease
BEGIN SELECT RAISE(ABORT, 'a lane is never deleted'); END;

CREATE TRIGGER signer_lease_is_one_lane BEFORE UPDATE OF lane_id, chain_id, signer ON signer_lease
BEGIN SELECT RAISE(ABORT, 'a lane stays what it is'); END;

CREATE TRIGGER signer_lease_token BEFORE UPDATE OF fencing_token ON signer_lease
WHEN NEW.fencing_token < OLD.fencing_token
BEGIN SELECT RAISE(ABORT, 'a token never goes back'); END;

CREATE TRIGGER signer_lease_hands BEFORE UPDATE OF owner_node, owner_incarnation ON signer_lease
WHEN NEW.owner_node IS NOT NULL AND NEW.fencing_token = OLD.fencing_token
    AND (NEW.owner_node IS NOT OLD.owner_node OR NEW.owner_incarnation IS NOT OLD.owner_incarnation)
BEGIN SELECT RAISE(ABORT, 'a change of hands takes a new token'); END;

CREATE TRIGGER signer_lease_cursor BEFORE UPDATE OF next_nonce ON signer_lease
WHEN NEW.next_nonce < OLD.next_nonce AND OLD.paused IS NULL AND OLD.held = 0
BEGIN SELECT RAISE(ABORT, 'a cursor goes back on a paused lane only'); END;

CREATE TRIGGER signer_lease_seq BEFORE UPDATE OF lane_seq ON signer_lease
WHEN NEW.lane_seq < OLD.lane_seq
BEGIN SELECT RAISE(ABORT, 'a lane never untells'); END;

CREATE TRIGGER node_incarnation BEFORE UPDATE OF incarnation ON node
WHEN NEW.incarnation < OLD.incarnation
BEGIN SELECT RAISE(ABORT, 'an incarnation never goes back'); END;

-- Transactions.
CREATE TRIGGER managed_tx_stays BEFORE DELETE ON managed_tx
BEGIN SELECT RAISE(ABORT, 'a transaction is never deleted'); END;

CREATE TRIGGER managed_tx_intent
BEFORE UPDATE OF tx_id, lane_id, kind, request_id, payload, payload_hash, lock_token, created_at ON managed_tx
BEGIN SELECT RAISE(ABORT, 'what was asked for never changes'); END;

CREATE TRIGGER managed_tx_version BEFORE UPDATE ON managed_tx
WHEN NEW.version <> OLD.version + 1
BEGIN SELECT RAISE(ABORT, 'each write of a transaction is counted'); END;

CREATE TRIGGER managed_tx_token BEFORE UPDATE OF fencing_token ON managed_tx
WHEN NEW.fencing_token < OLD.fencing_token
BEGIN SELECT RAISE(ABORT, 'an older token wrote after a newer one'); END;

CREATE TRIGGER managed_tx_attempts BEFORE UPDATE OF attempts ON managed_tx
WHEN NEW.attempts < OLD.attempts
BEGIN SELECT RAISE(ABORT, 'an attempt is never forgotten'); END;

CREATE TRIGGER managed_tx_nonce_stays BEFORE UPDATE OF nonce, nonce_given_back ON managed_tx
WHEN OLD.nonce IS NOT NULL AND NEW.nonce IS NOT OLD.nonce
    AND (NEW.nonce IS NOT NULL OR NEW.nonce_given_back IS NOT OLD.nonce)
BEGIN SELECT RAISE(ABORT, 'a nonce is kept, or given back as it was'); END;

CREATE TRIGGER managed_tx_given_back BEFORE UPDATE OF nonce, nonce_given_back ON managed_tx
WHEN OLD.nonce_given_back IS NOT NULL
    AND (NEW.nonce_given_back IS NOT OLD.nonce_given_back OR NEW.nonce IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'a nonce that was given back does not return'); END;

-- Append-only tables.
CREATE TRIGGER tx_attempt_stays BEFORE DELETE ON tx_attempt
BEGIN SELECT RAISE(ABORT, 'an attempt is never deleted'); END;

CREATE TRIGGER tx_attempt_bytes
BEFORE UPDATE OF tx_id, n, chain_id, kind, tx_hash, raw, max_fee, max_priority_fee, fencing_token, created_at ON tx_attempt
BEGIN SELECT RAISE(ABORT, 'stored bytes never change'); END;

CREATE TRIGGER tx_attempt_outcome BEFORE UPDATE OF outcome ON tx_attempt
WHEN OLD.outcome = 'ACCEPTED' AND NEW.outcome IS NOT 'ACCEPTED'
BEGIN SELECT RAISE(ABORT, 'an acceptance is never unlearned'); END;

CREATE TRIGGER tx_attempt_numbers BEFORE INSERT ON tx_attempt
WHEN NEW.n <> 1 + coalesce((SELECT max(n) FROM tx_attempt WHERE tx_id = NEW.tx_id), 0)
BEGIN SELECT RAISE(ABORT, 'attempts are numbered without holes'); END;

CREATE TRIGGER tx_event_stays BEFORE DELETE ON tx_event
BEGIN SELECT RAISE(ABORT, 'what was told stays told'); END;

CREATE TRIGGER tx_event_is_told BEFORE UPDATE ON tx_event
BEGIN SELECT RAISE(ABORT, 'what was told stays told'); END;

CREATE TRIGGER tx_event_numbers BEFORE INSERT ON tx_event
WHEN NEW.lane_seq <> 1 + coalesce((SELECT max(lane_seq) FROM tx_event WHERE lane_id = NEW.lane_id), 0)
BEGIN SELECT RAISE(ABORT, 'a lane tells without holes'); END;

CREATE TRIGGER tx_completion_stays BEFORE DELETE ON tx_completion
BEGIN SELECT RAISE(ABORT, 'the feed never loses a row'); END;

CREATE TRIGGER tx_completion_is_told BEFORE UPDATE ON tx_completion
BEGIN SELECT RAISE(ABORT, 'the feed never changes a row'); END;

CREATE TRIGGER tx_completion_numbers BEFORE INSERT ON tx_completion
WHEN NEW.seq <> 1 + (SELECT seq FROM feed_head WHERE id = 1)
BEGIN SELECT RAISE(ABORT, 'the feed has no holes'); END;

-- The counter moves with its row, so that no reader can meet one without the other.
CREATE TRIGGER tx_completion_head AFTER INSERT ON tx_completion
BEGIN UPDATE feed_head SET seq = NEW.seq WHERE id = 1; END;

CREATE TRIGGER feed_head_stays BEFORE DELETE ON feed_head
BEGIN SELECT RAISE(ABORT, 'the feed has one head'); END;

CREATE TRIGGER feed_head_numbers BEFORE UPDATE ON feed_head
WHEN NEW.seq < OLD.seq OR NEW.epoch < OLD.epoch
BEGIN SELECT RAISE(ABORT, 'the feed never goes back'); END;

CREATE TRIGGER remedy_stays BEFORE DELETE ON remedy
BEGIN SELECT RAISE(ABORT, 'an audit is never deleted'); END;

CREATE TRIGGER remedy_closed BEFORE UPDATE ON remedy
WHEN OLD.closed_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'what is closed stays closed'); END;
