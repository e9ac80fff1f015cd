-- Documents that expire: from a moment on no read finds them, and the server removes them.

-- Milliseconds since the Unix epoch; null for a document that stays.
alter table documents add column expires_at_ms integer;

create index documents_expiring on documents (expires_at_ms) where expires_at_ms is not null;

-- A document's checksum is over this too, if it expires; see src/store/checksum.rs.
drop trigger documents_changed_without_checksum;
create trigger documents_changed_without_checksum
after update of id, language, language_confidence, created_at_ms, updated_at_ms, sequence, metadata, text, title, expires_at_ms
on documents
when new.checksum is not null and new.checksum is old.checksum begin
    update documents set checksum = null where key = new.key;
end;
