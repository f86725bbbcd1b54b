use std::path::PathBuf;

use super::*;

fn open(config: LocalConfig) -> Result<LocalEmbedder, FolderError> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/embed/tiny-wordpiece");
    LocalEmbedder::open(&folder, config, TaskTracker::new())
}

#[tokio::test]
async fn texts_of_any_length_have_a_vector_of_unit_length_in_their_order() {
    let embedder = open(LocalConfig::default()).unwrap();
    let long = "dog ".repeat(300_000);
    let texts = ["the fox", "", &long, "🎉", "the fox", "a lazy dog jumps over the quick brown fox"];
    let vectors = embedder.embed(Side::Document, &texts).await.unwrap();
    assert_eq!(vectors.len(), texts.len());
    assert!(vectors.iter().all(|v| v.len() == 24 && (v.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4));
    assert_eq!(vectors[0], vectors[4]);
    let question = embedder.embed(Side::Query, &["the fox"]).await.unwrap();
    let cosine: f32 = question[0].iter().zip(&vectors[0]).map(|(a, b)| a * b).sum();
    assert!(cosine > 0.999, "without prefixes both sides are the same: {cosine}");
}

#[tokio::test]
async fn the_prefix_of_its_side_stands_before_a_text() {
    let plain = open(LocalConfig::default()).unwrap();
    let config = LocalConfig { query_prefix: "the lazy ".to_owned(), ..LocalConfig::default() };
    let prefixed = open(config).unwrap();
    let wanted = plain.embed(Side::Query, &["the lazy dog"]).await.unwrap();
    assert_eq!(prefixed.embed(Side::Query, &["dog"]).await.unwrap(), wanted);
    assert_ne!(prefixed.embed(Side::Document, &["dog"]).await.unwrap(), wanted);
    assert_ne!(prefixed.generation().id(), plain.generation().id());
}

#[test]
fn a_dimension_that_the_model_does_not_have_is_an_error_at_the_start() {
    let error = open(LocalConfig { dimension: Some(384), ..LocalConfig::default() }).unwrap_err();
    assert!(error.to_string().contains("24") && error.to_string().contains("384"), "{error}");
    assert!(open(LocalConfig { dimension: Some(24), ..LocalConfig::default() }).is_ok());
}

#[tokio::test]
async fn questions_are_bounded_and_go_before_stored_texts() {
    let embedder = open(LocalConfig::default()).unwrap();
    let held: Vec<_> = (0..MAX_WAITING).map(|_| Asking::of(&embedder.waiting).unwrap()).collect();
    let refused = embedder.embed(Side::Query, &["one more"]).await;
    assert!(matches!(refused, Err(EmbedError::Later { .. })));
    let mut stored = Box::pin(embedder.until_quiet());
    assert!(futures_util::poll!(&mut stored).is_pending());
    drop(held);
    stored.await;
    assert!(embedder.embed(Side::Query, &["one more"]).await.is_ok());
}

#[test]
fn what_is_computed_together_is_of_like_length_and_bounded() {
    let texts: Vec<Vec<u32>> = [200, 3, 60, 2, 60, 100].map(|length| vec![1; length]).into();
    let chunks = chunks(&texts);
    assert_eq!(chunks, [vec![3, 1, 2, 4], vec![5], vec![0]]);
}

#[test]
fn a_vector_without_a_direction_sinks_none_of_its_neighbours() {
    let vectors = [vec![0.0, 2.0], vec![f32::NAN, 1.0], vec![0.0, 0.0]].map(directed);
    assert_eq!(vectors, [Some(vec![0.0, 1.0]), None, None]);
}

#[test]
fn work_that_nobody_waits_for_any_longer_counts_until_it_is_done() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let embedder = open(LocalConfig::default()).unwrap();
        let permits = (embedder.queries.available_permits(), embedder.documents.available_permits());
        // The only thread that works is busy.
        let (done, wait) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || wait.recv());
        for side in [Side::Query, Side::Document] {
            let mut asked = Box::pin(embedder.embed(side, &["the fox"]));
            assert!(futures_util::poll!(&mut asked).is_pending());
        }
        let left = (embedder.queries.available_permits(), embedder.documents.available_permits());
        assert_eq!(left, (permits.0 - 1, permits.1 - 1));
        assert_eq!(embedder.waiting.questions.load(Ordering::Relaxed), 1);
        drop(done);
        while (embedder.queries.available_permits(), embedder.documents.available_permits()) != permits {
            tokio::task::yield_now().await;
        }
        assert_eq!(embedder.waiting.questions.load(Ordering::Relaxed), 0);
    });
}
