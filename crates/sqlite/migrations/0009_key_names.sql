-- The name of the API key that asked for a transaction or a reservation; null where no key did.
ALTER TABLE managed_tx ADD COLUMN created_by TEXT;

-- The audit names the node that was called and the lane's token after an act on the lane. A call that was refused belongs
-- to no lane: its action is CALL. Only the text of the rules changes, as in 0006: every stored row satisfies the wider ones.
ALTER TABLE remedy ADD COLUMN node TEXT;
ALTER TABLE remedy ADD COLUMN token INTEGER CHECK (token >= 0);
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''PAUSE'', ''RESUME''', '''CALL'', ''PAUSE'', ''RESUME''')
 WHERE type = 'table' AND name = 'remedy';
UPDATE sqlite_schema SET sql = replace(sql, 'INTEGER NOT NULL REFERENCES signer_lease',
    'INTEGER CHECK ((lane_id IS NULL) = (action = ''CALL'') AND (action <> ''CALL'' OR state = ''REFUSED'')) REFERENCES signer_lease')
 WHERE type = 'table' AND name = 'remedy';
PRAGMA writable_schema = RESET;
CREATE INDEX rules_changed ON remedy (remedy_id);
DROP INDEX rules_changed;
