-- The collections of a data directory. The id names a collection's folder and is never used twice; the name is the caller's
-- and unique. The model's fingerprint is kept so that embeddings of two models never meet in one collection.

create table collections (
    key integer primary key,
    id text not null unique,
    name text not null unique,
    description text,
    model text not null,
    model_fingerprint text not null,
    dimension integer not null check (dimension > 0),
    metric text not null,
    created_at_ms integer not null
) strict;
