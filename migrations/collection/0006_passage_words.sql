-- The words of passages in their plain form, counted: what a search finds words of other languages in. In a table of their own, as
-- the tokens are: all of them are read when the first search needs them.

create table passage_words (
    passage integer primary key,
    -- distinct words in ascending order, each a little-endian u32: the number of the word in the upper 28 bits, its count in the
    -- lower 4; then CRC-32 over the passage's key and these bytes
    words blob not null
) strict;

create trigger passages_deleted_words after delete on passages begin
    delete from passage_words where passage = old.id;
end;

-- Words are made with the terms: passages that were there before get both anew, step by step.
update stem_fill set filled = 0, until = (select coalesce(max(id), 0) from passages);
