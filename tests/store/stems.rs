//! Stemming: lexical search finds other forms of a word in its document's language, even after the language changes.

use dragoman::domain::{DocumentPatch, Language, Limits, Metadata, PassageId, Precondition};
use dragoman::store::{DocumentStore, PreparedDocument, ResplitText, SearchFilter};

use crate::{document, id, language, put, store};

fn english(text: &str) -> PreparedDocument {
    PreparedDocument { language: language("en"), ..document("a", text) }
}

/// How many passages contain any form of these words in a language.
fn found(store: &DocumentStore, query: &str, code: &str) -> usize {
    let terms = dragoman::embed::query_terms(query, language(code));
    store.lexical(&terms, &SearchFilter::default(), 10).unwrap().len()
}

fn language_change(language: Option<Language>) -> DocumentPatch {
    DocumentPatch { language, ..Limits::default().metadata_patch(Metadata::new()) }
}

#[test]
fn a_query_finds_other_forms_of_a_word() {
    let (_folder, store) = store();
    put(&store, english("The apples ripened early."));
    assert_eq!(["ripening", "apple", "ripe pears"].map(|query| found(&store, query, "en")), [1, 1, 0]);
}

#[test]
fn an_exact_spelling_ranks_above_another_form() {
    let (_folder, store) = store();
    put(&store, english("The old wall of the town stood."));
    put(&store, PreparedDocument { language: language("en"), ..document("b", "The old walls of the town stood.") });
    let terms = dragoman::embed::query_terms("walls", language("en"));
    let ranked = store.lexical(&terms, &SearchFilter::default(), 10).unwrap();
    assert_eq!(ranked.iter().map(|(passage, _)| *passage).collect::<Vec<_>>(), [PassageId(2), PassageId(1)]);
}

#[test]
fn stems_follow_the_language_of_the_document() {
    let (_folder, store) = store();
    put(&store, PreparedDocument { language: language("de"), ..document("a", "Die Mauern stehen.") });
    assert_eq!(found(&store, "Mauer", "de"), 1);
    put(&store, PreparedDocument { language: language("ja"), ..document("a", "Die Mauern stehen.") });
    assert_eq!(found(&store, "Mauer", "de"), 0, "the same text, now declared to be Japanese");
    let patched = store.patch(&id("a"), language_change(language("de")), None, Precondition::default()).unwrap();
    assert!(matches!(patched, dragoman::store::PatchOutcome::Done(..)), "{patched:?}");
    assert_eq!(found(&store, "Mauer", "de"), 1);
}

#[test]
fn patching_title_and_language_together_updates_the_stems() {
    let (_folder, store) = store();
    let text = "Die Mauern stehen.";
    put(&store, PreparedDocument { language: language("ja"), ..document("a", text) });
    let title = Some("Türme".to_owned());
    let resplit = ResplitText {
        title: title.clone(),
        text: text.to_owned(),
        passages: vec![(0..text.len()).into()],
        keeps_embedding: false,
    };
    let patch = DocumentPatch { title: Some(Some("Türme".to_owned())), ..language_change(language("de")) };
    store.patch(&id("a"), patch, Some(resplit), Precondition::default()).unwrap();
    assert_eq!(["Mauer", "Turm"].map(|query| found(&store, query, "de")), [1, 1]);
}
