-- What shows that a row is the one that was accepted: HMAC-SHA256 over its id, lane, kind and payload, with a secret that only nodes
-- have (store.row_secret_env). NULL where the row was stored without a secret. A node checks it before it signs anything of the row.
ALTER TABLE managed_tx ADD COLUMN seal bytea;

-- One reason more to be stuck: the row does not match its hash or its seal. Every row that is there satisfies the wider rules.
CREATE OR REPLACE FUNCTION is_sound_tx(
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
            ('REVERTED', 'CANCELLED', 'PLACEHOLDER', 'SUBSTITUTED', 'NONCE_TAKEN', 'EXPIRED', 'REJECTED')
        WHEN 'STUCK' THEN sub_state IN
            ('NO_RECEIPT', 'REFUSED', 'NONCE_TAKEN', 'GAP', 'NO_FUNDS', 'SIGNER_ERROR', 'REORG_AFTER_FINAL',
             'TAMPERED')
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
            AND (sub_state IS NULL OR sub_state NOT IN ('MINED', 'REVERTED', 'PLACEHOLDER', 'SUBSTITUTED'))
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
