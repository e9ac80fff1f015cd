-- Re-embedding: a replacement with new passages and embeddings takes the place of a collection.

-- The job that builds the collection to put it in another one's place. Once that job is over, the collection is removed, unless the
-- catalog names it.
alter table dragoman.collections add column job text collate "C";
-- The id of the collection that took this one's place, and when. Nothing is written any more; once nobody reads it, it is removed.
alter table dragoman.collections add column replaced_by text collate "C";
alter table dragoman.collections add column replaced_at_ms bigint;
-- By which rules texts were cut into passages when the collection was made or embedded anew.
alter table dragoman.collections add column cutting_rules integer not null default 2;

-- Of one collection only one replacement is built at a time.
create unique index jobs_reembed on dragoman.jobs (collection) where type = 'reembed' and finished_at_ms is null;
