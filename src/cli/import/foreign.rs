//! `dragoman import --from`: reads the export of another database and converts it to documents while uploading.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde_json::Value;

use super::chroma::{self, Columns, Database};
use super::expected::{NamedFields, Names, Needed};
use super::failures::Failures;
use super::json_records::{self, Pages};
use super::record::{Fields, InvalidRecord, Record, Records};
use super::vectors::{self, Vectors};
use crate::cli::error::CliError;
use crate::cli::output::plural;
use crate::compression::decoder;
use crate::domain::FileEncoding;
use crate::new_id::new_uuid;

const BUFFER_BYTES: usize = 1 << 18;
const TEXT: &str = "text";

/// How to read the export of another database.
#[derive(Debug, Args)]
#[command(next_help_heading = "Exports of other databases")]
pub struct ForeignArgs {
    /// The database that wrote the file, or json for any other file of JSON objects.
    #[arg(long, value_enum, value_name = "DATABASE")]
    pub from: Option<Source>,
    #[command(flatten)]
    fields: Fields,
    /// Field with the id, for json and meilisearch; defaults to `id`.
    #[arg(long, value_name = "FIELD", requires = "from")]
    id_field: Option<String>,
    /// Named vector to import into a collection of your own vectors; required if the records have several. For Elasticsearch,
    /// the field with the vector.
    #[arg(long, value_name = "NAME", requires = "from")]
    pub vector_name: Option<String>,
    /// Collection in Chroma's database; required if there are several.
    #[arg(long, value_name = "NAME", requires = "from")]
    source_collection: Option<String>,
}

/// A database whose exports can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// Points as JSON: responses of the scroll API, or one point per line.
    Qdrant,
    /// The result of `collection.get()` as JSON, or Chroma's database folder.
    Chroma,
    /// Objects as JSON: responses of `GET /v1/objects`, or one object per line.
    Weaviate,
    /// Documents as JSON: responses of the documents API, an array, or one per line as in a dump.
    Meilisearch,
    /// Hits as JSON: responses of the search API of Elasticsearch or OpenSearch, or one hit per line.
    #[value(alias = "opensearch")]
    Elasticsearch,
    /// Any JSON objects: an array of them, or one per line. An object without an id gets a UUID.
    Json,
}

/// A reader that converts the records of an export to NDJSON documents. A record that cannot be converted gives an empty line,
/// so that line numbers of the results are record numbers.
pub struct Documents {
    records: Box<dyn Records>,
    fields: Fields,
    /// Chooses each record's vector; `None` if the collection embeds texts itself.
    vectors: Option<Vectors>,
    needed: Needed,
    field_names: Names,
    number: u64,
    line: io::Cursor<Vec<u8>>,
    pub named_fields: NamedFields,
    pub failures: Failures,
    /// Whether vectors were dropped because the collection embeds texts itself.
    pub drops_vectors: bool,
}

impl ForeignArgs {
    /// Opens the export. Keeps vectors only if `vectors` is set. `bar` shows the bytes read.
    pub fn documents(
        &self,
        source: Source,
        (file, compression): (Option<&Path>, FileEncoding),
        vectors: bool,
        (bar, failures): (&ProgressBar, Failures),
    ) -> Result<Documents, CliError> {
        if self.vector_name.is_some() && !vectors {
            return Err(needs_own_vectors());
        }
        if source == Source::Elasticsearch && vectors && self.vector_name.is_none() {
            return Err(CliError::Usage("the collection needs vectors: name their field with --vector-name".to_owned()));
        }
        let failed = || CliError::io(format!("read {}", file.map_or("standard input".into(), |file| file.display().to_string())));
        let records = match (source, file) {
            (Source::Chroma, None) => {
                return Err(CliError::Usage(
                    "an export of Chroma must be a file, because it is read in several places at once".to_owned(),
                ));
            }
            (Source::Chroma, Some(file)) => self.chroma(file, compression, vectors, bar).map_err(failed())?,
            (source, _) => {
                let content = bar.wrap_read(open_input(file).map_err(failed())?);
                let stream = decoder(compression, content).map_err(failed())?;
                let stream = BufReader::with_capacity(BUFFER_BYTES, stream);
                let records = json_records::Records::new(stream, source.pages()).map_err(failed())?;
                let (id_field, vector_name) = (self.id_field.clone(), self.vector_name.clone());
                Box::new(JsonExport { records, source, id_field, vector_name })
            }
        };
        let text = self.fields.text.clone().or((source != Source::Chroma).then(|| TEXT.to_owned()));
        Ok(Documents {
            records,
            fields: Fields { text, ..self.fields.clone() },
            vectors: vectors.then(|| Vectors { name: self.vector_name.clone(), ..Vectors::default() }),
            needed: Needed::new(if vectors { "vector" } else { "text" }),
            field_names: Names::default(),
            number: 0,
            line: io::Cursor::default(),
            named_fields: NamedFields::new([
                ("--text-field", &self.fields.text),
                ("--title-field", &self.fields.title),
                ("--language-field", &self.fields.language),
                ("--metadata-field", &self.fields.metadata),
            ]),
            failures,
            drops_vectors: false,
        })
    }

    fn chroma(&self, file: &Path, compression: FileEncoding, vectors: bool, bar: &ProgressBar) -> io::Result<Box<dyn Records>> {
        if let Some(path) = chroma::find_database(file)? {
            if vectors {
                let problem = "Chroma's database file has no vectors that can be read; save what collection.get(include=[\"embeddings\", \
                               \"documents\", \"metadatas\"]) gives as JSON";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
            }
            return Ok(Box::new(Database::open(&path, self.source_collection.as_deref())?));
        }
        let mut bars = [bar.clone()].into_iter();
        let columns = Columns::new(|| {
            // Only the first column reports progress.
            let content = bars.next().unwrap_or_else(ProgressBar::hidden).wrap_read(File::open(file)?);
            Ok(BufReader::with_capacity(BUFFER_BYTES, decoder(compression, content)?))
        })?;
        Ok(Box::new(columns))
    }
}

fn open_input(file: Option<&Path>) -> io::Result<Box<dyn Read>> {
    match file {
        Some(file) => Ok(Box::new(File::open(file)?)),
        None => Ok(Box::new(io::stdin().lock())),
    }
}

impl Source {
    /// Returns where its API responses contain the records.
    fn pages(self) -> Pages {
        let (members, first_only): (&[&str], bool) = match self {
            Self::Qdrant => (&["result", "points"], false),
            Self::Weaviate => (&["objects"], false),
            // A document may have a field with this name.
            Self::Meilisearch => (&["results"], true),
            Self::Elasticsearch => (&["hits"], false),
            Self::Chroma | Self::Json => (&[], false),
        };
        Pages { members, first_only }
    }
}

/// Records that are separate JSON objects.
struct JsonExport<R> {
    records: json_records::Records<R>,
    source: Source,
    id_field: Option<String>,
    /// The vector that is chosen by its name.
    vector_name: Option<String>,
}

impl<R: io::BufRead> Records for JsonExport<R> {
    fn next(&mut self) -> io::Result<Option<Result<Record, String>>> {
        let Some(found) = self.records.next()? else { return Ok(None) };
        Ok(Some(found.and_then(|mut object| {
            let mut take = |names: &[&str]| names.iter().find_map(|name| object.shift_remove(*name)).unwrap_or_default();
            let (id, fields, vector) = match self.source {
                Source::Qdrant => (take(&["id"]), take(&["payload"]), take(&["vector", "vectors"])),
                Source::Weaviate => {
                    let (single, named) = (take(&["vector"]), take(&["vectors"]));
                    let vector = if self.vector_name.is_some() || !vectors::has_any(&single) { named } else { single };
                    (take(&["id", "uuid"]), take(&["properties"]), vector)
                }
                Source::Elasticsearch => {
                    let (id, mut fields) = (take(&["_id"]), take(&["_source"]));
                    // A vector is a field like any other.
                    let named = |name: &String| Some((name.clone(), fields.as_object_mut()?.shift_remove(name)?));
                    let vector = self.vector_name.as_ref().and_then(named);
                    (id, fields, Value::Object(vector.into_iter().collect()))
                }
                Source::Json => {
                    let id = take(&[self.id_field.as_deref().unwrap_or("id")]);
                    let id = if id.is_null() { new_uuid().to_string().into() } else { id };
                    (id, Value::Object(object), Value::Null)
                }
                Source::Meilisearch | Source::Chroma => {
                    let (id, vector) = (take(&[self.id_field.as_deref().unwrap_or("id")]), take(&["_vectors"]));
                    (id, Value::Object(object), vector)
                }
            };
            Record::new(id, fields).map(|record| Record { vector, ..record })
        })))
    }
}

impl Documents {
    /// Converts records until one has what documents need. Fails if none has, so that no collection is created for them.
    pub fn find_needed(&mut self) -> io::Result<()> {
        let mut lines = Vec::new();
        while !self.needed.is_found() && self.advance()? {
            lines.append(self.line.get_mut());
        }
        self.line = io::Cursor::new(lines);
        Ok(())
    }

    /// Converts the next record. Returns false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        let after = |error: io::Error| io::Error::new(error.kind(), format!("{error}, after {}", plural(self.number, "record")));
        let Some(found) = self.records.next().map_err(after)? else {
            return if self.needed.is_missing() { Err(self.nothing_found()) } else { Ok(false) };
        };
        self.number += 1;
        let document = match found {
            Ok(record) => {
                let record = self.with_one_vector(record)?;
                self.named_fields.observe(&record.fields);
                if !self.needed.is_found() {
                    record.fields.keys().for_each(|name| self.field_names.add(name));
                }
                self.fields.document(record)
            }
            Err(detail) => Err(InvalidRecord { id: None, pointer: "", detail }),
        };
        let mut line = Vec::new();
        match document {
            Ok(document) => {
                // The server refuses a document without what it needs. If no document has it, an option is wrong.
                self.needed.observe(&document);
                if self.needed.is_hopeless() {
                    return Err(self.nothing_found());
                }
                line = document.to_string().into_bytes();
            }
            Err(misfit) => self.failures.add_invalid_record(self.number, &misfit).map_err(io::Error::other)?,
        }
        line.push(b'\n');
        self.line = io::Cursor::new(line);
        Ok(true)
    }

    /// Reduces a record's vectors to the one to import. If the choice is ambiguous, it is ambiguous for the other records
    /// too, so the import ends.
    fn with_one_vector(&mut self, mut record: Record) -> io::Result<Record> {
        let given = std::mem::take(&mut record.vector);
        match &mut self.vectors {
            Some(vectors) => {
                let ambiguous = |problem: String| invalid(format!("{} {problem}", so_far(self.number).0));
                record.vector = vectors.choose(&given).map_err(ambiguous)?;
            }
            None => self.drops_vectors = self.drops_vectors || vectors::has_any(&given),
        }
        Ok(record)
    }

    /// Returns the error for an export in which no record so far has what documents need.
    fn nothing_found(&self) -> io::Error {
        let (who, whose) = so_far(self.number);
        let names = &self.field_names;
        let fields = if names.is_empty() { "there are no fields".to_owned() } else { format!("{whose} fields are {names}") };
        invalid(match (&self.vectors, &self.fields.text) {
            (None, None) => format!("{who} no document; {fields}; name the one with the text with --text-field"),
            (None, Some(text)) => format!("{who} no field {text:?}; {fields}; name the one with the text with --text-field"),
            (Some(Vectors { name: Some(name), seen }), _) if !seen.is_empty() => {
                format!("{who} no vector {name:?}; {whose} vectors are {seen}; name the one to import with --vector-name")
            }
            (Some(_), _) => format!("{who} no dense vector, and the collection needs one; export them with their vectors"),
        })
    }
}

impl Read for Documents {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.line.position() == self.line.get_ref().len() as u64 {
            if !self.advance()? {
                return Ok(0);
            }
        }
        self.line.read(buffer)
    }
}

/// The error for a named vector in a collection that embeds texts itself.
fn needs_own_vectors() -> CliError {
    CliError::Usage(
        "--vector-name needs a collection of your own vectors; a collection that embeds texts itself takes none".to_owned(),
    )
}

/// Names this many first records and the source of their fields, for messages.
fn so_far(records: u64) -> (String, &'static str) {
    match records {
        1 => ("the first record has".to_owned(), "its"),
        records => (format!("the first {records} records have"), "their"),
    }
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
