//! Terms: what a search by words compares, of a passage and of a query.

/// The terms of a passage, separated by spaces. Terms hold letters, digits and marks only, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassageTerms {
    /// Every word as it is spelled, and pairs of neighboring characters of scripts that put no spaces between words.
    pub words: String,
    /// Words without their accents, of those that have any.
    pub folded: String,
}

/// The terms of a query: a passage that has any of them may be a hit, if it has what is required and nothing that is excluded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryTerms {
    /// The terms, each once. What is required is among them, too.
    pub terms: Vec<QueryTerm>,
    /// What a passage must have: of each, one of these forms.
    pub required: Vec<Vec<TermPhrase>>,
    /// What a passage must not have.
    pub excluded: Vec<TermPhrase>,
    /// Whether the query had more terms than are looked for.
    pub truncated: bool,
}

/// One term of a query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueryTerm {
    /// The term.
    pub text: String,
    /// Whether every term that begins with it counts, too.
    pub prefix: bool,
}

/// Terms that follow each other in a passage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermPhrase {
    /// The terms, in order; at least one.
    pub terms: Vec<String>,
    /// Whether every term that begins with the last one counts, too.
    pub prefix: bool,
    /// Whether it may be a word without its accents; else words count as they are spelled.
    pub folded: bool,
}

impl TermPhrase {
    /// One word, as it is spelled or as what a passage has without its accents.
    pub fn anywhere(word: String) -> Self {
        Self { terms: vec![word], prefix: false, folded: true }
    }
}

impl QueryTerms {
    /// How many terms and phrases BM25 adds up: what is required counts once more, as a whole.
    pub fn scored(&self) -> usize {
        self.terms.len() + self.required.len()
    }

    /// Whether it demands anything of passages beside sharing a word.
    pub fn demands(&self) -> bool {
        !self.required.is_empty() || !self.excluded.is_empty()
    }
}
