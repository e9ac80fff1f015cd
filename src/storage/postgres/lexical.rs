//! Lexical search: BM25 over the table of terms. The server computes the same scores as FTS5 in the embedded engine.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use tokio_postgres::Row;

use super::partition::Postgres;
use super::rows::{limit, passage_id};
use super::session::Parameter;
use super::terms::{prefix_upper_bound, split, stored_term};
use crate::domain::{PassageId, QueryTerms, TermPhrase};
use crate::store::{RequiredPassages, SearchFilter, StoreError, to_sql};

/// BM25's parameters, the same as in FTS5.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// Weight of a word that is found without its accents: a little less than a word found as spelled.
const FOLDED: f64 = 0.8;
/// Maximum number of words of a phrase that are joined: planning a join of a hundred takes seconds.
const JOINED_MAX: usize = 4;
/// Weight of a word that more than half of the passages have.
const IDF_MIN: f64 = 1e-6;

/// What to search for: phrases, and how they decide whether a passage matches.
struct Words {
    /// Selects phrase, document, passage, length and frequency.
    hits: String,
    values: Vec<String>,
    /// The condition on the phrases that a passage has, which are the rows of `h`.
    having: String,
}

impl Words {
    fn parameters(&self) -> Vec<Parameter<'_>> {
        self.values.iter().map(|value| value as _).collect()
    }
}

/// Builds the statement that finds phrases.
struct Builder<'t> {
    table: &'t str,
    first: usize,
    phrases: usize,
    selects: Vec<String>,
    values: Vec<String>,
}

impl Builder<'_> {
    fn value(&mut self, value: String) -> String {
        self.values.push(value);
        format!("${}", self.first + self.values.len() - 1)
    }

    /// Adds a phrase. Returns its number.
    fn phrase(&mut self, texts: &str, prefix: bool, folded: bool) -> usize {
        let number = self.phrases;
        self.phrases += 1;
        let terms: Vec<String> = split(texts).collect();
        let (joined, others) = joined_and_others(&terms, prefix);
        if joined.is_empty() {
            return number;
        }
        let conditions: Vec<String> = joined
            .iter()
            .enumerate()
            .map(|(position, &index)| self.term(position, &terms[index], prefix && position == 0))
            .collect();
        let rest = (!others.is_empty()).then(|| self.rest(&terms, &others, joined[0]));
        let table = self.table;
        let others: String = (1..joined.len())
            .map(|position| {
                format!(" join {table} t{position} on t{position}.document = t0.document and t{position}.passage = t0.passage")
            })
            .collect();
        let [words, without] = ["words", "folded"].map(|column| frequency(column, &joined, rest.as_deref()));
        let frequency = if folded { format!("{words} + {FOLDED} * {without}") } else { words };
        self.selects.push(format!(
            "select {number} as phrase, t0.document, t0.passage, max(t0.length) as length, sum({frequency})::double precision as frequency
             from {table} t0{others} where {} group by t0.document, t0.passage having sum({frequency}) > 0",
            conditions.join(" and ")
        ));
        number
    }

    /// Returns the rows of other terms of a phrase in the passage, with their distances from the term `first`, and how many there
    /// must be.
    fn rest(&mut self, terms: &[String], others: &[usize], first: usize) -> String {
        let values: Vec<String> = others.iter().map(|&index| self.value(stored_term(&terms[index]))).collect();
        let distances: Vec<String> = others.iter().map(|&index| (index as i64 - first as i64).to_string()).collect();
        format!(
            "{} = (select count(*) from unnest(array[{}]::text[], array[{}]) as rest (term, distance)
                 join {} r on r.term = rest.term and r.document = t0.document and r.passage = t0.passage",
            others.len(),
            values.join(", "),
            distances.join(", "),
            self.table
        )
    }

    fn term(&mut self, index: usize, term: &str, prefix: bool) -> String {
        let end = if prefix { prefix_upper_bound(term) } else { None };
        let term = self.value(stored_term(term));
        match end {
            None => format!("t{index}.term = {term}"),
            Some(end) => format!("t{index}.term >= {term} and t{index}.term < {}", self.value(end)),
        }
    }

    fn forms(&mut self, forms: &[TermPhrase]) -> Vec<usize> {
        forms.iter().map(|form| self.phrase(&form.terms.join(" "), form.prefix, form.folded)).collect()
    }
}

/// Splits the terms of a phrase into those to join and the others. The longest are joined, because they are often the rarest, but
/// a prefix, which several terms have, comes first.
fn joined_and_others(terms: &[String], prefix: bool) -> (Vec<usize>, Vec<usize>) {
    let mut joined: Vec<usize> = (0..terms.len()).collect();
    let is_prefix = |index: usize| prefix && index == terms.len() - 1;
    joined.sort_by_key(|&index| (!is_prefix(index), Reverse(terms[index].chars().count())));
    let others = joined.split_off(joined.len().min(JOINED_MAX));
    (joined, others)
}

/// Returns an expression of how often the terms follow each other in a column.
fn frequency(column: &str, joined: &[usize], rest: Option<&str>) -> String {
    if joined.len() == 1 {
        return format!("cardinality(t0.{column})");
    }
    let distance = |index: usize| index as i64 - joined[0] as i64;
    let joined = joined.iter().enumerate().skip(1);
    let mut follows: Vec<String> =
        joined.map(|(at, &index)| format!("at.position + {} = any(t{at}.{column})", distance(index))).collect();
    follows.extend(rest.map(|rest| format!("{rest} where at.position + rest.distance = any(r.{column}))")));
    format!("(select count(*) from unnest(t0.{column}) as at (position) where {})", follows.join(" and "))
}

/// Returns a condition that a passage has one of these phrases.
fn has_any(phrases: &[usize]) -> String {
    let numbers: Vec<String> = phrases.iter().map(usize::to_string).collect();
    if numbers.is_empty() {
        "false".to_owned()
    } else {
        format!("coalesce(bool_or(h.phrase in ({})), false)", numbers.join(", "))
    }
}

/// Compiles the terms of a query. With `with_terms`, a passage must also have at least one of the query's terms.
fn words(table: &str, terms: &QueryTerms, first: usize, with_terms: bool) -> Words {
    let mut builder = Builder { table, first, phrases: 0, selects: Vec::new(), values: Vec::new() };
    let mut having = Vec::new();
    if with_terms {
        let phrases: Vec<usize> = terms.terms.iter().map(|term| builder.phrase(&term.text, term.prefix, true)).collect();
        having.push(has_any(&phrases));
    }
    for forms in &terms.required {
        having.push(has_any(&builder.forms(forms)));
    }
    if !terms.excluded.is_empty() && (with_terms || !terms.required.is_empty()) {
        having.push(format!("not {}", has_any(&builder.forms(&terms.excluded))));
    } else if !terms.excluded.is_empty() {
        having.push(has_any(&builder.forms(&terms.excluded)));
    }
    let none = "select 0 as phrase, 0::bigint as document, 0::bigint as passage, 0 as length, 0::double precision as frequency where false";
    let hits = if builder.selects.is_empty() { none.to_owned() } else { builder.selects.join(" union all ") };
    let having = if having.is_empty() { "true".to_owned() } else { having.join(" and ") };
    Words { hits, values: builder.values, having }
}

impl Postgres {
    pub(crate) fn lexical(
        &self,
        terms: &QueryTerms,
        filter: &SearchFilter,
        max: usize,
    ) -> Result<Vec<(PassageId, f32)>, StoreError> {
        if terms.terms.is_empty() {
            return Ok(Vec::new());
        }
        let condition = self.compile(filter);
        let words = words(&self.names.terms, terms, condition.next(), true);
        let documents = match *filter == SearchFilter::default() {
            true => format!(
                "where h.document not in (select document from {} where expires_at_ms <= {})",
                self.names.documents,
                self.now()
            ),
            false => format!("join {} d on d.document = h.document and {}", self.live(), condition.sql),
        };
        let sql = format!(
            "with hits as materialized ({}),
             counted as (select passages::double precision as passages, terms::double precision / greatest(passages, 1) as average
                         from dragoman.collections where key = {}),
             weights as (
                 select phrase, case when idf <= 0 then {IDF_MIN} else idf end as idf from (
                     select phrase, ln((max(passages) - count(*) + 0.5) / (count(*) + 0.5)) as idf from hits, counted group by phrase
                 ) each
             )
             select h.passage, sum(w.idf * h.frequency * ({K1} + 1)
                 / (h.frequency + {K1} * (1 - {B} + {B} * h.length / c.average))) as score
             from hits h join weights w on w.phrase = h.phrase cross join counted c {documents}
             group by h.document, h.passage having {} order by score desc, h.passage limit {}",
            words.hits,
            self.key,
            words.having,
            limit(max)
        );
        let mut values = condition.parameters();
        values.extend(words.parameters());
        let read = |row: &Row| Ok((passage_id(row.try_get(0)?), row.try_get::<_, f64>(1)? as f32));
        self.search("searching by words", |session| session.rows(&sql, &values)?.iter().map(read).collect())
    }

    pub(crate) fn titled(&self, title: &[String], bytes: RangeInclusive<u64>, max: usize) -> Result<Vec<PassageId>, StoreError> {
        let (terms, passages) = (&self.names.terms, &self.names.passages);
        // The first terms are enough, because the caller compares the titles.
        let title: Vec<String> = split(&title.join(" ")).take(JOINED_MAX).map(|term| stored_term(&term)).collect();
        let joined: String = (0..title.len())
            .map(|at| {
                let own = format!("t{at}.document = p.document and t{at}.passage = p.passage");
                format!(" join {terms} t{at} on {own} and t{at}.term = ${} and {at} = any(t{at}.words)", at + 3)
            })
            .collect();
        let sql = format!(
            "select p.passage from {passages} p join {} d on d.document = p.document{joined}
             where p.ordinal = 0 and octet_length(d.title) between $1 and $2 order by p.passage limit {}",
            self.live(),
            limit(max)
        );
        let [from, to] = [*bytes.start(), *bytes.end()].map(to_sql);
        let mut values: Vec<Parameter<'_>> = vec![&from, &to];
        values.extend(title.iter().map(|term| term as Parameter<'_>));
        self.search("searching titles", |session| session.passages(&sql, &values))
    }

    pub(crate) fn required_matches(&self, terms: &QueryTerms) -> Result<Option<RequiredPassages>, StoreError> {
        if !terms.has_constraints() {
            return Ok(None);
        }
        let words = words(&self.names.terms, terms, 1, false);
        let sql = format!(
            "with hits as materialized ({}) select h.passage from hits h group by h.document, h.passage having {}",
            words.hits, words.having
        );
        let found = self.search("searching by words", |session| session.passages(&sql, &words.parameters()))?;
        Ok(RequiredPassages::new(found, !terms.required.is_empty()))
    }
}
