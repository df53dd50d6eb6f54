-- The name of the API key that asked for a transaction or a reservation; null where no key did.
ALTER TABLE managed_tx ADD COLUMN created_by text;

-- The audit names the node that was called and the lane's token after an act on the lane. A call that was refused belongs
-- to no lane: its action is CALL.
ALTER TABLE remedy
    ADD COLUMN node  text,
    ADD COLUMN token bigint CHECK (token >= 0),
    ALTER COLUMN lane_id DROP NOT NULL;
ALTER TABLE remedy ADD CONSTRAINT lane_of_act
    CHECK ((lane_id IS NULL) = (action = 'CALL') AND (action <> 'CALL' OR state = 'REFUSED')) NOT VALID;
