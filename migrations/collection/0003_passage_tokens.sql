-- The tokens of passages, which late interaction compares. In a table of their own: all of them are read when the first search
-- needs them, without the embeddings.

create table passage_tokens (
    passage integer primary key,
    -- distinct token ids in ascending order, each a little-endian u16, then CRC-32 over the passage's key and these bytes
    tokens blob not null
) strict;

create trigger passages_deleted_tokens after delete on passages begin
    delete from passage_tokens where passage = old.id;
end;

-- One row. Passages that were embedded before this table get their tokens step by step: those embedded by changes up to `filled`
-- have them, those up to `until` will get them, and those after it got them with their embedding.
create table token_fill (
    id integer primary key check (id = 1),
    filled integer not null,
    until integer not null
) strict;

insert into token_fill (id, filled, until) select 1, 0, coalesce(max(embedded_sequence), 0) from passages;
