//! The fields of SentencePiece's model file that decide how a text is segmented; the numbers are those of
//! `sentencepiece_model.proto`. Public so that tests can write models.

/// A model.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelProto {
    /// The pieces; their index is their id.
    #[prost(message, repeated, tag = "1")]
    pub pieces: Vec<Piece>,
    /// Training options.
    #[prost(message, optional, tag = "2")]
    pub trainer_spec: Option<TrainerSpec>,
    /// Normalization of texts.
    #[prost(message, optional, tag = "3")]
    pub normalizer_spec: Option<NormalizerSpec>,
}

/// A piece.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Piece {
    /// Its text.
    #[prost(string, optional, tag = "1")]
    pub piece: Option<String>,
    /// Pieces with higher scores are merged first.
    #[prost(float, optional, tag = "2")]
    pub score: Option<f32>,
    /// Its kind.
    #[prost(enumeration = "Kind", optional, tag = "3", default = "Normal")]
    pub r#type: Option<i32>,
}

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    /// Ordinary text.
    Normal = 1,
    /// The unknown piece.
    Unknown = 2,
    /// A control symbol, which no text produces.
    Control = 3,
    /// Always matched as a whole.
    UserDefined = 4,
    /// Not in use.
    Unused = 5,
    /// One byte of a character that no piece covers.
    Byte = 6,
}

/// Training options of a model.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrainerSpec {
    /// The segmentation method.
    #[prost(enumeration = "Method", optional, tag = "3", default = "Unigram")]
    pub model_type: Option<i32>,
    /// Whether spaces are marked after words.
    #[prost(bool, optional, tag = "24")]
    pub treat_whitespace_as_suffix: Option<bool>,
    /// Whether unknown characters become bytes.
    #[prost(bool, optional, tag = "35")]
    pub byte_fallback: Option<bool>,
}

/// The segmentation method of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Method {
    /// The most probable segmentation.
    Unigram = 1,
    /// Merging by score.
    Bpe = 2,
    /// Splitting by spaces.
    Word = 3,
    /// Splitting into characters.
    Char = 4,
}

/// Normalization of texts.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NormalizerSpec {
    /// The compiled character map.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub precompiled_charsmap: Option<Vec<u8>>,
    /// Whether a space is added before a text.
    #[prost(bool, optional, tag = "3", default = "true")]
    pub add_dummy_prefix: Option<bool>,
    /// Whether leading, trailing and doubled spaces are removed.
    #[prost(bool, optional, tag = "4", default = "true")]
    pub remove_extra_whitespaces: Option<bool>,
    /// Whether spaces are marked.
    #[prost(bool, optional, tag = "5", default = "true")]
    pub escape_whitespaces: Option<bool>,
}
