//! What a pickle may contain, and what is refused. Programs are written by hand, one instruction at a time.

use super::*;

fn read(program: &[&[u8]]) -> Result<Pickle, PickleError> {
    Pickle::read(&program.concat())
}

/// A string instruction.
fn text(text: &str) -> Vec<u8> {
    [b"X".as_slice(), &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// A persistent id of `numbers` float32 in the file `key`.
fn floats(key: &str, numbers: u8) -> Vec<u8> {
    [b"(".as_slice(), &text("storage"), b"ctorch\nFloatStorage\n", &text(key), &text("cpu"), &[b'K', numbers], b"tQ"].concat()
}

#[track_caller]
fn refused(program: &[&[u8]], offset: usize, problem: &str) {
    let error = read(program).unwrap_err();
    assert_eq!(error.offset, offset, "{error}");
    assert!(error.problem.contains(problem), "{error}");
}

#[test]
fn constants_are_read() {
    let check = |program: &[u8], expect: Value| assert_eq!(read(&[b"\x80\x02", program, b"."]).unwrap().root, expect);
    check(b"N", Value::None);
    check(b"\x88", Value::Bool(true));
    check(b"K\xff", Value::Int(255));
    check(b"M\x00\x01", Value::Int(256));
    check(b"J\xfe\xff\xff\xff", Value::Int(-2));
    check(b"\x8a\x05\x00\x00\x00\x00\x01", Value::Int(1 << 32));
    check(b"\x8a\x01\x80", Value::Int(-128));
    check(b"\x8a\x00", Value::Int(0));
    check(b"G\x3f\xf8\x00\x00\x00\x00\x00\x00", Value::Float(1.5));
    check(b"X\x02\x00\x00\x00\xc3\xa9", Value::Text("é".into()));
    check(b"\x8c\x01a", Value::Text("a".into()));
}

#[test]
fn containers_are_filled_and_memoized_ones_are_shared() {
    // A dict with a list under `a`, and the same list, memoized as 7, under `b`.
    let pickle = read(&[b"\x80\x02}(", &text("a"), b"]q\x07(K\x01K\x02e", &text("b"), b"h\x07u."]).unwrap();
    let entries: Vec<(&str, &Value)> = pickle.entries(&pickle.root).unwrap().collect();
    assert_eq!(entries.len(), 2);
    assert_eq!((entries[0].0, entries[1].0), ("a", "b"));
    assert_eq!(entries[0].1, entries[1].1);
    assert_eq!(pickle.object(entries[0].1), Some(&Object::List(vec![Value::Int(1), Value::Int(2)])));
}

#[test]
fn tuples_keep_their_order() {
    let pickle = read(&[b"K\x01K\x02K\x03\x87."]).unwrap();
    assert_eq!(pickle.object(&pickle.root), Some(&Object::Tuple(vec![Value::Int(1), Value::Int(2), Value::Int(3)])));
}

#[test]
fn an_ordered_dict_is_read_as_a_dict_without_its_attributes() {
    let dict = b"ccollections\nOrderedDict\n)R";
    let pickle = read(&[b"\x80\x02", dict, &text("a"), b"K\x01s", b"}", &text("_metadata"), b"Nsb."]).unwrap();
    assert_eq!(pickle.object(&pickle.root), Some(&Object::Dict(vec![(Value::Text("a".into()), Value::Int(1))])));
}

#[test]
fn a_tensor_is_a_view_of_a_storage() {
    let rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n(";
    let pickle = read(&[rebuild, &floats("0", 9), b"K\x03K\x02K\x02\x86K\x01K\x02\x86\x89N", b"tR."]).unwrap();
    let storage = Storage { key: "0".into(), element: Element::Float, numbers: 9 };
    let expect = StoredTensor { storage, offset: 3, shape: vec![2, 2], strides: vec![1, 2] };
    assert_eq!(pickle.object(&pickle.root), Some(&Object::Tensor(expect)));
}

#[test]
fn a_parameter_is_read_as_its_tensor() {
    let tensor = [b"ctorch._utils\n_rebuild_tensor_v2\n(".as_slice(), &floats("0", 1), b"K\x00))\x89NtR"].concat();
    let pickle = read(&[b"ctorch._utils\n_rebuild_parameter\n", &tensor, b"\x88N\x87R."]).unwrap();
    assert!(matches!(pickle.object(&pickle.root), Some(Object::Tensor(_))));
}

#[test]
fn globals_and_instructions_that_could_run_code_are_refused() {
    refused(&[b"\x80\x02", b"cos\nsystem\n", &text("true"), b"\x85R."], 2, "the pickle names os.system");
    refused(&[b"cbuiltins\neval\n."], 0, "builtins.eval");
    refused(&[&text("posix"), &text("system"), b"\x93."], 21, "posix.system");
    refused(&[b"ctorch\nload\n."], 0, "torch.load");
    // NEWOBJ, INST and OBJ make objects of classes.
    refused(&[b"ccollections\nOrderedDict\n)\x81."], 26, "instruction 0x81");
    refused(&[b"(icollections\nOrderedDict\n."], 1, "instruction 0x69");
    refused(&[b"(ccollections\nOrderedDict\no."], 26, "instruction 0x6f");
}

#[test]
fn a_malformed_program_is_refused_with_its_offset() {
    refused(&[b"\x80\x05."], 0, "pickle protocol 5, expected 2 to 4");
    refused(&[b"a."], 0, "the stack is empty");
    refused(&[b"K\x01K\x02a."], 4, "nothing to put items into");
    refused(&[b"}K\x01a."], 3, "not a list or dict");
    refused(&[b"](K\x01K\x02u."], 6, "not a list or dict");
    refused(&[b"}(K\x01u."], 4, "a key without a value");
    refused(&[b"h\x05."], 0, "nothing was stored under 5");
    refused(&[b"t."], 0, "no mark");
    refused(&[b"K\x01(0."], 3, "the stack is empty");
    refused(&[b"K\x01)R."], 3, "not a function");
    refused(&[b"K\x01Nb."], 3, "not an OrderedDict");
    refused(&[b"NQ."], 1, "not a tuple");
    refused(&[b")Q."], 1, "not a storage");
    refused(&[b"\x8a\x09123456789."], 0, "an integer of 9 bytes");
    refused(&[b"\x8c\x01\xff."], 0, "not UTF-8");
}

#[test]
fn a_pickle_truncated_anywhere_is_refused() {
    let pickle = [b"\x80\x02ccollections\nOrderedDict\n)R(".as_slice(), &text("key"), &floats("0", 1), b"uq\x00."].concat();
    assert!(Pickle::read(&pickle).is_ok());
    for length in 0..pickle.len() {
        let error = Pickle::read(&pickle[..length]).unwrap_err();
        assert!(error.offset <= length, "{length}: {error}");
    }
}

#[test]
fn a_size_beyond_the_end_is_refused() {
    refused(&[b"X\xff\xff\xff\xffab."], 0, "expected 4294967295 more bytes, got 3");
    refused(&[b"B\xff\xff\xff\x7f."], 0, "cut off");
}

#[test]
fn deep_nesting_is_accepted_and_amplification_is_refused() {
    // A million nested lists, each closed again.
    let deep = [vec![b']'; 1_000_000], vec![b'a'; 999_999], vec![b'.']].concat();
    assert!(Pickle::read(&deep).is_ok());
    // One list of a thousand pairs, made into a dict again and again.
    let pairs = [b"](".as_slice(), &b"K\x01K\x02\x86".repeat(1_000), b"eq\x00"].concat();
    let again = b"ccollections\nOrderedDict\nh\x00\x85R".repeat(100);
    assert!(read(&[&pairs, &again, b"."]).unwrap_err().problem.contains("more pairs than the pickle has bytes"));
    let dimensions = [b"(".as_slice(), &b"K\x01".repeat(17), b"t"].concat();
    let tensor =
        [b"ctorch._utils\n_rebuild_tensor_v2\n(".as_slice(), &floats("0", 1), b"K\x00", &dimensions, b")\x89NtR."].concat();
    assert!(Pickle::read(&tensor).unwrap_err().problem.contains("17 dimensions, expected at most 16"));
}
