-- Marks within words no longer separate them, quotes match whatever the case of ß and of Turkish letters, and long words of Chinese
-- characters also count as the words within them (src/text/runs.rs, src/text/plain_words.rs). Passages that were there before get
-- their terms and words anew, step by step, and are found by the old ones until then.
update stem_fill set filled = 0, until = (select coalesce(max(id), 0) from passages);
