-- Stems of words, so that a search by words finds their other forms. They stand in lexical.folded, beside words without their accents:
-- what is found there is not spelled as in the query.

-- One row. Passages that were there before get their terms anew, step by step: those with keys up to `filled` have stems, those up to
-- `until` will get them, and those after it got them when they were stored. Until then they are found without.
create table stem_fill (
    id integer primary key check (id = 1),
    filled integer not null,
    until integer not null
) strict;

insert into stem_fill (id, filled, until) select 1, 0, coalesce(max(id), 0) from passages;
