-- What a stuck policy may decide beyond an action: signed bytes that carry it out, how urgent it is, and where the
-- transaction stands afterwards.
ALTER TABLE remedy ADD COLUMN raw BLOB CHECK (length(raw) > 0);
ALTER TABLE remedy ADD COLUMN severity TEXT CHECK (severity IN ('info', 'warning', 'critical'));
ALTER TABLE remedy ADD COLUMN then_state TEXT CHECK (then_state IN ('track', 'stuck'));

-- Bytes that execute another payload, and the end of a transaction for which such bytes were mined. Only the text of
-- the rules changes, as in 0006: every stored row satisfies the wider ones.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''PLACEHOLDER'', ''EXTERNAL''', '''PLACEHOLDER'', ''SUBSTITUTE'', ''EXTERNAL''')
 WHERE type = 'table' AND name IN ('managed_tx', 'tx_attempt');
UPDATE sqlite_schema SET sql = replace(sql, 'WHEN ''PLACEHOLDER'' THEN nonce IS NOT NULL AND block_number IS NOT NULL',
    'WHEN ''PLACEHOLDER'' THEN nonce IS NOT NULL AND block_number IS NOT NULL
            WHEN ''SUBSTITUTED'' THEN nonce IS NOT NULL AND block_number IS NOT NULL')
 WHERE type = 'table' AND name = 'managed_tx';
PRAGMA writable_schema = RESET;
CREATE INDEX rules_changed ON remedy (remedy_id);
DROP INDEX rules_changed;
