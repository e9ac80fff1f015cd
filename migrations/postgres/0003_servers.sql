-- Several servers over one database.

-- A row for each server that started and was not found dead. It lives as long as a connection of its own holds the advisory lock of
-- this number.
create table dragoman.servers (
    id bigint primary key
);

-- One row: the number of the last change of the catalog, and of the last change of each of its parts. Servers keep these parts in
-- memory, see here whether that is still so, and change a part only if it is. Progress of jobs does not count.
create table dragoman.catalog_state (
    single boolean primary key default true check (single),
    version bigint not null default 0,
    -- collections, their metadata indexes, and aliases
    names bigint not null default 0,
    api_keys bigint not null default 0,
    -- which classifiers there are
    classifiers bigint not null default 0
);
insert into dragoman.catalog_state default values;

-- The server that runs the job; others change nothing of it. Null for one from before there were several.
alter table dragoman.jobs add column owner bigint;
-- The server that creates the collection, until the catalog names it.
alter table dragoman.collections add column maker bigint;
-- The server that wrote the passage, and embeds it. Once that server is gone, another one does.
alter table dragoman.passages add column writer bigint;
-- The server that accepts the training, until there is its job.
alter table dragoman.classifiers add column trainer bigint;
