-- The words of passages have sounds now, by which names are found in other scripts (src/domain/terms.rs, WordCounts). Words are made
-- with the terms: passages that were there before get both anew, step by step, and are found without sounds until then.
update stem_fill set filled = 0, until = (select coalesce(max(id), 0) from passages);
