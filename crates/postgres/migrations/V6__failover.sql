-- What the newest failover of the database has found. Whoever notices it first writes these rows in the statement
-- that holds all lanes, so that nodes which come later judge by what the server had and not by what came since.

-- Each lane as the new server had it, before its token leapt.
CREATE TABLE failover_lane (
    lane_id     bigint  PRIMARY KEY,
    timeline    bigint  NOT NULL,
    token       bigint  NOT NULL CHECK (token >= 0),
    next_nonce  bigint  NOT NULL CHECK (next_nonce >= 0),
    lane_seq    bigint  NOT NULL CHECK (lane_seq >= 0),
    -- An earlier failover had held it, and nobody had reconciled it.
    held_before boolean NOT NULL,
    -- What a node knows to be missing. The lane then goes on by nobody's word.
    lost        text
) WITH (fillfactor = 80);

-- The nodes that lived then, and which of them have said what they miss.
CREATE TABLE failover_node (
    node_id     text        PRIMARY KEY,
    incarnation bigint      NOT NULL CHECK (incarnation > 0),
    timeline    bigint      NOT NULL,
    reported_at timestamptz
);

-- The end of the feed at the newest failover, while its epoch may still have to change for it.
ALTER TABLE store_identity ADD COLUMN feed_seq bigint CHECK (feed_seq >= 0);
