-- The audit is read by transaction and by lane, newest first. Without these a lane's few acts would be
-- looked for among all remedies there ever were.
CREATE INDEX remedy_acts_of_tx ON remedy (tx_id, remedy_id) WHERE tx_id IS NOT NULL;
CREATE INDEX remedy_acts_on_lane ON remedy (lane_id, remedy_id) WHERE tx_id IS NULL;
