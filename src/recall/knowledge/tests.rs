use super::*;
use crate::base::ManualClock;
use crate::memory::Sensitivity;
use crate::memory::knowledge::{Format, cut};
use crate::recall::{Exclude, Said};
use crate::store::sql::{SqlStore, SqliteOptions};
use crate::store::{KnowledgeStore, ShelfLimits};

const NOW: Time = Time(1_716_000_000_000);
const RETURNS: &str = "# Returns\nUnopened goods can be returned within thirty days of delivery.\n\n\
    ## Exceptions\nDiscounted mattresses and swimwear are never taken back.\n\n\
    # Warranty\nThe frame of each bed carries a warranty of ten years; slats carry two.\n";
const COFFEE: &str = "Descale the espresso machine every eight weeks. 请每八周给咖啡机除垢一次。\n\n\
    The grinder must not be washed with water.";

fn support() -> Namespace {
    Namespace::new("acme", "support")
}

struct Library {
    store: SqlStore,
    clock: Arc<ManualClock>,
    knowledge: Arc<Knowledge>,
}

impl Library {
    async fn new() -> Self {
        let store = SqlStore::sqlite(SqliteOptions::default()).await.unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let knowledge = Knowledge::new(Arc::new(store.clone()), RecallConfig::default(), Arc::clone(&clock) as Arc<_>);
        let library = Self { store, clock, knowledge: Arc::new(knowledge) };
        library.put(&support(), "returns", "Refund policy", RETURNS).await;
        library.put(&support(), "coffee", "Coffee machine", COFFEE).await;
        library
    }

    /// Writes as another process would: nobody here is told.
    async fn put(&self, namespace: &Namespace, id: &str, title: &str, text: &str) {
        let passages = cut(text, Format::Markdown);
        let document = Document {
            id: id.parse().unwrap(),
            title: title.to_owned(),
            format: Format::Markdown,
            source: None,
            tags: Vec::new(),
            version: 1,
            created_at: NOW,
            updated_at: NOW,
            characters: text.chars().count(),
            passages: passages.len(),
        };
        let limits = ShelfLimits { documents: 100, passages: 1_000 };
        self.store.put_document(namespace, &document, text, &passages, limits).await.unwrap();
    }

    async fn ask(&self, text: &str) -> Vec<RecalledPassage> {
        self.knowledge.find(&[support()], &query(text)).await.unwrap().shown
    }

    async fn first(&self, text: &str) -> String {
        self.ask(text).await.first().map_or_else(String::new, |found| found.passage.text.clone())
    }
}

fn query(text: &str) -> Query {
    Query {
        scopes: Vec::new(),
        text: text.to_owned(),
        before: None,
        now: NOW,
        max_sensitivity: Sensitivity::Normal,
        exclude: Exclude::default(),
        said: Arc::default(),
        max_episodes: 5,
        vector: None,
    }
}

#[tokio::test]
async fn a_passage_is_found_by_its_words_its_heading_and_its_title() {
    let library = Library::new().await;
    assert!(library.first("Can discounted swimwear be returned?").await.contains("never taken back"));
    assert!(library.first("how long is the warranty on slats").await.contains("slats carry two"));
    assert!(library.first("咖啡机多久除垢一次？").await.contains("除垢"));
    let found = library.ask("Which goods are exceptions of the refund policy?").await;
    assert_eq!(found[0].document.title, "Refund policy");
}

// MystenLabs/MemWal#741; evoila/meho#1797: knowing nothing is a normal result.
#[tokio::test]
async fn nonsense_greetings_and_other_subjects_find_nothing() {
    let library = Library::new().await;
    for text in
        ["xqzvk jwpft mmrrg", "Hello, how are you?", "Write a haiku about the sea", "", "🙂🙃", "a", "我今天心情不好"]
    {
        assert!(library.ask(text).await.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn what_another_process_changes_is_seen_soon_and_what_this_one_does_at_once() {
    let library = Library::new().await;
    let question = "Can discounted swimwear be returned?";
    assert!(!library.ask(question).await.is_empty());
    library.store.delete_document(&support(), &"returns".parse().unwrap()).await.unwrap();
    assert!(!library.ask(question).await.is_empty(), "trusted for a moment");
    library.knowledge.invalidate(&support());
    assert!(library.ask(question).await.is_empty());
    library.put(&support(), "returns", "Refund policy", "Discounted swimwear may be returned on Mondays.").await;
    library.clock.set(NOW.plus_millis(TRUST));
    assert!(library.first(question).await.contains("Mondays"));
}

#[tokio::test]
async fn only_the_namespaces_that_are_named_are_read() {
    let library = Library::new().await;
    let sales = Namespace::new("acme", "sales");
    library
        .put(&sales, "returns", "Sales rules", "Discounted swimwear of the sales team is returned to the team.")
        .await;
    let question = query("Can discounted swimwear be returned?");
    let titles = |found: Vec<RecalledPassage>| found.into_iter().map(|f| f.document.title.clone()).collect::<Vec<_>>();
    let both = titles(library.knowledge.find(&[support(), sales.clone()], &question).await.unwrap().shown);
    assert!(both.contains(&"Sales rules".to_owned()) && both.contains(&"Refund policy".to_owned()), "{both:?}");
    assert_eq!(titles(library.knowledge.find(&[sales], &question).await.unwrap().shown), ["Sales rules"]);
    let others = [Namespace::new("globex", "support"), Namespace::new("acme", "")];
    assert!(library.knowledge.find(&others, &question).await.unwrap().shown.is_empty());
}

#[tokio::test]
async fn a_passage_that_the_request_holds_itself_is_not_told_again() {
    let library = Library::new().await;
    let mut query = query("Can discounted swimwear be returned?");
    query.said =
        Arc::new(Said::of(vec!["Context: Discounted mattresses and swimwear are never taken back.".to_owned()]));
    let found = library.knowledge.find(&[support()], &query).await.unwrap().shown;
    assert!(found.iter().all(|found| !found.passage.text.contains("never taken back")), "{found:?}");
}

#[tokio::test]
async fn what_was_shown_holds_until_its_document_is_written_again() {
    let library = Library::new().await;
    let shown: Vec<_> =
        library.ask("Can discounted swimwear be returned?").await.iter().map(|f| f.reference()).collect();
    assert!(library.knowledge.still_hold(&[support()], &shown).await.unwrap());
    assert!(!library.knowledge.still_hold(&[Namespace::new("acme", "sales")], &shown).await.unwrap());
    library.put(&support(), "returns", "Refund policy", RETURNS).await;
    library.knowledge.invalidate(&support());
    assert!(!library.knowledge.still_hold(&[support()], &shown).await.unwrap());
}

#[tokio::test]
async fn a_store_that_cannot_be_read_costs_a_namespace_without_documents_nothing() {
    let library = Library::new().await;
    let (none, tasks) = ([Namespace::new("acme", "sales")], TaskTracker::new());
    let question = query("Can discounted swimwear be returned?");
    assert!(library.knowledge.find_behind(&none, &question, &tasks).await.unwrap().shown.is_empty());
    // What reads behind must have read before the clock goes on.
    tasks.close();
    tasks.wait().await;
    tasks.reopen();
    library.clock.set(NOW.plus_millis(TRUST));
    // One that stalls: what is to be read is waiting for its turn.
    let mut stalled = Vec::new();
    for reader in &library.knowledge.readers {
        stalled.push(reader.lock().await);
    }
    let found = tokio::time::timeout(std::time::Duration::from_secs(5), async {
        library.knowledge.find_behind(&none, &question, &tasks).await.unwrap()
    });
    assert!(found.await.expect("at once").shown.is_empty());
    // What was written meanwhile is seen by the next that ask.
    library.put(&none[0], "returns", "Sales rules", "Discounted swimwear of the sales team can be returned.").await;
    drop(stalled);
    tasks.close();
    tasks.wait().await;
    assert_eq!(library.knowledge.hot.get(&none[0]).unwrap().passages.len(), 1);
}

#[tokio::test]
async fn requests_add_no_tasks_to_a_store_that_is_slow_already() {
    let library = Library::new().await;
    let (tasks, question) = (TaskTracker::new(), query("Can discounted swimwear be returned?"));
    let stalled: Vec<_> = library.knowledge.readers.iter().map(|reader| reader.try_lock().unwrap()).collect();
    for _ in 0..10 {
        let namespaces = [support()];
        let finding = library.knowledge.find_behind(&namespaces, &question, &tasks);
        tokio::time::timeout(std::time::Duration::from_millis(1), finding).await.expect_err("it stalls");
    }
    assert_eq!(tasks.len(), 1);
    drop(stalled);
    tasks.close();
    tasks.wait().await;
    assert!(library.knowledge.hot.contains_key(&support()) && lock(&library.knowledge.behind).is_empty());
}
