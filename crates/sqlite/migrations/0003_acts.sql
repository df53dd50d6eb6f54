-- Remedies whose action a policy decides, and an audit that can be read. SQLite cannot change a CHECK,
-- so the table is made anew; what it holds is copied, ids and all.
CREATE TABLE remedy_new (
    remedy_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    lane_id          INTEGER NOT NULL REFERENCES signer_lease,
    tx_id            BLOB    REFERENCES managed_tx,
    round            INTEGER CHECK (round >= 0),
    action           TEXT    NOT NULL CHECK (action IN ('DECIDE', 'NOOP', 'RESUBMIT', 'REPLACE', 'CANCEL',
                                 'PLACEHOLDER', 'PAUSE', 'RESUME', 'RECONCILE', 'RAISE_CURSOR', 'LOWER_CURSOR')),
    state            TEXT    NOT NULL CHECK (state IN ('ASKED', 'CLAIMED', 'DONE', 'REFUSED')),
    max_fee          TEXT,
    max_priority_fee TEXT,
    asked_by         TEXT    NOT NULL,
    reason           TEXT    NOT NULL,
    details          TEXT,
    before_after     TEXT,
    asked_at         INTEGER NOT NULL,
    claimed_by       TEXT,
    claimed_token    INTEGER,
    claimed_at       INTEGER,
    attempt_n        INTEGER,
    result           TEXT,
    closed_at        INTEGER,
    CHECK ((tx_id IS NULL) = (action IN ('PAUSE', 'RESUME', 'RECONCILE', 'RAISE_CURSOR', 'LOWER_CURSOR'))),
    CHECK ((tx_id IS NULL) = (round IS NULL)),
    CHECK ((state IN ('DONE', 'REFUSED')) = (closed_at IS NOT NULL)),
    CHECK (state <> 'CLAIMED' OR (claimed_by IS NOT NULL AND claimed_token IS NOT NULL)),
    CHECK ((claimed_by IS NULL) = (claimed_token IS NULL)),
    -- To do nothing is a decision, and over as soon as it is made.
    CHECK (action <> 'NOOP' OR state = 'DONE')
) STRICT;

INSERT INTO remedy_new (remedy_id, lane_id, tx_id, round, action, state, max_fee, max_priority_fee,
    asked_by, reason, details, before_after, asked_at, claimed_by, claimed_token, claimed_at,
    attempt_n, result, closed_at)
SELECT remedy_id, lane_id, tx_id, round, action, state, max_fee, max_priority_fee, asked_by, reason,
    details, before || ' -> ' || after, asked_at, claimed_by, claimed_token, claimed_at, attempt_n,
    result, closed_at
FROM remedy ORDER BY remedy_id;

DROP TABLE remedy;
ALTER TABLE remedy_new RENAME TO remedy;

CREATE UNIQUE INDEX remedy_round ON remedy (tx_id, round) WHERE tx_id IS NOT NULL;
CREATE UNIQUE INDEX remedy_running ON remedy (tx_id) WHERE closed_at IS NULL;
CREATE INDEX remedy_open ON remedy (lane_id, remedy_id) WHERE closed_at IS NULL;
CREATE INDEX remedy_acts_of_tx ON remedy (tx_id, remedy_id) WHERE tx_id IS NOT NULL;
CREATE INDEX remedy_acts_on_lane ON remedy (lane_id, remedy_id) WHERE tx_id IS NULL;

CREATE TRIGGER remedy_stays BEFORE DELETE ON remedy
BEGIN SELECT RAISE(ABORT, 'an audit is never deleted'); END;

CREATE TRIGGER remedy_closed BEFORE UPDATE ON remedy
WHEN OLD.closed_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'what is closed stays closed'); END;

CREATE TRIGGER remedy_decided BEFORE UPDATE OF action ON remedy
WHEN OLD.action <> 'DECIDE'
BEGIN SELECT RAISE(ABORT, 'what was decided stays decided'); END;
