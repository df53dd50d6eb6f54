-- Tables and words are those of PostgreSQL. Times are microseconds since 1970, hashes are bytes,
-- wei are decimal text because they do not fit 64 bits.

-- Lease, fence and nonce cursor in one row for each lane.
CREATE TABLE signer_lease (
    lane_id           INTEGER PRIMARY KEY,
    chain_id          INTEGER NOT NULL CHECK (chain_id >= 0),
    signer            BLOB    NOT NULL CHECK (length(signer) = 20),
    owner_node        TEXT,
    owner_incarnation INTEGER CHECK (owner_incarnation >= 0),
    owner_url         TEXT,
    fencing_token     INTEGER NOT NULL CHECK (fencing_token >= 0),
    expires_at        INTEGER NOT NULL,
    next_nonce        INTEGER NOT NULL CHECK (next_nonce >= 0),
    lane_seq          INTEGER NOT NULL CHECK (lane_seq >= 0),
    paused            TEXT    CHECK (paused IN ('OPERATOR', 'CURSOR_JUMP', 'NONCE_CLASH')),
    -- The database may lack its newest writes; only reconciling lifts it.
    held              INTEGER NOT NULL CHECK (held IN (0, 1)),
    updated_at        INTEGER NOT NULL,
    UNIQUE (chain_id, signer),
    CHECK ((owner_node IS NULL) = (owner_incarnation IS NULL)),
    CHECK ((owner_node IS NULL) = (owner_url IS NULL)),
    CHECK (owner_node IS NULL OR fencing_token > 0)
) STRICT;

CREATE VIEW signer_nonce_cursor AS
    SELECT lane_id, chain_id, signer, next_nonce, fencing_token, updated_at FROM signer_lease;

CREATE TABLE node (
    node_id      TEXT    PRIMARY KEY NOT NULL,
    incarnation  INTEGER NOT NULL CHECK (incarnation > 0),
    url          TEXT    NOT NULL,
    -- Chain ids with a usable endpoint, separated by commas.
    chains       TEXT    NOT NULL,
    heartbeat_at INTEGER NOT NULL
) STRICT;

-- The one authoritative carrier of intent, nonce and state.
CREATE TABLE managed_tx (
    tx_id              BLOB    PRIMARY KEY NOT NULL CHECK (length(tx_id) = 16),
    lane_id            INTEGER NOT NULL REFERENCES signer_lease,
    kind               TEXT    NOT NULL CHECK (kind IN ('managed', 'reserved', 'placeholder')),
    request_id         TEXT,
    payload            BLOB,
    payload_hash       BLOB,
    state              TEXT    NOT NULL,
    sub_state          TEXT,
    nonce              INTEGER CHECK (nonce >= 0),
    nonce_given_back   INTEGER CHECK (nonce_given_back >= 0),
    tx_hash            BLOB    CHECK (length(tx_hash) = 32),
    block_number       INTEGER CHECK (block_number >= 0),
    block_hash         BLOB    CHECK (length(block_hash) = 32),
    mined_hash         BLOB    CHECK (length(mined_hash) = 32),
    mined_by           TEXT    CHECK (mined_by IN ('ORIGINAL', 'REPLACEMENT', 'CANCEL', 'PLACEHOLDER', 'EXTERNAL')),
    mined_status       TEXT    CHECK (mined_status IN ('SUCCESS', 'REVERTED')),
    foreign_hash       BLOB    CHECK (length(foreign_hash) = 32),
    attempts           INTEGER NOT NULL CHECK (attempts >= 0),
    submit_attempts    INTEGER NOT NULL CHECK (submit_attempts >= 0),
    last_error         TEXT,
    first_submit_at    INTEGER,
    last_submit_at     INTEGER,
    receipt            TEXT,
    confirmed_at       INTEGER,
    not_after          INTEGER,
    meta               TEXT,
    lock_token         BLOB    CHECK (length(lock_token) = 16),
    reserve_expires_at INTEGER,
    fencing_token      INTEGER NOT NULL CHECK (fencing_token >= 0),
    version            INTEGER NOT NULL CHECK (version >= 1),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,

    CHECK ((kind = 'reserved') = (state IN ('RESERVED', 'SUBMITTED', 'USED', 'RECYCLABLE'))),
    CHECK ((kind = 'managed') = (payload IS NOT NULL)),
    CHECK ((kind = 'managed') = (payload_hash IS NOT NULL)),
    CHECK ((kind = 'reserved') = (lock_token IS NOT NULL)),
    CHECK ((kind = 'reserved') = (reserve_expires_at IS NOT NULL)),

    -- What each state has, and what it cannot have. A check that is NULL would pass.
    CHECK (coalesce(CASE state
        WHEN 'QUEUED' THEN kind = 'managed' AND sub_state IN ('WAITING_LEADER', 'WAITING_WINDOW')
            AND nonce IS NULL AND tx_hash IS NULL AND block_number IS NULL AND attempts = 0
        WHEN 'ALLOCATED' THEN (sub_state IS NULL OR sub_state IN ('SIGNED', 'REFUSED'))
            AND nonce IS NOT NULL AND (sub_state IS NULL) = (tx_hash IS NULL) AND block_number IS NULL
        WHEN 'TRACKING' THEN sub_state IN ('BROADCAST', 'AMBIGUOUS', 'MINED', 'REORGED')
            AND nonce IS NOT NULL AND tx_hash IS NOT NULL AND (sub_state = 'MINED') = (block_number IS NOT NULL)
        WHEN 'CONFIRMED' THEN sub_state IS NULL
            AND nonce IS NOT NULL AND tx_hash IS NOT NULL AND block_number IS NOT NULL
        WHEN 'FAILED_FINAL' THEN CASE sub_state
            WHEN 'REVERTED' THEN nonce IS NOT NULL AND block_number IS NOT NULL
            WHEN 'PLACEHOLDER' THEN nonce IS NOT NULL AND block_number IS NOT NULL
            WHEN 'CANCELLED' THEN (nonce IS NULL) = (block_number IS NULL)
            WHEN 'NONCE_TAKEN' THEN nonce IS NOT NULL AND block_number IS NULL
            WHEN 'EXPIRED' THEN nonce IS NULL AND tx_hash IS NULL AND block_number IS NULL
            WHEN 'REJECTED' THEN nonce IS NULL AND tx_hash IS NULL AND block_number IS NULL
            ELSE FALSE END
        WHEN 'STUCK' THEN sub_state IN ('NO_RECEIPT', 'REFUSED', 'NONCE_TAKEN', 'GAP', 'NO_FUNDS', 'SIGNER_ERROR', 'REORG_AFTER_FINAL')
            AND nonce IS NOT NULL AND block_number IS NULL
        WHEN 'RESERVED' THEN sub_state IS NULL
            AND nonce IS NOT NULL AND tx_hash IS NULL AND block_number IS NULL
        WHEN 'SUBMITTED' THEN (sub_state IS NULL OR sub_state IN ('MINED', 'REORGED'))
            AND nonce IS NOT NULL AND tx_hash IS NOT NULL AND (sub_state IS 'MINED') = (block_number IS NOT NULL)
        WHEN 'USED' THEN sub_state IS NULL AND nonce IS NOT NULL
        WHEN 'RECYCLABLE' THEN sub_state IS NULL
            AND nonce IS NULL AND nonce_given_back IS NOT NULL AND tx_hash IS NULL AND block_number IS NULL
        ELSE FALSE END, FALSE)),

    -- A block is known whole or not at all.
    CHECK ((block_number IS NULL) = (block_hash IS NULL)),
    CHECK ((block_number IS NULL) = (mined_hash IS NULL)),
    CHECK ((block_number IS NULL) = (mined_by IS NULL)),
    CHECK ((block_number IS NULL) = (mined_status IS NULL)),
    CHECK (receipt IS NULL OR block_number IS NOT NULL),
    CHECK (confirmed_at IS NULL OR block_number IS NOT NULL),
    CHECK (foreign_hash IS NULL OR state IN ('STUCK', 'FAILED_FINAL', 'USED')),

    -- A nonce is held or given back, and given back only if we never signed for it.
    CHECK (nonce_given_back IS NULL OR state = 'RECYCLABLE'
        OR (state = 'FAILED_FINAL' AND sub_state = 'REJECTED' AND attempts = 0))
) STRICT;

CREATE UNIQUE INDEX managed_tx_request ON managed_tx (lane_id, request_id) WHERE request_id IS NOT NULL;
CREATE UNIQUE INDEX managed_tx_nonce ON managed_tx (lane_id, nonce) WHERE nonce IS NOT NULL;
CREATE INDEX managed_tx_lane_page ON managed_tx (lane_id, tx_id);
CREATE INDEX managed_tx_state_page ON managed_tx (state, tx_id);
CREATE INDEX managed_tx_lane_state_page ON managed_tx (lane_id, state, tx_id);

-- What waits for a nonce, in order of arrival.
CREATE TABLE lane_queue (
    queue_seq INTEGER PRIMARY KEY AUTOINCREMENT,
    lane_id   INTEGER NOT NULL REFERENCES signer_lease,
    tx_id     BLOB    NOT NULL UNIQUE REFERENCES managed_tx
) STRICT;
CREATE INDEX lane_queue_lane ON lane_queue (lane_id, queue_seq);

-- Signed bytes. Once stored they may have been sent, for ever.
CREATE TABLE tx_attempt (
    tx_id            BLOB    NOT NULL REFERENCES managed_tx,
    n                INTEGER NOT NULL CHECK (n >= 1),
    chain_id         INTEGER NOT NULL,
    kind             TEXT    NOT NULL CHECK (kind IN ('ORIGINAL', 'REPLACEMENT', 'CANCEL', 'PLACEHOLDER', 'EXTERNAL')),
    tx_hash          BLOB    NOT NULL CHECK (length(tx_hash) = 32),
    raw              BLOB    NOT NULL,
    max_fee          TEXT,
    max_priority_fee TEXT,
    fencing_token    INTEGER NOT NULL CHECK (fencing_token >= 0),
    outcome          TEXT    CHECK (outcome IN ('ACCEPTED', 'AMBIGUOUS', 'REFUSED')),
    created_at       INTEGER NOT NULL,
    PRIMARY KEY (tx_id, n),
    UNIQUE (chain_id, tx_hash),
    -- We only know the hash of what another has signed.
    CHECK ((kind = 'EXTERNAL') = (length(raw) = 0)),
    CHECK (kind <> 'EXTERNAL' OR max_fee IS NULL),
    CHECK (max_priority_fee IS NULL OR max_fee IS NOT NULL)
) STRICT;

-- History of each transaction and ordered outbox of each lane.
CREATE TABLE tx_event (
    lane_id       INTEGER NOT NULL REFERENCES signer_lease,
    lane_seq      INTEGER NOT NULL CHECK (lane_seq >= 1),
    tx_id         BLOB    NOT NULL REFERENCES managed_tx,
    kind          TEXT    NOT NULL,
    tx_hash       BLOB    CHECK (length(tx_hash) = 32),
    block_number  INTEGER CHECK (block_number >= 0),
    block_hash    BLOB    CHECK (length(block_hash) = 32),
    new_fork      INTEGER NOT NULL CHECK (new_fork IN (0, 1)),
    note          TEXT,
    from_state    TEXT,
    from_sub      TEXT,
    to_state      TEXT    NOT NULL,
    to_sub        TEXT,
    node_id       TEXT,
    fencing_token INTEGER NOT NULL CHECK (fencing_token >= 0),
    at            INTEGER NOT NULL,
    PRIMARY KEY (lane_id, lane_seq),
    CHECK ((block_number IS NULL) = (block_hash IS NULL)),
    CHECK (from_state IS NOT NULL OR from_sub IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX tx_event_tx ON tx_event (tx_id, lane_seq);

-- Nonces given back, taken lowest first.
CREATE TABLE free_nonce (
    lane_id INTEGER NOT NULL REFERENCES signer_lease,
    nonce   INTEGER NOT NULL CHECK (nonce >= 0),
    PRIMARY KEY (lane_id, nonce)
) STRICT, WITHOUT ROWID;

-- Every transaction that holds a nonce and has not ended, and no other.
CREATE TABLE due_work (
    tx_id   BLOB    PRIMARY KEY NOT NULL REFERENCES managed_tx,
    lane_id INTEGER NOT NULL REFERENCES signer_lease,
    -- The nonce of its transaction, so that a lane's unfinished ones are read in order.
    nonce   INTEGER NOT NULL CHECK (nonce >= 0),
    due_at  INTEGER NOT NULL,
    UNIQUE (lane_id, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX due_work_due ON due_work (lane_id, due_at, tx_id);

-- The feed: 1, 2, 3 … in commit order.
CREATE TABLE tx_completion (
    seq          INTEGER PRIMARY KEY CHECK (seq >= 1),
    tx_id        BLOB    NOT NULL REFERENCES managed_tx,
    lane_id      INTEGER NOT NULL REFERENCES signer_lease,
    kind         TEXT    NOT NULL,
    request_id   TEXT,
    nonce        INTEGER,
    state        TEXT    NOT NULL CHECK (state IN ('CONFIRMED', 'FAILED_FINAL', 'STUCK', 'USED')),
    sub_state    TEXT,
    tx_hash      BLOB    CHECK (length(tx_hash) = 32),
    block_number INTEGER,
    at           INTEGER NOT NULL,
    corrects     INTEGER CHECK (corrects < seq)
) STRICT;
CREATE INDEX tx_completion_tx ON tx_completion (tx_id, seq);

CREATE TABLE feed_head (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    seq   INTEGER NOT NULL CHECK (seq >= 0),
    epoch INTEGER NOT NULL CHECK (epoch >= 1)
) STRICT;
INSERT INTO feed_head (id, seq, epoch) VALUES (1, 0, 1);

-- What policies and operators asked for, and every other act of an operator on a lane.
CREATE TABLE remedy (
    remedy_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    lane_id          INTEGER NOT NULL REFERENCES signer_lease,
    tx_id            BLOB    REFERENCES managed_tx,
    round            INTEGER CHECK (round >= 0),
    action           TEXT    NOT NULL CHECK (action IN ('RESUBMIT', 'REPLACE', 'CANCEL', 'PLACEHOLDER',
                                 'PAUSE', 'RESUME', 'RECONCILE', 'RAISE_CURSOR', 'LOWER_CURSOR')),
    state            TEXT    NOT NULL CHECK (state IN ('ASKED', 'CLAIMED', 'DONE', 'REFUSED')),
    max_fee          TEXT,
    max_priority_fee TEXT,
    asked_by         TEXT    NOT NULL,
    reason           TEXT    NOT NULL,
    details          TEXT,
    before           TEXT,
    after            TEXT,
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
    CHECK (state <> 'CLAIMED' OR (claimed_by IS NOT NULL AND claimed_token IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX remedy_round ON remedy (tx_id, round) WHERE tx_id IS NOT NULL;
CREATE UNIQUE INDEX remedy_running ON remedy (tx_id) WHERE closed_at IS NULL;
CREATE INDEX remedy_open ON remedy (lane_id, remedy_id) WHERE closed_at IS NULL;
