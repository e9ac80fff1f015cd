-- What tells a replica that follows this database from a copy that went its own way.
--
-- A failover begins a new timeline of the write-ahead log. A server that sends reads to a replica leaves a mark for each timeline of the
-- primary server: a replica that has the mark of the present one has followed it, and its numbers of sequences mean the same.

create table dragoman.timelines (
    -- the identifier of the database system, and the timeline as the names of its log files begin
    timeline text collate "C" primary key,
    mark uuid not null default gen_random_uuid()
);
