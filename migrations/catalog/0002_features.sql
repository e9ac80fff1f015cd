-- Other names of collections, requests that are not done twice, keys, and settings of collections.

-- A collection that is deleted takes its aliases with it.
create table aliases (
    name text primary key,
    collection text not null references collections (id) on delete cascade
) strict, without rowid;

-- Requests to create a collection or a classifier that came with an idempotency key.
create table kept_creations (
    key text primary key,
    -- of the request
    fingerprint text not null,
    -- the id of what was created
    created text not null,
    created_at_ms integer not null
) strict;

create index kept_creations_age on kept_creations (created_at_ms);

-- Keys. Of a secret only the SHA-256 is kept: it is 256 random bits, so nobody can guess it from its hash, and a slow hash
-- would only slow every request down. A key without collections (null) reaches all of them.

create table api_keys (
    key integer primary key,
    id text not null unique,
    name text not null,
    secret_sha256 blob not null check (length(secret_sha256) = 32),
    scope text not null,
    -- a JSON array of names
    collections text,
    created_at_ms integer not null,
    expires_at_ms integer
) strict;

-- How a collection compares and indexes, chosen when it is created. Collections made before have the values that were fixed then.
-- A collection of vectors of the caller's own has no model: its name and fingerprint are empty.

alter table collections add column quantization text not null default 'f16';
alter table collections add column connectivity integer not null default 16 check (connectivity > 0);
alter table collections add column expansion_add integer not null default 128 check (expansion_add > 0);
alter table collections add column expansion_search integer not null default 96 check (expansion_search > 0);
-- codes with a comma after each
alter table collections add column default_languages text not null default '';
-- How texts are cut into passages; null without a model, and where a collection was made before: then what the model reads whole.
alter table collections add column passage_tokens_max integer check (passage_tokens_max > 0);
alter table collections add column passage_overlap_tokens integer not null default 0 check (passage_overlap_tokens >= 0);

-- What the catalog keeps besides collections: the jobs, so that work which was accepted outlives a restart and what became of
-- it can be asked afterwards.

create table jobs (
    -- a UUIDv7: later jobs sort after earlier ones
    id text primary key,
    type text not null,
    status text not null,
    -- by name; null when the job is about none or several
    collection text,
    -- JSON objects: what the type needs to run, and what it has to tell
    request text not null,
    details text not null,
    done integer not null,
    total integer not null,
    unit text not null,
    error_code text,
    error_detail text,
    cancel_requested integer not null default 0,
    created_at_ms integer not null,
    started_at_ms integer,
    finished_at_ms integer
) strict;

create index jobs_finished on jobs (finished_at_ms) where finished_at_ms is not null;
create index jobs_unfinished on jobs (id) where finished_at_ms is null;

-- Classifiers. Weights are what the trainer wrote; they belong to the embeddings of one model.
create table classifiers (
    key integer primary key,
    id text not null unique,
    name text not null unique,
    -- the job that trained it as it is, or trains it for the first time
    job text not null,
    -- the job that trains it again, which changes nothing before its end
    next_job text,
    -- how often its training came to an end
    version integer not null default 0 check (version >= 0),
    -- training, ready, failed
    state text not null,
    model text not null,
    model_fingerprint text not null,
    dimension integer not null,
    -- JSON objects: what it is to be, and what training found
    definition text not null,
    report text,
    weights blob,
    error_code text,
    error_detail text,
    created_at_ms integer not null,
    trained_at_ms integer
) strict;

-- Texts that came with the request: labeled examples, and what is said of the labels.
create table classifier_texts (
    key integer primary key,
    classifier integer not null references classifiers (key) on delete cascade,
    description integer not null,
    text text not null,
    -- a JSON array
    labels text not null,
    language text,
    embedding blob
) strict;

create index classifier_texts_classifier on classifier_texts (classifier);
