//! Lexical search: which passages match, required terms, and ranking.

use dragoman::domain::{Precondition, QueryTerm, QueryTerms, TermPhrase};
use dragoman::storage::RequiredPassages;
use dragoman::store::{PreparedDocument, SearchFilter};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::contract::{Engine, cut, document, id, language, over_both_engines};

fn term(text: &str) -> QueryTerm {
    let prefix = text.ends_with('*');
    QueryTerm { text: text.trim_end_matches('*').to_owned(), prefix }
}

fn terms(texts: &[&str]) -> QueryTerms {
    QueryTerms { terms: texts.iter().map(|text| term(text)).collect(), ..QueryTerms::default() }
}

fn phrase(text: &str) -> TermPhrase {
    TermPhrase { terms: text.split(' ').map(str::to_owned).collect(), prefix: false, folded: false }
}

/// The documents of what was found, best first.
fn found(engine: &Engine, terms: &QueryTerms) -> Vec<String> {
    found_in(engine, terms, &SearchFilter::default())
}

fn found_in(engine: &Engine, terms: &QueryTerms, filter: &SearchFilter) -> Vec<String> {
    let hits = engine.lexical(terms, filter, 100).unwrap();
    assert!(hits.is_sorted_by(|(_, a), (_, b)| a >= b) && hits.iter().all(|(_, score)| *score > 0.0), "{hits:?}");
    let passages: Vec<_> = hits.iter().map(|(passage, _)| *passage).collect();
    engine.documents_of(&passages).unwrap().into_iter().map(|row| row.document.to_string()).collect()
}

over_both_engines! {
    fn terms_are_added_and_removed_with_their_passages(engine) {
        engine.put(cut("a", "grey sea. old wall.", vec![0..9, 10..19]));
        engine.put(document("b", "the sea"));
        assert_eq!((found(engine, &terms(&["sea"])), found(engine, &terms(&["wall"]))), (vec!["a".to_owned(), "b".to_owned()], vec!["a".to_owned()]));
        engine.put(document("a", "fresh bread"));
        assert_eq!((found(engine, &terms(&["sea"])), found(engine, &terms(&["bread"]))), (vec!["b".to_owned()], vec!["a".to_owned()]));
        engine.delete_if(&id("a"), Precondition::None).unwrap();
        assert_eq!(found(engine, &terms(&["bread"])), [""; 0]);
        assert_eq!(found(engine, &QueryTerms::default()), [""; 0]);
    }

    fn rare_words_short_texts_and_exact_spellings_rank_higher(engine) {
        engine.put(document("long", "sea and sand and wind and waves and much more of it"));
        engine.put(document("short", "sea sand"));
        engine.put(document("none", "mountains and nothing"));
        engine.put(document("other", "mountains or hills"));
        engine.put(document("more", "lakes or rivers"));
        assert_eq!(found(engine, &terms(&["sea"])), ["short", "long"]);
        assert_eq!(found(engine, &terms(&["wind", "sea"])), ["long", "short"]);
        assert_eq!(engine.lexical(&terms(&["sea"]), &SearchFilter::default(), 1).unwrap().len(), 1);
        engine.put(document("spelled", "ete"));
        engine.put(document("accents", "été"));
        assert_eq!(found(engine, &terms(&["ete"])), ["spelled", "accents"]);
        assert_eq!(found(engine, &terms(&["win*", "hil*"])).len(), 2);
    }

    fn filters_restrict_the_matches(engine) {
        for (name, code) in [("a", "fr"), ("b", "de"), ("c", "fr")] {
            engine.put(PreparedDocument { language: language(code), ..document(name, "sea") });
        }
        let filter = SearchFilter { languages: vec![language("fr").unwrap()], ..SearchFilter::default() };
        assert_eq!(found_in(engine, &terms(&["sea"]), &filter), ["a", "c"]);
    }

    fn required_terms_restrict_the_hits(engine) {
        for (name, text) in [("a", "old grey sea"), ("b", "grey old sea"), ("c", "old sea"), ("d", "old greyish été")] {
            engine.put(document(name, text));
        }
        let required = |forms: &[&str]| forms.iter().map(|text| phrase(text)).collect::<Vec<_>>();
        let mut asked = QueryTerms { required: vec![required(&["old grey"])], ..terms(&["old"]) };
        assert_eq!(found(engine, &asked), ["a"]);
        asked.required[0][0].prefix = true;
        assert_eq!(found(engine, &asked).len(), 2);
        let only = |terms: &QueryTerms| match engine.required_matches(terms).unwrap() {
            Some(RequiredPassages::Only(set)) => set.len(),
            other => unreachable!("{other:?}"),
        };
        assert_eq!(only(&asked), 2);
        asked.excluded = required(&["sea"]);
        assert_eq!((found(engine, &asked), only(&asked)), (vec!["d".to_owned()], 1));
        asked.required = vec![required(&["nothing", "sea"]), required(&["grey"])];
        asked.excluded = Vec::new();
        assert_eq!(found(engine, &asked).len(), 2);
        let excluding = QueryTerms { excluded: required(&["grey"]), ..QueryTerms::default() };
        assert!(matches!(engine.required_matches(&excluding).unwrap(), Some(RequiredPassages::AllBut(set)) if set.len() == 2));
        assert!(engine.required_matches(&terms(&["old"])).unwrap().is_none());
        // Matches only the exact spelling.
        asked.required = vec![required(&["ete"])];
        assert_eq!(found(engine, &asked), [""; 0]);
        asked.required[0][0].folded = true;
        assert_eq!(found(engine, &asked), ["d"]);
        // The beginning of a word, with or without its accents.
        asked.required = vec![vec![TermPhrase { prefix: true, folded: true, ..phrase("et") }]];
        assert_eq!((found(engine, &asked), only(&asked)), (vec!["d".to_owned()], 1));
    }

    fn a_phrase_of_many_words_must_be_in_order(engine) {
        let required = |text: &str| QueryTerms { required: vec![vec![phrase(text)]], ..terms(&["sea"]) };
        engine.put(document("a", "she lived in the old town by the grey sea for years"));
        engine.put(document("b", "by the grey town in the old sea"));
        let mut asked = required("in the old town by the grey sea");
        assert_eq!(found(engine, &asked), ["a"]);
        asked.required[0].push(phrase("the grey town in the old sea"));
        assert_eq!(found(engine, &asked).len(), 2);
        assert_eq!(found(engine, &required("in the old town by a grey sea")), [""; 0]);
        let beginning = TermPhrase { prefix: true, ..phrase("in the old town by the gr") };
        assert_eq!(found(engine, &QueryTerms { required: vec![vec![beginning]], ..terms(&["sea"]) }), ["a"]);
        let hundred = (0..100).map(|number| format!("sea{number}")).collect::<Vec<_>>().join(" ");
        engine.put(document("c", &format!("sea {hundred}")));
        assert_eq!(found(engine, &required(&hundred)), ["c"]);
    }

    fn a_new_language_replaces_a_passages_terms(engine) {
        engine.put(PreparedDocument { language: language("fr"), ..document("a", "sea") });
        assert_eq!(found(engine, &terms(&["infr"])), ["a"]);
        engine.put(PreparedDocument { language: language("de"), ..document("a", "sea") });
        assert_eq!((found(engine, &terms(&["infr"])), found(engine, &terms(&["inde"]))), (vec![], vec!["a".to_owned()]));
    }

    /// Whatever a term contains, it is matched literally and not parsed as an expression.
    fn arbitrary_query_terms_never_fail(engine) {
        engine.put(document("a", "sea"));
        let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
        let run = TestRunner::new(config).run(&prop::collection::vec((any::<String>(), any::<bool>()), 0..100), |terms| {
            let terms = terms.into_iter().map(|(text, prefix)| QueryTerm { text, prefix }).collect();
            let found = engine.lexical(&QueryTerms { terms, ..QueryTerms::default() }, &SearchFilter::default(), 10);
            prop_assert!(found.is_ok(), "{found:?}");
            Ok(())
        });
        run.unwrap();
    }
}
