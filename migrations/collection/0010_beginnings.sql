-- The words at the beginning of a long passage count several times now (src/text/plain_words.rs, counted). Words are made with
-- the terms: passages that were there before get both anew, step by step, and are found by single counts until then.
update stem_fill set filled = 0, until = (select coalesce(max(id), 0) from passages);
