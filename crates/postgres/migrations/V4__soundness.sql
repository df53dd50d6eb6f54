-- The rules of the tables that every statement writes, each as one function. PostgreSQL reads the text of each CHECK
-- anew in each statement; a function it reads once for each session. With the rules as constraints of their own,
-- a third of the time of a small create went into reading them.
--
-- The rules themselves are those of the first migration and of the third. Rows that are there were written under
-- them, so they are not read for this.

-- In the order in which statements take them.
LOCK TABLE signer_lease, managed_tx IN ACCESS EXCLUSIVE MODE;

DO $$
DECLARE
    rule record;
BEGIN
    FOR rule IN SELECT conrelid::regclass AS ruled, conname FROM pg_constraint
                 WHERE contype = 'c' AND conrelid IN ('managed_tx'::regclass, 'signer_lease'::regclass) LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', rule.ruled, rule.conname);
    END LOOP;
END $$;

CREATE FUNCTION is_sound_tx(
    kind text, state text, sub_state text, payload bytea, payload_hash bytea, nonce bigint,
    nonce_given_back bigint, attempts integer, tx_hash bytea, block_number bigint, block_hash bytea,
    mined_hash bytea, mined_by text, mined_status text, foreign_hash bytea, lock_token uuid,
    reserve_expires_at timestamptz, version bigint
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN coalesce(
        CASE kind
        WHEN 'managed' THEN payload IS NOT NULL AND payload_hash IS NOT NULL
        WHEN 'reserved' THEN payload IS NULL AND payload_hash IS NULL
        WHEN 'placeholder' THEN payload IS NULL AND payload_hash IS NULL
        ELSE false END
    AND (kind = 'reserved') = (lock_token IS NOT NULL)
    AND (lock_token IS NULL) = (reserve_expires_at IS NULL)
    AND (kind = 'reserved') = (state IN ('RESERVED', 'SUBMITTED', 'USED', 'RECYCLABLE'))
    AND CASE state
        WHEN 'ALLOCATED' THEN sub_state IS NULL OR (tx_hash IS NOT NULL AND sub_state IN ('SIGNED', 'REFUSED'))
        WHEN 'TRACKING' THEN tx_hash IS NOT NULL AND sub_state IN ('BROADCAST', 'AMBIGUOUS', 'MINED', 'REORGED')
        WHEN 'CONFIRMED' THEN tx_hash IS NOT NULL AND sub_state IS NULL
        WHEN 'QUEUED' THEN sub_state IN ('WAITING_LEADER', 'WAITING_WINDOW')
        WHEN 'FAILED_FINAL' THEN sub_state IN
            ('REVERTED', 'CANCELLED', 'PLACEHOLDER', 'NONCE_TAKEN', 'EXPIRED', 'REJECTED')
        WHEN 'STUCK' THEN sub_state IN
            ('NO_RECEIPT', 'REFUSED', 'NONCE_TAKEN', 'GAP', 'NO_FUNDS', 'SIGNER_ERROR', 'REORG_AFTER_FINAL')
        WHEN 'SUBMITTED' THEN tx_hash IS NOT NULL AND (sub_state IS NULL OR sub_state IN ('MINED', 'REORGED'))
        WHEN 'RESERVED' THEN sub_state IS NULL
        WHEN 'USED' THEN sub_state IS NULL
        WHEN 'RECYCLABLE' THEN sub_state IS NULL
        ELSE false END
    -- Who has a nonce.
    AND CASE state
        WHEN 'QUEUED' THEN nonce IS NULL
        WHEN 'RECYCLABLE' THEN nonce IS NULL
        WHEN 'FAILED_FINAL' THEN
            sub_state = 'CANCELLED' OR (nonce IS NULL) = (sub_state IN ('EXPIRED', 'REJECTED'))
        ELSE nonce IS NOT NULL END
    -- Who is in a block.
    AND CASE WHEN block_number IS NULL THEN
            block_hash IS NULL AND mined_hash IS NULL AND mined_by IS NULL AND mined_status IS NULL
            AND state <> 'CONFIRMED'
            AND (sub_state IS NULL OR sub_state NOT IN ('MINED', 'REVERTED', 'PLACEHOLDER'))
        ELSE block_number >= 0 AND length(block_hash) = 32 AND length(mined_hash) = 32
            AND mined_by IS NOT NULL AND mined_status IN ('SUCCESS', 'REVERTED') END
    -- Signed bytes are a bearer instrument: a nonce they were made for is never given back.
    AND (nonce_given_back IS NULL
         OR (nonce_given_back >= 0 AND nonce IS NULL AND (kind = 'reserved' OR attempts = 0)))
    -- An empty payload is one that was retired; its hash stays. Nothing brings its transaction back.
    AND (payload IS NULL OR length(payload) > 0 OR state IN ('CONFIRMED', 'FAILED_FINAL'))
    AND (nonce IS NULL OR nonce >= 0)
    AND (payload_hash IS NULL OR length(payload_hash) = 32)
    AND (tx_hash IS NULL OR length(tx_hash) = 32)
    AND (foreign_hash IS NULL OR length(foreign_hash) = 32)
    AND version > 0, false);
END $$;

ALTER TABLE managed_tx
    ADD CONSTRAINT is_sound CHECK (is_sound_tx(
        kind, state, sub_state, payload, payload_hash, nonce, nonce_given_back, attempts, tx_hash,
        block_number, block_hash, mined_hash, mined_by, mined_status, foreign_hash, lock_token,
        reserve_expires_at, version)) NOT VALID;

CREATE FUNCTION is_sound_lane(
    chain_id bigint, signer bytea, owner_node text, owner_incarnation bigint, owner_url text,
    fencing_token bigint, next_nonce bigint, lane_seq bigint, paused text
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN coalesce(
        CASE WHEN owner_node IS NULL THEN owner_incarnation IS NULL AND owner_url IS NULL
        ELSE owner_incarnation > 0 AND owner_url IS NOT NULL END
    AND fencing_token >= 0 AND next_nonce >= 0 AND lane_seq >= 0
    AND (paused IS NULL OR paused IN ('OPERATOR', 'CURSOR_JUMP', 'NONCE_CLASH'))
    AND chain_id >= 0 AND length(signer) = 20, false);
END $$;

ALTER TABLE signer_lease
    ADD CONSTRAINT is_sound CHECK (is_sound_lane(
        chain_id, signer, owner_node, owner_incarnation, owner_url, fencing_token, next_nonce, lane_seq,
        paused)) NOT VALID;
