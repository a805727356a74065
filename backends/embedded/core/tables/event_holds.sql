-- Layout 5: event holds.
--
-- A hold that is on is the ISO 8601 period that its release starts, in days or in years: P30D, P7Y. OFF: it was
-- released, and until_ms is the date that the release set. NULL: there never was one. While a hold is on, until_ms is
-- the earliest date; 0: the period alone decides.

ALTER TABLE versions ADD COLUMN event_hold TEXT;
ALTER TABLE uploads ADD COLUMN event_hold TEXT;
ALTER TABLE buckets ADD COLUMN default_event_hold TEXT;  -- the period of the hold of new versions
