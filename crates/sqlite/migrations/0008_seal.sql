-- What shows that a row is the one that was accepted: HMAC-SHA256 over its id, lane, kind and payload, with a secret that only the node
-- has (store.row_secret_env). NULL where the row was stored without a secret. The node checks it before it signs anything of the row.
ALTER TABLE managed_tx ADD COLUMN seal BLOB CHECK (length(seal) = 32);

CREATE TRIGGER managed_tx_seal BEFORE UPDATE OF seal ON managed_tx
BEGIN SELECT RAISE(ABORT, 'what was accepted stays'); END;

-- One reason more to be stuck: the row does not match its hash or its seal. Only the text of the rules changes, as in 0006: every stored
-- row satisfies the wider ones.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''SIGNER_ERROR'', ''REORG_AFTER_FINAL'')', '''SIGNER_ERROR'', ''REORG_AFTER_FINAL'', ''TAMPERED'')')
 WHERE type = 'table' AND name = 'managed_tx';
PRAGMA writable_schema = RESET;
CREATE INDEX rules_changed ON remedy (remedy_id);
DROP INDEX rules_changed;
