//! The fields of SentencePiece's model file that decide how a text is split; the numbers are those of its
//! `sentencepiece_model.proto`. Public so that tests can write models.

/// A model.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelProto {
    /// The pieces; their index is their id.
    #[prost(message, repeated, tag = "1")]
    pub pieces: Vec<Piece>,
    /// How it was trained.
    #[prost(message, optional, tag = "2")]
    pub trainer_spec: Option<TrainerSpec>,
    /// What is done to a text first.
    #[prost(message, optional, tag = "3")]
    pub normalizer_spec: Option<NormalizerSpec>,
}

/// A piece.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Piece {
    /// Its text.
    #[prost(string, optional, tag = "1")]
    pub piece: Option<String>,
    /// Pieces with higher scores are joined first.
    #[prost(float, optional, tag = "2")]
    pub score: Option<f32>,
    /// What it is for.
    #[prost(enumeration = "Kind", optional, tag = "3", default = "Normal")]
    pub r#type: Option<i32>,
}

/// What a piece is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    /// A part of texts.
    Normal = 1,
    /// Stands for anything outside the pieces.
    Unknown = 2,
    /// Never comes out of a text.
    Control = 3,
    /// Always found whole.
    UserDefined = 4,
    /// Not in use.
    Unused = 5,
    /// One byte of a character outside the pieces.
    Byte = 6,
}

/// How a model was trained.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrainerSpec {
    /// Its method.
    #[prost(enumeration = "Method", optional, tag = "3", default = "Unigram")]
    pub model_type: Option<i32>,
    /// Whether spaces are marked after words.
    #[prost(bool, optional, tag = "24")]
    pub treat_whitespace_as_suffix: Option<bool>,
    /// Whether unknown characters become bytes.
    #[prost(bool, optional, tag = "35")]
    pub byte_fallback: Option<bool>,
}

/// The method of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Method {
    /// The likeliest cut.
    Unigram = 1,
    /// Joining by score.
    Bpe = 2,
    /// By spaces.
    Word = 3,
    /// By characters.
    Char = 4,
}

/// What is done to a text first.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NormalizerSpec {
    /// The compiled character map.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub precompiled_charsmap: Option<Vec<u8>>,
    /// Whether a text gets a space before it.
    #[prost(bool, optional, tag = "3", default = "true")]
    pub add_dummy_prefix: Option<bool>,
    /// Whether leading, trailing and doubled spaces are removed.
    #[prost(bool, optional, tag = "4", default = "true")]
    pub remove_extra_whitespaces: Option<bool>,
    /// Whether spaces are marked.
    #[prost(bool, optional, tag = "5", default = "true")]
    pub escape_whitespaces: Option<bool>,
}
