-- A timeline's number does not tell servers apart: two standbys of one primary, promoted one after the other, both get
-- the next number. Each failover that a node notices therefore gets a random name, its era.

-- The eras that this server continues, its own included. Of an era that is not here the server knows nothing.
CREATE TABLE store_era (
    era      uuid        PRIMARY KEY,
    -- The era before it.
    follows  uuid,
    timeline bigint      NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE store_identity
    ADD COLUMN era uuid NOT NULL DEFAULT gen_random_uuid(),
    -- By how much tokens leapt at the newest failover. Incarnations of nodes that start after it leap as far.
    ADD COLUMN leap bigint NOT NULL DEFAULT 0 CHECK (leap >= 0),
    -- Nobody knows yet whether readers were told numbers of the feed that this server gives again. They wait.
    ADD COLUMN feed_waits boolean NOT NULL DEFAULT false;

INSERT INTO store_era (era, timeline) SELECT era, timeline FROM store_identity;

ALTER TABLE failover_lane ADD COLUMN era uuid;
UPDATE failover_lane f SET era = s.era FROM store_identity s WHERE s.timeline = f.timeline;

ALTER TABLE failover_node
    ADD COLUMN era uuid,
    -- It has reported what it knows, and more is missing than it remembers.
    ADD COLUMN forgot boolean NOT NULL DEFAULT false;
UPDATE failover_node f SET era = s.era FROM store_identity s WHERE s.timeline = f.timeline;
