-- Titles of documents and the headings above passages: both are embedded with each passage, and searched with it.

-- One line; null for a document without a title.
alter table documents add column title text;

-- A document's checksum is over its title too, if it has one; see src/store/checksum.rs.
drop trigger documents_changed_without_checksum;
create trigger documents_changed_without_checksum
after update of id, language, language_confidence, created_at_ms, updated_at_ms, sequence, metadata, text, title on documents
when new.checksum is not null and new.checksum is old.checksum begin
    update documents set checksum = null where key = new.key;
end;

-- The headings above a passage that are not in it, outermost first, one on each line; null when there are none. They never change,
-- and a passage's checksum is over them too, if there are any.
alter table passages add column headings text;

-- By which rules texts were cut into passages when the collection was made or embedded anew: 1 at sentence ends alone, 2 at headings
-- and blocks too. An empty collection has nothing that was cut by the older rules.
alter table state add column cutting_rules integer not null default 1;
update state set cutting_rules = 2 where not exists (select 1 from documents);
