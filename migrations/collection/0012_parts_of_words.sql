-- Emoji are words, and the known parts of words that the model's translations lack count as words, too (src/text/runs.rs,
-- src/text/word_parts.rs). `vocabulary` is the checksum of the words of these translations. The next opening sees that it is null,
-- and has passages get their terms and words anew, step by step. They are found by the old ones until then.
alter table stem_fill add column vocabulary integer;
