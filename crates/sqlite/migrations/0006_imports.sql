-- One word more for what is done to a lane. The rows stay as they are, and so do columns that other files may
-- have added: only the text of the table's rules changes. SQLite names this way for changes that no stored row
-- can break (https://sqlite.org/lang_altertable.html); a new index makes other connections read the rules anew.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''LOWER_CURSOR''', '''LOWER_CURSOR'', ''IMPORT''')
 WHERE type = 'table' AND name = 'remedy';
PRAGMA writable_schema = RESET;
CREATE INDEX remedy_rules_changed ON remedy (remedy_id);
DROP INDEX remedy_rules_changed;
