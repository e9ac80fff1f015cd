//! Terms: what a search by words compares, of a passage and of a query.

/// The terms of a passage, separated by spaces. Terms hold letters, digits and marks only, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassageTerms {
    /// Every word as it is spelled, and pairs of neighboring characters of scripts that put no spaces between words.
    pub words: String,
    /// Words without their accents, of those that have any.
    pub folded: String,
}

/// The terms of a query: a passage that has any of them may be a hit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryTerms {
    /// The terms, each once.
    pub terms: Vec<QueryTerm>,
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
