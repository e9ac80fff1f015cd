//! How a SentencePiece model segments texts, worked by hand: each step merges the neighbors whose merged piece has the highest
//! score.

use super::*;

fn piece(text: &str, score: f32, kind: Kind) -> Piece {
    Piece { piece: Some(text.to_owned()), score: Some(score), r#type: Some(kind as i32) }
}

/// Ids 0 and 1 are `<pad>` and `<unk>`, 2 is the control symbol `<2en>`; the others follow, with scores as given.
fn model(pieces: &[(&str, f32)]) -> ModelProto {
    let special = [("<pad>", Kind::Control), ("<unk>", Kind::Unknown), ("<2en>", Kind::Control)];
    let special = special.map(|(text, kind)| piece(text, 0.0, kind));
    let normal = pieces.iter().map(|&(text, score)| piece(text, score, Kind::Normal));
    ModelProto {
        pieces: special.into_iter().chain(normal).collect(),
        trainer_spec: Some(TrainerSpec { model_type: Some(Method::Bpe as i32), ..Default::default() }),
        normalizer_spec: None,
    }
}

fn cut(model: &ModelProto, text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    SentencePiece::decode(&model.encode_to_vec()).unwrap().save(&path).unwrap();
    let tokenizer = dragoman::text::Tokenizer::load(&path).unwrap();
    assert_eq!(tokenizer.vocabulary_size(), model.pieces.len());
    tokenizer.encode(text, 100).unwrap().ids.into_iter().map(|id| tokenizer.token(id).unwrap()).collect()
}

#[track_caller]
fn check(model: &ModelProto, text: &str, expect: &[&str]) {
    assert_eq!(cut(model, text), expect, "{text:?}");
}

const LETTERS: [(&str, f32); 6] = [("▁", -90.0), ("a", -91.0), ("b", -92.0), ("c", -93.0), ("d", -94.0), ("é", -95.0)];

fn letters_and(pieces: &[(&str, f32)]) -> ModelProto {
    model(&[LETTERS.as_slice(), pieces].concat())
}

#[test]
fn the_pair_with_the_highest_score_is_merged_first() {
    // ▁ a b c: bc (-1) before ab (-2), so ab is never made; then no two neighbors of ▁ a bc make a piece.
    check(&letters_and(&[("ab", -2.0), ("bc", -1.0)]), "abc", &["▁", "a", "bc"]);
    // In the opposite order, c is left over.
    check(&letters_and(&[("ab", -1.0), ("bc", -2.0)]), "abc", &["▁", "ab", "c"]);
}

#[test]
fn any_two_neighbors_that_form_a_piece_can_be_merged() {
    // bc (-1), then abc (-2) from a and bc; ab (-3) comes too late.
    check(&letters_and(&[("abc", -2.0), ("bc", -1.0), ("ab", -3.0)]), "abc", &["▁", "abc"]);
    // cd (-1), ab (-2), then abcd (-3) from ab and cd.
    check(&letters_and(&[("ab", -2.0), ("cd", -1.0), ("abcd", -3.0)]), "abcd", &["▁", "abcd"]);
    // abcd can no longer be made when bc comes first: a bc d, and neither a+bc nor bc+d is a piece.
    check(&letters_and(&[("bc", -0.5), ("ab", -2.0), ("cd", -1.0), ("abcd", -3.0)]), "abcd", &["▁", "a", "bc", "d"]);
}

#[test]
fn the_leftmost_of_tied_pairs_is_merged_first() {
    check(&letters_and(&[("aa", -1.0)]), "aaa", &["▁", "aa", "a"]);
    check(&letters_and(&[("aa", -1.0), ("aaa", -2.0)]), "aaaaa", &["▁", "aa", "aaa"]);
}

#[test]
fn a_leading_space_belongs_to_its_word() {
    let model = letters_and(&[("▁a", -1.0), ("▁ab", -2.0)]);
    check(&model, "ab ba", &["▁ab", "▁", "b", "a"]);
    check(&model, "  ab   ab ", &["▁ab", "▁ab"]);
}

#[test]
fn a_piece_may_span_a_space() {
    check(&letters_and(&[("a▁", -1.0), ("a▁b", -2.0)]), "a b", &["▁", "a▁b"]);
}

#[test]
fn consecutive_unknown_characters_become_one_unknown_piece() {
    check(&letters_and(&[]), "axya", &["▁", "a", "<unk>", "a"]);
    check(&letters_and(&[]), "x y", &["▁", "<unk>", "▁", "<unk>"]);
}

#[test]
fn unknown_characters_become_bytes_with_byte_fallback() {
    let mut model = letters_and(&[]);
    model.pieces.extend((0..=255).map(|byte| piece(&format!("<0x{byte:02X}>"), 0.0, Kind::Byte)));
    model.trainer_spec.as_mut().unwrap().byte_fallback = Some(true);
    check(&model, "aë", &["▁", "a", "<0xC3>", "<0xAB>"]);
}

#[test]
fn control_symbols_are_never_produced_from_a_text() {
    check(&letters_and(&[("<", -1.0), ("2", -2.0)]), "<2en>", &["▁", "<", "2", "<unk>"]);
}

#[test]
fn spaces_follow_the_normalizer_settings_of_the_model() {
    let mut model = letters_and(&[]);
    model.normalizer_spec = Some(NormalizerSpec { add_dummy_prefix: Some(false), ..Default::default() });
    check(&model, " a  b", &["a", "▁", "b"]);
    model.normalizer_spec = Some(NormalizerSpec { remove_extra_whitespaces: Some(false), ..Default::default() });
    check(&model, "a  b", &["▁", "a", "▁", "▁", "b"]);
}

/// A character map that maps `D` to `d`: a double-array trie and the texts that its leaves point to.
///
/// A unit has its label in bits 0 to 7, bit 8 if it has a leaf, and its offset from bit 10; a leaf has bit 31 and its value.
/// The root, unit 0, has the offset 256: the child for byte 0x44 is unit 256 ^ 0x44 = 324. That has the label 0x44 and the
/// offset 1, so its leaf is unit 324 ^ 1 = 325, with the value 0: the text at 0, `d`, up to the next NUL.
fn character_map() -> Vec<u8> {
    let mut units = vec![0_u32; 512];
    units[0] = 256 << 10;
    units[324] = 0x44 | 1 << 8 | 1 << 10;
    units[325] = 1 << 31;
    let trie: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    [&(trie.len() as u32).to_le_bytes()[..], &trie, b"d\0"].concat()
}

#[test]
fn the_character_map_is_applied_before_merging() {
    let mut model = letters_and(&[("▁d", -1.0)]);
    model.normalizer_spec = Some(NormalizerSpec { precompiled_charsmap: Some(character_map()), ..Default::default() });
    check(&model, "D aD", &["▁d", "▁", "a", "d"]);
}

#[test]
fn more_than_65536_pieces_are_supported() {
    let many: Vec<(String, f32)> =
        (0..70_000_u32).filter_map(|n| char::from_u32(0x1_0000 + n)).map(|c| (c.to_string(), -1.0)).collect();
    let many: Vec<(&str, f32)> = many.iter().map(|(text, score)| (text.as_str(), *score)).collect();
    let last = many.last().unwrap().0;
    check(&model(&[&[("▁", -1.0)], many.as_slice()].concat()), last, &["▁", last]);
}

#[test]
fn unsupported_and_invalid_models_are_refused() {
    let check = |change: &dyn Fn(&mut ModelProto), expect: &str| {
        let mut model = letters_and(&[]);
        change(&mut model);
        let error = SentencePiece::decode(&model.encode_to_vec()).map(|_| ()).unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    check(&|model| model.trainer_spec = None, "expected a model of type BPE, got Unigram");
    check(&|model| model.pieces[1].r#type = None, "expected an unknown piece");
    check(&|model| model.pieces.push(piece("a", -1.0, Kind::Normal)), "pieces 4 and 9 are both \"a\"");
    check(&|model| model.pieces.push(piece("", -1.0, Kind::Normal)), "piece 9 is empty");
    check(&|model| model.pieces.push(piece("x", -1.0, Kind::UserDefined)), "piece 9, \"x\", is UserDefined");
    check(&|model| model.pieces.push(piece("x", f32::NAN, Kind::Normal)), "has the score NaN");
    check(&|model| model.trainer_spec.as_mut().unwrap().treat_whitespace_as_suffix = Some(true), "spaces");
    assert!(SentencePiece::decode(b"not a model").map(|_| ()).unwrap_err().contains("expected a SentencePiece model"));
}
