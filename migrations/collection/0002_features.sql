-- Filters by time and by declared metadata paths, lists in the order of time, and answers that are kept for repeated requests.

-- What changed after a number of the sequence: brings the remembered result of a filter up to date.
create index documents_sequence on documents (sequence);
-- The id decides among documents of one millisecond, so that a page can end anywhere.
create index documents_created on documents (created_at_ms, id);
create index documents_updated on documents (updated_at_ms, id);

-- Paths into the metadata that have an index of their own, by the name of that index.
create table metadata_indexes (
    path text primary key,
    name text not null unique
) strict;

-- Answers to writes that came with an idempotency key, so that a repeated request gets the same and does nothing.
create table kept_answers (
    key text primary key,
    -- of the request
    fingerprint text not null,
    -- what the server needs to answer again, as JSON
    answer text not null,
    created_at_ms integer not null
) strict;

create index kept_answers_age on kept_answers (created_at_ms);

-- How far jobs came that write into this collection, committed together with what they wrote: after a crash a job goes on
-- exactly behind its last committed row.
create table job_checkpoints (
    job text primary key,
    -- JSON of the job's own
    checkpoint text not null
) strict, without rowid;

-- Searching by words: an inverted index of the terms of passages, next to them so that both change in one transaction.
--
-- The terms are prepared above the store, separated by spaces, so the tokenizer only splits at these: `ascii` takes every
-- character beyond ASCII for part of a term. Nothing but the index is kept (content = ''): the text is in documents.

-- One row per passage, with its key. `folded` has words without their accents, of those that have any.
create virtual table lexical using fts5 (words, folded, content = '', contentless_delete = 1, tokenize = 'ascii');

create trigger passages_deleted_lexical after delete on passages begin
    delete from lexical where rowid = old.id;
end;

-- One row. Passages that were there before this table get their terms step by step: those with keys up to `filled` have them,
-- those up to `until` will get them, and those after it got them when they were stored.
create table lexical_fill (
    id integer primary key check (id = 1),
    filled integer not null,
    until integer not null
) strict;

insert into lexical_fill (id, filled, until) select 1, 0, coalesce(max(id), 0) from passages;

-- Checksums of documents, passages and embeddings, so that a bit that flipped on the disk is found when it is read, and not
-- served.

-- CRC-32 over the row's other columns except the key, see src/store/checksum.rs. null for a document that was stored before
-- there were checksums and has not been written since: it is served unchecked.
alter table documents add column checksum integer;

-- A statement that changes a document without giving it a new checksum leaves it without one, not with a wrong one.
create trigger documents_changed_without_checksum
after update of id, language, language_confidence, created_at_ms, updated_at_ms, sequence, metadata, text on documents
when new.checksum is not null and new.checksum is old.checksum begin
    update documents set checksum = null where key = new.key;
end;

-- The same over a passage's id, document, ordinal, start and end, which never change.
alter table passages add column checksum integer;

-- Says which database a saved index was made of. A copy of the database has it too.
alter table state add column identity blob;
update state set identity = randomblob(16);

-- An embedding in passages.embedding is followed by a checksum of its own since this version: the byte 1 and the CRC-32 of the
-- passage's key and the values, little-endian. An embedding without them was stored before.
