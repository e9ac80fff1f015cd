-- The names that other databases use: tombstones of passages that are gone, and idempotency records.

alter table removals rename to tombstones;
alter table state rename column removals_forgotten to tombstones_purged;

alter table kept_answers rename to idempotency_records;
drop index kept_answers_age;
create index idempotency_records_age on idempotency_records (created_at_ms);
