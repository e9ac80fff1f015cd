-- One collection: documents, the passages that they are searched by, and what an index saved earlier has missed.
--
-- Every change draws a number from state.sequence, which only grows. An index that reaches a number catches up by reading
-- the passages embedded after it and the removals after it, in the order of the numbers.

-- Metadata stands before the text, so that a filter reads it without walking through the pages of a long text.
create table documents (
    key integer primary key,
    id text not null unique,
    language text,
    -- null when the caller gave the language
    language_confidence real,
    created_at_ms integer not null,
    updated_at_ms integer not null,
    sequence integer not null,
    -- a JSON object
    metadata text not null,
    text text not null
) strict;

create index documents_language on documents (language);

-- Keys are never used twice (autoincrement): an index may still hold the embedding of a passage that is gone.
create table passages (
    id integer primary key autoincrement,
    document integer not null references documents (key),
    ordinal integer not null,
    -- byte offsets in the document's text
    start integer not null,
    end integer not null,
    -- the change that embedded it; null while it waits
    embedded_sequence integer,
    -- little-endian f32 values of unit length; null while it waits
    embedding blob,
    check ((embedding is null) = (embedded_sequence is null))
) strict;

create unique index passages_document on passages (document, ordinal);
create index passages_embedded on passages (embedded_sequence) where embedded_sequence is not null;
-- The embedding, always null here, stands in both so that SQLite need not look at the passage itself.
create index passages_pending on passages (id, embedding) where embedding is null;
create index passages_pending_document on passages (document, embedding) where embedding is null;

-- Passages that are gone, until a saved index has taken that in.
create table removals (
    sequence integer primary key,
    passage integer not null
) strict;

-- One row. removals_forgotten: removals up to this number are deleted from the table above.
create table state (
    id integer primary key check (id = 1),
    sequence integer not null,
    removals_forgotten integer not null,
    passages integer not null
) strict;

insert into state (id, sequence, removals_forgotten, passages) values (1, 0, 0, 0);

-- Documents per language, '' standing for none. This and state.passages are kept by triggers, because counting the rows of a
-- large collection takes seconds.
create table language_counts (
    language text primary key,
    documents integer not null
) strict, without rowid;

create trigger documents_inserted after insert on documents begin
    insert into language_counts (language, documents) values (coalesce(new.language, ''), 1)
    on conflict (language) do update set documents = documents + 1;
end;

create trigger documents_deleted after delete on documents begin
    update language_counts set documents = documents - 1 where language = coalesce(old.language, '');
end;

create trigger documents_language_changed after update of language on documents when old.language is not new.language begin
    update language_counts set documents = documents - 1 where language = coalesce(old.language, '');
    insert into language_counts (language, documents) values (coalesce(new.language, ''), 1)
    on conflict (language) do update set documents = documents + 1;
end;

create trigger passages_inserted after insert on passages begin
    update state set passages = passages + 1;
end;

create trigger passages_deleted after delete on passages begin
    update state set passages = passages - 1;
end;
