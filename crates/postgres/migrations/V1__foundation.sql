-- The tables of the store. CHECK and UNIQUE constraints repeat the rules of the state types, so that
-- a mistake in a statement is stopped here instead of being believed later.
-- No foreign keys: they would lock the lane row once per inserted transaction and prove nothing
-- about who leads it.

-- Lease, fence and nonce cursor of a lane in one row, so that one lock decides all three.
-- Nothing but its keys is indexed and half of each page is kept free: its updates stay HOT.
CREATE TABLE signer_lease (
    lane_id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id          bigint      NOT NULL CHECK (chain_id >= 0),
    signer            bytea       NOT NULL CHECK (length(signer) = 20),
    owner_node        text,
    owner_incarnation bigint      CHECK (owner_incarnation > 0),
    owner_url         text,
    fencing_token     bigint      NOT NULL DEFAULT 0 CHECK (fencing_token >= 0),
    expires_at        timestamptz NOT NULL DEFAULT to_timestamp(0),
    next_nonce        bigint      NOT NULL DEFAULT 0 CHECK (next_nonce >= 0),
    lane_seq          bigint      NOT NULL DEFAULT 0 CHECK (lane_seq >= 0),
    paused            text        CHECK (paused IN ('OPERATOR', 'CURSOR_JUMP', 'NONCE_CLASH')),
    -- The database was failed over and may lack its newest writes; only reconciling lifts this.
    held              boolean     NOT NULL DEFAULT false,
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (chain_id, signer),
    CHECK ((owner_node IS NULL) = (owner_incarnation IS NULL)),
    CHECK ((owner_node IS NULL) = (owner_url IS NULL))
) WITH (fillfactor = 50);

-- No going back: whatever statement tries it. AFTER, because a trigger that runs before an update
-- locks the row first: one more write for each lane of each batch.
CREATE FUNCTION refuse_going_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lane % must not go back: token % to %, cursor % to %', OLD.lane_id,
        OLD.fencing_token, NEW.fencing_token, OLD.next_nonce, NEW.next_nonce
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER no_going_back AFTER UPDATE ON signer_lease FOR EACH ROW
    WHEN (NEW.fencing_token < OLD.fencing_token
          OR (NEW.next_nonce < OLD.next_nonce AND OLD.paused IS NULL AND NOT OLD.held))
    EXECUTE FUNCTION refuse_going_back();

CREATE VIEW signer_nonce_cursor AS
    SELECT lane_id, chain_id, signer, next_nonce, fencing_token, updated_at FROM signer_lease;

-- The one authoritative carrier of intent, nonce and state.
CREATE TABLE managed_tx (
    tx_id              uuid        PRIMARY KEY,
    lane_id            bigint      NOT NULL,
    kind               text        NOT NULL CHECK (kind IN ('managed', 'reserved', 'placeholder')),
    request_id         text,
    payload            bytea,
    payload_hash       bytea       CHECK (length(payload_hash) = 32),
    nonce              bigint      CHECK (nonce >= 0),
    nonce_given_back   bigint      CHECK (nonce_given_back >= 0),
    state              text        NOT NULL,
    sub_state          text,
    tx_hash            bytea       CHECK (length(tx_hash) = 32),
    attempts           integer     NOT NULL DEFAULT 0,
    submit_attempts    integer     NOT NULL DEFAULT 0,
    last_error         text,
    first_submit_at    timestamptz,
    last_submit_at     timestamptz,
    block_number       bigint      CHECK (block_number >= 0),
    block_hash         bytea       CHECK (length(block_hash) = 32),
    mined_hash         bytea       CHECK (length(mined_hash) = 32),
    mined_by           text,
    mined_status       text        CHECK (mined_status IN ('SUCCESS', 'REVERTED')),
    foreign_hash       bytea       CHECK (length(foreign_hash) = 32),
    receipt            text,
    confirmed_at       timestamptz,
    not_after          timestamptz,
    meta               text,
    lock_token         uuid,
    reserve_expires_at timestamptz,
    fencing_token      bigint      NOT NULL,
    version            bigint      NOT NULL DEFAULT 1 CHECK (version > 0),
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT payload_of_kind CHECK (
        (kind = 'managed') = (payload IS NOT NULL) AND (payload IS NULL) = (payload_hash IS NULL)),
    CONSTRAINT loan_of_kind CHECK (
        (kind = 'reserved') = (lock_token IS NOT NULL)
        AND (lock_token IS NULL) = (reserve_expires_at IS NULL)),
    CONSTRAINT state_of_kind CHECK (
        CASE kind WHEN 'reserved' THEN state IN ('RESERVED', 'SUBMITTED', 'USED', 'RECYCLABLE')
        ELSE state IN ('QUEUED', 'ALLOCATED', 'TRACKING', 'CONFIRMED', 'FAILED_FINAL', 'STUCK') END),
    CONSTRAINT sub_of_state CHECK (
        CASE state
        WHEN 'QUEUED' THEN sub_state IS NOT NULL AND sub_state IN ('WAITING_LEADER', 'WAITING_WINDOW')
        WHEN 'ALLOCATED' THEN sub_state IS NULL OR sub_state IN ('SIGNED', 'REFUSED')
        WHEN 'TRACKING' THEN sub_state IS NOT NULL
            AND sub_state IN ('BROADCAST', 'AMBIGUOUS', 'MINED', 'REORGED')
        WHEN 'FAILED_FINAL' THEN sub_state IS NOT NULL AND sub_state IN
            ('REVERTED', 'CANCELLED', 'PLACEHOLDER', 'NONCE_TAKEN', 'EXPIRED', 'REJECTED')
        WHEN 'STUCK' THEN sub_state IS NOT NULL AND sub_state IN
            ('NO_RECEIPT', 'REFUSED', 'NONCE_TAKEN', 'GAP', 'NO_FUNDS', 'SIGNER_ERROR', 'REORG_AFTER_FINAL')
        WHEN 'SUBMITTED' THEN sub_state IS NULL OR sub_state IN ('MINED', 'REORGED')
        ELSE sub_state IS NULL END),
    CONSTRAINT nonce_of_state CHECK (
        CASE WHEN state IN ('QUEUED', 'RECYCLABLE') THEN nonce IS NULL
        WHEN state = 'FAILED_FINAL' THEN sub_state IN ('CANCELLED')
            OR (nonce IS NULL) = (sub_state IN ('EXPIRED', 'REJECTED'))
        ELSE nonce IS NOT NULL END),
    CONSTRAINT hash_of_state CHECK (
        tx_hash IS NOT NULL OR state NOT IN ('TRACKING', 'CONFIRMED', 'SUBMITTED')
        AND (state <> 'ALLOCATED' OR sub_state IS NULL)),
    CONSTRAINT block_of_state CHECK (
        (block_number IS NULL) = (block_hash IS NULL) AND (block_number IS NULL) = (mined_hash IS NULL)
        AND (block_number IS NULL) = (mined_by IS NULL) AND (block_number IS NULL) = (mined_status IS NULL)
        AND (block_number IS NOT NULL
             OR (state <> 'CONFIRMED' AND coalesce(sub_state, '') NOT IN ('MINED', 'REVERTED', 'PLACEHOLDER')))),
    -- Signed bytes are a bearer instrument: a nonce they were made for is never given back.
    CONSTRAINT never_signed_when_given_back CHECK (
        nonce_given_back IS NULL OR (nonce IS NULL AND (kind = 'reserved' OR attempts = 0)))
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX managed_tx_request ON managed_tx (lane_id, request_id) WHERE request_id IS NOT NULL;
CREATE UNIQUE INDEX managed_tx_nonce ON managed_tx (lane_id, nonce) WHERE nonce IS NOT NULL;
CREATE INDEX managed_tx_page ON managed_tx (lane_id, tx_id);

-- QUEUED transactions in order of arrival.
CREATE TABLE lane_queue (
    lane_id   bigint NOT NULL,
    queue_seq bigint GENERATED ALWAYS AS IDENTITY,
    tx_id     uuid   NOT NULL UNIQUE,
    PRIMARY KEY (lane_id, queue_seq)
);

-- Signed bytes. Append-only but for the outcome.
CREATE TABLE tx_attempt (
    tx_id            uuid          NOT NULL,
    n                integer       NOT NULL CHECK (n > 0),
    chain_id         bigint        NOT NULL,
    kind             text          NOT NULL CHECK (kind IN ('ORIGINAL', 'REPLACEMENT', 'CANCEL', 'PLACEHOLDER', 'EXTERNAL')),
    tx_hash          bytea         NOT NULL CHECK (length(tx_hash) = 32),
    raw              bytea         NOT NULL CHECK ((kind = 'EXTERNAL') = (length(raw) = 0)),
    max_fee          numeric(39,0) CHECK (max_fee >= 0),
    max_priority_fee numeric(39,0) CHECK (max_priority_fee >= 0),
    fencing_token    bigint        NOT NULL,
    outcome          text          CHECK (outcome IN ('ACCEPTED', 'AMBIGUOUS', 'REFUSED')),
    created_at       timestamptz   NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tx_id, n),
    CONSTRAINT tx_attempt_hash UNIQUE (chain_id, tx_hash)
) WITH (fillfactor = 90);

CREATE FUNCTION refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER attempts_stay AFTER UPDATE ON tx_attempt FOR EACH ROW
    WHEN ((OLD.tx_id, OLD.n, OLD.chain_id, OLD.kind, OLD.tx_hash, OLD.raw, OLD.fencing_token)
          IS DISTINCT FROM (NEW.tx_id, NEW.n, NEW.chain_id, NEW.kind, NEW.tx_hash, NEW.raw, NEW.fencing_token)
          OR (OLD.outcome = 'ACCEPTED' AND NEW.outcome IS DISTINCT FROM 'ACCEPTED'))
    EXECUTE FUNCTION refuse_rewriting();

-- History of a transaction and ordered outbox of its lane. (lane_id, lane_seq) has no holes, because
-- whoever writes here holds the lane's row.
CREATE TABLE tx_event (
    lane_id       bigint      NOT NULL,
    lane_seq      bigint      NOT NULL CHECK (lane_seq > 0),
    tx_id         uuid        NOT NULL,
    kind          text        NOT NULL,
    from_state    text,
    from_sub      text,
    to_state      text        NOT NULL,
    to_sub        text,
    tx_hash       bytea,
    block_number  bigint,
    block_hash    bytea,
    new_fork      boolean     NOT NULL DEFAULT false,
    note          text,
    node          text,
    fencing_token bigint      NOT NULL,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (lane_id, lane_seq)
);
CREATE INDEX tx_event_tx ON tx_event (tx_id, lane_seq);

CREATE TRIGGER events_stay BEFORE UPDATE ON tx_event FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();

-- Nonces that were given back and never signed for.
CREATE TABLE free_nonce (
    lane_id bigint NOT NULL,
    nonce   bigint NOT NULL CHECK (nonce >= 0),
    PRIMARY KEY (lane_id, nonce)
);

-- Exactly the transactions that hold a nonce and have not ended.
CREATE TABLE due_work (
    tx_id   uuid        PRIMARY KEY,
    lane_id bigint      NOT NULL,
    due_at  timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX due_work_lane ON due_work (lane_id, due_at);

-- The feed. Numbered in commit order, because whoever writes here holds the one row of feed_head.
CREATE TABLE tx_completion (
    seq          bigint      PRIMARY KEY,
    tx_id        uuid        NOT NULL,
    lane_id      bigint      NOT NULL,
    nonce        bigint,
    state        text        NOT NULL CHECK (state IN ('CONFIRMED', 'FAILED_FINAL', 'STUCK', 'USED')),
    sub_state    text,
    tx_hash      bytea,
    block_number bigint,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    corrects     bigint      CHECK (corrects < seq)
);
CREATE INDEX tx_completion_tx ON tx_completion (tx_id, seq);
CREATE TRIGGER completions_stay BEFORE UPDATE ON tx_completion FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();

CREATE TABLE feed_head (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    last_seq bigint  NOT NULL DEFAULT 0 CHECK (last_seq >= 0),
    epoch    bigint  NOT NULL DEFAULT 1 CHECK (epoch > 0)
) WITH (fillfactor = 10);
INSERT INTO feed_head DEFAULT VALUES;

CREATE TABLE node (
    node_id      text        PRIMARY KEY,
    incarnation  bigint      NOT NULL CHECK (incarnation > 0),
    url          text        NOT NULL,
    chains       bigint[]    NOT NULL DEFAULT '{}',
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- What policies and operators want and did: remedies of a transaction, and acts on a lane (tx_id null).
CREATE TABLE remedy (
    remedy_id        bigint        GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane_id          bigint        NOT NULL,
    tx_id            uuid,
    round            integer       CHECK (round > 0),
    action           text          NOT NULL,
    max_fee          numeric(39,0) CHECK (max_fee >= 0),
    max_priority_fee numeric(39,0) CHECK (max_priority_fee >= 0),
    asked_by         text          NOT NULL,
    reason           text          NOT NULL,
    details          text,
    before_after     text,
    state            text          NOT NULL CHECK (state IN ('ASKED', 'CLAIMED', 'DONE', 'REFUSED')),
    claimed_by       text,
    claimed_token    bigint,
    claimed_at       timestamptz,
    attempt_n        integer,
    result           text,
    -- Names one act on a lane: a statement that was sent twice, or arrives late, does it once.
    act              uuid          UNIQUE,
    asked_at         timestamptz   NOT NULL DEFAULT clock_timestamp(),
    closed_at        timestamptz,
    CHECK ((tx_id IS NULL) = (round IS NULL)),
    CHECK ((closed_at IS NULL) = (state IN ('ASKED', 'CLAIMED'))),
    UNIQUE (tx_id, round)
);
CREATE UNIQUE INDEX remedy_running ON remedy (tx_id) WHERE closed_at IS NULL;
CREATE INDEX remedy_open ON remedy (lane_id, remedy_id) WHERE closed_at IS NULL;

-- Which server wrote last. A change means a failover, and perhaps lost writes.
CREATE TABLE store_identity (
    one               boolean PRIMARY KEY DEFAULT true CHECK (one),
    system_identifier text    NOT NULL,
    timeline          bigint  NOT NULL,
    changed_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
