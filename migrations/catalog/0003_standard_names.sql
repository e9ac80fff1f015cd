-- The names that other databases use: the parameters of HNSW, and idempotency records.

alter table collections rename column connectivity to m;
alter table collections rename column expansion_add to ef_construction;
alter table collections rename column expansion_search to ef_search;

alter table kept_creations rename to idempotency_records;
-- the id of what was created
alter table idempotency_records rename column created to answer;
drop index kept_creations_age;
create index idempotency_records_age on idempotency_records (created_at_ms);
